// SPDX-License-Identifier: Apache-2.0
//! What the control plane does to a table's entries.

use narrows_program::bits::wide_ones;
use narrows_program::control::{ActionCall, CounterValue, EntriesPart, Entry, KeyMatch};
use narrows_program::table::TableCode;

use super::convert::{canonical, describe, words, Stored};
use super::key_map::NONE;
use super::state::TableState;
use crate::error::ControlError;

type Result<T> = std::result::Result<T, ControlError>;

impl TableState {
    pub fn insert(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
        refuse_const_entries(code)?;
        self.add(code, entry)
    }

    pub(super) fn add(&mut self, code: &TableCode, entry: &Entry) -> Result<()> {
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
            (self.stored.len() - 1) as u32
        });
        let at = handle as usize;
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.stored[at] = Some(Stored { key: key.clone(), priority, sequence });
        self.set_record(handle, action, &params);
        self.counters[at] = CounterValue::default();
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
        if let Some(stored) = self.stored[handle as usize].take() {
            self.entry_removed(code, handle, &stored);
            self.by_key.remove(&(stored.key, stored.priority));
            self.free.push(handle);
        }
        Ok(())
    }

    /// The entries in `count` places from `place` on.
    pub fn entries_from(&self, code: &TableCode, place: usize, count: usize) -> EntriesPart {
        let end = place.saturating_add(count).min(self.stored.len());
        let entries = (place..end).filter_map(|handle| {
            let (entry, counter) = self.entry(code, handle)?;
            Some((self.stored[handle].as_ref()?.sequence, entry, counter))
        });
        EntriesPart { entries: entries.collect(), next: (end < self.stored.len()).then_some(end) }
    }

    fn entry(&self, code: &TableCode, handle: usize) -> Option<(Entry, CounterValue)> {
        let stored = self.stored[handle].as_ref()?;
        let record = self.record(handle as u32);
        let action = describe(code, self.action(handle as u32), &record[1..]);
        let counter = if code.info.direct_counter { self.counters[handle] } else { CounterValue::default() };
        let entry = Entry { key: stored.key.clone(), priority: stored.priority, action };
        Some((entry, counter))
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
