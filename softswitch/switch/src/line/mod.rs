//! What a link does to packets behind its queue: it delays, reorders and doubles them. A model sees packets in order,
//! and times; it has random numbers of its own, by its seed. What is lost before the queue is the P4 program's.
// SPDX-License-Identifier: Apache-2.0
mod delay;

pub use delay::{Delay, DelaySteps, Jitter, Variation};

use narrows_pipeline::Random;

/// A probability in units of 2^-64; `None`: always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chance(Option<u64>);

impl Chance {
    /// Errors: not a probability.
    fn new(name: &str, probability: f64) -> Result<Self, String> {
        match probability {
            1.0 => Ok(Chance(None)),
            // Exact: a scaling by a power of two, and below 2^64.
            0.0..1.0 => Ok(Chance(Some((probability * 2f64.powi(64)) as u64))),
            _ => Err(format!("{name} {probability}: allowed are 0 to 1")),
        }
    }

    fn probability(self) -> f64 {
        // Exact, as `new` is.
        self.0.map_or(1.0, |limit| limit as f64 / 2f64.powi(64))
    }

    #[inline]
    fn comes(self, random: &mut Random) -> bool {
        self.0.is_none_or(|limit| random.next_u64() < limit)
    }
}

/// A number between 0 and 1, neither included.
fn unit(random: &mut Random) -> f64 {
    ((random.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}
