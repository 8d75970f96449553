// SPDX-License-Identifier: Apache-2.0
//! A loaded program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::control::{
    CounterId, CounterInfo, DigestInfo, RegisterId, RegisterInfo, TableId, TableInfo,
};
use crate::error::LoadError;
use crate::hash::{Calculation, Piece};
use crate::intrinsics::Intrinsics;
use crate::jit::Native;
use crate::layout::{Field, Place, Slot};
use crate::op::Op;
use crate::state::State;
use crate::table::TableCode;

/// v1model's port that means "drop".
pub(crate) const DROP_PORT: u64 = 511;

/// A compiled program: immutable, shared by pipelines.
#[derive(Debug)]
pub struct Program {
    /// Unlike that of any other program.
    pub(crate) id: u64,
    /// Native code, or why there is none.
    pub(crate) native: Result<Native, String>,
    /// Where the cells of registers and counters are.
    pub(crate) places: State,
    /// Length in bytes of each header.
    pub(crate) headers: Vec<u32>,
    pub(crate) metadata_slots: Slot,
    /// All slots that the program uses: 0..slots.
    pub(crate) slots: Slot,
    /// Where each header that the program can add goes in the buffer.
    pub(crate) homes: Vec<u16>,
    pub(crate) headroom: usize,
    /// Headers in the order in which they are emitted.
    pub(crate) deparser: Vec<u8>,
    pub(crate) code: Code,
    pub(crate) infos: Vec<TableInfo>,
    pub(crate) tables: Vec<TableCode>,
    pub(crate) counters: Vec<CounterInfo>,
    pub(crate) registers: Vec<RegisterInfo>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) digests: Vec<DigestInfo>,
    pub(crate) digest_fields: Vec<Vec<Field>>,
    /// Metadata that travels from ingress to egress.
    pub(crate) live: Vec<Slot>,
    /// Metadata that is read before it is written: 0 when a packet comes in.
    pub(crate) zeroed: Vec<Slot>,
    /// What the update of checksums reads of what egress left.
    pub(crate) left_for_update: Vec<Slot>,
    /// For each clone field list: position in `live`, and slot.
    pub(crate) kept: Vec<(u16, Vec<(usize, Slot)>)>,
    /// Bit h: header h has a place in the headroom.
    pub(crate) added_headers: u64,
    pub(crate) intrinsics: Intrinsics,
    /// Bit h: header h only carries fields of the traffic manager.
    pub(crate) manager_headers: u64,
    pub(crate) errors: ParserErrors,
    pub(crate) uses_multicast: bool,
    pub(crate) clones_at_ingress: bool,
    /// There is code to verify checksums.
    pub(crate) verifies: bool,
}

/// The instructions and where its parts start.
#[derive(Debug)]
pub(crate) struct Code {
    pub ops: Vec<Op>,
    pub constants: Vec<(Slot, u64)>,
    pub parser: u32,
    pub verify: u32,
    pub ingress: u32,
    pub egress: u32,
    pub update: u32,
}

/// Codes of the core library's parser errors in this program.
#[derive(Debug)]
pub(crate) struct ParserErrors {
    pub none: u64,
    pub packet_too_short: u64,
    pub timeout: u64,
    pub invalid_argument: u64,
}

impl ParserErrors {
    pub(crate) fn of(errors: &HashMap<String, u64>) -> Self {
        let code = |name: &str, otherwise| errors.get(name).copied().unwrap_or(otherwise);
        Self {
            none: code("NoError", 0),
            packet_too_short: code("PacketTooShort", 1),
            timeout: code("ParserTimeout", 5),
            invalid_argument: code("ParserInvalidArgument", 6),
        }
    }
}

/// A number for a program.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Program {
    /// Compiles BMv2 JSON.
    ///
    /// # Errors
    /// Whatever the program needs and this engine lacks is refused here, by name.
    pub fn load(json: &[u8]) -> Result<Self, LoadError> {
        let root = serde_json::from_slice(json).map_err(|e| LoadError::Json(e.to_string()))?;
        let program = crate::compile::compile(&root)?;
        for table in &program.tables {
            crate::table::TableState::new(table)
                .map_err(|e| LoadError::malformed(e.to_string()))?;
        }
        Ok(program)
    }

    /// Length of the zeros at the start of every buffer.
    pub(crate) fn zeros(&self) -> usize {
        self.homes
            .iter()
            .filter(|&&h| h > 0)
            .min()
            .map_or(self.headroom, |&h| usize::from(h))
    }

    /// Headers, as bits, whose place or validity instructions from `start` to `limit` can change.
    pub(crate) fn moved(&self, start: u32, limit: u32) -> u64 {
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
    pub(crate) fn added_only(&self) -> u64 {
        let parsed = self.code.ops.iter().fold(0, |set, op| match *op {
            Op::Extract { header } => set | 1 << (header & 63),
            _ => set,
        });
        self.added_headers & !parsed
    }

    /// Bank, and bytes of a row, of the longest registers and counters.
    pub(crate) fn longest_rows(&self) -> Option<(usize, usize)> {
        let registers = (0..self.registers.len()).map(|r| self.places.register_place(r as u16));
        let counters = (0..self.counters.len()).map(|c| self.places.counter_place(c as u16));
        let longest = registers.chain(counters).flatten().max_by_key(|p| p.rows)?;
        Some((longest.bank, 8 * longest.stride))
    }

    /// Position in `live` and slot of what a field list keeps.
    pub(crate) fn kept(&self, list: u16) -> &[(usize, Slot)] {
        let found = self.kept.iter().find(|(id, _)| *id == list);
        found.map_or(&[][..], |(_, kept)| kept)
    }

    /// The slots that a clone keeps.
    pub(crate) fn kept_slots(&self, fields: &[Field]) -> Vec<(usize, Slot)> {
        let mut kept = Vec::new();
        for field in fields {
            if let Place::Slot(first) = field.place {
                for slot in [first, first + 1]
                    .into_iter()
                    .take(field.width.div_ceil(64) as usize)
                {
                    if let Some(position) = self.live.iter().position(|&s| s == slot) {
                        kept.push((position, slot));
                    }
                }
            }
        }
        kept
    }

    /// All tables, also those that the compiler made for plain statements (no key, constant default action).
    #[must_use]
    pub fn tables(&self) -> &[TableInfo] {
        &self.infos
    }

    /// The table with this fully qualified name.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.infos.iter().find(|t| t.name == name).map(|t| t.id)
    }

    /// All counter arrays.
    #[must_use]
    pub fn counters(&self) -> &[CounterInfo] {
        &self.counters
    }

    /// The counter array with this fully qualified name.
    #[must_use]
    pub fn counter_id(&self, name: &str) -> Option<CounterId> {
        self.counters.iter().find(|c| c.name == name).map(|c| c.id)
    }

    /// All register arrays.
    #[must_use]
    pub fn registers(&self) -> &[RegisterInfo] {
        &self.registers
    }

    /// The register array with this fully qualified name.
    #[must_use]
    pub fn register_id(&self, name: &str) -> Option<RegisterId> {
        self.registers.iter().find(|r| r.name == name).map(|r| r.id)
    }

    /// All digests.
    #[must_use]
    pub fn digests(&self) -> &[DigestInfo] {
        &self.digests
    }

    /// True if the program can send packets to multicast groups.
    #[must_use]
    pub fn uses_multicast(&self) -> bool {
        self.uses_multicast
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
                Op::LoopGuard
                | Op::Advance { .. }
                | Op::LookAhead { .. }
                | Op::LookAheadWide { .. } => return None,
                _ => {}
            }
        }
        let parsed = (0..self.headers.len()).filter(|h| parsed >> h & 1 == 1);
        Some(parsed.map(|h| self.headers[h] as usize).sum())
    }

    /// Why the program is interpreted; `None` if it runs as native code.
    #[must_use]
    pub fn interpreted(&self) -> Option<&str> {
        self.native.as_ref().err().map(String::as_str)
    }

    /// Bytes in front of each frame: zeros that stand for invalid headers, and room for headers that are added.
    #[must_use]
    pub fn headroom(&self) -> usize {
        self.headroom
    }
}
