//! Whether a program and its P4Info can be loaded, and entries be made, without a switch.
// SPDX-License-Identifier: Apache-2.0
use std::path::{Path, PathBuf};

use clap::Args;
use narrows_pipeline::Program;
use narrows_proto::p4::{config::v1::P4Info, v1::WriteRequest};
use narrows_switch::failure::Failure;
use prost::Message;

use super::error::UpdateError;
use super::schema::Schema;
use super::trial;

/// Command line of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// BMv2 JSON
    program: PathBuf,
    /// P4Info in binary form
    #[arg(long)]
    p4info: Option<PathBuf>,
    /// A WriteRequest of P4Runtime in binary form: whether the switch would make all of its updates, one after the other
    #[arg(long, requires = "p4info")]
    entries: Option<PathBuf>,
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Tries a file's updates, the names of whose entries `schema` has.
fn try_entries(path: &Path, schema: &Schema, program: Program) -> Result<(), Failure> {
    let request = WriteRequest::decode(&*read(path)?).map_err(|error| Failure::usage(format!("entries: {error}")))?;
    let results = trial::results(schema, program, &request.updates).into_iter().enumerate();
    let refused = results.filter_map(|(number, result)| Some((number, result.err()?)));
    // A line each, whatever is in the names of a program.
    let line = |(number, error): (usize, UpdateError)| {
        format!("entries: updates[{number}]: {:?}: {}", error.code, error.message.replace(['\n', '\r'], " "))
    };
    let lines: Vec<String> = refused.map(line).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(lines.join("\n"))),
    }
}

/// Loads the program; prints what whoever uses it should know, a line each.
///
/// # Errors
/// A file cannot be read; the program needs what there is not; P4Info is of another program; the switch would refuse
/// updates: a line for each, with its number, the code and the message of the answer.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let program = Program::load(&read(&args.program)?).map_err(|error| Failure::usage(format!("program: {error}")))?;
    let warning = program.warning();
    if let Some(path) = &args.p4info {
        let info = P4Info::decode(&*read(path)?).map_err(|error| Failure::usage(format!("P4Info: {error}")))?;
        let schema = Schema::new(&info, &program);
        let schema = schema.map_err(|error| Failure::usage(format!("P4Info: {}", error.message)))?;
        if let Some(entries) = &args.entries {
            try_entries(entries, &schema, program)?;
        }
    }
    if let Some(warning) = warning {
        println!("{warning}");
    }
    Ok(())
}
