//! Loss in bursts: Gilbert and Elliott's two states, or a pattern that was recorded somewhere.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Random;

use super::Chance;

/// Why a link lost a packet before its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// By [`GilbertElliott`].
    GilbertElliott,
    /// By a [`LossPattern`].
    Pattern,
}

impl LossCause {
    /// All of them; each one's position here is its number.
    pub const ALL: [LossCause; 2] = [LossCause::GilbertElliott, LossCause::Pattern];
}

/// Two states, good and bad, which move with every packet (Gilbert 1960, Elliott 1963; the parameters' names are those of
/// Hasslinger and Hohlfeld 2008 and of netem's `loss gemodel`).
///
/// A packet is judged by the state that it finds; then the state moves. The first packet finds the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// From good to bad.
    p: Chance,
    /// From bad to good.
    r: Chance,
    /// A packet passes in the bad state.
    h: Chance,
    /// A packet passes in the good state.
    k: Chance,
}

impl GilbertElliott {
    /// Probabilities: `p` that the good state turns bad and `r` that the bad one turns good after a packet, `h` that a packet
    /// passes in the bad state and `k` that it does in the good one. Errors: not a probability.
    pub fn new(p: f64, r: f64, h: f64, k: f64) -> Result<Self, String> {
        let (p, r) = (Chance::new("p", p)?, Chance::new("r", r)?);
        Ok(GilbertElliott { p, r, h: Chance::new("h", h)?, k: Chance::new("k", k)? })
    }
}

/// Which packets are lost, by their position among all that arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossPattern {
    /// So many pass, so many are lost, so many pass, and so on.
    runs: Vec<u64>,
    /// It begins again at its end; else everything passes then.
    looped: bool,
}

impl LossPattern {
    /// Numbers of packets that pass and that are lost, in turn. Errors: of nothing, or too long.
    pub fn new(runs: Vec<u64>, looped: bool) -> Result<Self, String> {
        if runs.len() > crate::timeline::MAX_STEPS {
            return Err(format!("{} runs: allowed are 1 to {}", runs.len(), crate::timeline::MAX_STEPS));
        }
        if runs.iter().all(|run| *run == 0) {
            return Err("the runs of a loss pattern are of no packet: allowed is at least one of 1 or more".into());
        }
        if let Some(run) = runs.iter().skip(1).position(|run| *run == 0) {
            return Err(format!("run {} of a loss pattern is of no packet: allowed is that for run 0 only", run + 1));
        }
        Ok(LossPattern { runs, looped })
    }
}

/// How a link loses packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossModel {
    /// In bursts, by chance.
    GilbertElliott(GilbertElliott),
    /// As recorded.
    Pattern(LossPattern),
}

impl LossModel {
    /// What a loss by this model is counted as.
    pub fn cause(&self) -> LossCause {
        match self {
            LossModel::GilbertElliott(_) => LossCause::GilbertElliott,
            LossModel::Pattern(_) => LossCause::Pattern,
        }
    }
}

/// A model at work.
#[derive(Debug)]
pub struct Loss {
    model: LossModel,
    random: Random,
    bad: bool,
    /// Position in the pattern, and packets of that run that have come.
    run: usize,
    seen: u64,
}

impl Loss {
    /// A model that begins now.
    pub fn new(model: LossModel, seed: u64) -> Self {
        Loss { model, random: Random::new(seed), bad: false, run: 0, seen: 0 }
    }

    /// What is at work.
    pub fn model(&self) -> &LossModel {
        &self.model
    }

    /// Whether the next packet is lost.
    pub fn takes_next(&mut self) -> bool {
        match &self.model {
            LossModel::GilbertElliott(states) => {
                let (pass, leave) = if self.bad { (states.h, states.r) } else { (states.k, states.p) };
                let lost = !pass.comes(&mut self.random);
                self.bad ^= leave.comes(&mut self.random);
                lost
            }
            LossModel::Pattern(LossPattern { runs, looped }) => {
                // Only the first run may be empty, and not alone: this ends after two steps.
                while self.run < runs.len() && self.seen == runs[self.run] {
                    self.seen = 0;
                    self.run += 1;
                    if self.run == runs.len() && *looped {
                        self.run = 0;
                    }
                }
                self.seen += u64::from(self.run < runs.len());
                // Of an odd number of runs the second round begins with one that passes, too.
                self.run % 2 == 1 && self.run < runs.len()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost packets, and runs of them, of ten million.
    fn measured(model: GilbertElliott) -> (f64, f64) {
        const PACKETS: u32 = 10_000_000;
        let mut loss = Loss::new(LossModel::GilbertElliott(model), 7);
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        for _ in 0..PACKETS {
            let now = loss.takes_next();
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        (f64::from(lost) / f64::from(PACKETS), f64::from(lost) / f64::from(bursts))
    }

    /// Loss rate and mean burst, from the chain's stationary distribution: a burst begins where a lost packet follows one
    /// that passed, so its mean length is P(lost) / (P(lost) - P(lost twice)).
    fn theory(p: f64, r: f64, h: f64, k: f64) -> (f64, f64) {
        let (good, bad) = (r / (p + r), p / (p + r));
        let (lost_good, lost_bad) = (1.0 - k, 1.0 - h);
        let once = good * lost_good + bad * lost_bad;
        let after_good = (1.0 - p) * lost_good + p * lost_bad;
        let after_bad = r * lost_good + (1.0 - r) * lost_bad;
        let twice = good * lost_good * after_good + bad * lost_bad * after_bad;
        (once, once / (once - twice))
    }

    #[test]
    fn loss_rate_and_mean_burst_are_those_of_the_chain() {
        // Gilbert's (h = 0, k = 1), for which theory says 1 / r; Elliott's; and one without memory.
        assert!((theory(0.01, 0.25, 0.0, 1.0).1 - 4.0).abs() < 1e-12);
        for (p, r, h, k) in
            [(0.01, 0.25, 0.0, 1.0), (0.02, 0.1, 0.3, 0.999), (0.4, 0.6, 0.0, 1.0), (0.001, 0.05, 0.2, 1.0)]
        {
            let model = GilbertElliott::new(p, r, h, k).expect("probabilities");
            let (found, expected) = (measured(model), theory(p, r, h, k));
            assert!((found.0 / expected.0 - 1.0).abs() < 0.01, "loss {} for {}", found.0, expected.0);
            assert!((found.1 / expected.1 - 1.0).abs() < 0.01, "burst {} for {}", found.1, expected.1);
        }
    }

    #[test]
    fn a_packet_is_judged_before_the_state_moves() {
        // The state changes with every packet, and the first one finds the good one.
        let model = GilbertElliott::new(1.0, 1.0, 0.0, 1.0).expect("probabilities");
        let mut loss = Loss::new(LossModel::GilbertElliott(model), 1);
        assert_eq!([(); 6].map(|()| loss.takes_next()), [false, true, false, true, false, true]);
    }

    #[test]
    fn a_pattern_is_followed_to_the_packet() {
        let lost = |runs: &[u64], looped| {
            let pattern = LossPattern::new(runs.to_vec(), looped).expect("not empty");
            let mut loss = Loss::new(LossModel::Pattern(pattern), 1);
            (0..12).filter(|_| loss.takes_next()).collect::<Vec<u32>>()
        };
        assert_eq!(lost(&[2, 1, 3, 2], false), [2, 6, 7]);
        assert_eq!(lost(&[2, 1, 1], true), [2, 6, 10]);
        assert_eq!(lost(&[0, 3, 4], true), [0, 1, 2, 7, 8, 9]);
        assert!(lost(&[5], false).is_empty());
        assert_eq!(lost(&[0, 1], true).len(), 12);
    }

    #[test]
    fn same_seed_same_losses() {
        let model = GilbertElliott::new(0.1, 0.3, 0.2, 0.9).expect("probabilities");
        let lost = |seed| {
            let mut loss = Loss::new(LossModel::GilbertElliott(model), seed);
            (0..1_000).map(|_| loss.takes_next()).collect::<Vec<bool>>()
        };
        assert_eq!(lost(3), lost(3));
        assert_ne!(lost(3), lost(4));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(GilbertElliott::new(0.1, 1.5, 0.0, 1.0).expect_err("above 1").starts_with("r 1.5"));
        assert!(GilbertElliott::new(0.1, 0.5, f64::NAN, 1.0).expect_err("no number").starts_with("h NaN"));
        assert!(LossPattern::new(vec![0, 0], true).is_err() && LossPattern::new(vec![], true).is_err());
        assert!(LossPattern::new(vec![0, 1, 0], true).expect_err("empty").starts_with("run 2"));
    }
}
