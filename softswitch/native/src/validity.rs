// SPDX-License-Identifier: Apache-2.0
//! Which headers are surely valid, and which surely invalid, before each instruction.

use narrows_program::op::Op;
use narrows_program::Program;

/// Sets of headers, as bits. A header in neither may be valid or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Known {
    pub valid: u64,
    pub invalid: u64,
}

impl Known {
    /// The validity of a header, if it is known.
    pub(super) fn of(self, header: u8) -> Option<bool> {
        let bit = 1 << (header & 63);
        match (self.valid & bit != 0, self.invalid & bit != 0) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, header: u8, valid: Option<bool>) {
        let bit = 1 << (header & 63);
        self.valid &= !bit;
        self.invalid &= !bit;
        match valid {
            Some(true) => self.valid |= bit,
            Some(false) => self.invalid |= bit,
            None => {}
        }
    }

    fn with(mut self, header: u8, valid: bool) -> Self {
        self.set(header, Some(valid));
        self
    }
}

/// What is known before each instruction; `None` where control never comes.
pub(super) fn analyse(program: &Program) -> Vec<Option<Known>> {
    let mut analysis = Analysis { program, before: vec![None; program.code.ops.len()], pending: Vec::new() };
    let code = &program.code;
    let none = Known { valid: 0, invalid: u64::MAX };
    // A packet comes in without headers. Whoever calls egress or the deparser may bring any.
    let parsed = analysis.part(code.parser, code.verify, none);
    let verified = analysis.part(code.verify, code.ingress, parsed);
    analysis.part(code.ingress, code.egress, verified);
    analysis.part(code.egress, code.update, Known::default());
    analysis.part(code.update, code.ops.len() as u32, Known::default());
    analysis.before
}

/// True if valid parsed headers always lie in a row from the start of the frame to the payload, as the deparser puts them, and
/// all headers that the program adds come before them. `before` is what [`analyse`] found.
pub(super) fn in_a_row(program: &Program, before: &[Option<Known>]) -> bool {
    let position = |header: u8| program.deparser.iter().position(|&h| h == header);
    let added = program.added_only();
    let mut parsed = 0u64;
    for (at, (op, known)) in program.code.ops.iter().zip(before).enumerate() {
        match *op {
            Op::Advance { .. } => return false,
            Op::AddHeader { .. } | Op::RemoveHeader { .. } | Op::CopyHeader { .. }
                if at < program.code.verify as usize =>
            {
                return false
            }
            Op::Extract { header } => {
                parsed |= 1 << (header & 63);
                let Some(known) = known else { continue };
                let maybe_before = (0..64u8).filter(|h| known.invalid >> h & 1 == 0);
                let follows = |h: u8| position(h).is_some() && position(h) < position(header);
                if known.of(header) != Some(false) || !maybe_before.into_iter().all(follows) {
                    return false;
                }
            }
            _ => {}
        }
    }
    let changed = program.moved(program.code.verify, program.code.ops.len() as u32);
    let last_added = program.deparser.iter().rposition(|&h| added >> (h & 63) & 1 == 1);
    let first_parsed = program.deparser.iter().position(|&h| parsed >> (h & 63) & 1 == 1);
    let each_once = (0..64u8).all(|header| program.deparser.iter().filter(|&&h| h == header).count() <= 1);
    let all_sent = (0..64u8).all(|h| parsed >> h & 1 == 0 || position(h).is_some());
    let added_first = match (last_added, first_parsed) {
        (Some(added), Some(parsed)) => added < parsed,
        _ => true,
    };
    parsed & changed == 0 && each_once && all_sent && added_first
}

struct Analysis<'p> {
    program: &'p Program,
    before: Vec<Option<Known>>,
    pending: Vec<u32>,
}

impl Analysis<'_> {
    /// Control comes to `at` with `known`.
    fn flow(&mut self, at: u32, known: Known) {
        let Some(before) = self.before.get_mut(at as usize) else {
            return;
        };
        let met = before.map_or(known, |b| Known { valid: b.valid & known.valid, invalid: b.invalid & known.invalid });
        if *before != Some(met) {
            *before = Some(met);
            self.pending.push(at);
        }
    }

    /// Analyses a part of the program; returns what is known at its end.
    fn part(&mut self, start: u32, limit: u32, known: Known) -> Known {
        self.flow(start, known);
        while let Some(at) = self.pending.pop() {
            if let Some(known) = self.before[at as usize] {
                self.step(at, known);
            }
        }
        let mut end: Option<Known> = None;
        for at in start..limit {
            let op = &self.program.code.ops[at as usize];
            if let Some(known) = self.before[at as usize].filter(|_| op.may_end()) {
                end = Some(
                    end.map_or(known, |e| Known { valid: e.valid & known.valid, invalid: e.invalid & known.invalid }),
                );
            }
        }
        end.unwrap_or_default()
    }

    fn step(&mut self, at: u32, known: Known) {
        let op = self.program.code.ops[at as usize];
        let mut next = known;
        match op {
            Op::JumpValid { header, to } | Op::JumpInvalid { header, to } => {
                let jumps = matches!(op, Op::JumpValid { .. });
                if known.of(header) != Some(!jumps) {
                    self.flow(to, known.with(header, jumps));
                }
                if known.of(header) != Some(jumps) {
                    self.flow(at + 1, known.with(header, !jumps));
                }
                return;
            }
            Op::Extract { header } | Op::AddHeader { header } => next.set(header, Some(true)),
            Op::RemoveHeader { header } => next.set(header, Some(false)),
            Op::CopyHeader { to, from } => next.set(to, known.of(from)),
            Op::Table { table } => {
                let targets: Vec<u32> = self.program.tables[usize::from(table)].targets().collect();
                targets.into_iter().for_each(|to| self.flow(to, known));
            }
            _ => {}
        }
        if let Some(&mut to) = op.clone().target() {
            self.flow(to, next);
        }
        if !op.is_last() {
            self.flow(at + 1, next);
        }
    }
}
