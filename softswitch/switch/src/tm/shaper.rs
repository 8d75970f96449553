//! The shaper of a link: when its next packet starts, and when that has passed, by the link's service curve.
//!
//! It knows packets only by the time that they ask for. So a queue may look at what it would send, and drop it, before the
//! link's time is spent, and several queues may send by one shaper.
// SPDX-License-Identifier: Apache-2.0
use super::clock::ByteClock;
use super::curve::{Curve, Next, Rate, Work, NEVER};

/// What a link has done, against what it offers.
///
/// In a part of the curve with a constant rate that is a byte clock of this rate. Else it is the work up to the end of the last
/// packet, on the scale of all that the link has offered: what it offered while no packet waited is skipped.
#[derive(Debug)]
pub struct Shaper {
    /// When the link takes the next packet.
    clock: ByteClock,
    /// Until then, exclusively, the rate of `clock` holds; 0: `done` counts.
    segment_end_ns: u64,
    done: Work,
    curve: Curve,
}

impl Default for Shaper {
    fn default() -> Self {
        let curve = Curve::constant(Rate::Unlimited);
        Shaper { clock: ByteClock::default(), segment_end_ns: curve.epoch_ns, done: 0, curve }
    }
}

impl Shaper {
    /// What the link offers.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// When the link takes the next packet of those that wait, in whole nanoseconds; [`NEVER`]: unless something changes, never.
    #[inline]
    pub fn free_ns(&self) -> u64 {
        self.clock.finish_ns()
    }

    /// When a packet starts that arrives now and finds nothing waiting.
    #[inline]
    pub fn ready_ns(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.segment_end_ns {
            return self.clock.finish_ns().max(now_ns);
        }
        let done = self.done(now_ns).max(self.curve.offered(now_ns));
        self.settle(done, now_ns);
        self.free_ns()
    }

    /// Whether a packet starts that arrives now and finds nothing waiting; false also where the rate that held last does no more.
    #[inline(always)]
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.clock.finish_ns() <= now_ns && now_ns < self.segment_end_ns
    }

    /// Starts a packet of `length` bytes that arrives now and finds nothing waiting, if the link is idle and its rate stays as it is
    /// until that has passed: when it has, as [`Shaper::ready_ns`] and [`Shaper::serve`] would say. Else nothing has happened.
    #[inline(always)]
    pub fn serve_idle(&mut self, now_ns: u64, length: u32) -> Option<u64> {
        let mut clock = self.clock;
        if clock.finish_ns() > now_ns {
            return None;
        }
        clock.start(now_ns, length);
        if clock.finish_ns() >= self.segment_end_ns {
            return None;
        }
        self.clock = clock;
        Some(clock.finish_ns())
    }

    /// Starts a packet of `length` bytes at `start_ns`, which is [`Shaper::free_ns`] or what [`Shaper::ready_ns`] said. Returns
    /// when its last bit has passed, in whole nanoseconds.
    #[inline(always)]
    pub fn serve(&mut self, start_ns: u64, length: u32) -> u64 {
        let mut clock = self.clock;
        clock.start(start_ns, length);
        if clock.finish_ns() < self.segment_end_ns {
            self.clock = clock;
            return clock.finish_ns();
        }
        self.serve_across(start_ns, length)
    }

    #[cold]
    fn serve_across(&mut self, start_ns: u64, length: u32) -> u64 {
        let done = self.done(start_ns) + self.curve.work(start_ns, length);
        self.settle(done, start_ns);
        // Of a packet that asks for nothing the last bit was there before.
        self.curve.reached(done).max(start_ns)
    }

    /// Offers something else from `now_ns` on, also to the packet in service. Returns when that has passed, if there is one.
    pub fn change(&mut self, now_ns: u64, curve: Curve) -> Option<u64> {
        let left = self.done(now_ns).saturating_sub(self.curve.offered(now_ns));
        self.curve = curve;
        let done = self.curve.offered(now_ns) + left;
        self.settle(done, now_ns);
        (left > 0).then(|| if self.curve.is_unlimited(now_ns) { now_ns } else { self.curve.reached(done) })
    }

    /// What the link has done when the packet before one that starts at `start_ns` has passed.
    fn done(&self, start_ns: u64) -> Work {
        if self.segment_end_ns == 0 {
            self.done
        } else if start_ns > self.clock.finish_ns() {
            self.curve.offered(start_ns)
        } else {
            self.curve.offered(self.clock.finish_ns()) + Work::from(self.clock.remainder())
        }
    }

    /// Continues from `done`, at `now_ns` or later.
    fn settle(&mut self, done: Work, now_ns: u64) {
        self.done = done;
        (self.clock, self.segment_end_ns) = if self.curve.is_unlimited(now_ns) {
            (ByteClock::busy(0, now_ns, 0), self.curve.epoch_ns)
        } else {
            match self.curve.next(done) {
                None => (ByteClock::busy(0, NEVER, 0), 0),
                Some(Next { at_ns, segment: None }) => (ByteClock::busy(0, at_ns, 0), 0),
                Some(Next { at_ns, segment: Some(segment) }) => {
                    (ByteClock::busy(segment.rate, at_ns, segment.remainder), segment.end_ns)
                }
            }
        };
    }
}
