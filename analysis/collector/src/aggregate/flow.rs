// SPDX-License-Identifier: Apache-2.0
//! State of one flow: the open intervals and the totals.

use super::cell::{CoarseHistogram, CoarseTotal, Sums};
use super::counters::{Counters, Increment};
use super::tables::{FlowArrival, FlowArrivals, FlowInterval, FlowSeries, FlowTotal};
use super::tcp::{HoleBudget, Segment, TcpProgress};
use crate::flow_keys::FlowId;
use crate::wire::original::TCP_FIN;
use crate::wire::report::FLAG_COLLISION;
use crate::wire::Record;

/// Sums of counter increments on the side of arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Increments {
    pub arrivals: u64,
    pub drops: u64,
    pub loss_drops: u64,
    pub aqm_drops: u64,
}

impl Increments {
    pub const NONE: Increments = Increments { arrivals: 0, drops: 0, loss_drops: 0, aqm_drops: 0 };

    /// Adds what another one holds.
    #[inline]
    pub fn merge(&mut self, later: &Increments) {
        self.arrivals += later.arrivals;
        self.drops += later.drops;
        self.loss_drops += later.loss_drops;
        self.aqm_drops += later.aqm_drops;
    }
}

impl From<&Increment> for Increments {
    #[inline]
    fn from(increment: &Increment) -> Self {
        Increments {
            arrivals: u64::from(increment.arrivals),
            drops: u64::from(increment.drops()),
            loss_drops: u64::from(increment.loss_drops),
            aqm_drops: u64::from(increment.aqm_drops),
        }
    }
}

/// Sums over data packets.
#[derive(Clone, Copy, Debug, Default)]
struct DataSums {
    packets: u64,
    retransmitted_packets: u64,
    new_bytes: u64,
    advanced_bytes: u64,
}

impl DataSums {
    #[inline]
    fn add(&mut self, segment: &Segment) {
        self.packets += u64::from(segment.data);
        self.retransmitted_packets += u64::from(segment.retransmitted);
        self.new_bytes += u64::from(segment.new_bytes);
        self.advanced_bytes += segment.advanced_bytes;
    }

    fn merge(&mut self, later: &DataSums) {
        self.packets += later.packets;
        self.retransmitted_packets += later.retransmitted_packets;
        self.new_bytes += later.new_bytes;
        self.advanced_bytes += later.advanced_bytes;
    }
}

/// Whether other flows count in the same cells of the switch, as their index is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Collision {
    None = 0,
    /// Flows of the same bottleneck: what all of them have lost is known.
    Here = 1,
    /// Flows of another bottleneck, among others perhaps: nothing can be said by the counters.
    Elsewhere = 2,
}

/// Why cumulative counters could not be used in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterDoubts {
    /// Reports whose counters contradicted those around them and were not used.
    pub implausible: u64,
    /// Times the counters of a flow index began anew.
    pub resets: u64,
    /// Flows whose counters were not zero when the source began, though they should have been.
    pub carried_in: u64,
}

impl CounterDoubts {
    /// Adds those of another flow.
    pub fn merge(&mut self, other: &CounterDoubts) {
        self.implausible += other.implausible;
        self.resets += other.resets;
        self.carried_in += other.carried_in;
    }
}

/// One flow.
pub struct FlowState {
    pub id: FlowId,
    interval: i64,
    sums: Sums,
    data: DataSums,
    departures: u64,
    arrival_interval: i64,
    arrivals: Increments,
    histogram: CoarseHistogram,
    tcp: TcpProgress,
    /// Cumulative counters of the flow index, kept at the first flow that used it.
    pub counters: Counters,
    /// Number of the flow that keeps the counters.
    pub counters_at: u32,
    pub collision: Collision,
    pub doubts: CounterDoubts,
    finished: bool,
    /// Packets lost before the first one that was reported; `None` until that is certain.
    lost_first: Option<u64>,
    first_arrival: u64,
    last_data_timestamp: u64,
    last_new_timestamp: u64,
    last_length: u16,
    total: Sums,
    total_data: DataSums,
    total_departures: u64,
    total_arrivals: Increments,
    total_histogram: CoarseTotal,
}

impl FlowState {
    /// A flow before its first report; `counters_at` is its own number unless it shares its index.
    pub fn new(id: FlowId, counters: Counters, counters_at: u32) -> Self {
        FlowState {
            id,
            interval: 0,
            sums: Sums::default(),
            data: DataSums::default(),
            departures: 0,
            arrival_interval: 0,
            arrivals: Increments::NONE,
            histogram: CoarseHistogram::default(),
            tcp: TcpProgress::default(),
            counters,
            counters_at,
            collision: Collision::None,
            doubts: CounterDoubts::default(),
            finished: false,
            lost_first: None,
            first_arrival: u64::MAX,
            last_data_timestamp: 0,
            last_new_timestamp: 0,
            last_length: 0,
            total: Sums::default(),
            total_data: DataSums::default(),
            total_departures: 0,
            total_arrivals: Increments::NONE,
            total_histogram: CoarseTotal::default(),
        }
    }

    /// Adds a report to its interval; `depth` is what the packet left behind. Returns its place in the sequence space.
    #[inline]
    #[allow(clippy::too_many_arguments)] // called for each report, with what the caller has computed already
    pub fn take(
        &mut self,
        record: &Record,
        depth: u32,
        bin: usize,
        time: u64,
        interval: i64,
        budget: &mut HoleBudget,
        series: &mut FlowSeries,
    ) -> Segment {
        if interval != self.interval {
            self.close_interval(series);
            self.interval = interval;
        }
        let original = &record.original;
        let segment = self.tcp.take(original, budget).unwrap_or(Segment {
            data: original.payload_length > 0,
            new_bytes: original.payload_length,
            ..Segment::default()
        });
        self.data.add(&segment);
        if segment.data {
            self.last_data_timestamp = time;
            if segment.new_bytes > 0 {
                self.last_new_timestamp = time;
            }
        }
        self.last_length = record.report.packet_length;
        self.finished |= original.tcp_flags & TCP_FIN != 0;
        if record.report.flags & FLAG_COLLISION != 0 {
            self.collision = Collision::Here;
        }
        self.first_arrival = self.first_arrival.min(time.saturating_sub(record.report.queue_delay));
        self.sums.add(record, depth, time, segment.retransmitted_bytes);
        self.histogram.add(bin);
        segment
    }

    /// Credits counter increments: departures to the open interval, the rest to that of the arrival.
    #[inline]
    pub fn credit(&mut self, increment: &Increment, arrival_interval: i64, rows: &mut FlowArrivals) {
        self.departures += u64::from(increment.departures);
        self.lost_first.get_or_insert(u64::from(increment.drops()) + u64::from(increment.loss_drops));
        if arrival_interval != self.arrival_interval {
            self.close_arrivals(rows);
            self.arrival_interval = arrival_interval;
        }
        self.arrivals.merge(&increment.into());
    }

    /// Moves what arrived in the open interval to `rows` and the totals.
    pub fn close_arrivals(&mut self, rows: &mut FlowArrivals) {
        let arrived = std::mem::take(&mut self.arrivals);
        if arrived.arrivals == 0 && arrived.loss_drops == 0 {
            return;
        }
        rows.push(FlowArrival {
            bottleneck: self.id.bottleneck,
            flow: self.id.flow,
            signature: self.id.signature,
            interval: self.arrival_interval,
            arrivals: arrived.arrivals,
            drops: arrived.drops,
            loss_drops: arrived.loss_drops,
            aqm_drops: arrived.aqm_drops,
        });
        self.total_arrivals.merge(&arrived);
    }

    /// Moves the open interval to `series` and the totals.
    pub fn close_interval(&mut self, series: &mut FlowSeries) {
        if self.sums.reports == 0 {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        let data = std::mem::take(&mut self.data);
        let departures = std::mem::take(&mut self.departures);
        series.push(FlowInterval {
            bottleneck: self.id.bottleneck,
            flow: self.id.flow,
            signature: self.id.signature,
            interval: self.interval,
            reports: sums.reports,
            departures,
            bytes: sums.bytes,
            payload_bytes: sums.payload_bytes,
            new_bytes: data.new_bytes,
            advanced_bytes: data.advanced_bytes,
            retransmitted_bytes: sums.retransmitted_bytes,
            data_packets: data.packets,
            retransmitted_packets: data.retransmitted_packets,
            ce_marks: sums.ce_marks,
            delay_sum: sums.delay_sum,
            delay_min: sums.delay_min,
            delay_max: sums.delay_max,
            depth_sum: sums.depth_sum,
            depth_min: sums.depth_min,
            depth_max: sums.depth_max,
        });
        let bins = self.histogram.drain_into(sums.delay_min, sums.delay_max, &mut self.total_histogram);
        series.delay_histogram.push(bins);
        self.total.merge(&sums);
        self.total_data.merge(&data);
        self.total_departures += departures;
    }

    /// Totals; the open intervals must have been closed.
    pub fn total(&self) -> FlowTotal {
        FlowTotal {
            bottleneck: self.id.bottleneck,
            flow: self.id.flow,
            signature: self.id.signature,
            collision: self.collision as u8,
            finished: u8::from(self.finished),
            lost_first: self.lost_first.unwrap_or(0),
            first_arrival: self.first_arrival,
            first_timestamp: self.total.first_timestamp,
            last_timestamp: self.total.last_timestamp,
            last_data_timestamp: self.last_data_timestamp,
            last_new_timestamp: self.last_new_timestamp,
            last_length: self.last_length,
            reports: self.total.reports,
            bytes: self.total.bytes,
            squared_bytes: self.total.squared_bytes,
            payload_bytes: self.total.payload_bytes,
            new_bytes: self.total_data.new_bytes,
            advanced_bytes: self.total_data.advanced_bytes,
            retransmitted_bytes: self.total.retransmitted_bytes,
            data_packets: self.total_data.packets,
            retransmitted_packets: self.total_data.retransmitted_packets,
            arrivals: self.total_arrivals.arrivals,
            departures: self.total_departures,
            drops: self.total_arrivals.drops,
            loss_drops: self.total_arrivals.loss_drops,
            aqm_drops: self.total_arrivals.aqm_drops,
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
