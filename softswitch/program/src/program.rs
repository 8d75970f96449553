// SPDX-License-Identifier: Apache-2.0
//! A loaded program.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::calculation::{Calculation, Piece};
use crate::cells::CellLayout;
use crate::control::{CounterInfo, DigestInfo, MeterInfo, ProfileInfo, RegisterInfo, TableInfo, ValueSetInfo};
use crate::field::{Field, Slot};
use crate::intrinsics::Intrinsics;
use crate::op::Op;
use crate::table::TableCode;

/// v1model's port that means "drop".
pub const DROP_PORT: u64 = 511;

/// A program as data. It is made by a front end and does not change afterwards.
#[derive(Debug)]
pub struct Program {
    /// Unique to this program.
    pub id: u64,
    /// Where the cells of registers and counters are.
    pub cells: CellLayout,
    /// Length in bytes of each header.
    pub headers: Vec<u32>,
    pub metadata_slots: Slot,
    /// All slots that the program uses: 0..slots.
    pub slots: Slot,
    /// Where each header that the program can add goes in the buffer.
    pub homes: Vec<u16>,
    pub headroom: usize,
    /// Headers in the order in which they are emitted.
    pub deparser: Vec<u8>,
    /// Bit h: header h leaves with the packet if it is valid.
    pub emitted: u64,
    /// Bytes of the output that are of each header, where it is valid: twice its length if it is emitted twice.
    pub emitted_bytes: Vec<u32>,
    pub code: Code,
    pub infos: Vec<TableInfo>,
    pub tables: Vec<TableCode>,
    pub counters: Vec<CounterInfo>,
    pub registers: Vec<RegisterInfo>,
    pub meters: Vec<MeterInfo>,
    pub value_sets: Vec<ValueSetInfo>,
    pub profiles: Vec<ProfileInfo>,
    /// What each `assert` and `assume` says, and where.
    pub assertions: Vec<String>,
    /// There are instructions that call operations of the architecture, or tables that need the time.
    pub calls: bool,
    /// For each field list, the slots of what a packet keeps that goes through ingress again.
    pub again: Vec<(u16, Vec<Slot>)>,
    /// Times are in nanoseconds, as the fields of the traffic manager are; else in microseconds, as v1model says.
    pub nanoseconds: bool,
    pub calculations: Vec<Calculation>,
    pub digests: Vec<DigestInfo>,
    pub digest_fields: Vec<Vec<Field>>,
    /// Metadata whose values are read when a packet has left egress, because whoever loaded the program has asked for them.
    pub watched: Vec<Field>,
    /// Metadata that travels from ingress to egress.
    pub live: Vec<Slot>,
    /// Metadata that is read before it is written: 0 when a packet comes in.
    pub zeroed: Vec<Slot>,
    /// The same where nothing before egress writes it and no clone keeps it: it is not carried, but 0 when egress begins.
    pub zeroed_at_egress: Vec<Slot>,
    /// What the update of checksums reads of egress's metadata.
    pub left_for_update: Vec<Slot>,
    /// For each clone field list: position in `live`, and slot.
    pub kept: Vec<(u16, Vec<(usize, Slot)>)>,
    /// Bit h: header h has a place in the headroom.
    pub added_headers: u64,
    pub intrinsics: Intrinsics,
    /// Bit h: header h only carries fields of the traffic manager.
    pub manager_headers: u64,
    pub errors: ParserErrors,
    /// Ingress may ask for the packet as it came in: for clones, or to send it through ingress again.
    pub keeps_original: bool,
    /// There is code to verify checksums.
    pub verifies: bool,
}

/// The instructions and where its parts start.
#[derive(Debug)]
pub struct Code {
    pub ops: Vec<Op>,
    pub constants: Vec<(Slot, u64)>,
    pub parser: u32,
    pub verify: u32,
    pub ingress: u32,
    pub egress: u32,
    pub update: u32,
}

impl Code {
    /// Where the parts of the program begin.
    #[must_use]
    pub fn starts(&self) -> [u32; 5] {
        [self.parser, self.verify, self.ingress, self.egress, self.update]
    }
}

/// Codes of the core library's parser errors in this program.
#[derive(Debug)]
pub struct ParserErrors {
    pub none: u64,
    pub packet_too_short: u64,
    pub timeout: u64,
    pub invalid_argument: u64,
}

/// A unique number for a program.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Program {
    /// Length of the zeros at the start of every buffer.
    pub fn zeros(&self) -> usize {
        self.homes.iter().filter(|&&h| h > 0).min().map_or(self.headroom, |&h| usize::from(h))
    }

    /// Headers, as bits, whose place or validity instructions from `start` to `limit` can change.
    pub fn moved(&self, start: u32, limit: u32) -> u64 {
        let ops = &self.code.ops[start as usize..limit as usize];
        ops.iter().fold(0, |set, op| match *op {
            Op::Extract { header }
            | Op::AddHeader { header }
            | Op::RemoveHeader { header }
            | Op::CopyHeader { to: header, .. } => set | 1 << (header & 63),
            _ => set,
        })
    }

    /// Headers that are never parsed: when they are valid they lie in their place in the headroom.
    pub fn added_only(&self) -> u64 {
        let parsed = self.code.ops.iter().fold(0, |set, op| match *op {
            Op::Extract { header } => set | 1 << (header & 63),
            _ => set,
        });
        self.added_headers & !parsed
    }

    /// Position in `live` and slot of what a field list keeps.
    pub fn kept(&self, list: u16) -> &[(usize, Slot)] {
        let found = self.kept.iter().find(|(id, _)| *id == list);
        found.map_or(&[][..], |(_, kept)| kept)
    }

    /// A time in nanoseconds as the program sees it.
    #[inline]
    #[must_use]
    pub fn time(&self, ns: u64) -> u64 {
        if self.nanoseconds {
            ns
        } else {
            ns / 1_000
        }
    }

    /// The slots of a field list that a packet keeps on its way through ingress once more.
    pub fn again(&self, list: u16) -> &[Slot] {
        let found = self.again.iter().find(|(id, _)| *id == list);
        found.map_or(&[][..], |(_, slots)| slots)
    }

    /// The slots that a clone keeps.
    pub fn kept_slots(&self, fields: &[Field]) -> Vec<(usize, Slot)> {
        let mut kept = Vec::new();
        for slot in fields.iter().flat_map(|field| field.slots()) {
            if let Some(position) = self.live.iter().position(|&s| s == slot) {
                kept.push((position, slot));
            }
        }
        kept
    }

    /// All tables, also those that the compiler made for plain statements (no key, constant default action).
    #[must_use]
    pub fn tables(&self) -> &[TableInfo] {
        &self.infos
    }

    /// Where control can go on from an instruction, other than to the next one.
    #[must_use]
    pub fn targets(&self, op: &Op) -> Vec<u32> {
        match op {
            Op::Table { table } => self.tables[usize::from(*table)].targets().collect(),
            _ => op.clone().target().map(|to| *to).into_iter().collect(),
        }
    }

    /// The most bytes of a frame that the program parses; `None` if it may look at any of them.
    #[must_use]
    pub fn parsed_bytes(&self) -> Option<usize> {
        let mut pieces = self.calculations.iter().flat_map(|c| &c.pieces);
        if pieces.any(|piece| *piece == Piece::Payload) {
            return None;
        }
        let mut parsed = 0u64;
        for op in &self.code.ops {
            match op {
                Op::Extract { header } => parsed |= 1 << (header & 63),
                Op::LoopGuard | Op::Advance { .. } | Op::LookAhead { .. } | Op::LookAheadWide { .. } => return None,
                _ => {}
            }
        }
        let parsed = (0..self.headers.len()).filter(|h| parsed >> h & 1 == 1);
        Some(parsed.map(|h| self.headers[h] as usize).sum())
    }
}
