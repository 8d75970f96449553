// SPDX-License-Identifier: Apache-2.0
//! The program's random numbers: seeded, fast, not for secrets.

/// A 64-bit counter through a mixing function (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number from `low` to `high`, both included; `None` if that is empty.
    pub fn uniform(&mut self, low: u64, high: u64) -> Option<u64> {
        let count = high.checked_sub(low)?.wrapping_add(1);
        let number = self.next_u64();
        // Scaling by a multiplication is biased by less than count / 2^64.
        let offset = if count == 0 { number } else { ((u128::from(number) * u128::from(count)) >> 64) as u64 };
        Some(low.wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_range_and_reaches_both_ends() {
        let mut random = Random::new(1);
        let mut seen = [0; 6];
        for _ in 0..6000 {
            seen[(random.uniform(10, 15).unwrap_or(0) - 10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert_eq!(random.uniform(3, 2), None);
        assert_eq!(random.uniform(7, 7), Some(7));
        assert!(random.uniform(0, u64::MAX).is_some());
    }

    #[test]
    fn same_seed_same_numbers() {
        let (mut a, mut b, mut c) = (Random::new(5), Random::new(5), Random::new(6));
        let draw = |r: &mut Random| r.uniform(0, u64::MAX);
        assert_eq!(draw(&mut a), draw(&mut b));
        assert_ne!(draw(&mut a), draw(&mut c));
    }
}
