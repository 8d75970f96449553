// SPDX-License-Identifier: Apache-2.0
//! A table's entries as packets find them.

use std::collections::HashMap;

use narrows_program::bits::prefix_mask;
use narrows_program::control::{CounterValue, KeyMatch, MatchKind};
use narrows_program::key::KeyLayout;
use narrows_program::table::{KeyPart, TableCode, BLOCK};

use super::convert::{packed, rule, words, Stored};
use super::key::{build, build_word};
use super::key_map::{KeyMap, NONE};
use super::lookup::{Lookup, DIRECT_BITS};
use super::prefixes::{Magnitudes, Prefixes};
use crate::error::ControlError;
use crate::frame::Frame;
use crate::meters::Cell;
use crate::packet::Packet;

/// Of a table with more entries than that no change makes the lookup anew.
const MANY_ENTRIES: usize = 256;

type Result<T> = std::result::Result<T, ControlError>;

/// All key fields are matched exactly.
fn is_exact(code: &TableCode) -> bool {
    code.parts.iter().all(|part| part.kind == MatchKind::Exact)
}

/// The part of a key does not look at its field.
fn is_any(part: &KeyMatch) -> bool {
    matches!(part, KeyMatch::Ternary { mask: 0, .. })
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
    /// The same for tables with a direct meter.
    pub(super) meters: Vec<Cell>,
    /// The same for tables with idle timeouts: when a packet last found the entry, or it was inserted.
    pub(super) hits_ns: Vec<u64>,
    /// The entry that was found last, of tables with a direct meter.
    last_hit: u32,
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
            meters: Vec::new(),
            hits_ns: Vec::new(),
            last_hit: NONE,
            lookup: Lookup::Empty,
            stale: true,
            layout: KeyLayout::default(),
        };
        for entry in &code.entries {
            state.add(code, entry, 0)?;
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

    /// Notes that a packet has found an entry.
    pub fn note_hit(&mut self, handle: u32, bytes: u32, now_ns: u64) {
        self.last_hit = handle;
        if let Some(hit_ns) = self.hits_ns.get_mut(handle as usize) {
            *hit_ns = now_ns;
        }
        if let Some(cell) = self.counters.get_mut(handle as usize) {
            cell.packets = cell.packets.wrapping_add(1);
            cell.bytes = cell.bytes.wrapping_add(u64::from(bytes));
        }
    }

    /// The color of a packet by the direct meter of the entry that was found last; `None` if there is none.
    pub fn meter_hit(&mut self, code: &TableCode, bytes: u32, now_ns: u64) -> Option<u64> {
        let (cell, meter) = self.meters.get_mut(self.last_hit as usize).zip(code.direct_meter)?;
        Some(cell.pass(now_ns, meter.bytes, bytes))
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

    /// Takes an entry into the lookup, if it need not be made again: of a large table that would hold up packets.
    pub(super) fn entry_added(&mut self, code: &TableCode, handle: u32) {
        let Some(stored) = self.stored[handle as usize].as_ref().filter(|_| !self.stale) else {
            return;
        };
        let grown = self.by_key.len() == MANY_ENTRIES + 1 && self.layout.steps.len() < code.parts.len();
        let layout = &self.layout;
        let taken = match (&mut self.lookup, &stored.key[..]) {
            (Lookup::Direct(handles), key) if is_exact(code) => {
                handles[packed(code, layout, key).0[0] as usize] = handle;
                true
            }
            (Lookup::Exact(map), key) => {
                map.insert(&packed(code, layout, key).0, handle);
                true
            }
            (Lookup::Prefixes(prefixes), &[KeyMatch::Lpm { value, prefix_len }]) => {
                let longer = |known: u32| match self.stored.get(known as usize) {
                    Some(Some(Stored { key, .. })) => {
                        matches!(key[..], [KeyMatch::Lpm { prefix_len: other, .. }] if other > prefix_len)
                    }
                    _ => false,
                };
                let width = code.parts[0].width;
                let owner = |known| if longer(known) { known } else { handle };
                prefixes.change((value as u64, prefix_len), width, owner);
                true
            }
            (lookup, key) => {
                let sees = |(index, part): (usize, &KeyMatch)| layout.place(index).is_some() || is_any(part);
                !grown && key.iter().enumerate().all(sees) && lookup.insert(&rule(code, layout, handle, stored))
            }
        };
        self.stale = !taken;
    }

    /// Takes an entry out of the lookup; it is no longer stored, but its key is still known.
    pub(super) fn entry_removed(&mut self, code: &TableCode, handle: u32, stored: &Stored) {
        if self.stale {
            return;
        }
        let layout = &self.layout;
        let taken = match (&mut self.lookup, &stored.key[..]) {
            (Lookup::Direct(handles), key) if is_exact(code) => {
                handles[packed(code, layout, key).0[0] as usize] = NONE;
                true
            }
            (Lookup::Exact(map), key) => {
                map.remove(&packed(code, layout, key).0);
                true
            }
            (Lookup::Prefixes(prefixes), &[KeyMatch::Lpm { value, prefix_len }]) => {
                let width = code.parts[0].width;
                let shorter =
                    |length: u32| KeyMatch::Lpm { value: value & prefix_mask(width, length), prefix_len: length };
                let around = |length: u32| self.by_key.get(&(vec![shorter(length)], stored.priority)).copied();
                let next = (0..prefix_len).rev().find_map(around).unwrap_or(NONE);
                prefixes.change((value as u64, prefix_len), width, |known| if known == handle { next } else { known });
                true
            }
            (lookup, _) => lookup.remove(&rule(code, layout, handle, stored)),
        };
        self.stale = !taken;
    }

    fn rebuild(&mut self, code: &TableCode) {
        self.stale = false;
        let stored = &self.stored;
        let live = || stored.iter().enumerate().filter_map(|(h, s)| s.as_ref().map(|s| (h as u32, s)));
        let looked_at = |i: usize| code.parts[i].kind != MatchKind::Ternary || live().any(|(_, s)| !is_any(&s.key[i]));
        // That all fields together fit was checked when the program was loaded.
        self.layout = KeyLayout::new(&code.parts, looked_at).unwrap_or_default();
        if self.by_key.len() > MANY_ENTRIES && self.layout.bits > DIRECT_BITS {
            // Whatever field the next entry looks at.
            self.layout = KeyLayout::new(&code.parts, |_| true).unwrap_or_default();
        }
        let layout = &self.layout;
        let kinds: Vec<MatchKind> = code.parts.iter().map(|p| p.kind).collect();
        self.lookup = if kinds.is_empty() {
            Lookup::Empty
        } else if is_exact(code) {
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

#[cfg(test)]
mod tests {
    use narrows_program::control::{ActionCall, ActionInfo, Entry, KeyInfo, TableId, TableInfo};
    use narrows_program::table::{Source, TableAction};

    use super::*;

    const ENTRIES: u32 = 1_000;

    /// A table of fields of these kinds, of 16 bits each.
    fn table(kinds: &[MatchKind]) -> TableCode {
        let key = |kind: &MatchKind| KeyInfo { name: "k".into(), width: 16, kind: *kind };
        let part = |(slot, kind): (usize, &MatchKind)| KeyPart {
            kind: *kind,
            source: Source::Slot(slot as u16),
            width: 16,
            mask: None,
        };
        TableCode {
            info: TableInfo {
                id: TableId(0),
                name: "t".into(),
                keys: kinds.iter().map(key).collect(),
                has_priority: kinds.iter().any(|kind| matches!(kind, MatchKind::Ternary | MatchKind::Range)),
                actions: vec![ActionInfo { name: "a".into(), params: vec![] }],
                size: 1 << 20,
                direct_counter: false,
                direct_meter: false,
                idle_timeout: false,
                const_default: false,
                const_entries: false,
            },
            parts: kinds.iter().enumerate().map(part).collect(),
            actions: (0..2).map(|_| TableAction { widths: vec![], targets: [0; 2] }).collect(),
            params: 0,
            default: (1, vec![]),
            entries: vec![],
            direct_counter: None,
            direct_meter: None,
        }
    }

    fn entry(code: &TableCode, key: Vec<KeyMatch>) -> Entry {
        let priority = i32::from(code.info.has_priority);
        Entry { key, priority, action: ActionCall { action: "a".into(), params: vec![] } }
    }

    /// A change of a large table takes no time that depends on its size: the lookup is up to date behind it, whatever field the
    /// entry looks at, and finds what it should.
    #[test]
    fn a_change_of_a_large_table_does_not_make_its_lookup_anew() {
        use KeyMatch::{Exact, Lpm, Range, Ternary};
        use MatchKind as Kind;
        let any = Ternary { value: 0, mask: 0 };
        let word = |value: u32| Ternary { value: value.into(), mask: 0xffff };
        type Case<'k> = (&'k [Kind], fn(u32) -> KeyMatch, KeyMatch, Vec<KeyMatch>);
        let cases: [Case<'_>; 4] = [
            (&[Kind::Ternary, Kind::Ternary], |n| Ternary { value: n.into(), mask: 0xffff }, any, vec![any, word(7)]),
            (
                &[Kind::Range, Kind::Ternary],
                |n| Range { low: n.into(), high: n.into() },
                any,
                vec![Range { low: 0, high: 0xffff }, word(7)],
            ),
            (&[Kind::Lpm], |n| Lpm { value: n.into(), prefix_len: 16 }, any, vec![Lpm { value: 0, prefix_len: 2 }]),
            (&[Kind::Exact], |n| Exact(n.into()), any, vec![Exact(5_000)]),
        ];
        for (kinds, first, second, added) in cases {
            let code = table(kinds);
            let mut state = TableState::new(&code).expect("no entries");
            let key = |n: u32| [first(n), second][..kinds.len()].to_vec();
            for number in 0..ENTRIES {
                assert_eq!(state.insert(&code, &entry(&code, key(number)), 0), Ok(()));
            }
            state.refresh(&code);
            // The second field of all is 7; 5,000 is in no entry but the one that is added.
            let hit = |state: &TableState, value: u64| state.find_raw(&[value, 7]);
            assert_eq!((hit(&state, 3), hit(&state, 5_000)), (3, NONE));
            assert_eq!(state.insert(&code, &entry(&code, added.clone()), 0), Ok(()));
            assert!(!state.stale, "{kinds:?}");
            // Entries of the same priority: the first one wins, of prefixes the longest.
            assert_eq!((hit(&state, 3), hit(&state, 5_000)), (3, ENTRIES), "{kinds:?}");
            assert_eq!(state.delete(&code, &key(3), i32::from(code.info.has_priority)), Ok(()));
            assert!(!state.stale, "{kinds:?}");
            let behind = if matches!(added[0], Exact(_)) { NONE } else { ENTRIES };
            assert_eq!((hit(&state, 3), hit(&state, 4)), (behind, 4), "{kinds:?}");
        }
    }
}
