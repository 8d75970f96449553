//! How far the data path may look ahead in virtual time: conservative parallel discrete-event simulation with the delay lines
//! as lookahead (Chandy and Misra 1979).
//!
//! A frame that arrives at `a` leaves its port no earlier than `a` plus the port's delay. A loop that has worked out everything until `t`
//! therefore knows all that leaves until `t` plus the shortest delay, and nothing has to happen before then.
// SPDX-License-Identifier: Apache-2.0

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until this time, regardless of arrivals.
    Until(u64),
    /// Until a frame arrives, or until this time.
    FrameOr(Option<u64>),
}

/// Windows of equal length.
#[derive(Debug, Clone, Copy)]
pub struct Lookahead {
    window_ns: u64,
}

impl Lookahead {
    /// `window_ns` is at most the shortest delay of a port; 0: there is none, every event is waited for.
    pub fn new(window_ns: u64) -> Self {
        Lookahead { window_ns }
    }

    /// Frames that leave until then are passed on at `now_ns`: until the end of the next window, and one more in reserve.
    /// (More could be, but they would only lie in the kernel instead of here.)
    pub fn horizon_ns(&self, now_ns: u64) -> u64 {
        match self.window_ns {
            0 => u64::MAX,
            window_ns => now_ns.saturating_add(2 * window_ns),
        }
    }

    /// What to wait for at `now_ns`, when every event until then has been processed.
    ///
    /// `taken`: frames have arrived since the last time. `underway`: when the next of those frames arrives that were sent
    /// already. `start`: when the next packet leaves a queue. `exit`: when the next frame leaves that was not passed on.
    /// `hold`: when the loop is to stop.
    ///
    /// With a window that is never sooner than its end: nothing is due before, and a time that is almost over when a timer is set
    /// may be missed. Only a hold ends a window, so that hosts are at that instant, too.
    pub fn next(
        &self,
        now_ns: u64,
        taken: bool,
        underway: Option<u64>,
        start: Option<u64>,
        exit: Option<u64>,
        hold: Option<u64>,
    ) -> Wait {
        if self.window_ns == 0 {
            return Wait::FrameOr(underway.into_iter().chain(start).chain(exit).chain(hold).min());
        }
        let end_ns = now_ns + self.window_ns;
        if let Some(hold_ns) = hold.filter(|hold_ns| *hold_ns <= end_ns) {
            return Wait::Until(hold_ns);
        }
        if taken || underway.is_some() || start.is_some_and(|start_ns| start_ns < end_ns) {
            return Wait::Until(end_ns);
        }
        let exit = exit.map(|exit_ns| exit_ns.saturating_sub(self.window_ns));
        Wait::FrameOr(start.into_iter().chain(exit).chain(hold).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_at_a_time_while_frames_arrive() {
        let ahead = Lookahead::new(1_000);
        assert_eq!(ahead.next(5_000, true, None, None, None, None), Wait::Until(6_000));
        assert_eq!(ahead.next(5_000, false, Some(9_000), None, None, None), Wait::Until(6_000));
        assert_eq!(ahead.next(5_000, true, None, Some(5_001), Some(7_500), None), Wait::Until(6_000));
    }

    #[test]
    fn nothing_arrives_but_something_is_still_on_its_way() {
        let ahead = Lookahead::new(1_000);
        assert_eq!(ahead.next(5_000, false, None, None, None, None), Wait::FrameOr(None));
        assert_eq!(ahead.next(5_000, false, None, Some(6_300), None, None), Wait::FrameOr(Some(6_300)));
        // It is passed on a window before it leaves.
        assert_eq!(ahead.next(5_000, false, None, None, Some(7_500), None), Wait::FrameOr(Some(6_500)));
        assert_eq!(ahead.next(5_000, false, None, Some(6_800), Some(7_500), None), Wait::FrameOr(Some(6_500)));
        // What leaves its queue within the window is worked out at its end.
        assert_eq!(ahead.next(5_000, false, None, Some(5_300), Some(7_500), None), Wait::Until(6_000));
    }

    #[test]
    fn a_hold_ends_a_window() {
        let ahead = Lookahead::new(1_000);
        assert_eq!(ahead.next(5_000, true, None, None, None, Some(5_300)), Wait::Until(5_300));
        assert_eq!(ahead.next(5_000, true, None, None, None, Some(6_001)), Wait::Until(6_000));
        assert_eq!(ahead.next(5_000, false, None, None, None, Some(5_300)), Wait::Until(5_300));
        assert_eq!(ahead.next(5_000, false, None, None, Some(9_000), Some(7_500)), Wait::FrameOr(Some(7_500)));
    }

    #[test]
    fn without_a_window_every_event_is_waited_for() {
        let ahead = Lookahead::new(0);
        assert_eq!(ahead.next(5_000, true, None, Some(5_300), None, None), Wait::FrameOr(Some(5_300)));
        assert_eq!(ahead.next(5_000, true, Some(5_200), Some(5_300), Some(5_250), None), Wait::FrameOr(Some(5_200)));
        assert_eq!(ahead.horizon_ns(5_000), u64::MAX);
    }

    #[test]
    fn what_leaves_before_the_next_time_is_handed_over_now() {
        let ahead = Lookahead::new(1_000);
        for taken in [true, false] {
            for exit in [7_001, 7_999, 20_000] {
                let next = match ahead.next(5_000, taken, None, None, Some(exit), None) {
                    Wait::Until(due) | Wait::FrameOr(Some(due)) => due,
                    Wait::FrameOr(None) => u64::MAX,
                };
                assert!(next > 5_000 && next < exit, "{next} {exit}");
                // A frame that is not passed on now is passed on then, or has time until the next window.
                assert!(ahead.horizon_ns(next) >= exit || next + 1_000 < exit);
            }
        }
    }
}
