// SPDX-License-Identifier: Apache-2.0
//! What is aggregated, and how.

use crate::wire::Report;

/// Where the switch's counters stood when the source began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountersStart {
    /// At zero if the source holds the first departure of a bottleneck, unknown otherwise.
    Detect,
    /// At zero, even if the first reports are missing.
    Zero,
    /// At zero, except those of a flow whose first report shows that they did not.
    Run,
}

/// Which depth the series, histograms and totals show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthShown {
    /// What the packet left behind (dequeue_depth).
    Left,
    /// What the packet found (enqueue_depth): for switches that report no other.
    Found,
}

/// What is aggregated, and how.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// Length of an interval of the flows' series in time units of the switch.
    pub interval_units: u64,
    /// The same of the bottlenecks' series.
    pub queue_units: u64,
    /// Start of interval 0; `None`: the first report's arrival.
    pub origin: Option<u64>,
    pub counters: CountersStart,
    pub depth: DepthShown,
    /// Bytes in a depth unit.
    pub depth_unit_bytes: u32,
}

impl EngineSettings {
    /// The depth to be shown, and the one just after the packet's arrival: itself included if it had to wait.
    #[inline]
    pub fn depths(&self, report: &Report) -> (u32, u32) {
        let own = match (report.queue_delay, self.depth_unit_bytes) {
            (0, _) => 0,
            (_, 1) => u32::from(report.packet_length),
            (_, unit) => u32::from(report.packet_length).div_ceil(unit),
        };
        let shown = match self.depth {
            DepthShown::Left => report.dequeue_depth,
            DepthShown::Found => report.enqueue_depth,
        };
        (shown, report.enqueue_depth.saturating_add(own))
    }
}
