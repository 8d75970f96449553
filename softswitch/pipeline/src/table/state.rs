// SPDX-License-Identifier: Apache-2.0
//! A table's entries, as the control plane writes them and as packets find them.

use std::collections::HashMap;

use super::convert::{canonical, describe, packed, rule, words};
use super::key_map::{KeyMap, NONE};
use super::lookup::{Lookup, DIRECT_BITS};
use super::prefixes::{Magnitudes, Prefixes};
use super::{wide_ones, KeyLayout, KeyPart, TableCode, BLOCK};
use crate::control::{ActionCall, CounterValue, EntriesPart, Entry, KeyMatch, MatchKind};
use crate::error::ControlError;
use crate::exec::Frame;
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
pub(crate) struct TableState {
    stored: Vec<Option<Stored>>,
    free: Vec<u32>,
    by_key: HashMap<(Vec<KeyMatch>, i32), u32>,
    next_sequence: u32,
    /// A record of 1 + `stride` words for the default action, then one by handle: twice the action's index, plus 1 in an
    /// entry's record; then the action's parameters.
    records: Vec<u64>,
    stride: usize,
    /// Words that all key fields take together.
    pub raw_words: usize,
    /// By handle, for tables with a direct counter.
    counters: Vec<CounterValue>,
    lookup: Lookup,
    /// The lookup lags behind the entries; it is built again before the next packet.
    stale: bool,
    /// The key fields that some entry looks at.
    layout: KeyLayout,
}

impl TableState {
    /// The state after loading: the constant entries.
    pub(crate) fn new(code: &TableCode) -> Result<Self> {
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
    fn record(&self, handle: u32) -> &[u64] {
        let words = 1 + self.stride;
        &self.records[handle.wrapping_add(1) as usize * words..][..words]
    }

    fn set_record(&mut self, handle: u32, action: u16, params: &[u64]) {
        let words = 1 + self.stride;
        let record = &mut self.records[handle.wrapping_add(1) as usize * words..][..words];
        record[0] = 2 * u64::from(action) + u64::from(handle != NONE);
        record[1..].copy_from_slice(params);
    }

    fn action(&self, handle: u32) -> u16 {
        (self.record(handle)[0] / 2) as u16
    }

    /// Copies the parameters of an entry ([`NONE`]: of the default action) to `to`; returns its action.
    #[inline(always)]
    pub(crate) fn load(&self, handle: u32, to: &mut [u64]) -> u16 {
        let record = self.record(handle);
        for (to, from) in to
            .chunks_exact_mut(BLOCK)
            .zip(record[1..].chunks_exact(BLOCK))
        {
            to.copy_from_slice(from);
        }
        (record[0] / 2) as u16
    }

    /// All records, for native code.
    pub(crate) fn records(&self) -> &[u64] {
        &self.records
    }

    /// If entries look at one field of few bits only: handles by its value, where it is among the words of all key fields,
    /// and its mask, below which there are handles for all values. The lookup is up to date.
    pub(crate) fn direct(&self) -> Option<(&[u32], usize, u64)> {
        let Lookup::Direct(handles) = &self.lookup else {
            return None;
        };
        let (word, mask) = self.layout.only_word()?;
        (mask < handles.len() as u64).then_some((handles, word, mask))
    }

    /// The same for prefixes of one field, if they are by magnitude.
    pub(crate) fn magnitudes(&self) -> Option<&Magnitudes> {
        match &self.lookup {
            Lookup::Prefixes(prefixes) => prefixes.magnitudes(),
            _ => None,
        }
    }

    /// Counts a packet of an entry.
    pub(crate) fn count_hit(&mut self, handle: u32, bytes: u32) {
        if let Some(cell) = self.counters.get_mut(handle as usize) {
            cell.packets = cell.packets.wrapping_add(1);
            cell.bytes = cell.bytes.wrapping_add(u64::from(bytes));
        }
    }

    /// The handle of the entry that matches key fields given as words. The lookup is up to date.
    pub(crate) fn find_raw(&self, raw: &[u64]) -> u32 {
        let key = self.layout.build_raw(raw);
        if self.layout.words <= 1 {
            self.lookup.find_word(key[0])
        } else {
            self.lookup.find(&key)
        }
    }

    /// The same for the only key field, of at most 64 bits.
    #[inline]
    pub(crate) fn find_word(&self, key: u64) -> u32 {
        // A field that no entry looks at is not part of the key.
        let key = if self.layout.words == 0 { 0 } else { key };
        self.lookup.find_word(key)
    }

    /// The handle of the entry that matches a packet, or [`NONE`].
    #[inline(always)]
    pub(crate) fn find(&self, frame: &Frame, packet: &Packet) -> u32 {
        if self.layout.words <= 1 {
            self.lookup.find_word(self.layout.build_word(frame, packet))
        } else {
            self.lookup.find(&self.layout.build(frame, packet))
        }
    }

    /// Brings lookups up to date with the entries.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, code: &TableCode) {
        if self.stale {
            self.rebuild(code);
        }
    }

    pub(crate) fn insert(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
        refuse_const_entries(code)?;
        self.add(code, entry)
    }

    fn add(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
        let key = canonical(code, &entry.key)?;
        let priority = check_priority(code, entry.priority)?;
        let (action, params) = self.call(code, &entry.action)?;
        if self.by_key.contains_key(&(key.clone(), priority)) {
            return Err(ControlError::AlreadyExists(format!(
                "{}: this entry is already there",
                code.info.name
            )));
        }
        if self.by_key.len() >= code.info.size {
            let size = code.info.size;
            return Err(ControlError::ResourceExhausted(format!(
                "{} holds at most {size} entries",
                code.info.name
            )));
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.stored.push(None);
            self.records.resize(self.records.len() + 1 + self.stride, 0);
            self.counters.push(CounterValue::default());
            (self.stored.len() - 1) as u32
        });
        let at = handle as usize;
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.stored[at] = Some(Stored {
            key: key.clone(),
            priority,
            sequence,
        });
        self.set_record(handle, action, &params);
        self.counters[at] = CounterValue::default();
        match &mut self.lookup {
            Lookup::Exact(map) if !self.stale => {
                map.insert(&packed(code, &self.layout, &key).0, handle)
            }
            _ => self.stale = true,
        }
        self.by_key.insert((key, priority), handle);
        Ok(())
    }

    fn handle(&self, code: &TableCode, key: &[KeyMatch], priority: i32) -> Result<u32> {
        let key = canonical(code, key)?;
        let found = self
            .by_key
            .get(&(key, check_priority(code, priority)?))
            .copied();
        found.ok_or_else(|| ControlError::NotFound {
            kind: "such entry in table",
            name: code.info.name.clone(),
        })
    }

    pub(crate) fn modify(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
        refuse_const_entries(code)?;
        let handle = self.handle(code, &entry.key, entry.priority)?;
        let (action, params) = self.call(code, &entry.action)?;
        self.set_record(handle, action, &params);
        Ok(())
    }

    pub(crate) fn delete(
        &mut self,
        code: &TableCode,
        key: &[KeyMatch],
        priority: i32,
    ) -> Result<()> {
        refuse_const_entries(code)?;
        let handle = self.handle(code, key, priority)?;
        if let Some(stored) = self.stored[handle as usize].take() {
            match &mut self.lookup {
                Lookup::Exact(map) if !self.stale => {
                    map.remove(&packed(code, &self.layout, &stored.key).0)
                }
                _ => self.stale = true,
            }
            self.by_key.remove(&(stored.key, stored.priority));
            self.free.push(handle);
        }
        Ok(())
    }

    /// All entries, in the order of insertion.
    pub(crate) fn entries(&self, code: &TableCode) -> Vec<(Entry, CounterValue)> {
        let mut handles: Vec<(u32, usize)> = self
            .stored
            .iter()
            .enumerate()
            .filter_map(|(h, s)| Some((s.as_ref()?.sequence, h)))
            .collect();
        handles.sort_unstable();
        handles
            .into_iter()
            .filter_map(|(_, handle)| self.entry(code, handle))
            .collect()
    }

    /// The entries in `count` places from `place` on.
    pub(crate) fn entries_from(&self, code: &TableCode, place: usize, count: usize) -> EntriesPart {
        let end = place.saturating_add(count).min(self.stored.len());
        let entries = (place..end).filter_map(|handle| {
            let (entry, counter) = self.entry(code, handle)?;
            Some((self.stored[handle].as_ref()?.sequence, entry, counter))
        });
        EntriesPart {
            entries: entries.collect(),
            next: (end < self.stored.len()).then_some(end),
        }
    }

    fn entry(&self, code: &TableCode, handle: usize) -> Option<(Entry, CounterValue)> {
        let stored = self.stored[handle].as_ref()?;
        let record = self.record(handle as u32);
        let action = describe(code, self.action(handle as u32), &record[1..]);
        let counter = if code.info.direct_counter {
            self.counters[handle]
        } else {
            CounterValue::default()
        };
        let entry = Entry {
            key: stored.key.clone(),
            priority: stored.priority,
            action,
        };
        Some((entry, counter))
    }

    pub(crate) fn default_call(&self, code: &TableCode) -> ActionCall {
        describe(code, self.action(NONE), &self.record(NONE)[1..])
    }

    pub(crate) fn set_default(
        &mut self,
        code: &TableCode,
        action: Option<&ActionCall>,
    ) -> Result<()> {
        if code.info.const_default {
            return Err(ControlError::PermissionDenied(format!(
                "{} has a constant default action",
                code.info.name
            )));
        }
        let (action, params) = match action {
            Some(call) => self.call(code, call)?,
            None => (
                code.default.0,
                words(code, code.default.0, &code.default.1, self.stride),
            ),
        };
        self.set_record(NONE, action, &params);
        Ok(())
    }

    pub(crate) fn write_counter(
        &mut self,
        code: &TableCode,
        key: &[KeyMatch],
        priority: i32,
        value: CounterValue,
    ) -> Result<()> {
        if !code.info.direct_counter {
            return Err(ControlError::InvalidArgument(format!(
                "{} has no direct counter",
                code.info.name
            )));
        }
        let handle = self.handle(code, key, priority)?;
        self.counters[handle as usize] = value;
        Ok(())
    }

    /// Index and parameter words of an action.
    fn call(&self, code: &TableCode, call: &ActionCall) -> Result<(u16, Vec<u64>)> {
        let name = &code.info.name;
        let index = code
            .info
            .actions
            .iter()
            .position(|a| a.name == call.action)
            .ok_or_else(|| ControlError::NotFound {
                kind: "action",
                name: format!("{} in table {name}", call.action),
            })?;
        let params = &code.info.actions[index].params;
        if params.len() != call.params.len() {
            return Err(ControlError::InvalidArgument(format!(
                "action {} takes {} parameters, not {}",
                call.action,
                params.len(),
                call.params.len()
            )));
        }
        for ((param, width), value) in params.iter().zip(&call.params) {
            if value & !wide_ones(*width) != 0 {
                return Err(ControlError::InvalidArgument(format!(
                    "parameter {param} of action {} has {width} bits: {value:#x} does not fit",
                    call.action
                )));
            }
        }
        Ok((
            index as u16,
            words(code, index as u16, &call.params, self.stride),
        ))
    }

    fn rebuild(&mut self, code: &TableCode) {
        self.stale = false;
        let stored = &self.stored;
        let live = || {
            stored
                .iter()
                .enumerate()
                .filter_map(|(h, s)| s.as_ref().map(|s| (h as u32, s)))
        };
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
            Lookup::Prefixes(Box::new(Prefixes::new(
                live().filter_map(prefix).collect(),
                layout.bits,
            )))
        } else {
            let rules = live().map(|(h, s)| rule(code, layout, h, s)).collect();
            Lookup::of_rules(rules, layout.words, layout.bits)
        };
    }
}

fn refuse_const_entries(code: &TableCode) -> Result<()> {
    if code.info.const_entries {
        return Err(ControlError::PermissionDenied(format!(
            "{} has constant entries",
            code.info.name
        )));
    }
    Ok(())
}

fn check_priority(code: &TableCode, priority: i32) -> Result<i32> {
    if !code.info.has_priority && priority != 0 {
        return Err(ControlError::InvalidArgument(format!(
            "{} has no priorities",
            code.info.name
        )));
    }
    Ok(priority)
}
