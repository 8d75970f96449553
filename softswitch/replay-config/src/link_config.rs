//! The parts of a replay's configuration that say how a link varies.
// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;

use serde::Deserialize;

/// A rate: bit/s, or the word `unlimited`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub enum RateConfig {
    /// Bit/s; 0: nothing passes.
    Bps(u64),
    /// A word.
    Word(Word),
}

/// Words for a rate.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Nothing takes any time.
    Unlimited,
}

/// A rate or a delay in steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsConfig {
    /// Pairs: when a step starts, in nanoseconds from the epoch, and what it is (bit/s or nanoseconds).
    pub steps: Vec<(u64, u64)>,
    /// The steps begin again after this time.
    pub period_ns: Option<u64>,
    /// When they begin; as soon as they are set, if it is left out.
    pub epoch_ns: Option<u64>,
}

/// Delivery opportunities of a Mahimahi trace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MahimahiConfig {
    /// A line each, in whole milliseconds; relative to the configuration file.
    pub file: PathBuf,
    /// Begins again at the last one.
    #[serde(default = "yes")]
    pub r#loop: bool,
    /// When it begins; as soon as it is set, if it is left out.
    pub epoch_ns: Option<u64>,
}

fn yes() -> bool {
    true
}

/// What differs from packet to packet in a delay line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariationConfig {
    /// What is added to each packet's delay.
    pub jitter: Option<JitterConfig>,
    /// Packets may overtake each other.
    #[serde(default)]
    pub reorder: bool,
    /// Probability that a packet leaves twice.
    #[serde(default)]
    pub duplicate: f64,
    /// Of what is drawn.
    #[serde(default)]
    pub seed: u64,
}

/// A distribution of delays, in nanoseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterConfig {
    /// Between plus and minus this.
    UniformNs(u64),
    /// Of this standard deviation.
    NormalNs(u64),
    /// Of the second kind.
    Pareto {
        /// In nanoseconds.
        scale_ns: u64,
        /// The larger, the rarer are long ones.
        shape: f64,
    },
    /// One of them.
    Samples(Vec<i64>),
}
