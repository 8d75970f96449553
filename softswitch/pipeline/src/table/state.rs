// SPDX-License-Identifier: Apache-2.0
//! A table's entries, as the control plane writes them and as packets find them.

use std::collections::HashMap;

use super::key_map::{KeyMap, NONE};
use super::lookup::{Interval, Lookup, Prefixes, Rule, DIRECT_BITS};
use super::{prefix_mask, wide_ones, Key, KeyLayout, TableCode, BLOCK};
use crate::control::{ActionCall, CounterValue, Entry, KeyMatch, MatchKind};
use crate::error::ControlError;
use crate::exec::Frame;
use crate::packet::Packet;

type Result<T> = std::result::Result<T, ControlError>;

/// An entry as it was written, its key in canonical form.
#[derive(Debug, Clone)]
struct Stored {
    key: Vec<KeyMatch>,
    priority: i32,
    /// Order of insertion.
    sequence: u32,
}

#[derive(Debug)]
pub(crate) struct TableState {
    stored: Vec<Option<Stored>>,
    free: Vec<u32>,
    by_key: HashMap<(Vec<KeyMatch>, i32), u32>,
    next_sequence: u32,
    /// By handle: action index.
    actions: Vec<u16>,
    /// By handle: the action's parameters, `stride` words each.
    params: Vec<u64>,
    pub stride: usize,
    /// By handle, for tables with a direct counter.
    pub counters: Vec<CounterValue>,
    pub default_action: u16,
    pub default_params: Vec<u64>,
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
        let mut state = Self {
            stored: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            next_sequence: 0,
            actions: Vec::new(),
            params: Vec::new(),
            stride,
            counters: Vec::new(),
            default_action: code.default.0,
            default_params: words(code, code.default.0, &code.default.1, stride),
            lookup: Lookup::Empty,
            stale: true,
            layout: KeyLayout::default(),
        };
        for entry in &code.entries {
            state.add(code, entry)?;
        }
        Ok(state)
    }

    pub(crate) fn action(&self, handle: u32) -> u16 {
        self.actions[handle as usize]
    }

    fn params(&self, handle: u32) -> &[u64] {
        &self.params[handle as usize * self.stride..][..self.stride]
    }

    /// Copies the parameters of an entry ([`NONE`]: of the default action) to `to`.
    #[inline(always)]
    pub(crate) fn load_params(&self, handle: u32, to: &mut [u64]) {
        let from = if handle == NONE {
            &self.default_params[..]
        } else {
            self.params(handle)
        };
        for (to, from) in to.chunks_exact_mut(BLOCK).zip(from.chunks_exact(BLOCK)) {
            to.copy_from_slice(from);
        }
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
            self.actions.push(0);
            self.params.resize(self.params.len() + self.stride, 0);
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
        self.actions[at] = action;
        self.params[at * self.stride..][..self.stride].copy_from_slice(&params);
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
        let handle = self.handle(code, &entry.key, entry.priority)? as usize;
        let (action, params) = self.call(code, &entry.action)?;
        self.actions[handle] = action;
        self.params[handle * self.stride..][..self.stride].copy_from_slice(&params);
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
        let entry = |handle: usize| {
            let stored = self.stored[handle].as_ref()?;
            let action = describe(code, self.actions[handle], self.params(handle as u32));
            let counter = if code.info.direct_counter {
                self.counters[handle]
            } else {
                CounterValue::default()
            };
            Some((
                Entry {
                    key: stored.key.clone(),
                    priority: stored.priority,
                    action,
                },
                counter,
            ))
        };
        handles
            .into_iter()
            .filter_map(|(_, handle)| entry(handle))
            .collect()
    }

    pub(crate) fn default_call(&self, code: &TableCode) -> ActionCall {
        describe(code, self.default_action, &self.default_params)
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
        (self.default_action, self.default_params) = match action {
            Some(call) => self.call(code, call)?,
            None => (
                code.default.0,
                words(code, code.default.0, &code.default.1, self.stride),
            ),
        };
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
            Lookup::of_rules(
                live().map(|(h, s)| rule(code, layout, h, s)).collect(),
                layout.words,
            )
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

/// Parameter values as words, filled up to `stride`.
fn words(code: &TableCode, action: u16, values: &[u128], stride: usize) -> Vec<u64> {
    let mut words = Vec::with_capacity(stride);
    let widths = code
        .actions
        .get(usize::from(action))
        .map_or(&[][..], |a| &a.widths);
    for (value, &width) in values.iter().zip(widths) {
        words.push(*value as u64);
        if width > 64 {
            words.push((value >> 64) as u64);
        }
    }
    words.resize(stride, 0);
    words
}

fn describe(code: &TableCode, action: u16, words: &[u64]) -> ActionCall {
    let Some(info) = code.info.actions.get(usize::from(action)) else {
        return ActionCall {
            action: "NoAction".to_owned(),
            params: Vec::new(),
        };
    };
    let mut words = words.iter().map(|&w| u128::from(w));
    let mut params = Vec::new();
    for &(_, width) in &info.params {
        let low = words.next().unwrap_or(0);
        params.push(if width > 64 {
            low | words.next().unwrap_or(0) << 64
        } else {
            low
        });
    }
    ActionCall {
        action: info.name.clone(),
        params,
    }
}

/// Checks a key and gives equal keys one form.
fn canonical(code: &TableCode, key: &[KeyMatch]) -> Result<Vec<KeyMatch>> {
    let info = &code.info;
    let bad = |m: String| Err(ControlError::InvalidArgument(format!("{}: {m}", info.name)));
    if key.len() != info.keys.len() {
        return bad(format!(
            "the key has {} fields, not {}",
            info.keys.len(),
            key.len()
        ));
    }
    let mut result = Vec::with_capacity(key.len());
    for (field, part) in info.keys.iter().zip(key) {
        let all = wide_ones(field.width);
        let (name, width) = (&field.name, field.width);
        let made = match (field.kind, *part) {
            (MatchKind::Exact, KeyMatch::Exact(v)) => KeyMatch::Exact(v),
            (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
                if prefix_len > width || value & !prefix_mask(width, prefix_len) & all != 0 {
                    return bad(format!(
                        "{name}: {value:#x}/{prefix_len} has bits outside its prefix or the field"
                    ));
                }
                KeyMatch::Lpm { value, prefix_len }
            }
            (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
                if value & !mask != 0 {
                    return bad(format!(
                        "{name}: {value:#x} has bits outside its mask {mask:#x}"
                    ));
                }
                if mask & !all != 0 {
                    return bad(format!(
                        "{name} has {width} bits: the mask {mask:#x} does not fit"
                    ));
                }
                KeyMatch::Ternary { value, mask }
            }
            (MatchKind::Ternary, KeyMatch::Optional(None)) => {
                KeyMatch::Ternary { value: 0, mask: 0 }
            }
            (MatchKind::Ternary, KeyMatch::Optional(Some(value)) | KeyMatch::Exact(value)) => {
                KeyMatch::Ternary { value, mask: all }
            }
            (MatchKind::Range, KeyMatch::Range { low, high }) => {
                if low > high || high & !all != 0 {
                    return bad(format!(
                        "{name}: {low:#x}..{high:#x} is not a range of {width} bits"
                    ));
                }
                KeyMatch::Range { low, high }
            }
            (kind, part) => return bad(format!("{name} is matched as {kind:?}, not by {part:?}")),
        };
        let value = match made {
            KeyMatch::Exact(v)
            | KeyMatch::Lpm { value: v, .. }
            | KeyMatch::Ternary { value: v, .. } => v,
            _ => 0,
        };
        if value & !all != 0 {
            return bad(format!("{name} has {width} bits: {value:#x} does not fit"));
        }
        result.push(made);
    }
    Ok(result)
}

fn packed(code: &TableCode, layout: &KeyLayout, key: &[KeyMatch]) -> (Key, Key) {
    layout.pack(
        key.iter()
            .zip(&code.info.keys)
            .map(|(part, info)| match *part {
                KeyMatch::Exact(v) => (v, wide_ones(info.width)),
                KeyMatch::Lpm { value, prefix_len } => (value, prefix_mask(info.width, prefix_len)),
                KeyMatch::Ternary { value, mask } => (value, mask),
                KeyMatch::Range { .. } | KeyMatch::Optional(_) => (0, 0),
            }),
    )
}

fn rule(code: &TableCode, layout: &KeyLayout, handle: u32, stored: &Stored) -> Rule {
    let (value, mask) = packed(code, layout, &stored.key);
    let mut ranges = Vec::new();
    let mut preference = stored.priority as u32 ^ 1 << 31;
    for (index, key) in stored.key.iter().enumerate() {
        match (*key, layout.place(index)) {
            (KeyMatch::Range { low, high }, Some(step)) => {
                ranges.push(Interval {
                    step,
                    low: low as u64,
                    high: high as u64,
                });
            }
            // Where a prefix decides there are no priorities, or they come first.
            (KeyMatch::Lpm { prefix_len, .. }, _) if !code.info.has_priority => {
                preference = prefix_len
            }
            _ => {}
        }
    }
    Rule {
        value,
        mask,
        rank: u64::from(preference) << 32 | u64::from(!stored.sequence),
        handle,
        ranges,
    }
}
