// SPDX-License-Identifier: Apache-2.0
//! `aggregate.json`: what was aggregated, what was not, and each bottleneck's totals.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::bottleneck::{BottleneckState, FINE_BITS};
use super::engine::Placed;
use super::histogram::Histogram;
use super::source::Decoded;
use super::{AggregateSettings, EngineSettings};
use crate::error::Result;
use crate::sequencer::SequenceCounts;
use crate::storage::write_json;
use crate::wire::Reject;

/// Name of the file; it is written last.
pub const FILE_NAME: &str = "aggregate.json";

/// Distribution of a quantity in units of the switch; percentiles are upper ends of histogram bins of at most 0.012 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub mean: f64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// One bottleneck over the whole source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BottleneckSummary {
    #[serde(flatten)]
    pub account: SequenceCounts,
    pub departures: u64,
    pub bytes: u64,
    /// Of the packets' lengths, each squared: what a sample of them varies by.
    pub squared_bytes: u64,
    pub payload_bytes: u64,
    pub retransmitted_bytes: u64,
    pub ce_marks: u64,
    pub first_timestamp: u64,
    pub last_timestamp: u64,
    /// Reports whose timestamp contradicted those around them; they are placed at the time of the previous report.
    pub implausible_times: u64,
    /// Reports whose clock was behind that of the previous report.
    pub clock_steps: u64,
    pub counters_from_zero: bool,
    pub sample_shift: u8,
    /// Bytes and time units of the stretches in which the link was never idle.
    pub saturated_bytes: u64,
    pub saturated_units: u64,
    /// Greatest depth just after an arrival.
    pub depth_peak: u32,
    pub delay_sum: u64,
    pub depth_sum: u64,
    pub delay: Distribution,
    pub depth: Distribution,
}

/// The whole summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub collector_version: String,
    pub source: String,
    pub interval_s: f64,
    pub interval_units: u64,
    pub queue_interval_s: f64,
    pub queue_interval_units: u64,
    pub time_unit_s: f64,
    /// Start of interval 0 in time units.
    pub origin: u64,
    pub frames: u64,
    pub reports: u64,
    pub other_traffic: u64,
    pub bad: BTreeMap<String, u64>,
    /// Byte at which a capture file ends within a record.
    pub truncated_at: Option<u64>,
    pub implausible_counters: u64,
    pub counter_resets: u64,
    /// Flows whose counters were not zero at the start of a run.
    pub carried_in: u64,
    pub flows: u64,
    pub flows_overflow: u64,
    /// Holes in sequence spaces that could not be stored: bytes that fill them count as retransmitted only.
    pub holes_forgotten: u64,
    pub bottlenecks: BTreeMap<String, BottleneckSummary>,
}

impl Summary {
    /// Sums up a finished aggregation.
    pub fn new(
        settings: &AggregateSettings,
        engine: &EngineSettings,
        decoded: &Decoded,
        counts: Vec<(u8, SequenceCounts)>,
        placed: &Placed,
    ) -> Self {
        let frames = &decoded.frames;
        let bad = Reject::ALL.iter().filter(|&&reason| reason != Reject::Other);
        let doubts = placed.flows.doubts;
        Summary {
            collector_version: env!("CARGO_PKG_VERSION").to_string(),
            source: settings.source.display().to_string(),
            interval_s: settings.interval_s,
            interval_units: engine.interval_units,
            queue_interval_s: settings.queue_interval_s,
            queue_interval_units: engine.queue_units,
            time_unit_s: settings.time_unit_s,
            origin: placed.origin.unwrap_or_default(),
            frames: frames.frames,
            reports: frames.reports,
            other_traffic: frames.rejected(Reject::Other),
            bad: bad.map(|&reason| (reason.name().to_string(), frames.rejected(reason))).collect(),
            truncated_at: decoded.truncated_at,
            implausible_counters: doubts.counters.implausible,
            counter_resets: doubts.counters.resets,
            carried_in: doubts.counters.carried_in,
            flows: placed.flows.states.len() as u64,
            flows_overflow: doubts.flows_overflow,
            holes_forgotten: placed.flows.holes.forgotten,
            bottlenecks: counts
                .into_iter()
                .map(|(index, counts)| {
                    let state = placed.bottlenecks.get(usize::from(index)).and_then(Option::as_deref);
                    (index.to_string(), bottleneck_summary(counts, state))
                })
                .collect(),
        }
    }

    /// Writes the summary under its final name at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_json(&directory.join(FILE_NAME), self)
    }
}

fn bottleneck_summary(account: SequenceCounts, state: Option<&BottleneckState>) -> BottleneckSummary {
    let Some(state) = state else {
        return BottleneckSummary { account, ..BottleneckSummary::default() };
    };
    let total = &state.total;
    BottleneckSummary {
        account,
        departures: state.departures(),
        bytes: total.bytes,
        squared_bytes: total.squared_bytes,
        payload_bytes: total.payload_bytes,
        retransmitted_bytes: total.retransmitted_bytes,
        ce_marks: total.ce_marks,
        first_timestamp: total.first_timestamp,
        last_timestamp: total.last_timestamp,
        implausible_times: state.implausible_times,
        clock_steps: state.clock_steps,
        counters_from_zero: state.counters_from_zero,
        sample_shift: state.sample_shift,
        saturated_bytes: state.saturated_bytes,
        saturated_units: state.saturated_time,
        depth_peak: state.depth_peak,
        delay_sum: total.delay_sum,
        depth_sum: total.depth_sum,
        delay: distribution(&state.delay, total.reports, total.delay_sum, total.delay_min, total.delay_max),
        depth: distribution(
            &state.depth,
            total.reports,
            total.depth_sum,
            total.depth_min.into(),
            total.depth_max.into(),
        ),
    }
}

fn distribution(histogram: &Histogram<FINE_BITS>, reports: u64, sum: u64, min: u64, max: u64) -> Distribution {
    // A bin may reach beyond the largest value in it.
    let quantile = |share| histogram.quantile(share).min(max);
    Distribution {
        mean: sum as f64 / reports.max(1) as f64,
        min,
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max,
    }
}
