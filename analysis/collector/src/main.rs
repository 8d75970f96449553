// SPDX-License-Identifier: Apache-2.0
//! Command line of the collector.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use narrows_collector::commands;

/// Receives, stores and aggregates the telemetry reports of a Narrows bottleneck.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Store the reports that arrive on an interface, until SIGTERM or SIGINT.
    Collect(commands::collect::CollectArgs),
    /// Store the reports in a pcap or pcapng file.
    Convert(commands::convert::ConvertArgs),
    /// Turn stored or captured reports into time series, totals, histograms and envelopes.
    Aggregate(commands::aggregate::AggregateArgs),
    /// Measure how fast this machine decodes and aggregates a capture.
    Bench(commands::bench::BenchArgs),
    /// Send the frames of a capture to an interface, to find how many reports a second a collector can take.
    Replay(commands::replay::ReplayArgs),
    /// Write a synthetic capture whose contents are known.
    Generate(commands::generate::GenerateArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Collect(args) => commands::collect::run(args),
        Command::Convert(args) => commands::convert::run(args),
        Command::Aggregate(args) => commands::aggregate::run(args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Generate(args) => commands::generate::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
