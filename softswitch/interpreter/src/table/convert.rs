// SPDX-License-Identifier: Apache-2.0
//! Entries between the control plane's form and the packed one.

use narrows_program::bits::{prefix_mask, wide_ones};
use narrows_program::control::{ActionCall, KeyMatch, MatchKind};
use narrows_program::key::{Key, KeyLayout};
use narrows_program::table::TableCode;

use super::lookup::{Interval, Rule};
use crate::error::ControlError;

type Result<T> = std::result::Result<T, ControlError>;

/// An entry as it was written, its key in canonical form.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub key: Vec<KeyMatch>,
    pub priority: i32,
    /// Order of insertion.
    pub sequence: u32,
}

/// Parameter values as words, filled up to `stride`.
pub fn words(code: &TableCode, action: u16, values: &[u128], stride: usize) -> Vec<u64> {
    let mut words = Vec::with_capacity(stride);
    let widths = code.actions.get(usize::from(action)).map_or(&[][..], |a| &a.widths);
    for (value, &width) in values.iter().zip(widths) {
        words.push(*value as u64);
        if width > 64 {
            words.push((value >> 64) as u64);
        }
    }
    words.resize(stride, 0);
    words
}

pub(super) fn describe(code: &TableCode, action: u16, words: &[u64]) -> ActionCall {
    let Some(info) = code.info.actions.get(usize::from(action)) else {
        return ActionCall { action: "NoAction".to_owned(), params: Vec::new() };
    };
    let mut words = words.iter().map(|&w| u128::from(w));
    let mut params = Vec::new();
    for &(_, width) in &info.params {
        let low = words.next().unwrap_or(0);
        params.push(if width > 64 { low | words.next().unwrap_or(0) << 64 } else { low });
    }
    ActionCall { action: info.name.clone(), params }
}

/// Checks a key and gives equal keys one form.
pub(super) fn canonical(code: &TableCode, key: &[KeyMatch]) -> Result<Vec<KeyMatch>> {
    let info = &code.info;
    let bad = |m: String| Err(ControlError::InvalidArgument(format!("{}: {m}", info.name)));
    if key.len() != info.keys.len() {
        return bad(format!("the key has {} fields, not {}", info.keys.len(), key.len()));
    }
    let mut result = Vec::with_capacity(key.len());
    for (field, part) in info.keys.iter().zip(key) {
        let all = wide_ones(field.width);
        let (name, width) = (&field.name, field.width);
        let made = match (field.kind, *part) {
            (MatchKind::Exact, KeyMatch::Exact(v)) => KeyMatch::Exact(v),
            (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
                if prefix_len > width || value & !prefix_mask(width, prefix_len) & all != 0 {
                    return bad(format!("{name}: {value:#x}/{prefix_len} has bits outside its prefix or the field"));
                }
                KeyMatch::Lpm { value, prefix_len }
            }
            (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
                if value & !mask != 0 {
                    return bad(format!("{name}: {value:#x} has bits outside its mask {mask:#x}"));
                }
                if mask & !all != 0 {
                    return bad(format!("{name} has {width} bits: the mask {mask:#x} does not fit"));
                }
                KeyMatch::Ternary { value, mask }
            }
            (MatchKind::Ternary, KeyMatch::Exact(value)) => KeyMatch::Ternary { value, mask: all },
            (MatchKind::Range, KeyMatch::Range { low, high }) => {
                if low > high || high & !all != 0 {
                    return bad(format!("{name}: {low:#x}..{high:#x} is not a range of {width} bits"));
                }
                KeyMatch::Range { low, high }
            }
            (kind, part) => return bad(format!("{name} is matched as {kind:?}, not by {part:?}")),
        };
        let value = match made {
            KeyMatch::Exact(v) | KeyMatch::Lpm { value: v, .. } | KeyMatch::Ternary { value: v, .. } => v,
            _ => 0,
        };
        if value & !all != 0 {
            return bad(format!("{name} has {width} bits: {value:#x} does not fit"));
        }
        result.push(made);
    }
    Ok(result)
}

pub(super) fn packed(code: &TableCode, layout: &KeyLayout, key: &[KeyMatch]) -> (Key, Key) {
    layout.pack(key.iter().zip(&code.info.keys).map(|(part, info)| match *part {
        KeyMatch::Exact(v) => (v, wide_ones(info.width)),
        KeyMatch::Lpm { value, prefix_len } => (value, prefix_mask(info.width, prefix_len)),
        KeyMatch::Ternary { value, mask } => (value, mask),
        KeyMatch::Range { .. } => (0, 0),
    }))
}

pub(super) fn rule(code: &TableCode, layout: &KeyLayout, handle: u32, stored: &Stored) -> Rule {
    let (value, mask) = packed(code, layout, &stored.key);
    let mut ranges = Vec::new();
    let mut preference = stored.priority as u32 ^ 1 << 31;
    for (index, key) in stored.key.iter().enumerate() {
        match (*key, layout.place(index)) {
            (KeyMatch::Range { low, high }, Some(step)) => {
                ranges.push(Interval { step, low: low as u64, high: high as u64 });
            }
            // Where a prefix decides, there are no priorities, or they come first.
            (KeyMatch::Lpm { prefix_len, .. }, _) if !code.info.has_priority => preference = prefix_len,
            _ => {}
        }
    }
    Rule { value, mask, rank: u64::from(preference) << 32 | u64::from(!stored.sequence), handle, ranges }
}
