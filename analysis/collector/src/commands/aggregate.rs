// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector aggregate`: time series, totals, histograms and envelopes of a source.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::aggregate::{aggregate, AggregateSettings, CountersStart, DepthShown};
use crate::{Error, Result};

#[derive(Args)]
pub struct AggregateArgs {
    /// A pcap or pcapng file, a telemetry directory or a run directory.
    source: PathBuf,
    /// Directory for the tables and aggregate.json.
    #[arg(long)]
    out: PathBuf,
    /// Length of an interval of the flows' series, such as 10ms, 1s or 250us.
    #[arg(long, default_value = "10ms", allow_hyphen_values = true, value_parser = parse_duration)]
    interval: f64,
    /// Length of an interval of the bottlenecks' series.
    #[arg(long, default_value = "1ms", allow_hyphen_values = true, value_parser = parse_duration)]
    queue_interval: f64,
    /// Start of interval 0 in time units of the reports; default: the first report's arrival.
    #[arg(long)]
    origin: Option<u64>,
    /// Seconds in a time unit of the reports; default: that of the run's target profile, else 1e-9.
    #[arg(long, value_parser = parse_time_unit)]
    time_unit_s: Option<f64>,
    /// UDP destination port of the reports in a capture file.
    #[arg(long, default_value_t = 5500)]
    port: u16,
    /// All counters of the switch were zero when the source began, even if its first report is missing.
    #[arg(long)]
    from_reset: bool,
    /// The source is one run: counters were zero when it began, and a flow whose first report contradicts this is named.
    #[arg(long, conflicts_with = "from_reset")]
    run: bool,
    /// Show the depth that packets found, for switches that do not report what they left behind.
    #[arg(long)]
    depth_found: bool,
    /// Bytes in a depth unit of the reports.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    depth_unit_bytes: u32,
    /// Time units that reports give as queue delay while nothing waits (Tofino's pipeline); subtracted from every delay.
    #[arg(long, default_value_t = 0)]
    empty_queue_delay: u64,
    /// Name of a report file to leave out, such as one that was not finished; may be given several times.
    #[arg(long)]
    skip: Vec<String>,
}

/// Aggregates and prints one line a bottleneck.
pub fn run(args: AggregateArgs) -> Result<()> {
    let time_unit_s = match args.time_unit_s {
        Some(unit) => unit,
        None => profile_time_unit(&args.source)?.unwrap_or(1e-9),
    };
    let summary = aggregate(&AggregateSettings {
        source: args.source.clone(),
        directory: args.out,
        port: args.port,
        time_unit_s,
        interval_s: args.interval,
        queue_interval_s: args.queue_interval,
        origin: args.origin,
        counters: match (args.from_reset, args.run) {
            (true, _) => CountersStart::Zero,
            (_, true) => CountersStart::Run,
            _ => CountersStart::Detect,
        },
        depth: if args.depth_found { DepthShown::Found } else { DepthShown::Left },
        depth_unit_bytes: args.depth_unit_bytes,
        empty_queue_delay: args.empty_queue_delay,
        skip: args.skip,
    })?;
    if let Some(offset) = summary.truncated_at {
        let source = args.source.display();
        eprintln!("warning: {source} ends within a record at byte {offset}; everything before it is used");
    }
    for (index, bottleneck) in &summary.bottlenecks {
        let account = &bottleneck.account;
        eprintln!(
            "bottleneck {index}: {} reports, {} lost, {} duplicates, {} late, {} implausible; {} departures",
            account.reports, account.lost, account.duplicates, account.late, account.implausible, bottleneck.departures
        );
    }
    Ok(())
}

/// The time unit in a run directory's run.json, if `source` is one.
fn profile_time_unit(source: &Path) -> Result<Option<f64>> {
    let path = source.join("run.json");
    if !path.is_file() {
        return Ok(None);
    }
    let invalid = |problem: &str| Error::Input(format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", e))?;
    let run: serde_json::Value = serde_json::from_str(&text).map_err(|e| invalid(&e.to_string()))?;
    let unit = run["target_profile"]["time_unit_s"].as_f64();
    let unit = unit.ok_or_else(|| invalid("target_profile.time_unit_s is not a number"))?;
    if unit.is_finite() && unit > 0.0 {
        Ok(Some(unit))
    } else {
        Err(invalid("target_profile.time_unit_s is not positive"))
    }
}

fn parse_duration(text: &str) -> std::result::Result<f64, String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[digits..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" => return Err("a unit is missing: ns, us, ms or s".into()),
        unit => return Err(format!("unit {unit:?}: allowed are ns, us, ms and s")),
    };
    let value: f64 = text[..digits].trim().parse().map_err(|_| format!("{:?} is not a number", &text[..digits]))?;
    if value.is_finite() && value > 0.0 {
        Ok(value * scale)
    } else {
        Err("must be positive".into())
    }
}

fn parse_time_unit(text: &str) -> std::result::Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err("must be positive".into())
    }
}
