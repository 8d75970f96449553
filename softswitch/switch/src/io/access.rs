//! The access link of a port: what a host sends in one instant arrives spaced at the rate of its network interface.
// SPDX-License-Identifier: Apache-2.0
use crate::tm::ByteClock;

/// The link between a host and its port, with a queue on the host's side that has no limit. Nothing here costs time: arrivals
/// are worked out from when frames were sent.
#[derive(Debug, Default)]
pub struct AccessLink {
    clock: ByteClock,
}

impl AccessLink {
    /// A link of this rate in bit/s; 0 = frames arrive when they are sent.
    pub fn new(rate_bps: u64) -> Self {
        let mut clock = ByteClock::default();
        clock.set_rate(rate_bps);
        AccessLink { clock }
    }

    /// When the last bit of the next frame arrives, `length` bytes long and sent at `sent_ns`, behind those that were taken.
    #[inline]
    pub fn arrival_ns(&self, sent_ns: u64, length: u32) -> u64 {
        if self.clock.rate_bps() == 0 {
            return sent_ns;
        }
        let mut after = self.clock;
        after.start(sent_ns, length);
        after.finish_ns()
    }

    /// The next frame, as described for [`AccessLink::arrival_ns`], was taken.
    #[inline]
    pub fn take(&mut self, sent_ns: u64, length: u32) {
        if self.clock.rate_bps() != 0 {
            self.clock.start(sent_ns, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals of frames of `length` bytes, each sent at its time.
    fn arrivals(link: &mut AccessLink, sent: &[u64], length: u32) -> Vec<u64> {
        let take = |sent_ns: &u64| {
            let arrival = link.arrival_ns(*sent_ns, length);
            link.take(*sent_ns, length);
            arrival
        };
        sent.iter().map(take).collect()
    }

    #[test]
    fn a_burst_is_spaced_at_line_rate_without_drift() {
        // 1,500 bytes at 7 Gbit/s: 1714.2857 ns.
        let found = arrivals(&mut AccessLink::new(7_000_000_000), &[1_000; 8], 1_500);
        assert_eq!(found, (1..=8).map(|n| 1_000 + n * 12_000 / 7).collect::<Vec<u64>>());
    }

    #[test]
    fn frames_with_room_between_them_are_late_by_their_own_length_only() {
        let found = arrivals(&mut AccessLink::new(1_000_000_000), &[0, 8_000, 8_001, 50_000], 1_000);
        assert_eq!(found, [8_000, 16_000, 24_000, 58_000]);
    }

    #[test]
    fn without_a_rate_frames_arrive_when_they_are_sent_and_times_may_go_back() {
        assert_eq!(arrivals(&mut AccessLink::default(), &[5, 7, 3], 1_500), [5, 7, 3]);
    }

    #[test]
    fn looking_at_the_next_frame_changes_nothing() {
        let mut link = AccessLink::new(1_000_000_000);
        assert_eq!(link.arrival_ns(0, 1_000), link.arrival_ns(0, 1_000));
        link.take(0, 1_000);
        assert_eq!(link.arrival_ns(0, 1_000), 16_000);
    }
}
