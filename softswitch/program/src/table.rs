// SPDX-License-Identifier: Apache-2.0
//! Match-action tables: where their keys come from, and the code of their actions.

use crate::control::{Entry, MatchKind, TableInfo};
use crate::field::Slot;

/// Longest key in bits.
pub const MAX_KEY_BITS: u32 = 512;

/// Words of 64 bits that the longest keys take: fields do not cross words, so that 15 fields of 34 bits need one each.
pub const MAX_WORDS: usize = 16;

/// Parameters are copied in blocks of this many words.
pub const BLOCK: usize = 4;

/// What a table is compiled to.
#[derive(Debug)]
pub struct TableCode {
    pub info: TableInfo,
    pub parts: Vec<KeyPart>,
    /// The actions in the order of `info.actions`, and last what happens when a miss runs none.
    pub actions: Vec<TableAction>,
    /// First slot of the parameters of the chosen action.
    pub params: Slot,
    /// The program's default action (index in `actions`) and its data.
    pub default: (u16, Vec<u128>),
    pub entries: Vec<Entry>,
    pub direct_counter: Option<String>,
    pub direct_meter: Option<DirectMeter>,
}

/// The meter of a table's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectMeter {
    /// Its number among the program's meters.
    pub meter: u16,
    /// Tokens are bytes, else packets.
    pub bytes: bool,
}

/// An action's code in a table.
#[derive(Debug)]
pub struct TableAction {
    pub widths: Vec<u32>,
    /// Where it starts, after a miss and after a hit.
    pub targets: [u32; 2],
}

impl TableAction {
    /// Words that its parameters take.
    pub fn words(&self) -> usize {
        self.widths.iter().map(|w| w.div_ceil(64) as usize).sum()
    }
}

impl TableCode {
    /// How many of the actions can ever run: the last one only where a miss runs none.
    pub fn reachable(&self) -> usize {
        let last = self.actions.len().saturating_sub(1);
        last + usize::from(usize::from(self.default.0) == last)
    }

    /// Where control can go on.
    pub fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        let reachable = self.actions.iter().take(self.reachable());
        reachable.flat_map(|action| action.targets)
    }

    /// Words of a record: the action, and the parameters.
    pub fn record_words(&self) -> usize {
        1 + self.stride()
    }

    /// Words that the parameters of any of its actions take.
    pub fn words(&self) -> usize {
        self.actions.iter().map(TableAction::words).max().unwrap_or(0)
    }

    /// The same in whole blocks.
    pub fn stride(&self) -> usize {
        self.words().next_multiple_of(BLOCK)
    }
}

/// Where a key field's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Slot(Slot),
    Valid(u8),
    /// Bits of a header, at most 64.
    Header {
        header: u8,
        byte: u16,
        shift: u8,
    },
    /// At most 128.
    HeaderWide {
        header: u8,
        byte: u16,
        shift: u8,
    },
}

/// A key field.
#[derive(Debug, Clone, Copy)]
pub struct KeyPart {
    pub kind: MatchKind,
    pub source: Source,
    pub width: u32,
    /// What the program itself masks the field with.
    pub mask: Option<u128>,
}

impl KeyPart {
    /// Words of its value.
    pub fn words(&self) -> u32 {
        self.width.div_ceil(64).max(1)
    }
}
