// SPDX-License-Identifier: Apache-2.0
//! Typed access to the JSON, with errors that say where.

use serde_json::Value;

use crate::error::LoadError;

type Result<T> = std::result::Result<T, LoadError>;

/// The member `key` of an object.
pub(crate) fn member<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v Value> {
    value.get(key).ok_or_else(|| LoadError::malformed(format!("{place}: `{key}` is missing")))
}

/// The array `key`; an absent one is empty.
pub(crate) fn array<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v [Value]> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(a)) => Ok(a),
        Some(_) => Err(LoadError::malformed(format!("{place}: `{key}` is not an array"))),
    }
}

pub(crate) fn text<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v str> {
    as_text(member(value, key, place)?, &format!("{place}: `{key}`"))
}

pub(crate) fn as_text<'v>(value: &'v Value, place: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| LoadError::malformed(format!("{place} is not a string")))
}

pub(crate) fn number(value: &Value, key: &str, place: &str) -> Result<u64> {
    as_number(member(value, key, place)?, &format!("{place}: `{key}`"))
}

pub(crate) fn as_number(value: &Value, place: &str) -> Result<u64> {
    value.as_u64().ok_or_else(|| LoadError::malformed(format!("{place} is not a non-negative integer")))
}

pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// A name, or `None` for null or an absent member.
pub(crate) fn optional_text<'v>(value: &'v Value, key: &str, place: &str) -> Result<Option<&'v str>> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => as_text(v, &format!("{place}: `{key}`")).map(Some),
    }
}

/// A two-element reference such as `["header", "field"]`.
pub(crate) fn pair<'v>(value: &'v Value, place: &str) -> Result<(&'v Value, &'v Value)> {
    match value.as_array().map(Vec::as_slice) {
        Some([a, b]) => Ok((a, b)),
        _ => Err(LoadError::malformed(format!("{place} is not a pair"))),
    }
}

/// A hexadecimal number: sign and magnitude.
pub(crate) fn hex(text: &str, place: &str) -> Result<(bool, u128)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(LoadError::malformed(format!("{place}: `{text}` is not a hexadecimal number")));
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > 32 {
        return Err(LoadError::unsupported(format!("the constant {text}, wider than 128 bits"), place));
    }
    let magnitude = if significant.is_empty() {
        0
    } else {
        u128::from_str_radix(significant, 16).map_err(|e| LoadError::malformed(format!("{place}: {e}")))?
    };
    Ok((negative && magnitude != 0, magnitude))
}

/// Words, the lowest first, of a hexadecimal number that has more than 128 bits and is not negative; `None`: it is something else.
pub(crate) fn long_hex(text: &str) -> Option<Vec<u64>> {
    let digits = text.strip_prefix("0x")?.trim_start_matches('0');
    if digits.len() <= 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let words = digits.as_bytes().rchunks(16).map(|chunk| {
        let text = std::str::from_utf8(chunk).ok()?;
        u64::from_str_radix(text, 16).ok()
    });
    words.collect()
}

/// A hexadecimal number that must not be negative.
pub(crate) fn unsigned_hex(value: &Value, place: &str) -> Result<u128> {
    match hex(as_text(value, place)?, place)? {
        (false, magnitude) => Ok(magnitude),
        (true, _) => Err(LoadError::malformed(format!("{place} is negative"))),
    }
}

/// Instructions name objects by 16 bits.
pub(crate) fn numbered(number: usize, what: &str, name: &str) -> Result<()> {
    match u16::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(LoadError::unsupported(format!("more than 65,536 {what}"), name)),
    }
}
