// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector generate`: a synthetic capture with its truth, for tests and benchmarks.

use std::fs::File;
use std::path::PathBuf;

use clap::Args;

use crate::generate::{pcap, Scenario};
use crate::{Error, Result};

#[derive(Args)]
pub struct GenerateArgs {
    /// The pcap file to write.
    out: PathBuf,
    /// JSON file for what truly happened in the model.
    #[arg(long)]
    truth: Option<PathBuf>,
    /// Reports to write.
    #[arg(long, default_value_t = Scenario::default().reports, value_parser = clap::value_parser!(u64).range(1..))]
    reports: u64,
    /// Number of bottlenecks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    bottlenecks: u8,
    /// Flows of each bottleneck.
    #[arg(long, default_value_t = Scenario::default().flows, value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// Rate of each bottleneck in bit/s of Ethernet frame.
    #[arg(long, default_value_t = Scenario::default().rate_bps, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000_000))]
    rate_bps: u64,
    /// Tail-drop limit in bytes.
    #[arg(long, default_value_t = Scenario::default().buffer_bytes)]
    buffer_bytes: u64,
    /// Queue depth in bytes from which packets are CE-marked.
    #[arg(long, default_value_t = Scenario::default().ecn_threshold_bytes)]
    ecn_threshold_bytes: u64,
    /// One report in 2^k departures.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=20))]
    sample_shift: u8,
    /// Loss emulation drops 1 packet in this many (0 = none).
    #[arg(long, default_value_t = 0)]
    loss_one_in: u32,
    /// Value at which all counters start.
    #[arg(long, default_value_t = 0)]
    counters_start: u32,
    /// Drops of every flow that its counters show from the start.
    #[arg(long, default_value_t = 0)]
    drops_start: u32,
    /// Mix IPv4, IPv6 and VLAN-tagged flows, so that records differ in length.
    #[arg(long)]
    mixed_headers: bool,
    /// UDP destination port of the reports.
    #[arg(long, default_value_t = 5500)]
    port: u16,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Writes the capture and, if asked for, the truth.
pub fn run(args: GenerateArgs) -> Result<()> {
    let scenario = Scenario {
        reports: args.reports,
        bottlenecks: args.bottlenecks,
        flows: args.flows,
        rate_bps: args.rate_bps,
        buffer_bytes: args.buffer_bytes,
        ecn_threshold_bytes: args.ecn_threshold_bytes,
        sample_shift: args.sample_shift,
        loss_one_in: args.loss_one_in,
        counters_start: args.counters_start,
        drops_start: args.drops_start,
        mixed_headers: args.mixed_headers,
        port: args.port,
        seed: args.seed,
    };
    let mut out = File::create(&args.out).map_err(|e| Error::io(&args.out, "create", e))?;
    let truth = pcap(&scenario, &mut out).map_err(|e| Error::io(&args.out, "write", e))?;
    if let Some(path) = args.truth {
        let text = serde_json::to_string_pretty(&truth).map_err(|e| Error::parquet(&path, e))?;
        std::fs::write(&path, text + "\n").map_err(|e| Error::io(&path, "write", e))?;
    }
    Ok(())
}
