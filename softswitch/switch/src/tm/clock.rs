//! The byte clock of a shaper: when packets start and finish on a link of a given rate, without drift.
// SPDX-License-Identifier: Apache-2.0

/// Highest rate a queue can be given, in bit/s; keeps every product below within 64 bits.
pub const MAX_RATE_BPS: u64 = 10_000_000_000_000;

/// Bit-nanoseconds per byte: `length * BYTE / rate` is the serialization time in nanoseconds.
const BYTE: u64 = 8 * 1_000_000_000;

/// Finish time of the last packet on the link as an exact fraction: `finish_ns + remainder / rate` nanoseconds.
///
/// The remainder is carried from packet to packet, so the n-th finish time of a busy period is exact for every n; only a
/// change of rate rounds it, down, by less than 1 ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteClock {
    rate_bps: u64,
    finish_ns: u64,
    remainder: u64,
}

impl ByteClock {
    /// Rate in bit/s; 0 means unlimited.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Whole nanoseconds of the time at which the link becomes free.
    #[inline]
    pub fn finish_ns(&self) -> u64 {
        self.finish_ns
    }

    /// Changes the rate (0 = unlimited, at most [`MAX_RATE_BPS`]). What was started keeps its finish time.
    pub fn set_rate(&mut self, rate_bps: u64) {
        self.remainder = match self.rate_bps {
            0 => 0,
            // The quotient is below the new rate because the remainder is below the old one.
            old => (u128::from(self.remainder) * u128::from(rate_bps) / u128::from(old)) as u64,
        };
        self.rate_bps = rate_bps;
    }

    /// Starts a packet of `length` bytes that arrived at `arrival_ns`: `start = max(arrival, previous finish)`.
    /// Returns the whole nanoseconds of its start; [`ByteClock::finish_ns`] is then its finish.
    #[inline]
    pub fn start(&mut self, arrival_ns: u64, length: u32) -> u64 {
        if arrival_ns > self.finish_ns {
            self.finish_ns = arrival_ns;
            self.remainder = 0;
        }
        let start_ns = self.finish_ns;
        let numerator = u64::from(length) * BYTE + self.remainder;
        if let Some(whole_ns) = numerator.checked_div(self.rate_bps) {
            self.finish_ns += whole_ns;
            self.remainder = numerator % self.rate_bps;
        }
        start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A busy period of n packets ends at the floor of the exact total, however the bytes are split into packets.
        #[test]
        fn finish_is_the_exact_sum(rate in 1_000u64..=MAX_RATE_BPS, lengths in prop::collection::vec(1u32..=9_234, 1..300)) {
            let mut clock = ByteClock::default();
            clock.set_rate(rate);
            let mut bytes = 0u128;
            for length in lengths {
                prop_assert_eq!(u128::from(clock.start(0, length)), bytes * u128::from(BYTE) / u128::from(rate));
                bytes += u128::from(length);
                prop_assert_eq!(u128::from(clock.finish_ns()), bytes * u128::from(BYTE) / u128::from(rate));
            }
        }

        /// A change of rate moves the finish time of what was started by less than a nanosecond.
        #[test]
        fn change_of_rate_keeps_finish(old in 1_000u64..=MAX_RATE_BPS, new in 0u64..=MAX_RATE_BPS, length in 1u32..9_234) {
            let mut clock = ByteClock::default();
            clock.set_rate(old);
            clock.start(7, length);
            let finish = clock.finish_ns();
            clock.set_rate(new);
            prop_assert_eq!(clock.finish_ns(), finish);
            prop_assert_eq!(clock.start(0, 1), finish);
        }
    }

    #[test]
    fn ten_million_packets_do_not_drift() {
        // Rates at which packets leave remainders, from bytes that take seconds to 400 Gbit/s.
        for rate in [3, 999_983, 9_999_999_967, 399_999_999_949] {
            let mut clock = ByteClock::default();
            clock.set_rate(rate);
            let mut bytes = 0u128;
            for packet in 0..10_000_000u32 {
                let length = if rate == 3 { 1 } else { [60, 1_514, 9_014][packet as usize % 3] };
                clock.start(0, length);
                bytes += u128::from(length);
            }
            assert_eq!(u128::from(clock.finish_ns()), bytes * u128::from(BYTE) / u128::from(rate), "rate {rate}");
        }
    }

    #[test]
    fn idle_link_starts_at_once() {
        let mut clock = ByteClock::default();
        clock.set_rate(8_000_000_000);
        assert_eq!(clock.start(100, 50), 100);
        assert_eq!(clock.finish_ns(), 150);
        assert_eq!(clock.start(120, 10), 150);
        assert_eq!(clock.start(1_000, 10), 1_000);
    }

    #[test]
    fn unlimited_link_takes_no_time() {
        let mut clock = ByteClock::default();
        assert_eq!(clock.start(5, 9_000), 5);
        assert_eq!(clock.finish_ns(), 5);
    }
}
