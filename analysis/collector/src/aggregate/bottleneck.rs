// SPDX-License-Identifier: Apache-2.0
//! State of one bottleneck: its clock, the open interval, totals, histograms and envelope.

use super::cell::{CoarseHistogram, CoarseTotal, Sums};
use super::envelope::Envelope;
use super::histogram::Histogram;
use super::tables::{BottleneckInterval, BottleneckSeries};
use crate::wire::Record;

/// Bins an octave of the fine histograms, as a power of two: quantiles are within 0.8 %.
pub const FINE_BITS: u32 = 7;
const TIMESTAMP_BITS: u32 = 48;
const FLOW_INDICES: usize = 1 << 16;

/// One bottleneck.
pub struct BottleneckState {
    index: u8,
    interval_units: u64,
    /// Bounds of the open interval: [start, end).
    start: u64,
    end: u64,
    interval: u64,
    /// A report in a new interval, until the next one confirms that time has moved on.
    held: Option<Record>,
    last_raw_time: u64,
    last_time: u64,
    last_sequence: u32,
    position: u64,
    /// Position at the end of the interval before the open one.
    position_before: u64,
    first_position: u64,
    /// Departures whose report's counters are trusted.
    read: u64,
    pub counters_from_zero: bool,
    pub implausible_times: u64,
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
    /// A bottleneck whose first report is `record`.
    pub fn new(record: &Record, interval_units: u64, from_reset: bool) -> Self {
        let report = &record.report;
        let step = 1_u64 << report.sample_shift;
        let position = u64::from(report.sequence);
        let time = report.timestamp;
        let interval = time / interval_units;
        let start = interval * interval_units;
        BottleneckState {
            index: report.bottleneck,
            interval_units,
            start,
            end: start + interval_units,
            interval,
            held: None,
            last_raw_time: time,
            last_time: time,
            last_sequence: report.sequence,
            position,
            position_before: position.saturating_sub(step),
            first_position: position.saturating_sub(step),
            read: 0,
            // The very first departure is in the source: every counter started at zero.
            counters_from_zero: from_reset || position <= step,
            implausible_times: 0,
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
        let origin = if self.counters_from_zero {
            0
        } else {
            self.first_position
        };
        (self.position - origin).saturating_sub(self.read)
    }

    /// Takes back that the counters of the report last placed are trusted.
    pub fn distrust(&mut self) {
        self.read -= 1;
    }

    /// Number of the open interval.
    #[inline]
    pub fn interval(&self) -> u64 {
        self.interval
    }

    /// Departures covered by the source.
    pub fn departures(&self) -> u64 {
        self.position - self.first_position
    }

    /// Gives a report its place in time; `settle` gets each report with its time once that is certain.
    #[inline]
    pub fn place(
        &mut self,
        record: &Record,
        series: &mut BottleneckSeries,
        settle: &mut impl FnMut(&mut Self, &Record, u64),
    ) {
        let time = self.unwrapped(record);
        if self.held.is_none() && time >= self.start && time < self.end {
            self.settle_at(record, time, settle);
            return;
        }
        self.place_slowly(record, time, series, settle);
    }

    /// Settles a held report: nothing follows.
    pub fn finish(
        &mut self,
        series: &mut BottleneckSeries,
        settle: &mut impl FnMut(&mut Self, &Record, u64),
    ) {
        if let Some(held) = self.held.take() {
            let time = self.unwrapped(&held);
            self.open_interval_of(time, series);
            self.settle_at(&held, time, settle);
        }
    }

    #[cold]
    fn place_slowly(
        &mut self,
        record: &Record,
        time: u64,
        series: &mut BottleneckSeries,
        settle: &mut impl FnMut(&mut Self, &Record, u64),
    ) {
        let mut time = time;
        if let Some(held) = self.held.take() {
            let held_time = self.unwrapped(&held);
            if time >= held_time {
                self.open_interval_of(held_time, series);
                self.settle_at(&held, held_time, settle);
            } else {
                // Time did not stay where the held report was: its clock value is damaged, its place is the last one.
                self.implausible_times += 1;
                let last = self.last_time;
                self.settle_at(&held, last, settle);
            }
        }
        if time >= self.end {
            self.held = Some(*record);
            return;
        }
        if time < self.start {
            // Departures are in order of time.
            self.implausible_times += 1;
            time = self.last_time;
        }
        self.settle_at(record, time, settle);
    }

    #[inline]
    fn settle_at(
        &mut self,
        record: &Record,
        time: u64,
        settle: &mut impl FnMut(&mut Self, &Record, u64),
    ) {
        let report = &record.report;
        self.position += u64::from(report.sequence.wrapping_sub(self.last_sequence));
        self.last_sequence = report.sequence;
        self.read += 1;
        self.last_time = time;
        self.last_raw_time = time & ((1 << TIMESTAMP_BITS) - 1);
        self.delay.add(report.queue_delay);
        self.depth.add(report.enqueue_depth);
        self.envelope
            .add(time, report.queue_delay, report.enqueue_depth);
        self.histogram.add(report.queue_delay);
        settle(self, record, time);
    }

    /// Adds a report to the open interval.
    #[inline]
    pub fn add(&mut self, record: &Record, time: u64, retransmitted: u16) {
        self.sums.add(record, time, retransmitted);
    }

    /// The record's time on a clock that does not wrap.
    #[inline]
    fn unwrapped(&self, record: &Record) -> u64 {
        let difference =
            record.report.timestamp.wrapping_sub(self.last_raw_time) << (64 - TIMESTAMP_BITS);
        self.last_time
            .saturating_add_signed(difference as i64 >> (64 - TIMESTAMP_BITS))
    }

    fn open_interval_of(&mut self, time: u64, series: &mut BottleneckSeries) {
        if time >= self.start && time < self.end {
            return;
        }
        self.close_interval(series);
        self.interval = time / self.interval_units;
        self.start = self.interval * self.interval_units;
        self.end = self.start + self.interval_units;
    }

    /// Moves the open interval to `series` and the totals.
    pub fn close_interval(&mut self, series: &mut BottleneckSeries) {
        if self.sums.reports == 0 {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        series.push(BottleneckInterval {
            bottleneck: self.index,
            interval: self.interval,
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
        let bins =
            self.histogram
                .drain_into(sums.delay_min, sums.delay_max, &mut self.total_histogram);
        series.delay_histogram.push(bins);
        self.total.merge(&sums);
    }
}
