// SPDX-License-Identifier: Apache-2.0
//! Where fields are: metadata in slots of the frame, header fields in the packet's bytes.

/// Headers a program may declare: header positions travel with the packet in arrays of this size.
pub const MAX_HEADERS: usize = 64;

/// Zero bytes kept behind the packet so that a field can be read as one machine word.
pub const TAIL: usize = 16;

/// Index of a 64-bit word in the frame, the pipeline's working memory.
pub type Slot = u16;

/// Widest field.
pub const MAX_WIDTH: u32 = 2_048;

/// Where a field's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In one slot, or several (low word first) if wider than 64 bits.
    Slot(Slot),
    /// In header `header`, `bit` bits from its start.
    Header { header: u8, bit: u32 },
    /// The validity of a header.
    Valid(u8),
}

/// A resolved field reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    pub place: Place,
    pub width: u32,
    pub signed: bool,
}

impl Field {
    /// The slots of metadata.
    pub fn slots(self) -> impl Iterator<Item = Slot> {
        let (first, count) = match self.place {
            Place::Slot(slot) => (slot, self.width.div_ceil(64).max(1) as Slot),
            _ => (0, 0),
        };
        first..first.saturating_add(count)
    }
}
