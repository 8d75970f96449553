// SPDX-License-Identifier: Apache-2.0
//! Numbers of equal intervals of time, counted from an origin.

/// Finds the interval of a time; one close to the last one costs no division.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    origin: u64,
    units: u64,
    /// The interval found last: its start and number.
    start: u64,
    number: i64,
}

impl Intervals {
    /// Intervals of `units` time units; number 0 starts at `origin`.
    pub fn new(origin: u64, units: u64) -> Self {
        Intervals { origin, units, start: origin, number: 0 }
    }

    /// Whether `time` lies in the interval found last.
    #[inline]
    pub fn is_current(&self, time: u64) -> bool {
        time.wrapping_sub(self.start) < self.units
    }

    /// Whether `time` lies behind the interval found last.
    #[inline]
    pub fn is_later(&self, time: u64) -> bool {
        time >= self.start && !self.is_current(time)
    }

    /// Number of the interval found last.
    #[inline]
    pub fn current(&self) -> i64 {
        self.number
    }

    /// Number of the interval of `time`, negative before the origin.
    #[inline]
    pub fn find(&mut self, time: u64) -> i64 {
        if !self.is_current(time) {
            self.move_to(time);
        }
        self.number
    }

    #[cold]
    fn move_to(&mut self, time: u64) {
        // Times are below 2^63: the clock has 48 bits and no source wraps it 32,768 times.
        let since = time as i64 - self.origin as i64;
        self.number = since.div_euclid(self.units as i64);
        self.start = self.origin.wrapping_add_signed(self.number * self.units as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_from_the_origin_in_both_directions() {
        let mut intervals = Intervals::new(1000, 10);
        for (time, number) in [(1000, 0), (1009, 0), (1010, 1), (999, -1), (990, -1), (989, -2), (1_000_000, 99_900)] {
            assert_eq!(intervals.find(time), number, "{time}");
            assert!(intervals.is_current(time) && !intervals.is_later(time));
        }
        assert!(intervals.is_later(1_000_010) && !intervals.is_later(5));
    }
}
