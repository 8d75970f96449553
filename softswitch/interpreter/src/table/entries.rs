// SPDX-License-Identifier: Apache-2.0
//! What the control plane does to a table's entries.

use narrows_program::bits::wide_ones;
use narrows_program::control::{ActionCall, CounterValue, EntriesPart, Entry, EntryState, KeyMatch, MeterConfig};
use narrows_program::table::TableCode;

use super::convert::{canonical, describe, words, Stored};
use super::key_map::NONE;
use super::state::TableState;
use crate::error::ControlError;
use crate::meters::Cell;

type Result<T> = std::result::Result<T, ControlError>;

/// An entry with all that belongs to it, to be put back.
#[derive(Debug, Clone)]
pub struct KeptEntry {
    pub entry: Entry,
    pub state: EntryState,
    sequence: u32,
    meter: Option<Cell>,
}

impl TableState {
    /// The entry with this key and priority as it is; `None` if there is none.
    pub fn keep(&self, code: &TableCode, key: &[KeyMatch], priority: i32) -> Result<Option<KeptEntry>> {
        let key = canonical(code, key)?;
        let handle = self.by_key.get(&(key, check_priority(code, priority)?)).copied();
        Ok(handle.map(|handle| handle as usize).and_then(|handle| {
            let (entry, state) = self.entry(code, handle)?;
            let sequence = self.stored[handle].as_ref()?.sequence;
            Some(KeptEntry { entry, state, sequence, meter: self.meters.get(handle).copied() })
        }))
    }

    /// All entries as they are.
    pub fn kept(&self, code: &TableCode) -> Vec<KeptEntry> {
        let stored = self.stored.iter().flatten();
        stored.filter_map(|stored| self.keep(code, &stored.key, stored.priority).ok().flatten()).collect()
    }

    /// Takes over entries of a table like this one, and their order.
    pub fn adopt(&mut self, code: &TableCode, entries: &[KeptEntry]) -> Result<()> {
        for kept in entries {
            self.put_back(code, &kept.entry.key, kept.entry.priority, Some(kept))?;
            self.next_sequence = self.next_sequence.max(kept.sequence.wrapping_add(1));
        }
        Ok(())
    }

    /// The default action, if it is not the program's own any more.
    pub fn changed_default(&self, code: &TableCode) -> Option<ActionCall> {
        let own = words(code, code.default.0, &code.default.1, self.stride);
        let same = self.action(NONE) == code.default.0 && self.record(NONE)[1..] == own[..];
        (!same).then(|| self.default_call(code))
    }

    /// Makes the entry with this key and priority what [`TableState::keep`] has found.
    pub fn put_back(
        &mut self,
        code: &TableCode,
        key: &[KeyMatch],
        priority: i32,
        kept: Option<&KeptEntry>,
    ) -> Result<()> {
        if let Ok(handle) = self.handle(code, key, priority) {
            self.remove(code, handle);
        }
        let Some(kept) = kept else {
            return Ok(());
        };
        let next = std::mem::replace(&mut self.next_sequence, kept.sequence);
        let added = self.add(code, &kept.entry, kept.state.hit_ns);
        self.next_sequence = next;
        added?;
        let handle = self.handle(code, key, priority)? as usize;
        self.counters[handle] = kept.state.counter;
        if let (Some(cell), Some(meter)) = (self.meters.get_mut(handle), kept.meter) {
            *cell = meter;
        }
        Ok(())
    }

    /// When a packet last found an entry, or it was inserted.
    pub fn hit_ns(&self, code: &TableCode, key: &[KeyMatch], priority: i32) -> Result<u64> {
        let handle = self.handle(code, key, priority)?;
        Ok(self.hits_ns.get(handle as usize).copied().unwrap_or(0))
    }

    /// Adds an entry at `now_ns`.
    pub fn insert(&mut self, code: &TableCode, entry: &Entry, now_ns: u64) -> Result<()> {
        refuse_const_entries(code)?;
        self.add(code, entry, now_ns)
    }

    pub(super) fn add(&mut self, code: &TableCode, entry: &Entry, now_ns: u64) -> Result<()> {
        let key = canonical(code, &entry.key)?;
        let priority = check_priority(code, entry.priority)?;
        let (action, params) = self.call(code, &entry.action)?;
        if self.by_key.contains_key(&(key.clone(), priority)) {
            return Err(ControlError::AlreadyExists(format!("{}: this entry is already there", code.info.name)));
        }
        if self.by_key.len() >= code.info.size {
            let size = code.info.size;
            return Err(ControlError::ResourceExhausted(format!("{} holds at most {size} entries", code.info.name)));
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.stored.push(None);
            self.records.resize(self.records.len() + 1 + self.stride, 0);
            self.counters.push(CounterValue::default());
            if code.info.direct_meter {
                self.meters.push(Cell::default());
            }
            if code.info.idle_timeout {
                self.hits_ns.push(0);
            }
            (self.stored.len() - 1) as u32
        });
        let at = handle as usize;
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.stored[at] = Some(Stored { key: key.clone(), priority, sequence });
        self.set_record(handle, action, &params);
        self.counters[at] = CounterValue::default();
        if let Some(cell) = self.meters.get_mut(at) {
            *cell = Cell::default();
        }
        if let Some(hit_ns) = self.hits_ns.get_mut(at) {
            *hit_ns = now_ns;
        }
        self.by_key.insert((key, priority), handle);
        self.entry_added(code, handle);
        Ok(())
    }

    fn handle(&self, code: &TableCode, key: &[KeyMatch], priority: i32) -> Result<u32> {
        let key = canonical(code, key)?;
        let found = self.by_key.get(&(key, check_priority(code, priority)?)).copied();
        found.ok_or_else(|| ControlError::NotFound { kind: "such entry in table", name: code.info.name.clone() })
    }

    pub fn modify(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
        refuse_const_entries(code)?;
        let handle = self.handle(code, &entry.key, entry.priority)?;
        let (action, params) = self.call(code, &entry.action)?;
        self.set_record(handle, action, &params);
        Ok(())
    }

    pub fn delete(&mut self, code: &TableCode, key: &[KeyMatch], priority: i32) -> Result<()> {
        refuse_const_entries(code)?;
        let handle = self.handle(code, key, priority)?;
        self.remove(code, handle);
        Ok(())
    }

    fn remove(&mut self, code: &TableCode, handle: u32) {
        if let Some(stored) = self.stored[handle as usize].take() {
            self.entry_removed(code, handle, &stored);
            self.by_key.remove(&(stored.key, stored.priority));
            self.free.push(handle);
        }
    }

    /// The entries in `count` places from `place` on.
    pub fn entries_from(&self, code: &TableCode, place: usize, count: usize) -> EntriesPart {
        let end = place.saturating_add(count).min(self.stored.len());
        let entries = (place..end).filter_map(|handle| {
            let (entry, state) = self.entry(code, handle)?;
            Some((self.stored[handle].as_ref()?.sequence, entry, state))
        });
        EntriesPart { entries: entries.collect(), next: (end < self.stored.len()).then_some(end) }
    }

    fn entry(&self, code: &TableCode, handle: usize) -> Option<(Entry, EntryState)> {
        let stored = self.stored[handle].as_ref()?;
        let record = self.record(handle as u32);
        let action = describe(code, self.action(handle as u32), &record[1..]);
        let counter = if code.info.direct_counter { self.counters[handle] } else { CounterValue::default() };
        let entry = Entry { key: stored.key.clone(), priority: stored.priority, action };
        let meter = self.meters.get(handle).and_then(Cell::config);
        let hit_ns = self.hits_ns.get(handle).copied().unwrap_or(0);
        Some((entry, EntryState { counter, meter, hit_ns, ..EntryState::default() }))
    }

    /// The parameter words of all entries and of the default action.
    pub fn all_words(&self) -> impl Iterator<Item = &[u64]> {
        let used = self.stored.iter().enumerate().filter(|(_, stored)| stored.is_some());
        let handles = used.map(|(handle, _)| handle as u32).chain([NONE]);
        handles.map(|handle| &self.record(handle)[1..])
    }

    /// The action of the entry with this key, of a table without priorities.
    pub fn call_of(&self, code: &TableCode, key: &[KeyMatch]) -> Option<ActionCall> {
        let handle = self.handle(code, key, 0).ok()?;
        Some(describe(code, self.action(handle), &self.record(handle)[1..]))
    }

    pub fn default_call(&self, code: &TableCode) -> ActionCall {
        describe(code, self.action(NONE), &self.record(NONE)[1..])
    }

    pub fn set_default(&mut self, code: &TableCode, action: Option<&ActionCall>) -> Result<()> {
        if code.info.const_default {
            return Err(ControlError::PermissionDenied(format!("{} has a constant default action", code.info.name)));
        }
        let (action, params) = match action {
            Some(call) => self.call(code, call)?,
            None => (code.default.0, words(code, code.default.0, &code.default.1, self.stride)),
        };
        self.set_record(NONE, action, &params);
        Ok(())
    }

    pub fn write_counter(
        &mut self,
        code: &TableCode,
        key: &[KeyMatch],
        priority: i32,
        value: CounterValue,
    ) -> Result<()> {
        if !code.info.direct_counter {
            return Err(ControlError::InvalidArgument(format!("{} has no direct counter", code.info.name)));
        }
        let handle = self.handle(code, key, priority)?;
        self.counters[handle as usize] = value;
        Ok(())
    }

    /// Configures the direct meter of an entry, whose buckets are full then, or takes its configuration away.
    pub fn write_meter(
        &mut self,
        code: &TableCode,
        key: &[KeyMatch],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        let handle = self.handle(code, key, priority)?;
        match self.meters.get_mut(handle as usize) {
            Some(cell) => *cell = Cell::new(config),
            None => return Err(ControlError::InvalidArgument(format!("{} has no direct meter", code.info.name))),
        }
        Ok(())
    }

    /// Index and parameter words of an action.
    fn call(&self, code: &TableCode, call: &ActionCall) -> Result<(u16, Vec<u64>)> {
        let name = &code.info.name;
        let index = code.info.actions.iter().position(|a| a.name == call.action).ok_or_else(|| {
            ControlError::NotFound { kind: "action", name: format!("{} in table {name}", call.action) }
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
        Ok((index as u16, words(code, index as u16, &call.params, self.stride)))
    }
}

fn refuse_const_entries(code: &TableCode) -> Result<()> {
    if code.info.const_entries {
        return Err(ControlError::PermissionDenied(format!("{} has constant entries", code.info.name)));
    }
    Ok(())
}

fn check_priority(code: &TableCode, priority: i32) -> Result<i32> {
    if !code.info.has_priority && priority != 0 {
        return Err(ControlError::InvalidArgument(format!("{} has no priorities", code.info.name)));
    }
    Ok(priority)
}
