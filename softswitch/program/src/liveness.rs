// SPDX-License-Identifier: Apache-2.0
//! Which slots are still read: what need not be computed, and what a packet has to carry through the queue.

use crate::calculation::Piece;
use crate::field::{Field, Slot};
use crate::op::{Op, Use};
use crate::program::Program;
use crate::table::Source;

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct Set(Vec<u64>);

impl Set {
    /// The empty set, with room for all slots of a program.
    fn of(program: &Program) -> Self {
        Self(vec![0; usize::from(program.slots).div_ceil(64)])
    }

    fn add_field(&mut self, field: Field) {
        field.slots().for_each(|slot| self.add(slot));
    }

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

    pub fn contains(&self, slot: Slot) -> bool {
        self.0.get(usize::from(slot) / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

/// Slots that an instruction reads, and those that it surely overwrites.
#[derive(Default)]
pub struct Effect {
    pub reads: Vec<Slot>,
    pub writes: Vec<Slot>,
}

impl Effect {
    pub fn of(op: &Op, program: &Program) -> Self {
        let mut effect = Effect::default();
        let mut op = *op;
        op.visit(|&mut slot, how| match how {
            Use::Read => effect.reads.push(slot),
            Use::ReadWide => effect.reads.extend([slot, slot + 1]),
            Use::Write => effect.writes.push(slot),
            Use::WriteWide => effect.writes.extend([slot, slot + 1]),
            // Where it is not written, what was there before is live.
            Use::MayWrite => effect.reads.push(slot),
        });
        match op {
            Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } => effect.inputs(program, calculation),
            Op::Table { table } => {
                for part in &program.tables[usize::from(table)].parts {
                    if let Source::Slot(slot) = part.source {
                        effect.reads.push(slot);
                        if part.width > 64 {
                            effect.reads.push(slot + 1);
                        }
                    }
                }
            }
            _ => {}
        }
        effect
    }

    fn inputs(&mut self, program: &Program, calculation: u16) {
        let pieces = &program.calculations[usize::from(calculation)].pieces;
        self.reads.extend(pieces.iter().filter_map(|p| match p {
            Piece::Slot { slot, .. } => Some(*slot),
            _ => None,
        }));
    }
}

/// For each instruction from `start` to `limit`, the slots that are live behind it, and those before the first one.
/// `at_end` are those live where this part of the program ends.
pub fn analyse(program: &Program, start: u32, limit: u32, at_end: &Set) -> (Vec<Set>, Set) {
    let (after, mut before) = analyse_both(program, start, limit, at_end);
    (after, before.swap_remove(0))
}

/// The same, and those before each instruction.
fn analyse_both(program: &Program, start: u32, limit: u32, at_end: &Set) -> (Vec<Set>, Vec<Set>) {
    let (start, limit) = (start as usize, limit as usize);
    let empty = Set::of(program);
    let mut before: Vec<Set> = vec![empty.clone(); limit - start + 1];
    let mut after = before.clone();
    let effects: Vec<Effect> = program.code.ops[start..limit].iter().map(|op| Effect::of(op, program)).collect();
    loop {
        let mut changed = false;
        for at in (start..limit).rev() {
            let op = &program.code.ops[at];
            let mut live = if op.may_end() { at_end.clone() } else { empty.clone() };
            let following = (!op.is_last()).then_some(at as u32 + 1);
            for next in program.targets(op).into_iter().chain(following) {
                if let Some(set) = (next as usize).checked_sub(start).and_then(|n| before.get(n)) {
                    live.unite(set);
                }
            }
            let effect = &effects[at - start];
            after[at - start] = live.clone();
            effect.writes.iter().for_each(|&s| live.remove(s));
            effect.reads.iter().for_each(|&s| live.add(s));
            if op.may_fail() {
                live.unite(at_end);
            }
            if before[at - start] != live {
                before[at - start] = live;
                changed = true;
            }
        }
        if !changed {
            return (after, before);
        }
    }
}

/// What is live where each part of the program ends.
pub struct Ends {
    pub parser: Set,
    pub verify: Set,
    pub ingress: Set,
    pub egress: Set,
    pub update: Set,
    /// Metadata that packets carry from ingress to egress.
    pub carried: Vec<Slot>,
    /// [`Program::zeroed_at_egress`]
    pub zeroed_at_egress: Vec<Slot>,
    /// What the update of checksums reads of egress's metadata.
    pub left_for_update: Vec<Slot>,
}

impl Ends {
    /// `kept` are the fields that clones keep.
    pub fn of(program: &Program, kept: &[Field]) -> Self {
        let code = &program.code;
        let fields = &program.intrinsics;
        let update = Set::of(program);
        let (_, mut egress) = analyse(program, code.update, code.ops.len() as u32, &update);
        let constant = |slot: &Slot| code.constants.iter().any(|c| c.0 == *slot);
        let left_for_update = (0..program.slots).filter(|slot| egress.contains(*slot) && !constant(slot)).collect();
        kept.iter().for_each(|f| egress.add_field(*f));
        fields.egress_spec.slot().into_iter().for_each(|s| egress.add(s));

        let (_, carried) = analyse(program, code.egress, code.update, &egress);
        let set = fields.set_at_egress();
        let needed = (0..program.metadata_slots).filter(|slot| carried.contains(*slot) && !set.contains(slot));
        let filled = filled_before_egress(program, kept);
        let (carried, zeroed_at_egress): (Vec<Slot>, Vec<Slot>) = needed.partition(|slot| filled.contains(*slot));

        let mut ingress = Set::of(program);
        carried.iter().for_each(|&s| ingress.add(s));
        kept.iter().for_each(|f| ingress.add_field(*f));
        program.digest_fields.iter().flatten().for_each(|f| ingress.add_field(*f));
        fields.left_by_ingress().for_each(|s| ingress.add(s));
        let (_, verify) = analyse(program, code.ingress, code.egress, &ingress);
        let (_, parser) = analyse(program, code.verify, code.ingress, &verify);
        Self { parser, verify, ingress, egress, update, carried, zeroed_at_egress, left_for_update }
    }

    /// Metadata that must be 0 when a packet comes in.
    pub fn zeroed(&self, program: &Program) -> Vec<Slot> {
        let code = &program.code;
        let (_, first) = analyse(program, code.parser, code.verify, &self.parser);
        (0..program.metadata_slots).filter(|&slot| first.contains(slot)).collect()
    }
}

/// Metadata that may be something else than 0 when egress begins: what anything before it writes, or a clone keeps. (What a
/// register is read into keeps its value where there is no such cell, so that egress may read what only egress writes.)
fn filled_before_egress(program: &Program, kept: &[Field]) -> Set {
    let mut filled = Set::of(program);
    kept.iter().for_each(|f| filled.add_field(*f));
    program.intrinsics.set_at_ingress().for_each(|s| filled.add(s));
    let code = &program.code;
    for op in &code.ops[code.parser as usize..code.egress as usize] {
        op.clone().visit(|&mut slot, how| match how {
            Use::Read | Use::ReadWide => {}
            Use::Write | Use::MayWrite => filled.add(slot),
            Use::WriteWide => [slot, slot + 1].into_iter().for_each(|s| filled.add(s)),
        });
        if let Op::Table { table } = op {
            let table = &program.tables[usize::from(*table)];
            (0..table.words()).for_each(|word| filled.add(table.params + word as Slot));
        }
    }
    filled
}

/// For each instruction of parser, verification and ingress the slots that are live before it, and last those behind
/// ingress.
pub fn needed_at_ingress(program: &Program) -> Vec<Set> {
    let (code, fields) = (&program.code, &program.intrinsics);
    let mut end = Set::of(program);
    let kept = program.kept.iter().flat_map(|(_, kept)| kept).map(|k| k.1);
    kept.chain(program.live.iter().copied()).for_each(|s| end.add(s));
    if program.calls {
        program.again.iter().flat_map(|(_, slots)| slots).for_each(|&s| end.add(s));
    }
    let digests = program.digest_fields.iter().flatten();
    digests.for_each(|f| end.add_field(*f));
    fields.left_by_ingress().for_each(|s| end.add(s));
    let parts = [(code.ingress, code.egress), (code.verify, code.ingress), (code.parser, code.verify)];
    let mut all = vec![end.clone()];
    for (start, limit) in parts {
        let (_, mut before) = analyse_both(program, start, limit, &end);
        before.truncate((limit - start) as usize);
        if let Some(first) = before.first() {
            end = first.clone();
        }
        before.append(&mut all);
        all = before;
    }
    all
}
