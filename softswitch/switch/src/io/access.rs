//! The access link of a port: what a host sends in one instant arrives spaced at the rate of its network interface, a little
//! later than it was sent, and never quite as much.
//!
//! Without that, packets come in step with those that leave the queue, and drops become deterministic: phase effects
//! (Floyd and Jacobson 1992: On traffic phase effects in packet-switched gateways; the cure is theirs).
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Random;

use crate::tm::ByteClock;

/// What is between a host and its port.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessSettings {
    /// Bit/s; 0 = frames arrive when they are sent.
    pub rate_bps: u64,
    /// The most that the host takes for a frame; drawn for each, from 0.
    pub jitter_ns: u64,
    /// Of what is drawn.
    pub seed: u64,
}

/// Frames that waited on their host because the link was busy with those before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub frames: u64,
    /// The longest that one of them waited.
    pub longest_ns: u64,
}

/// The link between a host and its port, with a queue on the host's side that has no limit. Nothing here costs time: arrivals
/// are worked out from when frames were sent.
#[derive(Debug)]
pub struct AccessLink {
    clock: ByteClock,
    jitter_ns: u64,
    random: Random,
    /// How long the host takes for the next frame.
    late_ns: u64,
    held: Held,
}

impl AccessLink {
    /// An idle link.
    pub fn new(settings: AccessSettings) -> Self {
        let clock = ByteClock::new(settings.rate_bps);
        let random = Random::new(settings.seed);
        let mut link = AccessLink { clock, jitter_ns: settings.jitter_ns, random, late_ns: 0, held: Held::default() };
        link.draw();
        link
    }

    fn draw(&mut self) {
        self.late_ns = self.random.uniform(0, self.jitter_ns).unwrap_or(0);
    }

    /// When the last bit of the next frame arrives, `length` bytes long and sent at `sent_ns`, behind those that were taken.
    #[inline]
    pub fn arrival_ns(&self, sent_ns: u64, length: u32) -> u64 {
        if self.clock.rate_bps() == 0 {
            return sent_ns;
        }
        let mut after = self.clock;
        after.start(sent_ns + self.late_ns, length);
        after.finish_ns()
    }

    /// The next frame, as described for [`AccessLink::arrival_ns`], was taken.
    #[inline]
    pub fn take(&mut self, sent_ns: u64, length: u32) {
        if self.clock.rate_bps() != 0 {
            let ready_ns = sent_ns + self.late_ns;
            let waited_ns = self.clock.start(ready_ns, length) - ready_ns;
            self.held.frames += u64::from(waited_ns > 0);
            self.held.longest_ns = self.held.longest_ns.max(waited_ns);
            self.draw();
        }
    }

    /// What has waited for the link so far.
    pub fn held(&self) -> Held {
        self.held
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

    fn link(rate_bps: u64, jitter_ns: u64) -> AccessLink {
        AccessLink::new(AccessSettings { rate_bps, jitter_ns, seed: 7 })
    }

    #[test]
    fn what_a_host_takes_is_drawn_for_each_frame_and_keeps_their_order() {
        let sent: Vec<u64> = (0..1_000).map(|n| n * 10_000).collect();
        let found = arrivals(&mut link(10_000_000_000, 2_000), &sent, 1_000);
        let late: Vec<u64> = found.iter().zip(&sent).map(|(arrival, sent)| arrival - sent - 800).collect();
        assert!(late.iter().all(|late| *late <= 2_000));
        let mean = late.iter().sum::<u64>() / 1_000;
        assert!((900..1_100).contains(&mean), "{mean}");
        assert_eq!(found, arrivals(&mut link(10_000_000_000, 2_000), &sent, 1_000));
        // More than there is room for between frames delays those behind.
        let crowded = arrivals(&mut link(10_000_000_000, 100_000), &sent, 1_000);
        assert!(crowded.windows(2).all(|pair| pair[1] >= pair[0] + 800));
    }

    #[test]
    fn a_burst_is_spaced_at_line_rate_without_drift() {
        // 1,500 bytes at 7 Gbit/s: 1714.2857 ns.
        let found = arrivals(&mut link(7_000_000_000, 0), &[1_000; 8], 1_500);
        assert_eq!(found, (1..=8).map(|n| 1_000 + n * 12_000 / 7).collect::<Vec<u64>>());
    }

    #[test]
    fn frames_with_room_between_them_are_late_by_their_own_length_only() {
        let found = arrivals(&mut link(1_000_000_000, 0), &[0, 8_000, 8_001, 50_000], 1_000);
        assert_eq!(found, [8_000, 16_000, 24_000, 58_000]);
    }

    #[test]
    fn frames_that_wait_for_the_link_are_counted() {
        let mut link = link(1_000_000_000, 0);
        // 8 us each: the third waits for 2 us, the fourth for 7 us.
        arrivals(&mut link, &[0, 8_000, 14_000, 17_000, 50_000], 1_000);
        assert_eq!(link.held(), Held { frames: 2, longest_ns: 7_000 });
    }

    #[test]
    fn without_a_rate_frames_arrive_when_they_are_sent_and_times_may_go_back() {
        assert_eq!(arrivals(&mut link(0, 5), &[5, 7, 3], 1_500), [5, 7, 3]);
    }

    #[test]
    fn looking_at_the_next_frame_changes_nothing() {
        let late = link(1_000_000_000, 3_000);
        assert_eq!(late.arrival_ns(0, 1_000), late.arrival_ns(0, 1_000));
        let mut link = link(1_000_000_000, 0);
        assert_eq!(link.arrival_ns(0, 1_000), link.arrival_ns(0, 1_000));
        link.take(0, 1_000);
        assert_eq!(link.arrival_ns(0, 1_000), 16_000);
    }
}
