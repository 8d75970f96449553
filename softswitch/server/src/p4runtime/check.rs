//! Whether a program and its P4Info can be loaded, without a switch.
// SPDX-License-Identifier: Apache-2.0
use std::path::{Path, PathBuf};

use clap::Args;
use narrows_pipeline::Program;
use narrows_proto::p4::config::v1::P4Info;
use narrows_switch::failure::Failure;
use prost::Message;

use super::schema::Schema;

/// Command line of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// BMv2 JSON
    program: PathBuf,
    /// P4Info in binary form
    #[arg(long)]
    p4info: Option<PathBuf>,
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Loads the program; prints what whoever uses it should know, a line each.
///
/// # Errors
/// A file cannot be read; the program needs what there is not; P4Info is of another program.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let program = Program::load(&read(&args.program)?).map_err(|error| Failure::usage(format!("program: {error}")))?;
    if let Some(path) = &args.p4info {
        let info = P4Info::decode(&*read(path)?).map_err(|error| Failure::usage(format!("P4Info: {error}")))?;
        Schema::new(&info, &program).map_err(|error| Failure::usage(format!("P4Info: {}", error.message)))?;
    }
    if let Some(warning) = program.warning() {
        println!("{warning}");
    }
    Ok(())
}
