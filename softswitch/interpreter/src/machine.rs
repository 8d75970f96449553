// SPDX-License-Identifier: Apache-2.0
//! What a program reads and writes beside packets.

use narrows_program::bits::wide_ones;
use narrows_program::field::{Field, Place};
use narrows_program::Program;

use crate::cells::Cells;
use crate::error::ControlError;
use crate::frame::Frame;
use crate::hash::Bits;
use crate::meters::Meters;
use crate::packet::Packet;
use crate::profiles::Profile;
use crate::random::Random;
use crate::table::TableState;

/// Checks what a front end cannot know: that the constant entries of all tables fit.
///
/// # Errors
/// Which does not, and why.
pub fn check(program: &Program) -> Result<(), ControlError> {
    let mut tables = program.tables.iter();
    tables.try_for_each(|table| TableState::new(table).map(drop))
}

/// What instructions read and write beside the packet.
#[derive(Debug)]
pub struct Machine {
    pub frame: Box<Frame>,
    pub tables: Vec<TableState>,
    /// What the clone keeps, that the last egress asked for, of the metadata that the packet carried.
    pub kept: Vec<u64>,
    /// The same of clones that the last ingress asked for.
    pub(crate) ingress_clones: IngressClones,
    pub cells: Cells,
    pub meters: Meters,
    /// The members of each parser value set, their fields in whole bytes, the last one lowest.
    pub value_sets: Vec<Vec<u64>>,
    /// One for each action profile.
    pub profiles: Vec<Profile>,
    /// When the packet came in, or left its queue.
    pub now_ns: u64,
    pub random: Random,
    pub bits: Bits,
    /// What a run leaves behind.
    pub outcome: Outcome,
    /// The first assertion that a packet has shown to be wrong.
    pub failed: Option<u16>,
}

/// What ingress-to-egress clones of a packet carry on.
#[derive(Debug, Default)]
pub(crate) struct IngressClones {
    pub(crate) port: u64,
    /// In the order of the program's live list.
    pub(crate) live: Vec<u64>,
}

/// What a run of the program decided.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Session and field list.
    pub clone: Option<(u16, u16)>,
    /// Index of the digest.
    pub digest: Option<u16>,
    /// The field list of a packet that goes through ingress again.
    pub again: Option<u16>,
    pub parser_error: u64,
    pub checksum_error: bool,
}

impl Machine {
    /// The machine of a program that was just loaded: its constant entries, cells at 0. `seed` is that of its random numbers.
    #[must_use]
    pub fn new(program: &Program, seed: u64) -> Self {
        let mut frame = vec![0; 65536].into_boxed_slice();
        for &(slot, value) in &program.code.constants {
            frame[usize::from(slot)] = value;
        }
        Self {
            frame: frame.try_into().unwrap_or_else(|_| Box::new([0; 65536])),
            // Those whose constant entries do not fit were refused, see [`check`].
            tables: program.tables.iter().filter_map(|t| TableState::new(t).ok()).collect(),
            kept: Vec::new(),
            ingress_clones: IngressClones::default(),
            cells: Cells::new(&program.cells),
            meters: Meters::new(&program.meters),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            profiles: vec![Profile::default(); program.profiles.len()],
            now_ns: 0,
            random: Random::new(seed),
            bits: Bits::default(),
            outcome: Outcome::default(),
            failed: None,
        }
    }

    /// The value of a field.
    #[must_use]
    pub fn value(&self, field: Field, packet: &Packet) -> u128 {
        match field.place {
            Place::Slot(slot) => {
                let slot = usize::from(slot);
                let high = if field.width > 64 { self.frame[slot + 1] } else { 0 };
                u128::from(self.frame[slot]) | u128::from(high) << 64
            }
            Place::Valid(header) => u128::from(packet.is_valid(header)),
            Place::Header { header, bit } => {
                let byte = (bit / 8) as u16;
                let end = bit % 8 + field.width;
                if end <= 128 {
                    packet.window16(header, byte) >> (128 - end) & wide_ones(field.width)
                } else {
                    // 17 bytes: all but the last, then the rest.
                    let rest = end - 128;
                    let head = packet.window16(header, byte) & wide_ones(128 - bit % 8);
                    head << rest | u128::from(packet.window1(header, byte + 16) >> (8 - rest))
                }
            }
        }
    }
}
