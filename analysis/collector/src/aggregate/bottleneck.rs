// SPDX-License-Identifier: Apache-2.0
//! State of one bottleneck: its clock, the open interval, totals, histograms and envelope.

use super::arrivals::OpenArrivals;
use super::cell::{coarse_bin, CoarseHistogram, CoarseTotal, Sums};
use super::envelope::Envelope;
use super::histogram::Histogram;
use super::interval::Intervals;
use super::settings::{CountersStart, EngineSettings};
use super::tables::{BottleneckArrivals, BottleneckInterval, BottleneckSeries};
use crate::wire::Record;

/// Bins an octave of the fine histograms, as a power of two: values are exact below 2^14, and within 0.012 % above.
pub const FINE_BITS: u32 = 13;
const TIMESTAMP_BITS: u32 = 48;
const FLOW_INDICES: usize = 1 << 16;

/// Rows of closed intervals of all bottlenecks.
#[derive(Default)]
pub struct BottleneckRows {
    pub series: BottleneckSeries,
    pub arrivals: BottleneckArrivals,
}

/// A report, with what its bottleneck has computed from it.
pub struct Settled<'a> {
    pub record: &'a Record,
    /// Departure on a clock that does not wrap.
    pub time: u64,
    pub arrival: u64,
    /// Depth left behind.
    pub depth: u32,
    /// Bin of the delay in per-interval histograms.
    pub bin: usize,
    /// Interval of the flows' series.
    pub flow_interval: i64,
}

/// The time nearest to `reference` whose last 48 bits are `raw`.
fn near(reference: u64, raw: u64) -> u64 {
    let difference = raw.wrapping_sub(reference) << (64 - TIMESTAMP_BITS);
    reference.checked_add_signed(difference as i64 >> (64 - TIMESTAMP_BITS)).unwrap_or(raw)
}

/// One bottleneck.
pub struct BottleneckState {
    index: u8,
    settings: EngineSettings,
    /// The open interval of departures.
    interval: Intervals,
    flow_interval: Intervals,
    arrival_interval: Intervals,
    flow_arrival_interval: Intervals,
    open_arrivals: OpenArrivals,
    /// The first report of a new interval, until the next report confirms the time.
    held: Option<Record>,
    last_raw_time: u64,
    last_time: u64,
    last_sequence: u32,
    last_bytes: u64,
    pub sample_shift: u8,
    position: u64,
    /// Position at the end of the interval before the open one.
    position_before: u64,
    first_position: u64,
    /// Departures whose report's counters are trusted.
    read: u64,
    pub counters_from_zero: bool,
    pub implausible_times: u64,
    /// Reports whose clock was behind that of the previous report.
    pub clock_steps: u64,
    /// Bytes and time of the stretches in which the link was never idle.
    pub saturated_bytes: u64,
    pub saturated_time: u64,
    /// Greatest depth just after an arrival.
    pub depth_peak: u32,
    sums: Sums,
    histogram: CoarseHistogram,
    pub total: Sums,
    total_histogram: CoarseTotal,
    pub delay: Histogram<FINE_BITS>,
    pub depth: Histogram<FINE_BITS>,
    pub envelope: Envelope,
    /// Number of the first flow of each flow index, plus one; 0 = none yet.
    pub flows: Vec<u32>,
}

impl BottleneckState {
    /// A bottleneck whose first report is `record`; intervals count from `origin`.
    pub fn new(record: &Record, settings: &EngineSettings, origin: u64) -> Self {
        let report = &record.report;
        let step = 1_u64 << report.sample_shift;
        let position = u64::from(report.sequence);
        let time = near(origin, report.timestamp);
        let intervals = |units| Intervals::new(origin, units);
        let mut interval = intervals(settings.queue_units);
        interval.find(time);
        let first_position = position.saturating_sub(step);
        BottleneckState {
            index: report.bottleneck,
            settings: *settings,
            interval,
            flow_interval: intervals(settings.interval_units),
            arrival_interval: intervals(settings.queue_units),
            flow_arrival_interval: intervals(settings.interval_units),
            open_arrivals: OpenArrivals::new(report.bottleneck),
            held: None,
            last_raw_time: report.timestamp,
            last_time: time,
            last_sequence: report.sequence,
            last_bytes: 0,
            sample_shift: report.sample_shift,
            position,
            position_before: first_position,
            first_position,
            read: 0,
            counters_from_zero: match settings.counters {
                CountersStart::Zero => true,
                // The very first departure is in the source: every counter started at zero.
                CountersStart::Detect | CountersStart::Run => position <= step,
            },
            implausible_times: 0,
            clock_steps: 0,
            saturated_bytes: 0,
            saturated_time: 0,
            depth_peak: 0,
            sums: Sums::default(),
            histogram: CoarseHistogram::default(),
            total: Sums::default(),
            total_histogram: CoarseTotal::default(),
            delay: Histogram::default(),
            depth: Histogram::default(),
            envelope: Envelope::new(time),
            flows: vec![0; FLOW_INDICES],
        }
    }

    /// Departures, up to the report last placed, whose counters are in no trusted reading before it; since the switch
    /// began to count if that is known, since the first report otherwise.
    #[inline]
    pub fn unread(&self) -> u64 {
        let origin = if self.counters_from_zero { 0 } else { self.first_position };
        (self.position - origin).saturating_sub(self.read)
    }

    /// Stops trusting the counters of the report last placed.
    pub fn distrust(&mut self) {
        self.read -= 1;
    }

    /// Intervals of an arrival: of the flows' and of the bottleneck's series.
    #[inline]
    pub fn arrival_intervals(&mut self, arrival: u64) -> (i64, i64) {
        (self.flow_arrival_interval.find(arrival), self.arrival_interval.find(arrival))
    }

    /// Arrivals, by interval of the bottleneck's series.
    #[inline]
    pub fn open_arrivals(&mut self) -> &mut OpenArrivals {
        &mut self.open_arrivals
    }

    /// Departures covered by the source.
    pub fn departures(&self) -> u64 {
        self.position - self.first_position
    }

    /// Gives a report its place in time; `settle` receives each report once its place is certain.
    #[inline]
    pub fn place(
        &mut self,
        record: &Record,
        rows: &mut BottleneckRows,
        settle: &mut impl FnMut(&mut Self, &mut BottleneckRows, &Settled<'_>),
    ) {
        let time = self.unwrapped(record);
        if self.held.is_none() && self.interval.is_current(time) {
            self.settle_at(record, time, rows, settle);
            return;
        }
        self.place_slowly(record, time, rows, settle);
    }

    /// Places a held report, as no other report follows.
    pub fn finish(
        &mut self,
        rows: &mut BottleneckRows,
        settle: &mut impl FnMut(&mut Self, &mut BottleneckRows, &Settled<'_>),
    ) {
        if let Some(held) = self.held.take() {
            let time = self.unwrapped(&held);
            self.open_interval_of(time, &mut rows.series);
            self.settle_at(&held, time, rows, settle);
        }
    }

    #[cold]
    fn place_slowly(
        &mut self,
        record: &Record,
        time: u64,
        rows: &mut BottleneckRows,
        settle: &mut impl FnMut(&mut Self, &mut BottleneckRows, &Settled<'_>),
    ) {
        let mut time = time;
        if let Some(held) = self.held.take() {
            let held_time = self.unwrapped(&held);
            if time >= held_time {
                self.open_interval_of(held_time, &mut rows.series);
                self.settle_at(&held, held_time, rows, settle);
            } else {
                // The next report contradicts the held one's time, so that is damaged: its place is the last one.
                self.implausible_times += 1;
                let last = self.last_time;
                self.settle_at(&held, last, rows, settle);
            }
        }
        if self.interval.is_later(time) {
            self.held = Some(*record);
            return;
        }
        if !self.interval.is_current(time) {
            // Departures are in order of time.
            self.implausible_times += 1;
            time = self.last_time;
        }
        self.settle_at(record, time, rows, settle);
    }

    #[inline]
    fn settle_at(
        &mut self,
        record: &Record,
        time: u64,
        rows: &mut BottleneckRows,
        settle: &mut impl FnMut(&mut Self, &mut BottleneckRows, &Settled<'_>),
    ) {
        let report = &record.report;
        let step = report.sequence.wrapping_sub(self.last_sequence);
        self.saturation(record, time, step);
        self.position += u64::from(step);
        self.last_sequence = report.sequence;
        self.read += 1;
        self.last_time = time;
        self.last_raw_time = time & ((1 << TIMESTAMP_BITS) - 1);

        let arrival = time.saturating_sub(report.queue_delay);
        let (depth, after_arrival) = self.settings.depths(report);
        self.depth_peak = self.depth_peak.max(after_arrival);
        let arrived = self.arrival_interval.find(arrival);
        self.open_arrivals.admit(arrived, report.packet_length, after_arrival, &mut rows.arrivals);
        self.delay.add(report.queue_delay);
        self.depth.add(depth.into());
        self.envelope.add(time, report.queue_delay, depth, after_arrival);
        let bin = coarse_bin(report.queue_delay);
        self.histogram.add(bin);
        let settled = Settled { record, time, arrival, depth, bin, flow_interval: self.flow_interval.find(time) };
        settle(self, rows, &settled);
    }

    /// If the next packet had to wait, the link was busy from this packet's departure to that one's.
    #[inline]
    fn saturation(&mut self, record: &Record, time: u64, step: u32) {
        let report = &record.report;
        if time < self.last_time {
            self.clock_steps += 1;
        } else if report.queue_delay > 0 && step == 1 && report.sample_shift == 0 {
            self.saturated_bytes += self.last_bytes;
            self.saturated_time += time - self.last_time;
        }
        self.last_bytes = u64::from(report.packet_length);
    }

    /// Adds a report to the open interval.
    #[inline]
    pub fn add(&mut self, settled: &Settled<'_>, retransmitted: u16) {
        self.sums.add(settled.record, settled.depth, settled.time, retransmitted);
    }

    /// The record's time on a clock that does not wrap.
    #[inline]
    fn unwrapped(&self, record: &Record) -> u64 {
        let difference = record.report.timestamp.wrapping_sub(self.last_raw_time) << (64 - TIMESTAMP_BITS);
        self.last_time.saturating_add_signed(difference as i64 >> (64 - TIMESTAMP_BITS))
    }

    fn open_interval_of(&mut self, time: u64, series: &mut BottleneckSeries) {
        if self.interval.is_current(time) {
            return;
        }
        self.close_interval(series);
        self.interval.find(time);
    }

    /// Moves the open interval to `series` and the totals.
    pub fn close_interval(&mut self, series: &mut BottleneckSeries) {
        if self.sums.reports == 0 {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        series.push(BottleneckInterval {
            bottleneck: self.index,
            interval: self.interval.current(),
            reports: sums.reports,
            departures: self.position - self.position_before,
            bytes: sums.bytes,
            payload_bytes: sums.payload_bytes,
            retransmitted_bytes: sums.retransmitted_bytes,
            ce_marks: sums.ce_marks,
            delay_sum: sums.delay_sum,
            delay_min: sums.delay_min,
            delay_max: sums.delay_max,
            depth_sum: sums.depth_sum,
            depth_min: sums.depth_min,
            depth_max: sums.depth_max,
        });
        self.position_before = self.position;
        let bins = self.histogram.drain_into(sums.delay_min, sums.delay_max, &mut self.total_histogram);
        series.delay_histogram.push(bins);
        self.total.merge(&sums);
    }
}
