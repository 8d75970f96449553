// SPDX-License-Identifier: Apache-2.0
//! Synthetic captures whose truth is known: flows through FIFO bottlenecks with tail drop, reported as by the switch.
//!
//! The truth is counted in the queue model itself, not from the reports, so that an analysis can be checked against it.

mod frame;
mod model;
mod random;
pub mod truth;

use std::io::{self, Write};

use clap::Args;
pub use frame::FrameOptions;
use narrows_captures::Writer;

use model::Bottleneck;
use truth::Truth;

/// The longest frame in the captures, as their header says.
const SNAP_LENGTH: usize = 65_535;

/// What to generate.
#[derive(Args, Clone, Copy, Debug)]
pub struct Scenario {
    /// Reports to write, of all bottlenecks.
    #[arg(long, default_value_t = Scenario::default().reports, value_parser = clap::value_parser!(u64).range(1..))]
    pub reports: u64,
    /// Number of bottlenecks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub bottlenecks: u8,
    /// Flows of each bottleneck; 1 in 8 is UDP, the others TCP.
    #[arg(long, default_value_t = Scenario::default().flows, value_parser = clap::value_parser!(u16).range(1..))]
    pub flows: u16,
    /// Rate of each bottleneck in bit/s of Ethernet frame.
    #[arg(long, default_value_t = Scenario::default().rate_bps, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000_000))]
    pub rate_bps: u64,
    /// Tail-drop limit in bytes.
    #[arg(long, default_value_t = Scenario::default().buffer_bytes)]
    pub buffer_bytes: u64,
    /// Queue depth in bytes from which packets are CE-marked.
    #[arg(long, default_value_t = Scenario::default().ecn_threshold_bytes)]
    pub ecn_threshold_bytes: u64,
    /// One report in 2^k departures.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=20))]
    pub sample_shift: u8,
    /// Loss emulation drops 1 packet in this many (0 = none).
    #[arg(long, default_value_t = 0)]
    pub loss_one_in: u32,
    /// Value at which all counters start, so that they wrap.
    #[arg(long, default_value_t = 0)]
    pub counters_start: u32,
    /// Drops that every flow's counters show from the start.
    #[arg(long, default_value_t = 0)]
    pub drops_start: u32,
    /// Mix IPv4, IPv6 and VLAN-tagged flows, so that records differ in length.
    #[arg(long)]
    pub mixed_headers: bool,
    /// UDP destination port of the reports.
    #[arg(long, default_value_t = 5500)]
    pub port: u16,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            reports: 1_000_000,
            bottlenecks: 1,
            flows: 16,
            rate_bps: 100_000_000_000,
            buffer_bytes: 12_500_000,
            ecn_threshold_bytes: 6_250_000,
            sample_shift: 0,
            loss_one_in: 0,
            counters_start: 0,
            drops_start: 0,
            mixed_headers: false,
            port: 5500,
            seed: 1,
        }
    }
}

/// Writes the scenario's reports to `out` as a little-endian pcap with nanosecond timestamps.
///
/// # Errors
/// If `out` refuses.
pub fn pcap(scenario: &Scenario, out: &mut impl Write) -> io::Result<Truth> {
    let mut writer = Writer::new(out, SNAP_LENGTH);
    let truth = frames(scenario, |timestamp, frame| writer.write(timestamp, frame, frame.len() as u32))?;
    writer.finish()?;
    Ok(truth)
}

/// Runs the model; `take` receives each report's egress time in nanoseconds and its frame.
///
/// # Errors
/// The first that `take` returns.
pub fn frames(scenario: &Scenario, mut take: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<Truth> {
    let mut bottlenecks: Vec<_> = (0..scenario.bottlenecks).map(|index| Bottleneck::new(scenario, index)).collect();
    let mut written = 0;
    'all: loop {
        for bottleneck in &mut bottlenecks {
            if written >= scenario.reports {
                break 'all;
            }
            if let Some((timestamp, frame)) = bottleneck.next_arrival() {
                take(timestamp, frame)?;
                written += 1;
            }
        }
    }
    Ok(Truth { reports: written, bottlenecks: bottlenecks.into_iter().map(Bottleneck::into_truth).collect() })
}
