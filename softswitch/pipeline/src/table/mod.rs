// SPDX-License-Identifier: Apache-2.0
//! Match-action tables: how keys are packed, what entries are, how they are found.

mod key_map;
mod lookup;
mod state;

pub(crate) use key_map::NONE;
pub(crate) use state::TableState;

use crate::compile::ones;
use crate::control::{Entry, KeyInfo, MatchKind, TableInfo};
use crate::error::LoadError;
use crate::layout::{Field, Place, Slot};
use crate::packet::Packet;

/// Longest key, in words of 64 bits.
pub(crate) const MAX_WORDS: usize = 8;

/// A packed key.
pub(crate) type Key = [u64; MAX_WORDS];

/// What a table is compiled to.
#[derive(Debug)]
pub(crate) struct TableCode {
    pub info: TableInfo,
    pub layout: KeyLayout,
    /// The actions in the order of `info.actions`, and last what happens when a miss runs none.
    pub actions: Vec<TableAction>,
    /// First slot of the parameters of the chosen action.
    pub params: Slot,
    /// The program's default action (index in `actions`) and its data.
    pub default: (u16, Vec<u128>),
    pub entries: Vec<Entry>,
    pub direct_counter: Option<String>,
}

/// An action's code in a table.
#[derive(Debug)]
pub(crate) struct TableAction {
    pub widths: Vec<u32>,
    /// Where it starts, after a miss and after a hit.
    pub targets: [u32; 2],
}

impl TableCode {
    /// Labels become addresses.
    pub(crate) fn resolve(
        &mut self,
        address: impl Fn(u32) -> Result<u32, LoadError>,
    ) -> Result<(), LoadError> {
        for target in self.actions.iter_mut().flat_map(|a| &mut a.targets) {
            *target = address(*target)?;
        }
        Ok(())
    }

    /// Slots that the parameters of any of its actions take.
    pub(crate) fn stride(&self) -> usize {
        self.actions
            .iter()
            .map(|a| a.widths.iter().map(|w| w.div_ceil(64) as usize).sum())
            .max()
            .unwrap_or(0)
    }
}

/// Where a key field's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
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

/// A key field: where it comes from and where in the packed key it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPart {
    pub kind: MatchKind,
    pub source: Source,
    pub width: u32,
    pub mask: Option<u128>,
    /// Word and shift of the low 64 bits.
    low: (u8, u8),
    /// Word and shift of the bits above them.
    high: (u8, u8),
}

#[derive(Debug)]
pub(crate) struct KeyLayout {
    pub parts: Vec<KeyPart>,
    pub words: usize,
    pub bits: u32,
}

impl KeyLayout {
    pub(crate) fn new(
        keys: &[(KeyInfo, Field, Option<u128>)],
        place: &str,
    ) -> Result<Self, LoadError> {
        // Chunks of at most 64 bits, the widest first, go to the first word with room.
        let mut chunks: Vec<(u32, usize, bool)> = Vec::new();
        for (index, (key, _, _)) in keys.iter().enumerate() {
            chunks.push((key.width.min(64), index, false));
            if key.width > 64 {
                chunks.push((key.width - 64, index, true));
            }
        }
        chunks.sort_by_key(|c| std::cmp::Reverse(c.0));
        let mut used = [0u32; MAX_WORDS];
        let mut places = vec![[(0u8, 0u8); 2]; keys.len()];
        for (width, index, high) in chunks {
            let Some(word) = used.iter().position(|u| u + width <= 64) else {
                return Err(LoadError::unsupported(
                    format!("a key of more than {MAX_WORDS} words of 64 bits"),
                    place,
                ));
            };
            places[index][usize::from(high)] = (word as u8, used[word] as u8);
            used[word] += width;
        }
        let mut parts = Vec::new();
        for ((key, field, mask), at) in keys.iter().zip(&places) {
            if key.kind == MatchKind::Range && key.width > 64 {
                return Err(LoadError::unsupported(
                    format!("the range key field {}, wider than 64 bits", key.name),
                    place,
                ));
            }
            let source = source(*field, place)?;
            parts.push(KeyPart {
                kind: key.kind,
                source,
                width: key.width,
                mask: *mask,
                low: at[0],
                high: at[1],
            });
        }
        Ok(Self {
            words: used.iter().filter(|&&u| u > 0).count(),
            bits: keys.iter().map(|k| k.0.width).sum(),
            parts,
        })
    }

    /// The packed key of a packet. `active[i]` is false for a key field that no entry looks at: it stays 0.
    #[inline(always)]
    pub(crate) fn build(&self, active: &[bool], frame: &[u64; 65536], packet: &Packet) -> Key {
        let mut key = [0; MAX_WORDS];
        for (part, _) in self.parts.iter().zip(active).filter(|(_, &active)| active) {
            let value = match part.source {
                Source::Slot(slot) if part.width <= 64 => u128::from(frame[usize::from(slot)]),
                Source::Slot(slot) => {
                    u128::from(frame[usize::from(slot)])
                        | u128::from(frame[usize::from(slot.wrapping_add(1))]) << 64
                }
                Source::Valid(header) => u128::from(packet.valid >> header & 1),
                Source::Header {
                    header,
                    byte,
                    shift,
                } => {
                    let word = packet.window8(header, byte) >> shift & ones(part.width);
                    u128::from(word)
                }
                Source::HeaderWide {
                    header,
                    byte,
                    shift,
                } => packet.window16(header, byte) >> shift & wide_ones(part.width),
            };
            let value = part.mask.map_or(value, |mask| value & mask);
            part.pack(value, &mut key);
        }
        key
    }

    /// The packed key and mask of an entry.
    pub(crate) fn pack(&self, key: impl Iterator<Item = (u128, u128)>) -> (Key, Key) {
        let (mut values, mut masks) = ([0; MAX_WORDS], [0; MAX_WORDS]);
        for (part, (value, mask)) in self.parts.iter().zip(key) {
            part.pack(value, &mut values);
            part.pack(mask, &mut masks);
        }
        (values, masks)
    }
}

impl KeyPart {
    #[inline(always)]
    fn pack(&self, value: u128, key: &mut Key) {
        key[usize::from(self.low.0) % MAX_WORDS] |= (value as u64) << self.low.1;
        if self.width > 64 {
            key[usize::from(self.high.0) % MAX_WORDS] |= ((value >> 64) as u64) << self.high.1;
        }
    }

    /// The field's value in a packed key; for fields of at most 64 bits.
    pub(crate) fn unpack(&self, key: &Key) -> u64 {
        key[usize::from(self.low.0)] >> self.low.1 & ones(self.width)
    }
}

fn source(field: Field, place: &str) -> Result<Source, LoadError> {
    Ok(match field.place {
        Place::Slot(slot) => Source::Slot(slot),
        Place::Valid(header) => Source::Valid(header),
        Place::Header { header, bit } => {
            let byte = (bit / 8) as u16;
            let end = bit % 8 + field.width;
            if end <= 64 {
                Source::Header {
                    header,
                    byte,
                    shift: (64 - end) as u8,
                }
            } else if end <= 128 {
                Source::HeaderWide {
                    header,
                    byte,
                    shift: (128 - end) as u8,
                }
            } else {
                let what = "a key field of more than 120 bits that does not start at a byte";
                return Err(LoadError::unsupported(what, place));
            }
        }
    })
}

/// The lowest `bits` bits set.
pub(crate) fn wide_ones(bits: u32) -> u128 {
    match bits {
        0 => 0,
        1..=127 => (1 << bits) - 1,
        _ => u128::MAX,
    }
}

/// The mask of a prefix of `length` bits in a field of `width` bits.
pub(crate) fn prefix_mask(width: u32, length: u32) -> u128 {
    let width = width.min(128);
    wide_ones(width) & !wide_ones(width - length.min(width))
}
