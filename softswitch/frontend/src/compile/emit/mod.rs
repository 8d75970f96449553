// SPDX-License-Identifier: Apache-2.0
//! Writes instructions: slots, constants, labels, and the evaluation of expressions.

mod fields;
mod long;
mod truth;
mod values;
mod wide;

use std::collections::HashMap;

use narrows_program::field::Slot;
use narrows_program::op::Op;

use crate::error::LoadError;
use crate::layout::Layout;

type Result<T> = std::result::Result<T, LoadError>;

/// Slots of constants, with their values.
pub(crate) type Constants = Vec<(Slot, u64)>;

/// A jump target that may not have a place yet.
pub(crate) type Label = u32;

/// A narrow value: its slot, and the number of bits it can have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrow {
    pub slot: Slot,
    pub bits: u32,
}

/// How much of a value is wanted: all of it, or its low bits (what lies above them is then undefined).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Exact,
    Low(u32),
}

impl Want {
    pub(super) fn bits(self, most: u32) -> u32 {
        match self {
            Want::Exact => most,
            Want::Low(n) => n.min(most),
        }
    }
}

/// Slots that a program may use at most; the frame has as many as a slot number can say.
const MAX_SLOTS: u32 = 60_000;
const UNPLACED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Emitter {
    pub ops: Vec<Op>,
    labels: Vec<u32>,
    /// Instructions before this one may be jumped behind: they must not be changed any more.
    barrier: usize,
    next_slot: u32,
    constants: Constants,
    constant_of: HashMap<u64, Slot>,
    wide_constant_of: HashMap<u128, Slot>,
    temporaries: Vec<Slot>,
    used_temporaries: usize,
    first_temporary: u32,
}

impl Emitter {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            ops: Vec::new(),
            labels: Vec::new(),
            barrier: 0,
            next_slot: u32::from(layout.metadata_slots),
            constants: Vec::new(),
            constant_of: HashMap::new(),
            wide_constant_of: HashMap::new(),
            temporaries: Vec::new(),
            used_temporaries: 0,
            first_temporary: u32::MAX,
        }
    }

    /// Permanent slots, consecutive.
    pub(crate) fn allocate(&mut self, count: u32, place: &str) -> Result<Slot> {
        let slot = self.next_slot;
        self.next_slot = slot.saturating_add(count);
        if self.next_slot > MAX_SLOTS {
            return Err(LoadError::unsupported("a program of this size", place));
        }
        Ok(slot as Slot)
    }

    /// Two slots that live until the end of the statement.
    pub(super) fn temporary(&mut self) -> Result<Slot> {
        if self.used_temporaries == self.temporaries.len() {
            let slot = self.allocate(2, "expression")?;
            self.first_temporary = self.first_temporary.min(u32::from(slot));
            self.temporaries.push(slot);
        }
        self.used_temporaries += 1;
        Ok(self.temporaries[self.used_temporaries - 1])
    }

    pub(super) fn is_temporary(&self, slot: Slot) -> bool {
        u32::from(slot) >= self.first_temporary && self.temporaries[..self.used_temporaries].contains(&slot)
    }

    /// All temporaries are free again.
    pub(crate) fn end_statement(&mut self) {
        self.used_temporaries = 0;
    }

    pub(crate) fn constant(&mut self, value: u64) -> Result<Slot> {
        if let Some(&slot) = self.constant_of.get(&value) {
            return Ok(slot);
        }
        let slot = self.allocate(1, "constant")?;
        self.constants.push((slot, value));
        self.constant_of.insert(value, slot);
        Ok(slot)
    }

    pub(super) fn wide_constant(&mut self, value: u128) -> Result<Slot> {
        if let Some(&slot) = self.wide_constant_of.get(&value) {
            return Ok(slot);
        }
        let slot = self.allocate(2, "constant")?;
        self.constants.push((slot, value as u64));
        self.constants.push((slot + 1, (value >> 64) as u64));
        self.wide_constant_of.insert(value, slot);
        Ok(slot)
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(UNPLACED);
        (self.labels.len() - 1) as Label
    }

    /// The label names the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label as usize] = self.ops.len() as u32;
        self.barrier = self.ops.len();
    }

    /// Drops a jump to `label`, which is about to be placed here.
    pub(crate) fn fall_through(&mut self, label: Label) {
        if self.ops.len() > self.barrier && self.ops.last() == Some(&Op::Jump(label)) {
            self.ops.pop();
        }
    }

    /// Slots in use.
    pub(crate) fn slots(&self) -> Slot {
        self.next_slot as Slot
    }

    pub(crate) fn is_placed(&self, label: Label) -> bool {
        self.labels[label as usize] != UNPLACED
    }

    /// The instruction that a placed label names.
    pub(crate) fn address(&self, label: Label) -> Result<u32> {
        let mut address = self.labels[label as usize];
        if address == UNPLACED {
            return Err(LoadError::malformed("a jump leads nowhere"));
        }
        // A jump to a jump continues; bounded because a program may hold a circle of them only behind a loop guard.
        for _ in 0..8 {
            match self.ops.get(address as usize) {
                Some(Op::Jump(next)) if self.labels[*next as usize] != UNPLACED => {
                    address = self.labels[*next as usize];
                }
                _ => break,
            }
        }
        Ok(address)
    }

    /// Turns labels into addresses.
    pub(crate) fn finish(mut self) -> Result<(Vec<Op>, Constants)> {
        let mut ops = self.ops.clone();
        for op in &mut ops {
            match op {
                Op::Jump(to)
                | Op::JumpZero { to, .. }
                | Op::JumpNonZero { to, .. }
                | Op::JumpCompare { to, .. }
                | Op::JumpValid { to, .. }
                | Op::JumpInvalid { to, .. } => *to = self.address(*to)?,
                _ => {}
            }
        }
        self.ops.clear();
        Ok((ops, self.constants))
    }

    pub(crate) fn op(&mut self, op: Op) {
        self.ops.push(op);
    }
}
