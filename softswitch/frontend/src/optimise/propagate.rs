// SPDX-License-Identifier: Apache-2.0
//! Copies and repeated computations.

use std::collections::HashMap;

use narrows_program::calculation::Piece;
use narrows_program::field::Slot;
use narrows_program::op::{Compare, Op, Use};
use narrows_program::table::Source;
use narrows_program::Program;

use super::{leaders, NOTHING};

/// Values that are remembered for reuse.
const MAX_VALUES: usize = 64;

/// What is known between two jump targets.
struct Known {
    /// `same[s]` is a slot that holds the same value as s.
    same: Vec<Slot>,
    /// Slots s with `same[s] != s`.
    copies: Vec<Slot>,
    /// Pure instructions (destination 0) and where their result is.
    values: Vec<(Op, Slot)>,
}

impl Known {
    fn new(slots: usize) -> Self {
        Self { same: (0..slots).map(|s| s as Slot).collect(), copies: Vec::new(), values: Vec::new() }
    }

    fn forget_all(&mut self) {
        for slot in self.copies.drain(..) {
            self.same[usize::from(slot)] = slot;
        }
        self.values.clear();
    }

    /// A slot is about to change.
    fn forget(&mut self, slot: Slot) {
        let same = &mut self.same;
        self.copies.retain(|&copy| {
            let stale = copy == slot || same[usize::from(copy)] == slot;
            if stale {
                same[usize::from(copy)] = copy;
            }
            !stale
        });
        self.values.retain(|(op, d)| {
            let mut stale = *d == slot || is_wide(op) && *d + 1 == slot;
            op.clone().visit(|&mut s, how| match how {
                Use::Read => stale |= s == slot,
                Use::ReadWide => stale |= s == slot || s + 1 == slot,
                _ => {}
            });
            !stale
        });
    }

    fn copy(&mut self, d: Slot, s: Slot) {
        let root = self.same[usize::from(s)];
        if root != d {
            self.same[usize::from(d)] = root;
            self.copies.push(d);
        }
    }

    fn root(&self, slot: Slot) -> Slot {
        self.same[usize::from(slot)]
    }
}

fn is_wide(op: &Op) -> bool {
    let mut wide = false;
    op.clone().visit(|_, how| wide |= how == Use::WriteWide);
    wide
}

fn destination(op: &Op) -> Option<Slot> {
    let mut found = None;
    op.clone().visit(|&mut slot, how| {
        if matches!(how, Use::Write | Use::WriteWide) {
            found = Some(slot);
        }
    });
    found
}

fn with_destination(op: &Op, d: Slot) -> Op {
    let mut op = *op;
    op.visit(|slot, how| {
        if matches!(how, Use::Write | Use::WriteWide) {
            *slot = d;
        }
    });
    op
}

/// Reads come from where values were first; what is already known is not computed again.
pub(super) fn propagate(program: &mut Program) {
    let leaders = leaders(program);
    let constants: HashMap<Slot, u64> = program.code.constants.iter().copied().collect();
    let zero = program.code.constants.iter().find(|c| c.1 == 0).map(|c| c.0);
    let mut uses = vec![0u32; program.calculations.len()];
    for op in &program.code.ops {
        if let Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } = op {
            uses[usize::from(*calculation)] += 1;
        }
    }
    let mut known = Known::new(usize::from(program.slots) + 2);
    for (at, leader) in leaders.into_iter().enumerate().take(program.code.ops.len()) {
        if leader {
            known.forget_all();
        }
        let mut op = program.code.ops[at];
        op.visit(|slot, how| match how {
            Use::Read => *slot = known.root(*slot),
            Use::ReadWide => {
                let (low, high) = (known.root(*slot), known.root(*slot + 1));
                if low + 1 == high {
                    *slot = low;
                }
            }
            _ => {}
        });
        match op {
            Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } if uses[usize::from(calculation)] == 1 => {
                for piece in &mut program.calculations[usize::from(calculation)].pieces {
                    if let Piece::Slot { slot, width } = piece {
                        *slot = known.root(*slot);
                        if let Some(value) = constants.get(slot) {
                            *piece = Piece::Constant { value: *value, width: *width };
                        }
                    }
                }
            }
            Op::Table { table } => {
                for part in &mut program.tables[usize::from(table)].parts {
                    if let (Source::Slot(slot), true) = (&mut part.source, part.width <= 64) {
                        *slot = known.root(*slot);
                    }
                }
            }
            Op::JumpCompare { compare, a, b, to } => {
                if let (Some(a), Some(b)) = (constants.get(&a), constants.get(&b)) {
                    op = if compare.holds(a, b) { Op::Jump(to) } else { NOTHING };
                } else if constants.get(&b) == Some(&0) && matches!(compare, Compare::Eq | Compare::Ne) {
                    op = if compare == Compare::Eq { Op::JumpZero { s: a, to } } else { Op::JumpNonZero { s: a, to } };
                }
            }
            _ => {}
        }
        if op.is_pure() {
            let plain = with_destination(&op, 0);
            if let (Some((_, s)), Some(d)) = (known.values.iter().find(|v| v.0 == plain), destination(&op)) {
                op = if is_wide(&op) { Op::MoveWide { d, s: *s } } else { Op::Move { d, s: *s } };
            }
        }
        if op.writes_header() {
            known.values.retain(|v| !v.0.reads_header());
        }
        // Nothing changes where a value moves to where it is.
        let unchanged = match op {
            Op::Move { d, s } => known.root(d) == known.root(s),
            _ => false,
        };
        if !unchanged {
            op.clone().visit(|&mut slot, how| match how {
                Use::Write | Use::MayWrite => known.forget(slot),
                Use::WriteWide => {
                    known.forget(slot);
                    known.forget(slot + 1);
                }
                _ => {}
            });
            match op {
                Op::Move { d, s } => known.copy(d, s),
                Op::MoveWide { d, s } if d != s => {
                    known.copy(d, s);
                    known.copy(d + 1, s + 1);
                }
                Op::Widen { d, s } => {
                    known.copy(d, s);
                    if let Some(zero) = zero {
                        known.copy(d + 1, zero);
                    }
                }
                _ => {}
            }
            if let (true, Some(d), false) = (op.is_pure(), destination(&op), matches!(op, Op::Move { .. })) {
                let mut reads_itself = false;
                let wide = is_wide(&op);
                op.clone().visit(|&mut s, how| {
                    let read = match how {
                        Use::Read => vec![s],
                        Use::ReadWide => vec![s, s + 1],
                        _ => Vec::new(),
                    };
                    reads_itself |= read.contains(&d) || wide && read.contains(&(d + 1));
                });
                if !reads_itself && known.values.len() < MAX_VALUES {
                    known.values.push((with_destination(&op, 0), d));
                }
            }
        }
        program.code.ops[at] = if unchanged { NOTHING } else { op };
    }
}
