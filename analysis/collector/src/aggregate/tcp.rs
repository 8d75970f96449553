// SPDX-License-Identifier: Apache-2.0
//! A TCP flow's sequence space as the bottleneck sees it: which payload bytes have already passed.

use std::collections::BTreeMap;

use crate::wire::original::TCP_SYN;
use crate::wire::Original;

const PROTOCOL_TCP: u8 = 6;
/// The largest step ahead that is accepted at once; larger ones are accepted only if the next segment continues them.
const MAX_STEP: u64 = 1 << 24;
/// Position of a flow's first byte; bytes that were sent earlier and may still come are below it.
const ORIGIN: u64 = 1 << 40;
const BEFORE_ORIGIN: u64 = 1 << 31;

/// What a segment contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// It carried payload.
    pub data: bool,
    /// It began below the highest number that had passed.
    pub retransmitted: bool,
    /// Payload bytes below the highest number that had passed.
    pub retransmitted_bytes: u16,
    /// Payload bytes that had not left the bottleneck before.
    pub new_bytes: u16,
    /// Growth of the highest number.
    pub advanced_bytes: u64,
}

/// Room for holes, shared by all flows.
#[derive(Clone, Copy, Debug)]
pub struct HoleBudget {
    pub left: usize,
    /// Holes that could not be stored: bytes that fill them count as retransmitted only.
    pub forgotten: u64,
}

/// Sequence space of one TCP flow.
#[derive(Clone, Debug, Default)]
pub struct TcpProgress {
    /// One more than the highest position that has passed; 0 before the first segment.
    highest: u64,
    /// Sequence number of `highest`.
    highest_number: u32,
    /// What is missing below `highest`: start and end of each hole.
    holes: BTreeMap<u64, u64>,
    suspect: Option<(u64, u64)>,
}

impl TcpProgress {
    /// Takes a packet; `None` if it is not TCP.
    #[inline]
    pub fn take(&mut self, original: &Original, budget: &mut HoleBudget) -> Option<Segment> {
        if original.protocol != PROTOCOL_TCP {
            return None;
        }
        let length = u64::from(original.payload_length);
        if original.tcp_seq == self.highest_number
            && self.highest > 0
            && length > 0
            && self.suspect.is_none()
            && original.tcp_flags & TCP_SYN == 0
        {
            self.advance(length);
            return Some(Segment {
                data: true,
                new_bytes: original.payload_length,
                advanced_bytes: length,
                ..Segment::default()
            });
        }
        Some(self.take_slowly(original, budget))
    }

    /// Position of a sequence number near the highest one.
    fn position(&self, number: u32) -> u64 {
        let step = number.wrapping_sub(self.highest_number) as i32;
        self.highest.saturating_add_signed(i64::from(step))
    }

    fn advance(&mut self, bytes: u64) {
        self.highest += bytes;
        self.highest_number = self.highest_number.wrapping_add(bytes as u32);
    }

    #[cold]
    fn take_slowly(&mut self, original: &Original, budget: &mut HoleBudget) -> Segment {
        let length = u64::from(original.payload_length);
        let syn = original.tcp_flags & TCP_SYN != 0;
        if length == 0 && !syn {
            return Segment::default();
        }
        let mut segment = Segment { data: length > 0, ..Segment::default() };
        if syn || self.highest == 0 {
            // The 5-tuple begins a (new) connection. The SYN takes up a sequence number.
            budget.left += self.holes.len();
            *self = TcpProgress {
                highest: ORIGIN,
                highest_number: original.tcp_seq.wrapping_add(u32::from(syn)),
                holes: BTreeMap::from([(ORIGIN - BEFORE_ORIGIN, ORIGIN)]),
                suspect: None,
            };
            budget.left = budget.left.saturating_sub(1);
            self.advance(length);
            segment.new_bytes = original.payload_length;
            segment.advanced_bytes = length;
            return segment;
        }
        let (start, before) = (self.position(original.tcp_seq), self.highest);
        let end = start + length;
        if end > self.highest + MAX_STEP && !self.confirms(start, budget) {
            // Perhaps damaged: the packet counts as new, but its position is not known.
            self.suspect = Some((start, end));
            segment.new_bytes = original.payload_length;
            return segment;
        }
        self.suspect = None;
        segment.retransmitted = start < self.highest;
        let below = end.min(self.highest).saturating_sub(start);
        segment.retransmitted_bytes = below as u16;
        let mut new = length - below;
        if below > 0 {
            new += self.fill(start, start + below, budget);
        }
        if start > self.highest {
            self.open_hole(self.highest, start, budget);
        }
        if end > self.highest {
            self.advance(end - self.highest);
        }
        segment.advanced_bytes = self.highest - before;
        segment.new_bytes = new as u16;
        segment
    }

    /// Whether `start` continues the suspect, whose position is then accepted.
    fn confirms(&mut self, start: u64, budget: &mut HoleBudget) -> bool {
        let Some((suspect, end)) = self.suspect else {
            return false;
        };
        if start < end || start - end > MAX_STEP {
            return false;
        }
        self.open_hole(self.highest, suspect, budget);
        self.advance(end - self.highest);
        true
    }

    fn open_hole(&mut self, start: u64, end: u64, budget: &mut HoleBudget) {
        if budget.left == 0 {
            budget.forgotten += 1;
            return;
        }
        budget.left -= 1;
        self.holes.insert(start, end);
    }

    /// Fills the holes in [start, end) and returns how many bytes of it were in them.
    fn fill(&mut self, start: u64, end: u64, budget: &mut HoleBudget) -> u64 {
        let mut filled = 0;
        while let Some((&hole_start, &hole_end)) = self.holes.range(..end).next_back() {
            if hole_end <= start {
                break;
            }
            filled += hole_end.min(end) - hole_start.max(start);
            self.holes.remove(&hole_start);
            budget.left += 1;
            if end < hole_end {
                self.open_hole(end, hole_end, budget);
            }
            if hole_start < start {
                self.open_hole(hole_start, start, budget);
                break;
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn segment(sequence: u32, payload: u16) -> Original {
        Original { protocol: 6, tcp_flags: 0x10, tcp_seq: sequence, payload_length: payload, ..Original::default() }
    }

    fn budget() -> HoleBudget {
        HoleBudget { left: 100_000, forgotten: 0 }
    }

    /// Retransmitted and new bytes of each segment.
    fn run(segments: &[(u32, u16)]) -> Vec<(u16, u16)> {
        let (mut progress, mut budget) = (TcpProgress::default(), budget());
        let take = |&(sequence, payload): &(u32, u16)| {
            let found = progress.take(&segment(sequence, payload), &mut budget);
            found.map_or((0, 0), |s| (s.retransmitted_bytes, s.new_bytes))
        };
        segments.iter().map(take).collect()
    }

    #[test]
    fn bytes_below_the_mark_are_retransmitted_and_new_only_in_a_hole() {
        assert_eq!(
            run(&[(0, 100), (100, 100), (50, 100), (150, 100), (200, 10)]),
            [(0, 100), (0, 100), (100, 0), (50, 50), (10, 0)]
        );
        assert_eq!(
            run(&[(0, 100), (300, 100), (100, 100), (100, 100), (150, 200)]),
            [(0, 100), (0, 100), (100, 100), (100, 0), (200, 100)]
        );
        // The very first segments may have been lost or overtaken.
        assert_eq!(run(&[(500, 100), (400, 100)]), [(0, 100), (100, 100)]);
    }

    #[test]
    fn the_mark_follows_across_the_wrap() {
        assert_eq!(run(&[(u32::MAX - 49, 100), (50, 100), (u32::MAX - 49, 100)]), [(0, 100), (0, 100), (100, 0)]);
    }

    #[test]
    fn one_damaged_number_does_not_move_the_mark() {
        assert_eq!(run(&[(0, 100), (1 << 30, 100), (100, 100), (200, 100)]), [(0, 100), (0, 100), (0, 100), (0, 100)]);
        let (far, next) = (1 << 30, (1 << 30) + 100);
        assert_eq!(
            run(&[(0, 100), (far, 100), (next, 100), (far, 50), (100, 50)]),
            [(0, 100), (0, 100), (0, 100), (50, 0), (50, 50)]
        );
    }

    #[test]
    fn new_bytes_are_those_of_a_set_of_bytes() {
        // Segments in any order and with any overlap, compared with a set of all bytes.
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let (mut progress, mut budget) = (TcpProgress::default(), budget());
        let (mut seen, mut frontier, mut advanced) = (HashSet::new(), 0_u32, 0);
        for _ in 0..5000 {
            let start = (frontier + random(60)).saturating_sub(random(120));
            let length = 1 + random(40);
            let found = progress.take(&segment(start.wrapping_sub(5000), length as u16), &mut budget);
            let found = found.unwrap_or_default();
            let new = (start..start + length).filter(|byte| seen.insert(*byte)).count();
            assert_eq!(usize::from(found.new_bytes), new);
            advanced += found.advanced_bytes;
            frontier = frontier.max(start + length);
        }
        assert!(advanced <= u64::from(frontier) && advanced + 60 > u64::from(frontier));
        assert_eq!(budget.left + progress.holes.len(), 100_000);
    }
}
