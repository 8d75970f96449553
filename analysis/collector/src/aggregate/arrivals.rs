// SPDX-License-Identifier: Apache-2.0
//! Events at the arrival of packets, by interval of arrival, for a bottleneck.
//!
//! Packets depart in the order in which they arrived. But a flow's counters are trusted only when its next report has
//! come, so intervals are not filled in order: the latest ones are kept open.

use super::flow::Increments;
use super::tables::{BottleneckArrival, BottleneckArrivals};

/// How many intervals are kept open. Rows of older ones are written at once; an interval can have several of them.
const OPEN: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Slot {
    interval: i64,
    increments: Increments,
    bytes: u64,
    depth_min: u32,
    depth_max: u32,
}

const EMPTY: Slot =
    Slot { interval: i64::MIN, increments: Increments::NONE, bytes: 0, depth_min: u32::MAX, depth_max: 0 };

/// The intervals that are open.
pub struct OpenArrivals {
    bottleneck: u8,
    slots: [Slot; OPEN],
}

impl OpenArrivals {
    pub fn new(bottleneck: u8) -> Self {
        OpenArrivals { bottleneck, slots: [EMPTY; OPEN] }
    }

    /// Counts increments of counters in the interval of the arrival that showed them.
    #[inline]
    pub fn credit(&mut self, interval: i64, increments: &Increments, rows: &mut BottleneckArrivals) {
        self.change(interval, rows, |slot| slot.increments.merge(increments));
    }

    /// Records the arrival of a packet of `length` bytes that the queue admitted, and the depth just after it, including the
    /// packet itself if it waits.
    #[inline]
    pub fn admit(&mut self, interval: i64, length: u16, depth: u32, rows: &mut BottleneckArrivals) {
        self.change(interval, rows, |slot| {
            slot.bytes += u64::from(length);
            slot.depth_min = slot.depth_min.min(depth);
            slot.depth_max = slot.depth_max.max(depth);
        });
    }

    /// Writes every open interval.
    pub fn close(&mut self, rows: &mut BottleneckArrivals) {
        let mut open = std::mem::replace(&mut self.slots, [EMPTY; OPEN]);
        open.sort_unstable_by_key(|slot| slot.interval);
        for slot in open {
            self.write(slot, rows);
        }
    }

    #[inline]
    fn change(&mut self, interval: i64, rows: &mut BottleneckArrivals, change: impl FnOnce(&mut Slot)) {
        let at = interval as usize % OPEN;
        if self.slots[at].interval == interval {
            change(&mut self.slots[at]);
        } else {
            self.change_another(interval, rows, change);
        }
    }

    #[cold]
    #[inline(never)]
    fn change_another(&mut self, interval: i64, rows: &mut BottleneckArrivals, change: impl FnOnce(&mut Slot)) {
        let at = interval as usize % OPEN;
        let mut fresh = Slot { interval, ..EMPTY };
        change(&mut fresh);
        if interval < self.slots[at].interval {
            self.write(fresh, rows);
        } else {
            let old = std::mem::replace(&mut self.slots[at], fresh);
            self.write(old, rows);
        }
    }

    fn write(&self, slot: Slot, rows: &mut BottleneckArrivals) {
        if slot.interval == i64::MIN {
            return;
        }
        rows.push(BottleneckArrival {
            bottleneck: self.bottleneck,
            interval: slot.interval,
            arrivals: slot.increments.arrivals,
            drops: slot.increments.drops,
            loss_drops: slot.increments.loss_drops,
            aqm_drops: slot.increments.aqm_drops,
            bytes: slot.bytes,
            depth_min: slot.depth_min,
            depth_max: slot.depth_max,
        });
    }
}
