// SPDX-License-Identifier: Apache-2.0
//! Which metadata egress reads before it writes it: that is all a packet has to carry through the queue.

use crate::hash::Piece;
use crate::layout::{Field, Place, Slot};
use crate::op::Op;
use crate::program::Program;
use crate::table::Source;

/// A set of metadata slots.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn add(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    fn remove(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    fn unite(&mut self, other: &Set) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    fn contains(&self, slot: Slot) -> bool {
        self.0
            .get(usize::from(slot) / 64)
            .is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

/// Slots that an instruction reads, and those that it surely overwrites.
#[derive(Default)]
struct Effect {
    reads: Vec<Slot>,
    writes: Vec<Slot>,
}

impl Effect {
    fn of(op: &Op, program: &Program) -> Self {
        let mut effect = Effect::default();
        let pair = |slot: Slot| [slot, slot + 1];
        match *op {
            Op::JumpZero { s, .. } | Op::JumpNonZero { s, .. } => effect.reads.push(s),
            Op::JumpCompare { a, b, .. } => effect.reads.extend([a, b]),
            Op::Move { d, s } | Op::Not { d, s, .. } | Op::Mask { d, s, .. } => {
                effect.reads.push(s);
                effect.writes.push(d);
            }
            Op::MoveWide { d, s } | Op::WideNot { d, s } | Op::WideCast { d, s, .. } => {
                effect.reads.extend(pair(s));
                effect.writes.extend(pair(d));
            }
            Op::Add { d, a, b, .. }
            | Op::Sub { d, a, b, .. }
            | Op::Mul { d, a, b, .. }
            | Op::And { d, a, b }
            | Op::Or { d, a, b }
            | Op::Xor { d, a, b }
            | Op::Shl { d, a, b, .. }
            | Op::Shr { d, a, b }
            | Op::Div { d, a, b }
            | Op::Mod { d, a, b }
            | Op::SaturatingAdd { d, a, b, .. }
            | Op::SaturatingSub { d, a, b }
            | Op::Concat { d, a, b, .. }
            | Op::Compare { d, a, b, .. } => {
                effect.reads.extend([a, b]);
                effect.writes.push(d);
            }
            Op::Widen { d, s } => {
                effect.reads.push(s);
                effect.writes.extend(pair(d));
            }
            Op::WideArithmetic { d, a, b, .. } => {
                effect.reads.extend(pair(a).into_iter().chain(pair(b)));
                effect.writes.extend(pair(d));
            }
            Op::WideCompare { d, a, b, .. } => {
                effect.reads.extend(pair(a).into_iter().chain(pair(b)));
                effect.writes.push(d);
            }
            Op::Valid { d, .. }
            | Op::Load1 { d, .. }
            | Op::Load2 { d, .. }
            | Op::Load4 { d, .. }
            | Op::Load8 { d, .. } => effect.writes.push(d),
            Op::LoadWide { d, .. } => effect.writes.extend(pair(d)),
            Op::Store1 { s, .. }
            | Op::Store2 { s, .. }
            | Op::Store4 { s, .. }
            | Op::Store8 { s, .. }
            | Op::StoreBytes { s, .. }
            | Op::StoreBits { s, .. }
            | Op::Advance { s } => effect.reads.push(s),
            Op::StoreWide { s, .. } => effect.reads.extend(pair(s)),
            Op::RegisterRead { index, .. } | Op::Count { index, .. } => effect.reads.push(index),
            Op::RegisterWrite { index, s, .. } => effect.reads.extend([index, s]),
            Op::Random { low, high, .. } => effect.reads.extend([low, high]),
            Op::Hash {
                d,
                calculation,
                base,
                size,
                ..
            } => {
                effect.reads.extend([base, size]);
                effect.inputs(program, calculation);
                effect.writes.push(d);
            }
            Op::Checksum { d, calculation } => {
                effect.inputs(program, calculation);
                effect.writes.push(d);
            }
            Op::Clone { session: s, .. }
            | Op::Truncate { length: s }
            | Op::ParserError { code: s } => {
                effect.reads.push(s);
            }
            Op::Table { table } => {
                for part in &program.tables[usize::from(table)].layout.parts {
                    if let Source::Slot(slot) = part.source {
                        effect.reads.extend(pair(slot));
                    }
                }
            }
            Op::LookAhead { d, .. } => effect.writes.push(d),
            Op::LookAheadWide { d, .. } => effect.writes.extend(pair(d)),
            Op::End
            | Op::Jump(_)
            | Op::JumpValid { .. }
            | Op::JumpInvalid { .. }
            | Op::AddHeader { .. }
            | Op::RemoveHeader { .. }
            | Op::CopyHeader { .. }
            | Op::ChecksumError
            | Op::Digest { .. }
            | Op::Extract { .. }
            | Op::LoopGuard => {}
        }
        effect
    }

    fn inputs(&mut self, program: &Program, calculation: u16) {
        for piece in &program.calculations[usize::from(calculation)].pieces {
            if let Piece::Slot { slot, width } = *piece {
                self.reads.push(slot);
                if width > 64 {
                    self.reads.push(slot + 1);
                }
            }
        }
    }
}

fn successors(op: &Op, at: usize, program: &Program) -> Vec<usize> {
    match *op {
        Op::End | Op::ParserError { .. } => Vec::new(),
        Op::Jump(to) => vec![to as usize],
        Op::JumpZero { to, .. }
        | Op::JumpNonZero { to, .. }
        | Op::JumpCompare { to, .. }
        | Op::JumpValid { to, .. }
        | Op::JumpInvalid { to, .. } => vec![at + 1, to as usize],
        Op::Table { table } => program.tables[usize::from(table)]
            .actions
            .iter()
            .flat_map(|a| a.targets)
            .map(|t| t as usize)
            .collect(),
        _ => vec![at + 1],
    }
}

/// Slots that are live before the instruction at `start`, given those that are live at the end.
fn live_in(program: &Program, start: u32, limit: u32, at_end: &Set) -> Set {
    let (start, limit) = (start as usize, limit as usize);
    let empty = Set(vec![0; usize::from(program.metadata_slots).div_ceil(64)]);
    let mut before: Vec<Set> = vec![empty.clone(); limit - start];
    let effects: Vec<Effect> = program.code.ops[start..limit]
        .iter()
        .map(|op| Effect::of(op, program))
        .collect();
    loop {
        let mut changed = false;
        for at in (start..limit).rev() {
            let op = &program.code.ops[at];
            let mut live = if *op == Op::End {
                at_end.clone()
            } else {
                empty.clone()
            };
            for next in successors(op, at, program) {
                if let Some(set) = next.checked_sub(start).and_then(|n| before.get(n)) {
                    live.unite(set);
                }
            }
            let effect = &effects[at - start];
            effect.writes.iter().for_each(|&s| live.remove(s));
            effect.reads.iter().for_each(|&s| live.add(s));
            if before[at - start] != live {
                before[at - start] = live;
                changed = true;
            }
        }
        if !changed {
            return before.swap_remove(0);
        }
    }
}

/// Metadata that packets carry from ingress to egress. `at_end` is what clones keep of it.
pub(crate) fn at_egress(program: &Program, at_end: &[Field]) -> Vec<Slot> {
    let code = &program.code;
    let empty = Set(vec![0; usize::from(program.metadata_slots).div_ceil(64)]);
    let mut end = live_in(program, code.update, code.ops.len() as u32, &empty);
    for field in at_end {
        if let Place::Slot(slot) = field.place {
            end.add(slot);
            if field.width > 64 {
                end.add(slot + 1);
            }
        }
    }
    let live = live_in(program, code.egress, code.update, &end);
    let set = program.intrinsics.set_at_egress();
    (0..program.metadata_slots)
        .filter(|slot| live.contains(*slot) && !set.contains(slot))
        .collect()
}
