//! The shaper of a link: when its next packet starts, and when that has passed, by the link's service curve.
//!
//! It knows packets only by the time that they ask for. So a queue may look at what it would send, and drop it, before the
//! link's time is spent, and several queues may send by one shaper.
// SPDX-License-Identifier: Apache-2.0
use super::clock::{ByteClock, BIT_NS_PER_BYTE};
use super::curve::{Curve, Next, Rate, Work, NEVER};

/// What a link has done, against what it offers.
///
/// In a part of the curve with a constant rate that is a byte clock of this rate. Else it is the work up to the end of the last
/// packet, on the scale of all that the link has offered: what it offered while no packet waited is skipped.
///
/// With a burst it is a token bucket: of what is offered while no packet waits, that much is kept, and what it covers takes no time.
/// The work is then up to where the bucket is full again (the theoretical arrival time of ITU-T I.371).
#[derive(Debug)]
pub struct Shaper {
    /// When the link takes the next packet.
    clock: ByteClock,
    /// Until then, exclusively, the rate of `clock` holds; 0: `done` counts.
    segment_end_ns: u64,
    done: Work,
    /// What the bucket holds; 0: there is none.
    burst: Work,
    curve: Curve,
}

impl Default for Shaper {
    fn default() -> Self {
        let curve = Curve::constant(Rate::Unlimited);
        Shaper { clock: ByteClock::default(), segment_end_ns: curve.epoch_ns, done: 0, burst: 0, curve }
    }
}

impl Shaper {
    /// What the link offers.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Bytes that pass at once after silence; 0: none.
    pub fn burst_bytes(&self) -> u64 {
        (self.burst / Work::from(BIT_NS_PER_BYTE)) as u64
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

    /// Keeps a link of constant rate for so long, from `start_ns` as in [`Shaper::serve`] on, without any bytes.
    pub fn occupy(&mut self, start_ns: u64, time_ns: u64) {
        self.clock.occupy(start_ns, time_ns);
    }

    #[cold]
    fn serve_across(&mut self, start_ns: u64, length: u32) -> u64 {
        let done = self.done(start_ns) + self.curve.work(start_ns, length);
        self.settle(done, start_ns);
        // Of a packet that asks for nothing, or that the bucket covers, the last bit was there before.
        self.curve.reached(done.saturating_sub(self.burst)).max(start_ns)
    }

    /// Offers something else from `now_ns` on, also to the packet in service. Returns when that has passed, if there is one.
    /// Another burst begins with a full bucket, unless a packet is in service.
    pub fn change(&mut self, now_ns: u64, curve: Curve, burst_bytes: u64) -> Option<u64> {
        let missing = self.done(now_ns).saturating_sub(self.curve.offered(now_ns));
        let left = missing.saturating_sub(self.burst);
        let burst = Work::from(burst_bytes) * Work::from(BIT_NS_PER_BYTE);
        let missing = match (burst == self.burst, left) {
            (true, _) => missing,
            (false, 0) => 0,
            (false, left) => left + burst,
        };
        (self.curve, self.burst) = (curve, burst);
        let done = self.curve.offered(now_ns) + missing;
        self.settle(done, now_ns);
        (left > 0).then(|| if self.curve.is_unlimited(now_ns) { now_ns } else { self.curve.reached(done - burst) })
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
        if self.burst > 0 {
            let free_ns = self.curve.reached(done.saturating_sub(self.burst)).max(now_ns);
            (self.clock, self.segment_end_ns) = (ByteClock::busy(0, free_ns, 0), 0);
            return;
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::curve::{Schedule, Steps};
    use super::*;

    const PACKETS: u64 = 1_000_000;

    /// A bucket that keeps tokens, on a scale of time of which a nanosecond has `rate` parts, so that no time is rounded.
    struct Bucket {
        rate: u128,
        burst: u128,
        tokens: u128,
        left_at: u128,
    }

    impl Bucket {
        /// When a packet that comes at `now_ns`, behind those before it, has all its tokens.
        fn leaves(&mut self, now_ns: u64, length: u32) -> u64 {
            let begin = self.left_at.max(u128::from(now_ns) * self.rate);
            let needed = u128::from(length) * 8_000_000_000;
            self.tokens = (self.tokens + begin - self.left_at).min(self.burst);
            let short = needed.saturating_sub(self.tokens);
            self.tokens = (self.tokens + short) - needed;
            self.left_at = begin + short;
            (self.left_at / self.rate) as u64
        }
    }

    fn shaped(rate: u64, burst_bytes: u64) -> Shaper {
        let mut shaper = Shaper::default();
        assert_eq!(shaper.change(0, Curve::constant(Rate::Bps(rate)), burst_bytes), None);
        shaper
    }

    fn send(shaper: &mut Shaper, now_ns: u64, length: u32) -> u64 {
        let start_ns = shaper.ready_ns(now_ns).max(now_ns);
        shaper.serve(start_ns, length)
    }

    /// Sends bursts with gaps that leave the bucket empty, in part full, and full. Returns how many left when they came.
    fn shape(rate: u64, burst_bytes: u64) -> u64 {
        let mut shaper = shaped(rate, burst_bytes);
        let burst = u128::from(burst_bytes) * 8_000_000_000;
        let mut bucket = Bucket { rate: rate.into(), burst, tokens: burst, left_at: 0 };
        let (mut draw, mut now_ns, mut at_once) = (1u64, 0, 0);
        for packet in 0..PACKETS {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = draw >> 33;
            now_ns += match random % 1_000 {
                0 => 1_000_000_000,
                1..500 => 0,
                _ => random % 600_007,
            };
            let length = 64 + (random % 1_451) as u32;
            let left_ns = send(&mut shaper, now_ns, length);
            assert_eq!(left_ns, bucket.leaves(now_ns, length), "packet {packet}");
            at_once += u64::from(left_ns == now_ns);
        }
        at_once
    }

    #[test]
    fn a_million_packets_leave_when_they_have_their_tokens() {
        let (some, fewer) = (shape(33_333_337, 30_000), shape(33_333_337, 1_514));
        assert!(PACKETS > some && some > fewer && fewer > 0, "{some}, {fewer}");
    }

    #[test]
    fn a_burst_takes_no_time_and_what_follows_the_rate() {
        // 8 Mbit/s are a byte a microsecond. After 5 ms the bucket of 2,800 bytes is full again.
        let mut shaper = shaped(8_000_000, 2_800);
        let left: Vec<u64> = (0..4).map(|_| send(&mut shaper, 0, 1_000) / 1_000).collect();
        assert_eq!(left, [0, 0, 200, 1_200]);
        let left: Vec<u64> = (0..3).map(|_| send(&mut shaper, 5_000_000, 1_000) / 1_000).collect();
        assert_eq!(left, [5_000, 5_000, 5_200]);
        assert_eq!(shaper.burst_bytes(), 2_800);
    }

    #[test]
    fn tokens_stay_when_the_rate_changes() {
        // 1,800 bytes are left of 2,800. At half the rate the second packet of 1,000 finds 800, and waits for 200 at 2 us each.
        let mut shaper = shaped(8_000_000, 2_800);
        assert_eq!(send(&mut shaper, 0, 1_000), 0);
        assert_eq!(shaper.change(0, Curve::constant(Rate::Bps(4_000_000)), 2_800), None);
        assert_eq!([send(&mut shaper, 0, 1_000), send(&mut shaper, 0, 1_000)], [0, 400_000]);
        // In service at 100 us: 150 of the 200 bytes are missing, a byte a microsecond again.
        assert_eq!(shaper.change(100_000, Curve::constant(Rate::Bps(8_000_000)), 2_800), Some(250_000));
        assert_eq!(send(&mut shaper, 100_000, 1_000), 1_250_000);
    }

    #[test]
    fn steps_fill_the_bucket_at_their_rates() {
        // A byte a microsecond until 1 ms, then one in 2 us. 3,000 bytes at 0: 2,000 at once, 1,000 by 1 ms; 1,000 more by 3 ms.
        let steps = Steps::new(vec![0, 1_000_000], vec![8_000_000, 4_000_000], None).expect("they ascend");
        let schedule = Some(Schedule::Steps(Arc::new(steps)));
        let mut shaper = Shaper::default();
        shaper.change(0, Curve { rate: Rate::Bps(8_000_000), epoch_ns: 0, schedule }, 2_000);
        let left: Vec<u64> = (0..4).map(|_| send(&mut shaper, 0, 1_000) / 1_000).collect();
        assert_eq!(left, [0, 0, 1_000, 3_000]);
    }

    #[test]
    fn another_burst_begins_full_unless_a_packet_is_in_service() {
        let mut shaper = shaped(8_000_000, 0);
        assert_eq!(send(&mut shaper, 0, 1_000), 1_000_000);
        // Idle: full.
        assert_eq!(shaper.change(2_000_000, Curve::constant(Rate::Bps(8_000_000)), 1_500), None);
        assert_eq!([send(&mut shaper, 2_000_000, 1_000), send(&mut shaper, 2_000_000, 1_000)], [2_000_000, 2_500_000]);
        // In service: its end stays, and the bucket is empty then.
        assert_eq!(shaper.change(2_250_000, Curve::constant(Rate::Bps(8_000_000)), 9_000), Some(2_500_000));
        assert_eq!(send(&mut shaper, 2_250_000, 1_000), 3_500_000);
        assert_eq!(shaper.change(2_250_000, Curve::constant(Rate::Bps(8_000_000)), 0), Some(3_500_000));
        assert_eq!(send(&mut shaper, 2_250_000, 1_000), 4_500_000);
    }
}
