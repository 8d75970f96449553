//! The byte clock of a constant rate: when packets start and finish on a link, without drift.
// SPDX-License-Identifier: Apache-2.0

/// Highest rate of a link, in bit/s; keeps every product below within 64 bits.
pub const MAX_RATE_BPS: u64 = 10_000_000_000_000;

/// Bit-nanoseconds per byte: `length * BIT_NS_PER_BYTE / rate` is the serialization time in nanoseconds.
pub(super) const BIT_NS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// Finish time of the last packet on the link as an exact fraction: `finish_ns + remainder / rate` nanoseconds.
///
/// The remainder is carried from packet to packet, so the n-th finish time of a busy period is exact for every n.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteClock {
    rate_bps: u64,
    finish_ns: u64,
    remainder: u64,
}

impl ByteClock {
    /// An idle link of this rate in bit/s, at most [`MAX_RATE_BPS`]; 0: nothing takes any time on it.
    pub fn new(rate_bps: u64) -> Self {
        Self::busy(rate_bps, 0, 0)
    }

    /// A link of this rate that becomes free at `finish_ns + remainder / rate_bps`.
    pub(super) fn busy(rate_bps: u64, finish_ns: u64, remainder: u64) -> Self {
        ByteClock { rate_bps, finish_ns, remainder }
    }

    /// Rate in bit/s; 0: nothing takes any time.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Whole nanoseconds of the time at which the link becomes free.
    #[inline]
    pub fn finish_ns(&self) -> u64 {
        self.finish_ns
    }

    /// What of the nanosecond after [`ByteClock::finish_ns`] is taken, in bit-nanoseconds per second; less than the rate.
    pub(super) fn remainder(&self) -> u64 {
        self.remainder
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
        let numerator = u64::from(length) * BIT_NS_PER_BYTE + self.remainder;
        if let Some(whole_ns) = numerator.checked_div(self.rate_bps) {
            self.finish_ns = start_ns.saturating_add(whole_ns);
            self.remainder = numerator % self.rate_bps;
        }
        start_ns
    }

    /// Keeps the link for so long from `start_ns` on, or from the previous finish, without any bytes.
    pub(super) fn occupy(&mut self, start_ns: u64, time_ns: u64) {
        self.start(start_ns, 0);
        self.finish_ns = self.finish_ns.saturating_add(time_ns);
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
            let mut clock = ByteClock::new(rate);
            let mut bytes = 0u128;
            for length in lengths {
                prop_assert_eq!(u128::from(clock.start(0, length)), bytes * u128::from(BIT_NS_PER_BYTE) / u128::from(rate));
                bytes += u128::from(length);
                prop_assert_eq!(u128::from(clock.finish_ns()), bytes * u128::from(BIT_NS_PER_BYTE) / u128::from(rate));
            }
        }
    }

    #[test]
    fn ten_million_packets_do_not_drift() {
        // Rates at which packets leave remainders, from bytes that take seconds to 400 Gbit/s.
        for rate in [3, 999_983, 9_999_999_967, 399_999_999_949] {
            let mut clock = ByteClock::new(rate);
            let mut bytes = 0u128;
            for packet in 0..10_000_000u32 {
                let length = if rate == 3 { 1 } else { [60, 1_514, 9_014][packet as usize % 3] };
                clock.start(0, length);
                bytes += u128::from(length);
            }
            assert_eq!(
                u128::from(clock.finish_ns()),
                bytes * u128::from(BIT_NS_PER_BYTE) / u128::from(rate),
                "rate {rate}"
            );
        }
    }

    #[test]
    fn idle_link_starts_at_once() {
        let mut clock = ByteClock::new(8_000_000_000);
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
