// SPDX-License-Identifier: Apache-2.0
//! Packed keys: how the fields of a table's key lie in a few words.

use crate::bits::{ones, wide_ones};
use crate::table::{KeyPart, Source, MAX_WORDS};

/// A packed key.
pub type Key = [u64; MAX_WORDS];

/// Where a key field goes in the packed key.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub source: Source,
    /// Its first word where all key fields are given as words.
    pub raw: usize,
    pub width: u32,
    pub mask: u128,
    /// Word and shift of the low 64 bits.
    pub low: (u8, u8),
    /// Word and shift of the bits above them.
    pub high: (u8, u8),
}

impl Step {
    #[inline(always)]
    pub fn pack(&self, value: u128, key: &mut Key) {
        key[usize::from(self.low.0) % MAX_WORDS] |= (value as u64) << (self.low.1 & 63);
        if self.width > 64 {
            key[usize::from(self.high.0) % MAX_WORDS] |= ((value >> 64) as u64) << (self.high.1 & 63);
        }
    }

    /// The field's value in a packed key; for fields of at most 64 bits.
    pub fn unpack(&self, key: &Key) -> u64 {
        key[usize::from(self.low.0) % MAX_WORDS] >> self.low.1 & ones(self.width)
    }
}

/// How the key fields that matter lie in a packed key.
#[derive(Debug, Default)]
pub struct KeyLayout {
    /// `None` for a key field that no entry looks at.
    pub places: Vec<Option<Step>>,
    pub steps: Vec<Step>,
    pub words: usize,
    pub bits: u32,
}

impl KeyLayout {
    /// `None` if the key is too long.
    pub fn new(parts: &[KeyPart], active: impl Fn(usize) -> bool) -> Option<Self> {
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
        let mut layout = Self { words: used.iter().filter(|&&u| u > 0).count(), ..Self::default() };
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
    pub fn only_word(&self) -> Option<(usize, u64)> {
        match &self.steps[..] {
            [step] if step.width <= 64 => Some((step.raw, step.mask as u64)),
            _ => None,
        }
    }

    pub fn place(&self, part: usize) -> Option<Step> {
        self.places.get(part).copied().flatten()
    }

    /// The packed key of fields given as words, one or two each.
    #[inline(always)]
    pub fn build_raw(&self, raw: &[u64]) -> Key {
        let mut key = [0; MAX_WORDS];
        let word = |at: usize| raw.get(at).copied().unwrap_or(0);
        for step in &self.steps {
            if step.width <= 64 {
                key[usize::from(step.low.0) % MAX_WORDS] |= (word(step.raw) & step.mask as u64) << (step.low.1 & 63);
            } else {
                let value = u128::from(word(step.raw)) | u128::from(word(step.raw + 1)) << 64;
                step.pack(value & step.mask, &mut key);
            }
        }
        key
    }

    /// The packed key and mask of an entry.
    pub fn pack(&self, key: impl Iterator<Item = (u128, u128)>) -> (Key, Key) {
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
