// SPDX-License-Identifier: Apache-2.0
//! Increments of a flow index's cumulative counters. Wraps are handled; damaged reports are ignored.
//!
//! A report's counters are used when the next report of the index agrees with them. So a single damaged one changes
//! nothing: its increments are covered by the next good report, and totals stay exact.

/// Cumulative fields of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub arrivals: u32,
    pub departures: u32,
    pub loss_drops: u32,
    pub aqm_drops: u32,
    /// Departures of the bottleneck, up to this report, that no reading covers: only because of these can a flow's
    /// departures grow by more than one between readings.
    pub unread: u64,
    /// Index of the flow that sent it: flows of colliding indices share the counters.
    pub flow: u32,
    /// When the packet arrived at the queue.
    pub arrival: u64,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Increment {
    pub arrivals: u32,
    pub departures: u32,
    pub loss_drops: u32,
    pub aqm_drops: u32,
}

impl Increment {
    /// Drops of the queue, by its management or because it was full: arrivals that did not depart.
    pub fn drops(&self) -> u32 {
        self.arrivals - self.departures
    }
}

/// Increments, and the flow and time that they are credited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Index of the flow.
    pub flow: u32,
    /// Arrival of the packet that showed them.
    pub arrival: u64,
    pub increment: Increment,
}

/// Consecutive readings that contradict the accepted one before the counters count as reset.
const RESET_AFTER: u8 = 3;
/// See [`between`].
const TOLERANCE: u64 = 1;

/// Counters of one flow index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    accepted: Option<Reading>,
    /// `accepted` is from a report: it is not the initial zero.
    started: bool,
    pending: Option<Reading>,
    contradictions: u8,
}

/// Result of a new reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Increments that are now certain.
    pub increment: Option<Credit>,
    /// A reading was ignored.
    pub ignored: bool,
    /// The counters began anew.
    pub reset: bool,
}

impl Counters {
    /// Counters whose values were `start`.
    pub fn from_zero(start: Reading) -> Self {
        Counters { accepted: Some(start), ..Counters::default() }
    }

    /// Takes the next reading in sequence.
    #[inline]
    pub fn read(&mut self, reading: Reading) -> Outcome {
        let Some(pending) = self.pending else {
            return self.first_pending(reading);
        };
        if between(&pending, &reading, TOLERANCE).is_some() {
            let increment = self.commit(pending);
            self.pending = Some(reading);
            self.contradictions = 0;
            return Outcome { increment, ..Outcome::default() };
        }
        self.contradict(reading)
    }

    /// The last reading's increments, which no later reading can confirm.
    pub fn finish(&mut self) -> Option<Credit> {
        let pending = self.pending.take()?;
        // A flow of a single report may be due to damage: it counts only if that report is of its very first packet.
        let tolerance = if self.started { TOLERANCE } else { 0 };
        let likely = self.accepted.is_none_or(|accepted| between(&accepted, &pending, tolerance).is_some());
        likely.then(|| self.commit(pending)).flatten()
    }

    fn first_pending(&mut self, reading: Reading) -> Outcome {
        if self.accepted.is_none_or(|accepted| between(&accepted, &reading, TOLERANCE).is_some()) {
            self.pending = Some(reading);
            return Outcome::default();
        }
        self.contradict(reading)
    }

    /// `reading` does not follow the pending one: one of the two is damaged.
    #[cold]
    fn contradict(&mut self, reading: Reading) -> Outcome {
        self.contradictions += 1;
        if self.contradictions >= RESET_AFTER {
            let increment = self.finish();
            *self = Counters { pending: Some(reading), ..Counters::default() };
            return Outcome { increment, ignored: false, reset: true };
        }
        // It is the pending one if the new one follows the reading accepted before that.
        let follows = self.accepted.is_some_and(|accepted| between(&accepted, &reading, TOLERANCE).is_some());
        if self.pending.is_some() && (follows || self.accepted.is_none()) {
            self.pending = Some(reading);
        }
        Outcome { ignored: true, ..Outcome::default() }
    }

    #[inline]
    fn commit(&mut self, pending: Reading) -> Option<Credit> {
        let accepted = self.accepted.replace(pending);
        self.started = true;
        let increment = match accepted {
            Some(accepted) => between(&accepted, &pending, TOLERANCE)?,
            // What came before the first reading is unknown; the packet itself arrived and departed.
            None => Increment { arrivals: 1, departures: 1, loss_drops: 0, aqm_drops: 0 },
        };
        Some(Credit { flow: pending.flow, arrival: pending.arrival, increment })
    }
}

/// Increments from `a` to `b`; `None` if `b` cannot follow `a` in a FIFO queue. Up to `tolerance` departures more than are
/// known to be unread are accepted: a damaged report may have been read as another flow's.
#[inline]
fn between(a: &Reading, b: &Reading, tolerance: u64) -> Option<Increment> {
    let increment = Increment {
        arrivals: b.arrivals.wrapping_sub(a.arrivals),
        departures: b.departures.wrapping_sub(a.departures),
        loss_drops: b.loss_drops.wrapping_sub(a.loss_drops),
        aqm_drops: b.aqm_drops.wrapping_sub(a.aqm_drops),
    };
    let possible = increment.departures > 0
        && u64::from(increment.departures) <= 1 + b.unread.saturating_sub(a.unread) + tolerance
        && increment.departures <= increment.arrivals
        && increment.arrivals < 1 << 31
        && increment.loss_drops < 1 << 31
        && increment.aqm_drops < 1 << 31;
    possible.then_some(increment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(readings: &[Reading]) -> (u64, u64, u32) {
        let mut counters =
            Counters::from_zero(Reading { arrivals: u32::MAX - 2, departures: u32::MAX - 2, ..Reading::default() });
        let (mut arrivals, mut drops, mut ignored) = (0, 0, 0);
        let mut add = |increment: Option<Credit>| {
            arrivals += increment.map_or(0, |c| u64::from(c.increment.arrivals));
            drops += increment.map_or(0, |c| u64::from(c.increment.drops()));
        };
        for reading in readings {
            // As in a bottleneck: a departure whose reading was ignored counts as unread.
            let outcome = counters.read(Reading { unread: u64::from(ignored), ..*reading });
            add(outcome.increment);
            ignored += u32::from(outcome.ignored);
        }
        add(counters.finish());
        (arrivals, drops, ignored)
    }

    /// Every second packet is dropped; the counters wrap.
    fn readings() -> Vec<Reading> {
        let start = u32::MAX - 2;
        (1..=50_u32)
            .map(|n| Reading {
                arrivals: start.wrapping_add(2 * n),
                departures: start.wrapping_add(n),
                ..Reading::default()
            })
            .collect()
    }

    #[test]
    fn drops_are_exact_across_the_wrap() {
        assert_eq!(total(&readings()), (100, 50, 0));
    }

    #[test]
    fn one_damaged_reading_changes_no_total() {
        for bit in 0..32 {
            for position in 0..49 {
                let mut damaged = readings();
                damaged[position].arrivals ^= 1 << bit;
                assert_eq!(total(&damaged).1, 50, "arrivals bit {bit} at {position}");
                let mut damaged = readings();
                damaged[position].departures ^= 1 << bit;
                let (arrivals, drops, _) = total(&damaged);
                assert_eq!((arrivals, drops), (100, 50), "departures bit {bit} at {position}");
            }
        }
    }

    #[test]
    fn a_reset_is_noticed() {
        let mut counters = Counters::default();
        for reading in readings() {
            counters.read(reading);
        }
        let mut reset = false;
        for n in 1..6_u32 {
            let reading = Reading { arrivals: n, departures: n, ..Reading::default() };
            reset |= counters.read(Reading { arrivals: reading.arrivals + 1_000_000_000, ..reading }).reset;
        }
        assert!(reset);
    }
}
