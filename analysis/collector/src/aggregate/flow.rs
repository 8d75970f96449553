// SPDX-License-Identifier: Apache-2.0
//! State of one flow: the open interval and the totals.

use super::cell::{CoarseHistogram, CoarseTotal, Sums};
use super::counters::{Counters, Increment};
use super::tables::{FlowInterval, FlowSeries, FlowTotal};
use super::tcp::TcpProgress;
use crate::flow_keys::FlowId;
use crate::wire::Record;

/// Sums of counter increments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Increments {
    arrivals: u64,
    departures: u64,
    drops: u64,
    loss_drops: u64,
}

impl Increments {
    /// Adds what happened between two reports.
    #[inline]
    pub fn add(&mut self, increment: &Increment) {
        self.arrivals += u64::from(increment.arrivals);
        self.departures += u64::from(increment.departures);
        self.drops += u64::from(increment.drops());
        self.loss_drops += u64::from(increment.loss_drops);
    }

    fn merge(&mut self, later: &Increments) {
        self.arrivals += later.arrivals;
        self.departures += later.departures;
        self.drops += later.drops;
        self.loss_drops += later.loss_drops;
    }
}

/// One flow.
pub struct FlowState {
    pub id: FlowId,
    interval: u64,
    sums: Sums,
    increments: Increments,
    histogram: CoarseHistogram,
    tcp: TcpProgress,
    /// Cumulative counters of the flow index, kept at the first flow that used it.
    pub counters: Counters,
    /// Number of the flow that keeps the counters.
    pub counters_at: u32,
    /// Another flow uses the same index.
    pub collision: bool,
    total: Sums,
    total_increments: Increments,
    total_histogram: CoarseTotal,
}

impl FlowState {
    pub fn new(id: FlowId, counters: Counters, counters_at: u32, collision: bool) -> Self {
        FlowState {
            id,
            interval: 0,
            sums: Sums::default(),
            increments: Increments::default(),
            histogram: CoarseHistogram::default(),
            tcp: TcpProgress::default(),
            counters,
            counters_at,
            collision,
            total: Sums::default(),
            total_increments: Increments::default(),
            total_histogram: CoarseTotal::default(),
        }
    }

    /// Adds a report to its interval; answers the retransmitted payload bytes in it.
    #[inline]
    pub fn take(
        &mut self,
        record: &Record,
        time: u64,
        interval: u64,
        series: &mut FlowSeries,
    ) -> u16 {
        if interval != self.interval {
            self.close_interval(series);
            self.interval = interval;
        }
        let retransmitted = self.tcp.take(&record.original);
        self.sums.add(record, time, retransmitted);
        self.histogram.add(record.report.queue_delay);
        retransmitted
    }

    /// Credits counter increments to the open interval.
    #[inline]
    pub fn credit(&mut self, increment: &Increment) {
        self.increments.add(increment);
    }

    /// Moves the open interval to `series` and the totals.
    pub fn close_interval(&mut self, series: &mut FlowSeries) {
        if self.sums.reports == 0 {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        let increments = std::mem::take(&mut self.increments);
        series.push(FlowInterval {
            bottleneck: self.id.bottleneck,
            flow: self.id.flow,
            signature: self.id.signature,
            interval: self.interval,
            reports: sums.reports,
            bytes: sums.bytes,
            payload_bytes: sums.payload_bytes,
            retransmitted_bytes: sums.retransmitted_bytes,
            arrivals: increments.arrivals,
            departures: increments.departures,
            drops: increments.drops,
            loss_drops: increments.loss_drops,
            ce_marks: sums.ce_marks,
            delay_sum: sums.delay_sum,
            delay_min: sums.delay_min,
            delay_max: sums.delay_max,
            depth_sum: sums.depth_sum,
            depth_min: sums.depth_min,
            depth_max: sums.depth_max,
        });
        let bins =
            self.histogram
                .drain_into(sums.delay_min, sums.delay_max, &mut self.total_histogram);
        series.delay_histogram.push(bins);
        self.total.merge(&sums);
        self.total_increments.merge(&increments);
    }

    /// Totals; the open interval must have been closed.
    pub fn total(&self) -> FlowTotal {
        FlowTotal {
            bottleneck: self.id.bottleneck,
            flow: self.id.flow,
            signature: self.id.signature,
            collision: u8::from(self.collision),
            first_timestamp: self.total.first_timestamp,
            last_timestamp: self.total.last_timestamp,
            reports: self.total.reports,
            bytes: self.total.bytes,
            payload_bytes: self.total.payload_bytes,
            retransmitted_bytes: self.total.retransmitted_bytes,
            arrivals: self.total_increments.arrivals,
            departures: self.total_increments.departures,
            drops: self.total_increments.drops,
            loss_drops: self.total_increments.loss_drops,
            ce_marks: self.total.ce_marks,
            delay_sum: self.total.delay_sum,
            delay_min: self.total.delay_min,
            delay_max: self.total.delay_max,
            depth_sum: self.total.depth_sum,
            depth_min: self.total.depth_min,
            depth_max: self.total.depth_max,
        }
    }

    /// Delay histogram over the whole source.
    pub fn total_histogram(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.total_histogram.filled()
    }
}
