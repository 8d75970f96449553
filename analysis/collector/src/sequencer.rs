// SPDX-License-Identifier: Apache-2.0
//! Puts the reports of one bottleneck in sequence order and counts, each apart, what is lost, duplicated, reordered,
//! too late or implausible.
//!
//! Each row of 2^sample_shift departures of a bottleneck has one report: its position is the number of its row. A report after
//! a gap is held until the gap is filled or [`WINDOW`] positions have passed. Only then is the gap counted as lost, so reordering never counts as loss and
//! no report counts twice. A report far from the expected position (a damaged field, a restarted switch, reports of a second
//! run) is accepted only if the next one continues it.

use serde::{Deserialize, Serialize};

use crate::wire::Record;

/// Positions that a report may overtake before the missing ones count as lost.
pub const WINDOW: usize = 256;
/// How many positions behind the expected one duplicates are distinguished from late reports.
const HISTORY: usize = 1024;
/// Reports that are examined before deciding where the sequence begins: the first to arrive may not be the first sent.
const START_REPORTS: usize = 64;
/// How many reports off the sequence are kept until another one continues one of them.
const MAX_SUSPECTS: usize = 3;
/// Half of the 48-bit timestamp's range: a larger step forward is a step back.
const TIMESTAMP_HALF: u64 = 1 << 47;
const TIMESTAMP_MASK: u64 = (1 << 48) - 1;

/// What happened to the reports of a bottleneck; stored under these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceCounts {
    /// Reports passed on.
    pub reports: u64,
    /// Reports missing in the sequence.
    pub lost: u64,
    /// Copies of a report already received; not passed on.
    pub duplicates: u64,
    /// Reports that arrived after a later one and were put back in place.
    pub reordered: u64,
    /// Reports that arrived after they had been counted as lost; not passed on, still counted as lost.
    pub late: u64,
    /// Reports whose sequence fits neither those before nor those after; not passed on.
    pub implausible: u64,
    /// Times the sequence began anew (counters reset, another sampling rate, another run).
    pub restarts: u64,
    /// Sequence of the first report passed on.
    pub first_sequence: Option<u32>,
    /// Sequence of the last report passed on.
    pub last_sequence: Option<u32>,
}

/// Order and completeness of one bottleneck's reports.
pub struct Sequencer {
    counts: SequenceCounts,
    running: bool,
    /// The reports before the sequence has begun, as they came.
    starting: Vec<Record>,
    /// Position expected next.
    next: u32,
    shift: u8,
    last_timestamp: u64,
    /// Held reports; slot of position p is p % WINDOW, `base` is the slot of the expected position.
    held: Vec<Option<Record>>,
    base: usize,
    held_count: usize,
    /// Farthest held position relative to the expected one.
    farthest: usize,
    /// One bit a position behind the expected one: set if it was received.
    history: [u64; HISTORY / 64],
    history_base: usize,
    /// Reports far off the sequence, which wait for a successor.
    suspects: Vec<Record>,
}

impl Default for Sequencer {
    fn default() -> Self {
        Sequencer {
            counts: SequenceCounts::default(),
            running: false,
            starting: Vec::new(),
            next: 0,
            shift: 0,
            last_timestamp: 0,
            held: vec![None; WINDOW],
            base: 0,
            held_count: 0,
            farthest: 0,
            history: [0; HISTORY / 64],
            history_base: 0,
            suspects: Vec::new(),
        }
    }
}

impl Sequencer {
    /// Counts so far, without reports that are still held.
    pub fn counts(&self) -> SequenceCounts {
        self.counts
    }

    /// Takes a report; `emit` receives every report that is now in order.
    #[inline]
    pub fn push(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        let report = &record.report;
        if self.running
            && report.sample_shift == self.shift
            && report.row() == self.next
            && self.held_count == 0
            && self.suspects.is_empty()
        {
            self.pass(record, emit);
            return;
        }
        self.push_slowly(record, emit);
    }

    /// Passes on what is held: no more reports will come.
    pub fn finish(&mut self, emit: &mut impl FnMut(&Record)) {
        if !self.running {
            self.begin(emit);
        }
        self.release_held(emit);
        self.drop_suspects();
    }

    /// Finds the first report that any other one fits, and begins with the earliest of those that fit it.
    fn begin(&mut self, emit: &mut impl FnMut(&Record)) {
        let starting = std::mem::take(&mut self.starting);
        let near = |a: &Record, b: &Record| {
            distance(a.report.row(), a.report.sample_shift, b).filter(|steps| steps.unsigned_abs() < WINDOW as u64)
        };
        let fitting = |record: &Record| {
            let others = starting.iter();
            others.filter(|other| near(record, other).is_some()).count()
        };
        let fits = |record: &&Record| fitting(record) > 1;
        let Some(anchor) = starting.iter().find(fits).or(starting.first()) else {
            return;
        };
        let first = starting.iter().filter_map(|record| Some((near(anchor, record)?, record)));
        let first = first.min_by_key(|(steps, _)| *steps);
        let first = first.map_or(*anchor, |(_, record)| *record);
        self.start_at(&first);
        for record in &starting {
            self.push(record, emit);
        }
    }

    #[cold]
    fn push_slowly(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        if !self.running {
            self.starting.push(*record);
            // Nothing precedes the first report of a switch, so a live consumer gets it at once.
            let is_first = record.report.row() == 0;
            if is_first || self.starting.len() == START_REPORTS {
                self.begin(emit);
            }
            return;
        }
        match distance(self.next, self.shift, record) {
            Some(ahead) if (0..(self.farthest + WINDOW) as i64).contains(&ahead) => {
                self.drop_suspects();
                self.take_ahead(ahead as usize, record, emit);
            }
            Some(behind) if (-(HISTORY as i64)..0).contains(&behind) => {
                self.drop_suspects();
                if self.was_received((-behind) as usize) {
                    self.counts.duplicates += 1;
                } else {
                    self.counts.late += 1;
                }
            }
            _ => self.suspect_or_restart(record, emit),
        }
    }

    fn take_ahead(&mut self, ahead: usize, record: &Record, emit: &mut impl FnMut(&Record)) {
        if ahead == 0 {
            self.counts.reordered += u64::from(self.held_count > 0);
            self.pass(record, emit);
            self.release_contiguous(emit);
            return;
        }
        let mut ahead = ahead;
        if ahead >= WINDOW {
            let surplus = ahead - (WINDOW - 1);
            self.advance(surplus, emit);
            ahead = WINDOW - 1;
        }
        let slot = (self.base + ahead) % WINDOW;
        if self.held[slot].is_some() {
            self.counts.duplicates += 1;
            return;
        }
        self.counts.reordered += u64::from(self.held_count > 0 && ahead < self.farthest);
        self.held[slot] = Some(*record);
        self.held_count += 1;
        self.farthest = self.farthest.max(ahead);
        self.release_contiguous(emit);
    }

    fn suspect_or_restart(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        for index in 0..self.suspects.len() {
            let suspect = self.suspects[index];
            match distance(suspect.report.row(), suspect.report.sample_shift, record) {
                Some(0) => {
                    self.counts.duplicates += 1;
                    return;
                }
                Some(step) if step.unsigned_abs() < WINDOW as u64 => {
                    self.suspects.remove(index);
                    self.drop_suspects();
                    let first = if step > 0 { suspect } else { *record };
                    self.change_over(&first, emit);
                    // As usual, since the later of the two may come after a gap.
                    self.take_in_order(&suspect, emit);
                    self.take_in_order(record, emit);
                    return;
                }
                _ => {}
            }
        }
        if self.suspects.len() == MAX_SUSPECTS {
            self.suspects.remove(0);
            self.counts.implausible += 1;
        }
        self.suspects.push(*record);
    }

    fn take_in_order(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        if let Some(ahead @ 0..) = distance(self.next, self.shift, record) {
            self.take_ahead(ahead as usize, record, emit);
        }
    }

    /// Continues at `first`, which lies far ahead (reports lost) or anywhere else (a restart).
    fn change_over(&mut self, first: &Record, emit: &mut impl FnMut(&Record)) {
        self.release_held(emit);
        let elapsed = first.report.timestamp.wrapping_sub(self.last_timestamp) & TIMESTAMP_MASK;
        match distance(self.next, self.shift, first) {
            Some(ahead) if ahead > 0 && elapsed < TIMESTAMP_HALF => self.counts.lost += ahead as u64,
            _ => self.counts.restarts += 1,
        }
        self.start_at(first);
    }

    fn start_at(&mut self, record: &Record) {
        self.running = true;
        self.next = record.report.row();
        self.shift = record.report.sample_shift;
        self.history = [0; HISTORY / 64];
    }

    fn drop_suspects(&mut self) {
        self.counts.implausible += self.suspects.len() as u64;
        self.suspects.clear();
    }

    /// Passes on the report at the expected position.
    #[inline]
    fn pass(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        self.counts.reports += 1;
        self.counts.first_sequence.get_or_insert(record.report.sequence);
        self.counts.last_sequence = Some(record.report.sequence);
        self.last_timestamp = record.report.timestamp;
        self.step(true);
        emit(record);
    }

    #[inline]
    fn step(&mut self, received: bool) {
        self.next = self.next.wrapping_add(1) & u32::MAX >> self.shift;
        self.base = (self.base + 1) % WINDOW;
        self.farthest = self.farthest.saturating_sub(1);
        let bit = 1 << (self.history_base % 64);
        let word = &mut self.history[self.history_base / 64];
        *word = if received { *word | bit } else { *word & !bit };
        self.history_base = (self.history_base + 1) % HISTORY;
    }

    /// Whether the position `behind` (1 = the last one) was received.
    fn was_received(&self, behind: usize) -> bool {
        let position = (self.history_base + HISTORY - behind) % HISTORY;
        self.history[position / 64] >> (position % 64) & 1 == 1
    }

    fn release_contiguous(&mut self, emit: &mut impl FnMut(&Record)) {
        while self.held_count > 0 {
            let Some(record) = self.held[self.base].take() else {
                return;
            };
            self.held_count -= 1;
            self.pass(&record, emit);
        }
    }

    /// Ends the wait for the next `positions` positions: held reports are passed on, missing ones are counted as lost.
    fn advance(&mut self, positions: usize, emit: &mut impl FnMut(&Record)) {
        for _ in 0..positions {
            match self.held[self.base].take() {
                Some(record) => {
                    self.held_count -= 1;
                    self.pass(&record, emit);
                }
                None => {
                    self.counts.lost += 1;
                    self.step(false);
                }
            }
        }
    }

    fn release_held(&mut self, emit: &mut impl FnMut(&Record)) {
        while self.held_count > 0 {
            self.advance(1, emit);
        }
    }
}

/// Steps from position `from` to the record's; `None` if that is of another sampling rate.
fn distance(from: u32, shift: u8, record: &Record) -> Option<i64> {
    // Positions have the upper bits of a sequence, and wrap with it.
    let difference = (record.report.row().wrapping_sub(from) << shift) as i32 >> shift;
    (record.report.sample_shift == shift).then_some(i64::from(difference))
}

#[cfg(test)]
#[path = "sequencer_tests.rs"]
mod tests;
