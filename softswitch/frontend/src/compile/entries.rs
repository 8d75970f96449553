// SPDX-License-Identifier: Apache-2.0
//! Keys, default actions and constant entries of tables.

use narrows_program::bits::prefix_mask;
use narrows_program::control::{ActionCall, Entry, KeyInfo, KeyMatch, MatchKind};
use narrows_program::field::Field;
use serde_json::Value;

use super::control::Control;
use super::Result;
use crate::error::LoadError;
use crate::json;

impl Control<'_, '_> {
    pub(super) fn keys(&self, value: &Value, place: &str) -> Result<Vec<(KeyInfo, Field, Option<u128>)>> {
        let mut keys = Vec::new();
        for key in json::array(value, "key", place)? {
            let kind = match json::text(key, "match_type", place)? {
                "exact" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" | "optional" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                other => return Err(LoadError::unsupported(format!("a key field of type {other}"), place)),
            };
            let target = json::member(key, "target", place)?;
            let field = self.objects.layout.field_ref(target, place)?;
            let name = match json::optional_text(key, "name", place)? {
                Some(name) => name.to_owned(),
                None => {
                    let (header, field) = json::pair(target, place)?;
                    format!("{}.{}", header.as_str().unwrap_or_default(), field.as_str().unwrap_or_default())
                }
            };
            let mask = match key.get("mask") {
                None | Some(Value::Null) => None,
                Some(mask) => Some(json::unsigned_hex(mask, place)?),
            };
            keys.push((KeyInfo { name, kind, width: field.width }, field, mask));
        }
        if keys.iter().filter(|k| k.0.kind == MatchKind::Lpm).count() > 1 {
            return Err(LoadError::malformed(format!("{place}: more than one lpm key field")));
        }
        Ok(keys)
    }

    /// Index of the default action among the table's actions, and its data; beyond them if there is none.
    pub(super) fn default_entry(&self, value: &Value, ids: &[usize], place: &str) -> Result<(u16, Vec<u128>)> {
        match value.get("default_entry") {
            None | Some(Value::Null) => Ok((ids.len() as u16, Vec::new())),
            Some(entry) => self.action_entry(entry, ids, place),
        }
    }

    pub(super) fn action_entry(&self, entry: &Value, ids: &[usize], place: &str) -> Result<(u16, Vec<u128>)> {
        let action = self.action(json::number(entry, "action_id", place)?, place)?;
        let found = ids.iter().position(|&i| i == action);
        let index = found.ok_or_else(|| LoadError::malformed(format!("{place}: an action that it does not have")))?;
        let mut data = Vec::new();
        for item in json::array(entry, "action_data", place)? {
            data.push(json::unsigned_hex(item, place)?);
        }
        let params = &self.objects.actions[action].params;
        let fits = |(v, (_, width)): (&u128, &(String, u32))| *width == 128 || v >> width == 0;
        if data.len() != params.len() || !data.iter().zip(params).all(fits) {
            return Err(LoadError::malformed(format!("{place}: action data that does not fit the action")));
        }
        Ok((index as u16, data))
    }

    pub(super) fn entries(&self, value: &Value, keys: &[KeyInfo], ids: &[usize], place: &str) -> Result<Vec<Entry>> {
        let values = json::array(value, "entries", place)?;
        let mut entries = Vec::new();
        for value in values {
            let mut key = Vec::new();
            for part in json::array(value, "match_key", place)? {
                key.push(match_key(part, keys.get(key.len()), place)?);
            }
            let entry = json::member(value, "action_entry", place)?;
            let (index, params) = self.action_entry(entry, ids, place)?;
            let action = self.objects.actions[ids[usize::from(index)]].name.clone();
            // In the JSON the least number wins.
            let priority = value.get("priority").and_then(Value::as_i64).unwrap_or(0);
            let priority = i32::try_from(priority).map_err(|_| LoadError::malformed(format!("{place}: a priority")))?;
            entries.push(Entry { key, priority, action: ActionCall { action, params } });
        }
        let last = entries.iter().map(|e| e.priority).max().unwrap_or(0);
        let ordered = keys.iter().any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range));
        for entry in &mut entries {
            entry.priority = if ordered { last.saturating_sub(entry.priority).saturating_add(1) } else { 0 };
        }
        Ok(entries)
    }
}

fn match_key(part: &Value, key: Option<&KeyInfo>, place: &str) -> Result<KeyMatch> {
    let hex = |name: &str| json::unsigned_hex(json::member(part, name, place)?, place);
    let kind = json::text(part, "match_type", place)?;
    Ok(match kind {
        "exact" => KeyMatch::Exact(hex("key")?),
        "lpm" => {
            let prefix_len = json::number(part, "prefix_length", place)?.min(u64::from(u32::MAX)) as u32;
            let width = key.map_or(0, |k| k.width);
            let keep = prefix_mask(width, prefix_len);
            KeyMatch::Lpm { value: hex("key")? & keep, prefix_len }
        }
        "ternary" | "optional" => {
            let mask = hex("mask")?;
            KeyMatch::Ternary { value: hex("key")? & mask, mask }
        }
        "range" => KeyMatch::Range { low: hex("start")?, high: hex("end")? },
        other => return Err(LoadError::unsupported(format!("an entry's key of type {other}"), place)),
    })
}
