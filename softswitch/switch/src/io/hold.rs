//! Where the data path stops, so that the driver of an experiment acts at one instant of virtual time.
// SPDX-License-Identifier: Apache-2.0
use std::fmt;

use tokio::sync::oneshot;

/// Why the data path does not stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldError {
    /// Its clock would keep running.
    RealTime,
    /// The instant is past: this is the time now.
    Past(u64),
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::RealTime => f.write_str("real time cannot be held: allowed in virtual time only"),
            HoldError::Past(now_ns) => write!(f, "at_ns: allowed is {now_ns} (now) or later"),
        }
    }
}

/// The next hold, and whether the data path is stopped at one.
#[derive(Debug)]
pub(super) struct Hold {
    virtual_time: bool,
    next: Option<(u64, oneshot::Sender<u64>)>,
    stands: bool,
}

impl Hold {
    /// Nothing is held yet; only in virtual time it can be.
    pub fn new(virtual_time: bool) -> Self {
        Hold { virtual_time, next: None, stands: false }
    }

    /// Sets the next hold, or none: the data path continues, and a thread that waits for an earlier hold learns that it was
    /// cancelled.
    pub fn ask(&mut self, at_ns: Option<u64>, now_ns: u64) -> Result<oneshot::Receiver<u64>, HoldError> {
        if !self.virtual_time {
            return Err(HoldError::RealTime);
        }
        if at_ns.is_some_and(|at_ns| at_ns < now_ns) {
            return Err(HoldError::Past(now_ns));
        }
        let (tell, reached) = oneshot::channel();
        self.stands = false;
        self.next = match at_ns {
            Some(at_ns) => Some((at_ns, tell)),
            None => {
                // The caller may have gone by now.
                let _ = tell.send(now_ns);
                None
            }
        };
        Ok(reached)
    }

    /// When the next hold is.
    pub fn due(&self) -> Option<u64> {
        self.next.as_ref().map(|(at_ns, _)| *at_ns)
    }

    /// Every event until the next hold has been processed.
    pub fn reached(&mut self) {
        if let Some((at_ns, tell)) = self.next.take() {
            // A hold that no client knows of could not be ended.
            self.stands = tell.send(at_ns).is_ok();
        }
    }

    /// Whether the data path is stopped at a hold.
    pub fn stands(&self) -> bool {
        self.stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_lasts_until_the_next_one() {
        let mut hold = Hold::new(true);
        let mut first = hold.ask(Some(500), 100).expect("to come");
        assert_eq!((hold.due(), hold.stands()), (Some(500), false));
        hold.reached();
        assert_eq!((first.try_recv(), hold.due(), hold.stands()), (Ok(500), None, true));
        let mut second = hold.ask(Some(500), 500).expect("the same instant again");
        assert!(!hold.stands());
        hold.reached();
        assert_eq!(second.try_recv(), Ok(500));
        let mut last = hold.ask(None, 500).expect("goes on");
        assert_eq!((last.try_recv(), hold.due(), hold.stands()), (Ok(500), None, false));
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        assert_eq!(Hold::new(false).ask(Some(500), 100).expect_err("real time"), HoldError::RealTime);
        let mut hold = Hold::new(true);
        let mut first = hold.ask(Some(500), 100).expect("to come");
        assert_eq!(hold.ask(Some(99), 100).expect_err("past"), HoldError::Past(100));
        assert_eq!(hold.due(), Some(500), "a refusal changes nothing");
        hold.ask(Some(600), 100).expect("instead");
        assert!(first.try_recv().is_err(), "it is none any more");
    }

    #[test]
    fn a_client_that_has_gone_is_not_waited_for() {
        let mut hold = Hold::new(true);
        drop(hold.ask(Some(500), 100).expect("to come"));
        hold.reached();
        assert!(!hold.stands());
    }
}
