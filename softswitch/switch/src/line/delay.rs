//! A delay that varies: steps over time, and jitter from packet to packet.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_pipeline::Random;

use super::{unit, Chance};
use crate::timeline::Timeline;
use crate::tm::{MAX_DELAY_NS, NEVER};

/// Samples that one table has at most.
const MAX_SAMPLES: usize = 4_000_000;

/// A delay that changes in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelaySteps {
    timeline: Timeline,
    delays: Vec<u64>,
    /// The most that each packet's delay differs by, of each step; empty: they do not.
    jitters: Vec<u64>,
    /// What passes in a period leaves together, at its end.
    gathers: bool,
}

impl DelaySteps {
    /// Steps of `delays` nanoseconds that begin at `starts`, offsets in nanoseconds from the schedule's epoch.
    ///
    /// Errors: as [`Timeline::new`]; a delay is too long, or not one for each start.
    pub fn new(starts: Vec<u64>, delays: Vec<u64>, period_ns: Option<u64>) -> Result<Self, String> {
        if starts.len() != delays.len() {
            return Err(format!("{} starts and {} delays: allowed is one for each start", starts.len(), delays.len()));
        }
        if let Some((step, delay)) = delays.iter().enumerate().find(|(_, delay)| **delay > MAX_DELAY_NS) {
            return Err(format!("step {step}: delay_ns {delay}: allowed are 0 to {MAX_DELAY_NS}"));
        }
        Ok(DelaySteps { timeline: Timeline::new(starts, period_ns)?, delays, jitters: Vec::new(), gathers: false })
    }

    /// The same, but in each step packets are delayed by up to so many nanoseconds more or less, uniformly.
    ///
    /// Errors: a jitter is longer than its delay, or not one for each step.
    pub fn jittering(self, jitters: Vec<u64>) -> Result<Self, String> {
        if jitters.len() != self.delays.len() {
            return Err(format!("{} delays and {} jitters: allowed is one for each", self.delays.len(), jitters.len()));
        }
        match jitters.iter().zip(&self.delays).position(|(jitter, delay)| jitter > delay) {
            Some(step) => Err(format!("step {step}: jitter_ns {}: allowed are 0 to its delay", jitters[step])),
            None => Ok(DelaySteps { jitters, ..self }),
        }
    }

    /// Whether packets differ within a step.
    pub fn jitters(&self) -> bool {
        !self.jitters.is_empty()
    }

    /// The same, but what passes in a period begins its delay together, at the period's end: a link that hands packets over in bursts
    /// (the intervals of a cellular or a cable link). What passes at that very instant is part of it.
    ///
    /// Errors: there is no period.
    pub fn gathering(self) -> Result<Self, String> {
        match self.timeline.period_ns() {
            Some(_) => Ok(DelaySteps { gathers: true, ..self }),
            None => Err("gathers: needs a period_ns".into()),
        }
    }

    /// Whether what passes in a period leaves together.
    pub fn gathers(&self) -> bool {
        self.gathers
    }

    /// Of a packet that has passed at this offset from the epoch: the offset at which its delay begins, and the delay, of which
    /// `drawn` is what [`Delay::jitter_ns`] has drawn for it.
    fn at(&self, offset_ns: u64, drawn: i64) -> (u64, u64) {
        let place = self.timeline.place(offset_ns);
        let waits_ns = match self.timeline.period_ns() {
            Some(period_ns) if self.gathers && place.within_ns > 0 => period_ns - place.within_ns,
            _ => 0,
        };
        let most_ns = self.jitters.get(place.step).copied().unwrap_or(0);
        // From 0 to twice the most, each as likely but for 2^-32.
        let above_least = ((u128::from(2 * most_ns + 1) * u128::from(drawn as u32)) >> 32) as u64;
        (offset_ns.saturating_add(waits_ns), self.delays[place.step] - most_ns + above_least)
    }

    /// Steps.
    pub fn entries(&self) -> usize {
        self.timeline.steps()
    }

    /// After which they begin again.
    pub fn period_ns(&self) -> Option<u64> {
        self.timeline.period_ns()
    }
}

/// What is added to a packet's delay, or taken from it: drawn for each packet, independently of the others.
#[derive(Debug, Clone, PartialEq)]
pub enum Jitter {
    /// Nothing.
    None,
    /// Uniform between minus and plus this many nanoseconds.
    Uniform {
        /// The most.
        most_ns: u64,
    },
    /// Normal, of mean 0.
    Normal {
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// Pareto's of the second kind (Lomax): more than x with probability `(1 + x / scale)^-shape`, never negative.
    Pareto {
        /// In nanoseconds.
        scale_ns: u64,
        /// The larger, the rarer are long ones; the mean is `scale / (shape - 1)`, if shape is above 1.
        shape: f64,
    },
    /// One of these samples in nanoseconds, each as likely as any other.
    Samples(Arc<[i64]>),
}

impl Jitter {
    /// Errors: names what is out of range.
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64| match value <= MAX_DELAY_NS {
            true => Ok(()),
            false => Err(format!("{name} {value}: allowed are 0 to {MAX_DELAY_NS}")),
        };
        match self {
            Jitter::None => Ok(()),
            Jitter::Uniform { most_ns } => within("jitter.uniform_ns", *most_ns),
            Jitter::Normal { deviation_ns } => within("jitter.normal_ns", *deviation_ns),
            Jitter::Pareto { scale_ns, shape } => {
                within("jitter.pareto.scale_ns", *scale_ns)?;
                match shape.is_finite() && *shape > 0.0 {
                    true => Ok(()),
                    false => Err(format!("jitter.pareto.shape {shape}: it must be above 0")),
                }
            }
            Jitter::Samples(samples) => {
                if samples.is_empty() || samples.len() > MAX_SAMPLES {
                    return Err(format!("jitter.samples: {} of them: allowed are 1 to {MAX_SAMPLES}", samples.len()));
                }
                samples.iter().try_for_each(|sample| within("jitter.samples: absolute value", sample.unsigned_abs()))
            }
        }
    }

    fn draw(&self, random: &mut Random) -> i64 {
        match self {
            Jitter::None => 0,
            Jitter::Uniform { most_ns } => random.uniform(0, 2 * most_ns).unwrap_or(0) as i64 - *most_ns as i64,
            Jitter::Normal { deviation_ns } => {
                // Box and Muller 1958; the second number is not kept, so that a packet's draws are a matter of its own.
                let (radius, angle) = ((-2.0 * unit(random).ln()).sqrt(), std::f64::consts::TAU * unit(random));
                (*deviation_ns as f64 * radius * angle.cos()).round() as i64
            }
            // A float that is too large becomes the largest integer.
            Jitter::Pareto { scale_ns, shape } => {
                (*scale_ns as f64 * (unit(random).powf(-1.0 / shape) - 1.0)).round() as i64
            }
            Jitter::Samples(samples) => samples[random.uniform(0, samples.len() as u64 - 1).unwrap_or(0) as usize],
        }
    }
}

/// What differs from packet to packet in a delay line.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    jitter: Jitter,
    reorder: bool,
    duplicate: Chance,
    seed: u64,
}

impl Variation {
    /// Packets are delayed by more or less, by `jitter`; they may overtake each other (`reorder`), or each leaves with or after the
    /// one before it; and with a probability of `duplicate` a packet leaves twice. Errors: name what is out of range.
    pub fn new(jitter: Jitter, reorder: bool, duplicate: f64, seed: u64) -> Result<Self, String> {
        jitter.check()?;
        Ok(Variation { jitter, reorder, duplicate: Chance::new("duplicate", duplicate)?, seed })
    }

    /// Whether packets differ.
    pub fn varies(&self) -> bool {
        self.jitter != Jitter::None || self.reorder || self.duplicate != Chance(Some(0))
    }

    /// What is drawn for each packet.
    pub fn jitter(&self) -> &Jitter {
        &self.jitter
    }

    /// Whether packets may overtake each other.
    pub fn reorder(&self) -> bool {
        self.reorder
    }

    /// Probability that a packet leaves twice.
    pub fn duplicate(&self) -> f64 {
        self.duplicate.probability()
    }

    /// Of all that is drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// How a link delays packets: the delay that holds when a packet's last bit has passed, and jitter; at least 0 and at most
/// [`MAX_DELAY_NS`] together.
#[derive(Debug)]
pub struct Delay {
    /// Holds until the epoch.
    pub delay_ns: u64,
    /// What follows.
    pub steps: Option<Arc<DelaySteps>>,
    /// When the steps begin, in switch time; [`NEVER`]: that has not been said yet.
    pub epoch_ns: u64,
    variation: Variation,
    random: Random,
}

impl Default for Delay {
    fn default() -> Self {
        let variation = Variation { jitter: Jitter::None, reorder: false, duplicate: Chance(Some(0)), seed: 0 };
        Delay { delay_ns: 0, steps: None, epoch_ns: NEVER, variation, random: Random::new(0) }
    }
}

impl Delay {
    /// Has packets differ from now on.
    pub fn vary(&mut self, variation: Variation) {
        self.random = Random::new(variation.seed);
        self.variation = variation;
    }

    /// Whether packets have other delays than `delay_ns`, may overtake or leave twice.
    pub fn varies(&self) -> bool {
        self.steps.is_some() || self.variation.varies()
    }

    /// What differs from packet to packet.
    pub fn variation(&self) -> &Variation {
        &self.variation
    }

    /// Whether packets may overtake each other.
    pub fn reorders(&self) -> bool {
        self.variation.reorder
    }

    /// What the next packet's delay differs by; where steps have a jitter of their own, a part of their range, of 2^32.
    pub fn jitter_ns(&mut self) -> i64 {
        match &self.steps {
            Some(steps) if steps.jitters() => self.random.uniform(0, u64::from(u32::MAX)).unwrap_or(0) as i64,
            _ => self.variation.jitter.draw(&mut self.random),
        }
    }

    /// When a packet leaves whose last bit has passed at `finish_ns`.
    pub fn exit_ns(&self, finish_ns: u64, jitter_ns: i64) -> u64 {
        let drawn = jitter_ns;
        let own = self.steps.as_ref().is_some_and(|steps| steps.jitters());
        let jitter_ns = if own { 0 } else { jitter_ns };
        let steps = self.steps.as_ref().filter(|_| finish_ns >= self.epoch_ns);
        let (begins_ns, delay_ns) = steps.map_or((finish_ns, self.delay_ns), |steps| {
            let (offset_ns, delay_ns) = steps.at(finish_ns - self.epoch_ns, drawn);
            (self.epoch_ns.saturating_add(offset_ns), delay_ns)
        });
        begins_ns.saturating_add(delay_ns.saturating_add_signed(jitter_ns).min(MAX_DELAY_NS))
    }

    /// Whether the next packet leaves twice.
    pub fn doubles(&mut self) -> bool {
        self.variation.duplicate.comes(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Kolmogorov and Smirnov's statistic of many draws against a distribution function, times the root of their number.
    fn distance(jitter: &Jitter, distribution: impl Fn(f64) -> f64) -> f64 {
        jitter.check().expect("in range");
        let mut random = Random::new(11);
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| jitter.draw(&mut random) as f64).collect();
        drawn.sort_unstable_by(f64::total_cmp);
        let steps = drawn.iter().enumerate().map(|(rank, value)| {
            let (below, above) = (rank as f64 / DRAWS as f64, (rank + 1) as f64 / DRAWS as f64);
            (distribution(*value) - below).abs().max((above - distribution(*value)).abs())
        });
        steps.fold(0.0, f64::max) * (DRAWS as f64).sqrt()
    }

    /// The normal distribution's integral, by Simpson's rule.
    fn normal(x: f64) -> f64 {
        let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let parts = 200;
        let width = x / f64::from(2 * parts);
        let inner: f64 =
            (1..2 * parts).map(|n| if n % 2 == 1 { 4.0 } else { 2.0 } * density(f64::from(n) * width)).sum();
        0.5 + width / 3.0 * (density(0.0) + inner + density(x))
    }

    #[test]
    fn jitter_has_the_distribution_that_was_asked_for() {
        // Exceeded by one in a thousand of all series of draws; the seed is always the same.
        const MOST: f64 = 1.95;
        let most_ns = 3_000_000;
        let uniform = |x: f64| ((x + 3e6) / 6e6).clamp(0.0, 1.0);
        assert!(distance(&Jitter::Uniform { most_ns }, uniform) < MOST);
        let deviation_ns = 2_000_000;
        assert!(distance(&Jitter::Normal { deviation_ns }, |x| normal(x / 2e6)) < MOST);
        for shape in [1.5, 3.0] {
            let pareto = |x: f64| 1.0 - (1.0 + x / 1e6).powf(-shape);
            assert!(distance(&Jitter::Pareto { scale_ns: 1_000_000, shape }, pareto) < MOST);
        }
        // It distinguishes one from another.
        assert!(distance(&Jitter::Normal { deviation_ns }, uniform) > 10.0);
    }

    #[test]
    fn samples_are_drawn_as_often_as_each_other() {
        let samples = Jitter::Samples(Arc::from([-5, 0, 0, 700]));
        let mut random = Random::new(3);
        let drawn: Vec<i64> = (0..DRAWS).map(|_| samples.draw(&mut random)).collect();
        for (value, share) in [(-5, 0.25), (0, 0.5), (700, 0.25)] {
            let found = drawn.iter().filter(|drawn| **drawn == value).count() as f64 / DRAWS as f64;
            assert!((found - share).abs() < 0.005, "{value}: {found}");
        }
    }

    #[test]
    fn steps_hold_from_their_start_and_jitter_never_makes_a_delay_negative() {
        let steps = DelaySteps::new(vec![0, 100], vec![50, 7], Some(200)).expect("in range");
        let mut delay = Delay { delay_ns: 3, steps: Some(Arc::new(steps)), epoch_ns: 1_000, ..Delay::default() };
        let exits = |delay: &Delay| [999, 1_000, 1_099, 1_100, 1_200].map(|finish| delay.exit_ns(finish, 0));
        assert_eq!(exits(&delay), [1_002, 1_050, 1_149, 1_107, 1_250]);
        assert_eq!(delay.exit_ns(1_000, -80), 1_000);
        assert_eq!(delay.exit_ns(1_000, i64::MAX), 1_000 + MAX_DELAY_NS);
        delay.epoch_ns = NEVER;
        assert_eq!(exits(&delay), [1_002, 1_003, 1_102, 1_103, 1_203]);
    }

    #[test]
    fn what_passes_in_a_period_leaves_together_at_its_end() {
        let steps = DelaySteps::new(vec![0], vec![50], Some(200)).and_then(DelaySteps::gathering).expect("in range");
        let delay = Delay { delay_ns: 3, steps: Some(Arc::new(steps)), epoch_ns: 1_000, ..Delay::default() };
        let exits = [999, 1_000, 1_001, 1_199, 1_200, 1_201].map(|finish| delay.exit_ns(finish, 0));
        assert_eq!(exits, [1_002, 1_050, 1_250, 1_250, 1_250, 1_450]);
    }

    #[test]
    fn steps_have_jitters_of_their_own() {
        let steps = DelaySteps::new(vec![0, 1_000], vec![500, 70], None).expect("in range");
        let steps = steps.jittering(vec![3, 0]).expect("in range");
        let mut delay = Delay { delay_ns: 9, steps: Some(Arc::new(steps)), epoch_ns: 100, ..Delay::default() };
        // All of the range, each as often: 7 values.
        let mut found = [0usize; 7];
        for _ in 0..DRAWS {
            let drawn = delay.jitter_ns();
            found[(delay.exit_ns(100, drawn) - 597) as usize] += 1;
            // Before the epoch, and where the jitter is 0.
            assert_eq!((delay.exit_ns(99, drawn), delay.exit_ns(1_100, drawn)), (108, 1_170));
        }
        let expected = DRAWS as f64 / 7.0;
        let chi_squared: f64 = found.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
        // Exceeded by one in a thousand of all series of draws, of 6 degrees of freedom.
        assert!(chi_squared < 22.5, "{found:?}");
        let steps = |jitters| DelaySteps::new(vec![0], vec![5], None).and_then(|steps| steps.jittering(jitters));
        assert!(steps(vec![6]).expect_err("below 0").starts_with("step 0: jitter_ns 6"));
        assert!(steps(vec![]).expect_err("none").starts_with("1 delays and 0 jitters"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |jitter| Variation::new(jitter, false, 0.0, 1).expect_err("wrong");
        assert!(wrong(Jitter::Uniform { most_ns: u64::MAX }).starts_with("jitter.uniform_ns"));
        assert!(wrong(Jitter::Pareto { scale_ns: 1, shape: 0.0 }).starts_with("jitter.pareto.shape 0"));
        assert!(wrong(Jitter::Samples(Arc::from([]))).starts_with("jitter.samples: 0"));
        assert!(Variation::new(Jitter::None, false, 2.0, 1).expect_err("above 1").starts_with("duplicate 2"));
        assert!(DelaySteps::new(vec![0], vec![MAX_DELAY_NS + 1], None).expect_err("long").contains("step 0"));
        let endless = DelaySteps::new(vec![0], vec![1], None).expect("in range");
        assert!(endless.gathering().expect_err("without a period").starts_with("gathers"));
    }
}
