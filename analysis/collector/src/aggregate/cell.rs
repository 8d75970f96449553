// SPDX-License-Identifier: Apache-2.0
//! Sums over an interval, for a flow or a bottleneck.

use super::histogram;
use crate::wire::report::FLAG_CE_MARKED;
use crate::wire::Record;

/// Bins an octave in the per-interval histograms, as a power of two: the same as in the switch.
pub const COARSE_BITS: u32 = 2;
const COARSE_BINS: usize = histogram::bins(COARSE_BITS);

/// Sums over the reports of an interval or of a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    pub reports: u64,
    pub bytes: u64,
    /// Of the packets' lengths, each squared.
    pub squared_bytes: u64,
    pub payload_bytes: u64,
    pub retransmitted_bytes: u64,
    pub ce_marks: u64,
    pub delay_sum: u64,
    pub delay_min: u64,
    pub delay_max: u64,
    pub depth_sum: u64,
    pub depth_min: u32,
    pub depth_max: u32,
    pub first_timestamp: u64,
    pub last_timestamp: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Sums {
            reports: 0,
            bytes: 0,
            squared_bytes: 0,
            payload_bytes: 0,
            retransmitted_bytes: 0,
            ce_marks: 0,
            delay_sum: 0,
            delay_min: u64::MAX,
            delay_max: 0,
            depth_sum: 0,
            depth_min: u32::MAX,
            depth_max: 0,
            first_timestamp: u64::MAX,
            last_timestamp: 0,
        }
    }
}

impl Sums {
    /// Adds a report that departed at `time` and left a queue of `depth` behind.
    #[inline]
    pub fn add(&mut self, record: &Record, depth: u32, time: u64, retransmitted: u16) {
        let report = &record.report;
        self.reports += 1;
        self.bytes += u64::from(report.packet_length);
        self.squared_bytes += u64::from(report.packet_length).pow(2);
        self.payload_bytes += u64::from(record.original.payload_length);
        self.retransmitted_bytes += u64::from(retransmitted);
        self.ce_marks += u64::from(report.flags & FLAG_CE_MARKED);
        self.delay_sum += report.queue_delay;
        self.delay_min = self.delay_min.min(report.queue_delay);
        self.delay_max = self.delay_max.max(report.queue_delay);
        self.depth_sum += u64::from(depth);
        self.depth_min = self.depth_min.min(depth);
        self.depth_max = self.depth_max.max(depth);
        self.first_timestamp = self.first_timestamp.min(time);
        self.last_timestamp = time;
    }

    /// Adds the sums of a later interval.
    pub fn merge(&mut self, later: &Sums) {
        self.reports += later.reports;
        self.bytes += later.bytes;
        self.squared_bytes += later.squared_bytes;
        self.payload_bytes += later.payload_bytes;
        self.retransmitted_bytes += later.retransmitted_bytes;
        self.ce_marks += later.ce_marks;
        self.delay_sum += later.delay_sum;
        self.delay_min = self.delay_min.min(later.delay_min);
        self.delay_max = self.delay_max.max(later.delay_max);
        self.depth_sum += later.depth_sum;
        self.depth_min = self.depth_min.min(later.depth_min);
        self.depth_max = self.depth_max.max(later.depth_max);
        self.first_timestamp = self.first_timestamp.min(later.first_timestamp);
        self.last_timestamp = self.last_timestamp.max(later.last_timestamp);
    }
}

/// Bin of a delay in the per-interval histograms.
#[inline]
pub fn coarse_bin(delay: u64) -> usize {
    histogram::bin(COARSE_BITS, delay)
}

/// Delay histogram of an interval.
#[derive(Clone, Debug)]
pub struct CoarseHistogram([u32; COARSE_BINS]);

impl Default for CoarseHistogram {
    fn default() -> Self {
        CoarseHistogram([0; COARSE_BINS])
    }
}

impl CoarseHistogram {
    /// Counts a delay in its bin.
    #[inline]
    pub fn add(&mut self, bin: usize) {
        self.0[bin] += 1;
    }

    /// Moves the bins from that of `low` to that of `high` to `total`; all other bins are empty.
    /// Returns the bins that were not empty, and their counts.
    pub fn drain_into<'a>(
        &'a mut self,
        low: u64,
        high: u64,
        total: &'a mut CoarseTotal,
    ) -> impl Iterator<Item = (u8, u64)> + 'a {
        let first = histogram::bin(COARSE_BITS, low);
        let last = histogram::bin(COARSE_BITS, high).max(first);
        let bins = self.0[first..=last].iter_mut().zip(&mut total.0[first..=last]).enumerate();
        bins.filter_map(move |(offset, (count, total))| {
            let count = u64::from(std::mem::take(count));
            *total += count;
            (count > 0).then_some(((first + offset) as u8, count))
        })
    }
}

/// Delay histogram of a whole run.
#[derive(Clone, Debug)]
pub struct CoarseTotal([u64; COARSE_BINS]);

impl Default for CoarseTotal {
    fn default() -> Self {
        CoarseTotal([0; COARSE_BINS])
    }
}

impl CoarseTotal {
    /// Bins that are not empty, and their counts.
    pub fn filled(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let filled = self.0.iter().enumerate().filter(|(_, &count)| count > 0);
        filled.map(|(bin, &count)| (bin as u8, count))
    }
}
