//! Command line of the Narrows softswitch.
// SPDX-License-Identifier: Apache-2.0
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use narrows_softswitch::{p4runtime::check, serve};

#[derive(Debug, Parser)]
#[command(name = "narrows-softswitch", version, about = "Runs a compiled P4 program behind an exact traffic manager")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward between Linux interfaces, controlled by P4Runtime
    Serve(Box<serve::ServeArgs>),
    /// Say whether a program and its P4Info can be loaded and entries be made, and what is to be known of it
    Check(check::CheckArgs),
    /// Run captures or generated traffic through the switch in virtual time
    Replay(narrows_replay::ReplayArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Replay(args) => narrows_replay::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("narrows-softswitch: {error}");
            ExitCode::from(error.exit_code)
        }
    }
}
