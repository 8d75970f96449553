// SPDX-License-Identifier: Apache-2.0
//! Match-action tables: how keys are packed, what entries are, how they are found.

mod convert;
mod key_map;
mod lookup;
mod prefixes;
mod state;

pub(crate) use convert::words as parameter_words;
pub(crate) use key_map::NONE;
pub(crate) use lookup::DIRECT_BITS;
pub(crate) use state::TableState;

use crate::compile::ones;
use crate::control::{Entry, KeyInfo, MatchKind, TableInfo};
use crate::error::LoadError;
use crate::exec::Frame;
use crate::layout::{Field, Place, Slot};
use crate::packet::Packet;

/// Longest key, in words of 64 bits.
pub(crate) const MAX_WORDS: usize = 8;

/// A packed key.
pub(crate) type Key = [u64; MAX_WORDS];

/// Parameters are copied in blocks of this many words.
pub(crate) const BLOCK: usize = 4;

/// What a table is compiled to.
#[derive(Debug)]
pub(crate) struct TableCode {
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

    /// How many of the actions can ever run: the last one only where a miss runs none.
    pub(crate) fn reachable(&self) -> usize {
        let last = self.actions.len().saturating_sub(1);
        last + usize::from(usize::from(self.default.0) == last)
    }

    /// Where control can go on.
    pub(crate) fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        let reachable = self.actions.iter().take(self.reachable());
        reachable.flat_map(|action| action.targets)
    }

    /// Words of a record: the action, and the parameters.
    pub(crate) fn record_words(&self) -> usize {
        1 + self.stride()
    }

    /// Words that the parameters of any of its actions take, in whole blocks.
    pub(crate) fn stride(&self) -> usize {
        let words = |a: &TableAction| {
            a.widths
                .iter()
                .map(|w| w.div_ceil(64) as usize)
                .sum::<usize>()
        };
        self.actions
            .iter()
            .map(words)
            .max()
            .unwrap_or(0)
            .next_multiple_of(BLOCK)
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

/// A key field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPart {
    pub kind: MatchKind,
    pub source: Source,
    pub width: u32,
    /// What the program itself masks the field with.
    pub mask: Option<u128>,
}

impl KeyPart {
    /// Words of its value.
    pub(crate) fn words(&self) -> u32 {
        self.width.div_ceil(64).max(1)
    }

    pub(crate) fn new(
        key: &KeyInfo,
        field: Field,
        mask: Option<u128>,
        place: &str,
    ) -> Result<Self, LoadError> {
        if key.kind == MatchKind::Range && key.width > 64 {
            let what = format!("the range key field {}, wider than 64 bits", key.name);
            return Err(LoadError::unsupported(what, place));
        }
        let source = match field.place {
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
        };
        Ok(Self {
            kind: key.kind,
            source,
            width: key.width,
            mask,
        })
    }
}

/// Where a key field goes in the packed key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    source: Source,
    /// Its first word where all key fields are given as words.
    raw: usize,
    width: u32,
    mask: u128,
    /// Word and shift of the low 64 bits.
    low: (u8, u8),
    /// Word and shift of the bits above them.
    high: (u8, u8),
}

impl Step {
    #[inline(always)]
    fn pack(&self, value: u128, key: &mut Key) {
        key[usize::from(self.low.0) % MAX_WORDS] |= (value as u64) << (self.low.1 & 63);
        if self.width > 64 {
            key[usize::from(self.high.0) % MAX_WORDS] |=
                ((value >> 64) as u64) << (self.high.1 & 63);
        }
    }

    /// The field's value in a packed key; for fields of at most 64 bits.
    pub(crate) fn unpack(&self, key: &Key) -> u64 {
        key[usize::from(self.low.0) % MAX_WORDS] >> self.low.1 & ones(self.width)
    }

    /// A field of at most 64 bits.
    #[inline(always)]
    fn narrow(&self, frame: &Frame, packet: &Packet) -> u64 {
        let value = match self.source {
            Source::Slot(slot) => frame[usize::from(slot)],
            Source::Valid(header) => u64::from(packet.is_valid(header)),
            Source::Header {
                header,
                byte,
                shift,
            } => packet.window8(header, byte) >> (shift & 63),
            Source::HeaderWide {
                header,
                byte,
                shift,
            } => (packet.window16(header, byte) >> (shift & 127)) as u64,
        };
        value & self.mask as u64
    }

    #[inline(always)]
    fn wide(&self, frame: &Frame, packet: &Packet) -> u128 {
        let value = match self.source {
            Source::Slot(slot) => {
                u128::from(frame[usize::from(slot)])
                    | u128::from(frame[usize::from(slot.wrapping_add(1))]) << 64
            }
            Source::HeaderWide {
                header,
                byte,
                shift,
            } => packet.window16(header, byte) >> (shift & 127),
            _ => u128::from(self.narrow(frame, packet)),
        };
        value & self.mask
    }
}

/// How the key fields that matter lie in a packed key.
#[derive(Debug, Default)]
pub(crate) struct KeyLayout {
    /// `None` for a key field that no entry looks at.
    places: Vec<Option<Step>>,
    steps: Vec<Step>,
    pub words: usize,
    pub bits: u32,
}

impl KeyLayout {
    /// `None` if the key is too long.
    pub(crate) fn new(parts: &[KeyPart], active: impl Fn(usize) -> bool) -> Option<Self> {
        // Chunks of at most 64 bits, the widest first, go to the first word with room.
        let mut chunks: Vec<(u32, usize, bool)> = Vec::new();
        for (index, part) in parts.iter().enumerate().filter(|(i, _)| active(*i)) {
            chunks.push((part.width.min(64), index, false));
            if part.width > 64 {
                chunks.push((part.width - 64, index, true));
            }
        }
        chunks.sort_by_key(|c| std::cmp::Reverse(c.0));
        let mut used = [0u32; MAX_WORDS];
        let mut at = vec![[(0u8, 0u8); 2]; parts.len()];
        for (width, index, high) in chunks {
            let word = used.iter().position(|u| u + width <= 64)?;
            at[index][usize::from(high)] = (word as u8, used[word] as u8);
            used[word] += width;
        }
        let mut layout = Self {
            words: used.iter().filter(|&&u| u > 0).count(),
            ..Self::default()
        };
        for (index, part) in parts.iter().enumerate() {
            let step = active(index).then(|| Step {
                source: part.source,
                raw: parts[..index].iter().map(KeyPart::words).sum::<u32>() as usize,
                width: part.width,
                mask: part.mask.unwrap_or(u128::MAX) & wide_ones(part.width),
                low: at[index][0],
                high: at[index][1],
            });
            layout.bits += step.map_or(0, |s| s.width);
            layout.steps.extend(step);
            layout.places.push(step);
        }
        Some(layout)
    }

    /// If the key is one field of one word: which word it is of all fields', and its mask.
    pub(crate) fn only_word(&self) -> Option<(usize, u64)> {
        match &self.steps[..] {
            [step] if step.width <= 64 => Some((step.raw, step.mask as u64)),
            _ => None,
        }
    }

    pub(crate) fn place(&self, part: usize) -> Option<Step> {
        self.places.get(part).copied().flatten()
    }

    /// The packed key of a packet, if it is one word.
    #[inline(always)]
    pub(crate) fn build_word(&self, frame: &Frame, packet: &Packet) -> u64 {
        match &self.steps[..] {
            [step] => step.narrow(frame, packet),
            steps => steps.iter().fold(0, |key, step| {
                key | step.narrow(frame, packet) << (step.low.1 & 63)
            }),
        }
    }

    /// The packed key of a packet.
    pub(crate) fn build(&self, frame: &Frame, packet: &Packet) -> Key {
        let mut key = [0; MAX_WORDS];
        for step in &self.steps {
            if step.width <= 64 {
                key[usize::from(step.low.0) % MAX_WORDS] |=
                    step.narrow(frame, packet) << (step.low.1 & 63);
            } else {
                step.pack(step.wide(frame, packet), &mut key);
            }
        }
        key
    }

    /// The packed key of fields given as words, one or two each.
    #[inline(always)]
    pub(crate) fn build_raw(&self, raw: &[u64]) -> Key {
        let mut key = [0; MAX_WORDS];
        let word = |at: usize| raw.get(at).copied().unwrap_or(0);
        for step in &self.steps {
            if step.width <= 64 {
                key[usize::from(step.low.0) % MAX_WORDS] |=
                    (word(step.raw) & step.mask as u64) << (step.low.1 & 63);
            } else {
                let value = u128::from(word(step.raw)) | u128::from(word(step.raw + 1)) << 64;
                step.pack(value & step.mask, &mut key);
            }
        }
        key
    }

    /// The packed key and mask of an entry.
    pub(crate) fn pack(&self, key: impl Iterator<Item = (u128, u128)>) -> (Key, Key) {
        let (mut values, mut masks) = ([0; MAX_WORDS], [0; MAX_WORDS]);
        for (place, (value, mask)) in self.places.iter().zip(key) {
            if let Some(step) = place {
                step.pack(value, &mut values);
                step.pack(mask, &mut masks);
            }
        }
        (values, masks)
    }
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
