// SPDX-License-Identifier: Apache-2.0
//! A table's entries as packets find them.

use std::collections::HashMap;

use narrows_program::control::{CounterValue, KeyMatch, MatchKind};
use narrows_program::key::KeyLayout;
use narrows_program::table::{KeyPart, TableCode, BLOCK};

use super::convert::{packed, rule, words};
use super::key::{build, build_word};
use super::key_map::{KeyMap, NONE};
use super::lookup::{Lookup, DIRECT_BITS};
use super::prefixes::{Magnitudes, Prefixes};
use crate::error::ControlError;
use crate::machine::Frame;
use crate::packet::Packet;

type Result<T> = std::result::Result<T, ControlError>;

/// An entry as it was written, its key in canonical form.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub key: Vec<KeyMatch>,
    pub priority: i32,
    /// Order of insertion.
    pub sequence: u32,
}

#[derive(Debug)]
pub struct TableState {
    pub(super) stored: Vec<Option<Stored>>,
    pub(super) free: Vec<u32>,
    pub(super) by_key: HashMap<(Vec<KeyMatch>, i32), u32>,
    pub(super) next_sequence: u32,
    /// A record of 1 + `stride` words for the default action, then one by handle: twice the action's index, plus 1 in an
    /// entry's record; then the action's parameters.
    pub(super) records: Vec<u64>,
    pub(super) stride: usize,
    /// Words that all key fields take together.
    pub raw_words: usize,
    /// By handle, for tables with a direct counter.
    pub(super) counters: Vec<CounterValue>,
    pub(super) lookup: Lookup,
    /// The lookup lags behind the entries; it is built again before the next packet.
    pub(super) stale: bool,
    /// The key fields that some entry looks at.
    pub(super) layout: KeyLayout,
}

impl TableState {
    /// The state after loading: the constant entries.
    pub fn new(code: &TableCode) -> Result<Self> {
        let stride = code.stride();
        let mut records = vec![2 * u64::from(code.default.0)];
        records.extend(words(code, code.default.0, &code.default.1, stride));
        let mut state = Self {
            stored: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            next_sequence: 0,
            records,
            stride,
            raw_words: code.parts.iter().map(KeyPart::words).sum::<u32>() as usize,
            counters: Vec::new(),
            lookup: Lookup::Empty,
            stale: true,
            layout: KeyLayout::default(),
        };
        for entry in &code.entries {
            state.add(code, entry)?;
        }
        Ok(state)
    }

    /// The record of an entry ([`NONE`]: of the default action).
    #[inline(always)]
    pub(super) fn record(&self, handle: u32) -> &[u64] {
        let words = 1 + self.stride;
        &self.records[handle.wrapping_add(1) as usize * words..][..words]
    }

    pub(super) fn set_record(&mut self, handle: u32, action: u16, params: &[u64]) {
        let words = 1 + self.stride;
        let record = &mut self.records[handle.wrapping_add(1) as usize * words..][..words];
        record[0] = 2 * u64::from(action) + u64::from(handle != NONE);
        record[1..].copy_from_slice(params);
    }

    pub(super) fn action(&self, handle: u32) -> u16 {
        (self.record(handle)[0] / 2) as u16
    }

    /// Copies the parameters of an entry ([`NONE`]: of the default action) to `to`; returns its action.
    #[inline(always)]
    pub fn load(&self, handle: u32, to: &mut [u64]) -> u16 {
        let record = self.record(handle);
        for (to, from) in to.chunks_exact_mut(BLOCK).zip(record[1..].chunks_exact(BLOCK)) {
            to.copy_from_slice(from);
        }
        (record[0] / 2) as u16
    }

    /// All records, for native code.
    pub fn records(&self) -> &[u64] {
        &self.records
    }

    /// If entries look at one field of few bits only: handles by its value, where it is among the words of all key fields,
    /// and its mask, below which there are handles for all values. The lookup is up to date.
    pub fn direct(&self) -> Option<(&[u32], usize, u64)> {
        let Lookup::Direct(handles) = &self.lookup else {
            return None;
        };
        let (word, mask) = self.layout.only_word()?;
        (mask < handles.len() as u64).then_some((handles, word, mask))
    }

    /// The same for prefixes of one field, if they are by magnitude.
    pub fn magnitudes(&self) -> Option<&Magnitudes> {
        match &self.lookup {
            Lookup::Prefixes(prefixes) => prefixes.magnitudes(),
            _ => None,
        }
    }

    /// Counts a packet of an entry.
    pub fn count_hit(&mut self, handle: u32, bytes: u32) {
        if let Some(cell) = self.counters.get_mut(handle as usize) {
            cell.packets = cell.packets.wrapping_add(1);
            cell.bytes = cell.bytes.wrapping_add(u64::from(bytes));
        }
    }

    /// The handle of the entry that matches key fields given as words. The lookup is up to date.
    pub fn find_raw(&self, raw: &[u64]) -> u32 {
        let key = self.layout.build_raw(raw);
        if self.layout.words <= 1 {
            self.lookup.find_word(key[0])
        } else {
            self.lookup.find(&key)
        }
    }

    /// The same for the only key field, of at most 64 bits.
    #[inline]
    pub fn find_word(&self, key: u64) -> u32 {
        // A field that no entry looks at is not part of the key.
        let key = if self.layout.words == 0 { 0 } else { key };
        self.lookup.find_word(key)
    }

    /// The handle of the entry that matches a packet, or [`NONE`].
    #[inline(always)]
    pub fn find(&self, frame: &Frame, packet: &Packet) -> u32 {
        if self.layout.words <= 1 {
            self.lookup.find_word(build_word(&self.layout, frame, packet))
        } else {
            self.lookup.find(&build(&self.layout, frame, packet))
        }
    }

    /// Brings lookups up to date with the entries.
    #[inline(always)]
    pub fn refresh(&mut self, code: &TableCode) {
        if self.stale {
            self.rebuild(code);
        }
    }

    fn rebuild(&mut self, code: &TableCode) {
        self.stale = false;
        let stored = &self.stored;
        let live = || stored.iter().enumerate().filter_map(|(h, s)| s.as_ref().map(|s| (h as u32, s)));
        let looked_at = |i: usize| {
            code.parts[i].kind != MatchKind::Ternary
                || live().any(|(_, s)| !matches!(s.key[i], KeyMatch::Ternary { mask: 0, .. }))
        };
        // That all fields together fit was checked when the program was loaded.
        self.layout = KeyLayout::new(&code.parts, looked_at).unwrap_or_default();
        let layout = &self.layout;
        let kinds: Vec<MatchKind> = code.parts.iter().map(|p| p.kind).collect();
        self.lookup = if kinds.is_empty() {
            Lookup::Empty
        } else if kinds.iter().all(|&k| k == MatchKind::Exact) {
            if layout.bits <= DIRECT_BITS && layout.words == 1 {
                let mut handles = vec![NONE; 1 << layout.bits];
                live().for_each(|(h, s)| handles[packed(code, layout, &s.key).0[0] as usize] = h);
                Lookup::Direct(handles)
            } else {
                let mut map = KeyMap::new(layout.words);
                live().for_each(|(h, s)| map.insert(&packed(code, layout, &s.key).0, h));
                Lookup::Exact(map)
            }
        } else if kinds == [MatchKind::Lpm] && layout.bits <= 64 {
            let prefix = |(h, s): (u32, &Stored)| match s.key[..] {
                [KeyMatch::Lpm { value, prefix_len }] => Some((value as u64, prefix_len, h)),
                _ => None,
            };
            Lookup::Prefixes(Box::new(Prefixes::new(live().filter_map(prefix).collect(), layout.bits)))
        } else {
            let rules = live().map(|(h, s)| rule(code, layout, h, s)).collect();
            Lookup::of_rules(rules, layout.words, layout.bits)
        };
    }
}
