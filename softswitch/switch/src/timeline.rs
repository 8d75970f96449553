//! Times at which something changes, once or periodically.
// SPDX-License-Identifier: Apache-2.0

/// Steps that one schedule has at most.
pub const MAX_STEPS: usize = 4_000_000;

/// When each of the steps of a schedule begins: offsets from its epoch, in nanoseconds. The last step lasts for ever, or until
/// the period is over and the first one begins again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    starts: Vec<u64>,
    period_ns: Option<u64>,
}

/// A place in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whole periods before it.
    pub turns: u64,
    /// Offset within the period.
    pub within_ns: u64,
    /// Number of the step.
    pub step: usize,
}

impl Timeline {
    /// Errors: no step or too many, the first one does not begin at 0, they do not ascend, or the period ends before the last.
    pub fn new(starts: Vec<u64>, period_ns: Option<u64>) -> Result<Self, String> {
        if starts.is_empty() || starts.len() > MAX_STEPS {
            return Err(format!("{} steps: allowed are 1 to {MAX_STEPS}", starts.len()));
        }
        if starts[0] != 0 {
            return Err(format!("step 0 starts at {} ns: the first one must start at 0", starts[0]));
        }
        if let Some(step) = starts.windows(2).position(|pair| pair[1] <= pair[0]) {
            let (this, next) = (starts[step], starts[step + 1]);
            return Err(format!("step {} starts at {next} ns: it must be later than {this} ns", step + 1));
        }
        if let (Some(period), Some(last)) = (period_ns, starts.last()) {
            if period <= *last {
                return Err(format!("period_ns {period}: it must be longer than the last step's start, {last} ns"));
            }
        }
        Ok(Timeline { starts, period_ns })
    }

    /// Steps.
    pub fn steps(&self) -> usize {
        self.starts.len()
    }

    /// After which it begins again.
    pub fn period_ns(&self) -> Option<u64> {
        self.period_ns
    }

    /// Where a step starts, within the period.
    pub fn start_ns(&self, step: usize) -> u64 {
        self.starts[step]
    }

    /// Where a step ends, within the period; `None`: never.
    pub fn end_ns(&self, step: usize) -> Option<u64> {
        self.starts.get(step + 1).copied().or(self.period_ns)
    }

    /// The step that holds at an offset from the epoch.
    pub fn place(&self, offset_ns: u64) -> Place {
        let (turns, within_ns) =
            self.period_ns.map_or((0, offset_ns), |period| (offset_ns / period, offset_ns % period));
        // The first start is 0, so there is one at or before any offset.
        Place { turns, within_ns, step: self.starts.partition_point(|start| *start <= within_ns) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_from_its_start_on() {
        let once = Timeline::new(vec![0, 10, 25], None).expect("ascending");
        let steps: Vec<usize> = [0, 9, 10, 24, 25, 1_000].map(|offset| once.place(offset).step).to_vec();
        assert_eq!(steps, [0, 0, 1, 1, 2, 2]);
        let looped = Timeline::new(vec![0, 10, 25], Some(30)).expect("ascending");
        assert_eq!(looped.place(29), Place { turns: 0, within_ns: 29, step: 2 });
        assert_eq!(looped.place(30), Place { turns: 1, within_ns: 0, step: 0 });
        assert_eq!(looped.place(100), Place { turns: 3, within_ns: 10, step: 1 });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |starts: &[u64], period| Timeline::new(starts.to_vec(), period).expect_err("wrong");
        assert!(wrong(&[], None).contains("0 steps"));
        assert!(wrong(&[1], None).contains("must start at 0"));
        assert!(wrong(&[0, 5, 5], None).contains("step 2"));
        assert!(wrong(&[0, 5], Some(5)).contains("period_ns 5"));
    }
}
