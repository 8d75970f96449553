//! What a link offers over time: the service curve from which a shaper takes starts and finishes.
//!
//! Work is counted in bit-nanoseconds per second: at r bit/s a link offers r of them in every nanosecond. Times and rates are
//! integers, so what is offered until a whole nanosecond is an integer, however often the rate has changed: nothing is rounded.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use super::clock::{BIT_NS_PER_BYTE, MAX_RATE_BPS};
use crate::timeline::{Timeline, MAX_STEPS};

/// Bit-nanoseconds per second.
pub type Work = u128;

/// Later than any time.
pub const NEVER: u64 = u64::MAX;

/// Bytes of a delivery opportunity of Mahimahi (link_queue.cc: PACKET_SIZE), counted as its TUN device does: the IP packet and
/// four bytes of its own.
pub const OPPORTUNITY_BYTES: u64 = 1_504;
const ETHERNET_BYTES: u64 = 14;
const TUN_BYTES: u64 = 4;

/// A constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Nothing takes any time.
    Unlimited,
    /// Bit/s; 0: nothing passes.
    Bps(u64),
}

impl Rate {
    /// Bit/s, if any.
    pub fn bps(self) -> Option<u64> {
        match self {
            Rate::Unlimited => None,
            Rate::Bps(rate) => Some(rate),
        }
    }
}

/// A rate that changes in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    timeline: Timeline,
    rates: Vec<u64>,
    /// What was offered before each step began.
    offered: Vec<Work>,
    /// What is offered in a period.
    per_period: Work,
}

impl Steps {
    /// Steps of `rates` bit/s that begin at `starts`, offsets in nanoseconds from the schedule's epoch.
    ///
    /// Errors: as [`Timeline::new`]; a rate is too high, or not one for each start.
    pub fn new(starts: Vec<u64>, rates: Vec<u64>, period_ns: Option<u64>) -> Result<Self, String> {
        if starts.len() != rates.len() {
            return Err(format!(
                "{} starts and {} rates: allowed is one rate for each start",
                starts.len(),
                rates.len()
            ));
        }
        if let Some((step, rate)) = rates.iter().enumerate().find(|(_, rate)| **rate > MAX_RATE_BPS) {
            return Err(format!("step {step}: rate_bps {rate}: allowed are 0 to {MAX_RATE_BPS}"));
        }
        let timeline = Timeline::new(starts, period_ns)?;
        let mut offered = Vec::with_capacity(rates.len());
        let mut total: Work = 0;
        for (step, rate) in rates.iter().enumerate() {
            offered.push(total);
            if let Some(end_ns) = timeline.end_ns(step) {
                total += Work::from(*rate) * Work::from(end_ns - timeline.start_ns(step));
            }
        }
        Ok(Steps { timeline, rates, offered, per_period: total })
    }

    fn offered(&self, offset_ns: u64) -> Work {
        let place = self.timeline.place(offset_ns);
        let into = place.within_ns - self.timeline.start_ns(place.step);
        Work::from(place.turns) * self.per_period
            + self.offered[place.step]
            + Work::from(self.rates[place.step]) * Work::from(into)
    }

    fn reached(&self, total: Work) -> Option<u64> {
        let Some(before) = total.checked_sub(1) else {
            return Some(0);
        };
        // The step in which the last of it is offered: its rate is not 0, unless it is one that lasts for ever.
        let turns = self.turns(before)?;
        let rest = total - turns * self.per_period;
        let step = self.offered.partition_point(|offered| *offered < rest) - 1;
        let into = (rest - self.offered[step]).checked_div(self.rates[step].into())?;
        self.time(turns, step, into)
    }

    fn next(&self, total: Work) -> Option<Next> {
        let turns = self.turns(total)?;
        let rest = total - turns * self.per_period;
        let step = self.offered.partition_point(|offered| *offered <= rest) - 1;
        let (rate, done) = (self.rates[step], rest - self.offered[step]);
        let into = done.checked_div(rate.into())?;
        let at_ns = self.time(turns, step, into)?;
        let end_ns = self.timeline.end_ns(step);
        let end_ns =
            end_ns.map_or(NEVER, |end_ns| at_ns.saturating_add(end_ns - self.timeline.start_ns(step) - into as u64));
        Some(Next { at_ns, segment: Some(Segment { rate, end_ns, remainder: (done % Work::from(rate)) as u64 }) })
    }

    /// Whole periods in which that much is offered; `None`: it never is.
    fn turns(&self, total: Work) -> Option<Work> {
        match self.timeline.period_ns() {
            Some(_) => total.checked_div(self.per_period),
            None => Some(0),
        }
    }

    fn time(&self, turns: Work, step: usize, into: Work) -> Option<u64> {
        let period = Work::from(self.timeline.period_ns().unwrap_or(0));
        let time = (turns * period).checked_add(self.timeline.start_ns(step).into())?.checked_add(into)?;
        u64::try_from(time).ok()
    }
}

/// Instants at which a link passes up to [`OPPORTUNITY_BYTES`] each: Mahimahi's traces. What is not used is lost; what arrives
/// at such an instant is too late for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opportunities {
    instants: Vec<u64>,
    /// They begin again at the last one.
    looped: bool,
}

const OPPORTUNITY: Work = OPPORTUNITY_BYTES as Work * BIT_NS_PER_BYTE as Work;

impl Opportunities {
    /// Offsets in nanoseconds from the schedule's epoch; the last one is the period of a looped schedule.
    ///
    /// Errors: none or too many, they descend, the last one is 0, or there are more than the highest rate has.
    pub fn new(instants: Vec<u64>, looped: bool) -> Result<Self, String> {
        if instants.len() > MAX_STEPS {
            return Err(format!("{} opportunities: allowed are 1 to {MAX_STEPS}", instants.len()));
        }
        if let Some(number) = instants.windows(2).position(|pair| pair[1] < pair[0]) {
            let (this, next) = (instants[number], instants[number + 1]);
            return Err(format!("opportunity {} at {next} ns: allowed is {this} ns or later", number + 1));
        }
        let Some(last @ 1..) = instants.last().copied() else {
            return Err("the last opportunity must be later than 0 ns: it is the period".into());
        };
        if instants.len() as Work * OPPORTUNITY > Work::from(last) * Work::from(MAX_RATE_BPS) {
            return Err(format!("{} opportunities in {last} ns: allowed are {MAX_RATE_BPS} bit/s", instants.len()));
        }
        Ok(Opportunities { instants, looped })
    }

    fn period_ns(&self) -> Option<u64> {
        self.instants.last().copied().filter(|_| self.looped)
    }

    fn offered(&self, offset_ns: u64) -> Work {
        let (turns, within_ns) =
            self.period_ns().map_or((0, offset_ns), |period| (offset_ns / period, offset_ns % period));
        let in_turn = self.instants.partition_point(|instant| *instant <= within_ns);
        (Work::from(turns) * self.instants.len() as Work + in_turn as Work) * OPPORTUNITY
    }

    /// When an opportunity comes, counted from 0.
    fn instant(&self, number: Work) -> Option<u64> {
        let count = self.instants.len() as Work;
        let turns = match self.period_ns() {
            Some(period) => u64::try_from(number / count).ok()?.checked_mul(period)?,
            None if number >= count => return None,
            None => 0,
        };
        turns.checked_add(self.instants[(number % count) as usize])
    }

    fn reached(&self, total: Work) -> Option<u64> {
        total.checked_sub(1).map_or(Some(0), |before| self.instant(before / OPPORTUNITY))
    }

    fn next(&self, total: Work) -> Option<Next> {
        Some(Next { at_ns: self.instant(total / OPPORTUNITY)?, segment: None })
    }
}

/// What a link offers from its schedule's epoch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// A rate in steps.
    Steps(Arc<Steps>),
    /// Delivery opportunities.
    Opportunities(Arc<Opportunities>),
}

impl Schedule {
    /// Steps or opportunities.
    pub fn entries(&self) -> usize {
        match self {
            Schedule::Steps(steps) => steps.timeline.steps(),
            Schedule::Opportunities(opportunities) => opportunities.instants.len(),
        }
    }

    /// After which it begins again.
    pub fn period_ns(&self) -> Option<u64> {
        match self {
            Schedule::Steps(steps) => steps.timeline.period_ns(),
            Schedule::Opportunities(opportunities) => opportunities.period_ns(),
        }
    }

    fn offered(&self, offset_ns: u64) -> Work {
        match self {
            Schedule::Steps(steps) => steps.offered(offset_ns),
            Schedule::Opportunities(opportunities) => opportunities.offered(offset_ns),
        }
    }

    fn reached(&self, total: Work) -> Option<u64> {
        match self {
            Schedule::Steps(steps) => steps.reached(total),
            Schedule::Opportunities(opportunities) => opportunities.reached(total),
        }
    }

    fn next(&self, total: Work) -> Option<Next> {
        match self {
            Schedule::Steps(steps) => steps.next(total),
            Schedule::Opportunities(opportunities) => opportunities.next(total),
        }
    }
}

/// A part of a curve in which the rate does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub rate: u64,
    pub end_ns: u64,
    /// What was offered since the last whole nanosecond; less than the rate.
    pub remainder: u64,
}

/// When a link that has done some work can do more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// In whole nanoseconds, rounded down.
    pub at_ns: u64,
    /// The part of the curve it lies in; `None`: the link passes things at instants.
    pub segment: Option<Segment>,
}

/// A constant rate, and the schedule that takes its place at an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve {
    /// Holds until the epoch.
    pub rate: Rate,
    /// When the schedule begins, in switch time; [`NEVER`]: that has not been said yet, or there is none.
    pub epoch_ns: u64,
    /// What follows.
    pub schedule: Option<Schedule>,
}

impl Curve {
    /// A rate that does not change.
    pub fn constant(rate: Rate) -> Self {
        Curve { rate, epoch_ns: NEVER, schedule: None }
    }

    /// The schedule, if it has begun.
    fn begun(&self, time_ns: u64) -> Option<&Schedule> {
        self.schedule.as_ref().filter(|_| time_ns >= self.epoch_ns)
    }

    /// The schedule, if its epoch is known.
    fn dated(&self) -> Option<&Schedule> {
        self.schedule.as_ref().filter(|_| self.epoch_ns != NEVER)
    }

    /// Whether nothing takes any time at this instant.
    pub(super) fn is_unlimited(&self, time_ns: u64) -> bool {
        self.rate == Rate::Unlimited && self.begun(time_ns).is_none()
    }

    /// What a packet asks for that starts then.
    pub(super) fn work(&self, start_ns: u64, length: u32) -> Work {
        let bytes = match self.begun(start_ns) {
            Some(Schedule::Opportunities(_)) => (u64::from(length) + TUN_BYTES).saturating_sub(ETHERNET_BYTES),
            _ => length.into(),
        };
        Work::from(bytes) * Work::from(BIT_NS_PER_BYTE)
    }

    /// What is offered at the constant rate until then. (An unlimited one counts for nothing: no work is left over from it.)
    fn offered_before(&self, time_ns: u64) -> Work {
        Work::from(self.rate.bps().unwrap_or(0)) * Work::from(time_ns)
    }

    /// What is offered until then, this instant included.
    pub(super) fn offered(&self, time_ns: u64) -> Work {
        let begun = self.begun(time_ns).map_or(0, |schedule| schedule.offered(time_ns - self.epoch_ns));
        self.offered_before(time_ns.min(self.epoch_ns)) + begun
    }

    /// When that much has been offered, in whole nanoseconds rounded down; [`NEVER`]: it never is.
    pub(super) fn reached(&self, total: Work) -> u64 {
        let before = self.offered_before(self.epoch_ns);
        match self.dated() {
            Some(schedule) if total > before => {
                schedule.reached(total - before).map_or(NEVER, |offset_ns| self.epoch_ns.saturating_add(offset_ns))
            }
            _ => match total.checked_div(self.rate.bps().unwrap_or(0).into()) {
                Some(time_ns) => u64::try_from(time_ns).unwrap_or(NEVER),
                None if total == 0 => 0,
                None => NEVER,
            },
        }
    }

    /// When more than that is offered; `None`: never.
    pub(super) fn next(&self, total: Work) -> Option<Next> {
        let before = self.offered_before(self.epoch_ns);
        match self.dated() {
            Some(schedule) if total >= before => {
                let Next { at_ns, segment } = schedule.next(total - before)?;
                let at_ns = self.epoch_ns.checked_add(at_ns)?;
                let later =
                    |segment: Segment| Segment { end_ns: segment.end_ns.saturating_add(self.epoch_ns), ..segment };
                Some(Next { at_ns, segment: segment.map(later) })
            }
            _ => {
                let rate = self.rate.bps()?;
                let at_ns = u64::try_from(total.checked_div(rate.into())?).ok()?;
                let remainder = (total % Work::from(rate)) as u64;
                Some(Next { at_ns, segment: Some(Segment { rate, end_ns: self.epoch_ns, remainder }) })
            }
        }
    }
}
