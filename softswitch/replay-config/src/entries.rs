//! Table entries of the configuration file, in the engine's form.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use narrows_pipeline::{bits, ActionCall, Entry, KeyInfo, KeyMatch, MatchKind, TableInfo};

use crate::config::{EntryConfig, Scalar};

/// A number: decimal, 0x..., IPv4, IPv6 or MAC address, true or false.
fn number(text: &str) -> Option<u128> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return u128::from_str_radix(digits, 16).ok();
    }
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(u32::from(address).into());
    }
    let octets: Vec<&str> = text.split(':').collect();
    if octets.len() == 6 && octets.iter().all(|octet| octet.len() == 2) {
        return u128::from_str_radix(&octets.concat(), 16).ok();
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(address.into());
    }
    match text {
        "true" => Some(1),
        "false" => Some(0),
        _ => None,
    }
}

fn bounded(text: &str, width: u32) -> Result<u128, String> {
    let value = number(text).ok_or_else(|| format!("{text:?} is not a number or an address"))?;
    if value > bits::wide_ones(width) {
        Err(format!("{text} does not fit in {width} bits"))
    } else {
        Ok(value)
    }
}

fn text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Number(value) => value.to_string(),
        Scalar::Flag(value) => value.to_string(),
        Scalar::Text(value) => value.clone(),
    }
}

fn key(info: &KeyInfo, given: Option<&Scalar>) -> Result<KeyMatch, String> {
    let width = info.width;
    let Some(given) = given.map(text) else {
        return match info.kind {
            MatchKind::Exact => Err("an exact field must be given".into()),
            MatchKind::Lpm => Ok(KeyMatch::Lpm { value: 0, prefix_len: 0 }),
            MatchKind::Ternary => Ok(KeyMatch::Ternary { value: 0, mask: 0 }),
            MatchKind::Range => Ok(KeyMatch::Range { low: 0, high: bits::wide_ones(width) }),
        };
    };
    match info.kind {
        MatchKind::Exact => Ok(KeyMatch::Exact(bounded(&given, width)?)),
        MatchKind::Lpm => {
            let (value, length) = given.rsplit_once('/').unwrap_or((&given, ""));
            let prefix_len = if length.is_empty() { Ok(width) } else { length.parse() };
            let prefix_len = prefix_len.ok().filter(|length| *length <= width);
            let prefix_len = prefix_len.ok_or_else(|| format!("{given}: a prefix has 0 to {width} bits"))?;
            let mask = bits::prefix_mask(width, prefix_len);
            Ok(KeyMatch::Lpm { value: bounded(value, width)? & mask, prefix_len })
        }
        MatchKind::Ternary => {
            let (value, mask) = match given.split_once("&&&") {
                Some((value, mask)) => (bounded(value, width)?, bounded(mask, width)?),
                None => (bounded(&given, width)?, bits::wide_ones(width)),
            };
            Ok(KeyMatch::Ternary { value: value & mask, mask })
        }
        MatchKind::Range => {
            let (low, high) = given.split_once("..").unwrap_or((&given, &given));
            Ok(KeyMatch::Range { low: bounded(low, width)?, high: bounded(high, width)? })
        }
    }
}

/// The action with its parameters in the program's order.
pub fn action(table: &TableInfo, name: &str, params: &BTreeMap<String, Scalar>) -> Result<ActionCall, String> {
    let known = table.actions.iter().find(|action| action.name == name);
    let known = known.ok_or_else(|| {
        let names: Vec<&str> = table.actions.iter().map(|action| action.name.as_str()).collect();
        format!("no action {name}: the table has {}", names.join(", "))
    })?;
    if let Some(unknown) = params.keys().find(|given| known.params.iter().all(|(name, _)| name != *given)) {
        return Err(format!("action {name} has no parameter {unknown}"));
    }
    let values = known.params.iter().map(|(param, width)| {
        let place = |why: String| format!("parameter {param}: {why}");
        let given = params.get(param).ok_or_else(|| place("it is missing".into()))?;
        bounded(&text(given), *width).map_err(place)
    });
    Ok(ActionCall { action: name.to_owned(), params: values.collect::<Result<_, _>>()? })
}

/// The entry in the engine's form. Errors name the field.
pub fn entry(table: &TableInfo, given: &EntryConfig) -> Result<Entry, String> {
    if let Some(unknown) = given.r#match.keys().find(|name| table.keys.iter().all(|key| key.name != **name)) {
        let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        return Err(format!("no key field {unknown}: the table has {}", names.join(", ")));
    }
    let keys = table
        .keys
        .iter()
        .map(|info| key(info, given.r#match.get(&info.name)).map_err(|why| format!("key field {}: {why}", info.name)));
    let key = keys.collect::<Result<_, _>>()?;
    Ok(Entry { key, priority: given.priority, action: action(table, &given.action, &given.params)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: MatchKind, width: u32) -> KeyInfo {
        KeyInfo { name: "k".into(), kind, width }
    }

    fn parse(kind: MatchKind, width: u32, text: &str) -> Result<KeyMatch, String> {
        key(&info(kind, width), Some(&Scalar::Text(text.into())))
    }

    #[test]
    fn values() {
        let cases = [
            ("7", 7),
            ("0x1f", 0x1f),
            ("10.0.0.1", 0x0a00_0001),
            ("02:00:00:00:00:0a", 0x0200_0000_000a),
            ("fd00::1", 0xfd00 << 112 | 1),
            ("true", 1),
        ];
        for (text, value) in cases {
            assert_eq!(parse(MatchKind::Exact, 128, text), Ok(KeyMatch::Exact(value)), "{text}");
        }
        for wrong in ["", "x", "10.0.0", "-1", "1:2", "256.0.0.1"] {
            assert!(parse(MatchKind::Exact, 128, wrong).is_err(), "{wrong}");
        }
        assert!(parse(MatchKind::Exact, 9, "512").expect_err("10 bits").contains("9 bits"));
    }

    #[test]
    fn matches() {
        assert_eq!(parse(MatchKind::Lpm, 32, "10.1.2.3/8"), Ok(KeyMatch::Lpm { value: 0x0a00_0000, prefix_len: 8 }));
        assert!(parse(MatchKind::Lpm, 32, "10.0.0.0/33").is_err());
        assert_eq!(parse(MatchKind::Ternary, 9, "5 &&& 0xf"), Ok(KeyMatch::Ternary { value: 5, mask: 15 }));
        assert_eq!(parse(MatchKind::Ternary, 9, "5"), Ok(KeyMatch::Ternary { value: 5, mask: 511 }));
        assert_eq!(parse(MatchKind::Range, 9, "1..4"), Ok(KeyMatch::Range { low: 1, high: 4 }));
        assert_eq!(key(&info(MatchKind::Ternary, 9), None), Ok(KeyMatch::Ternary { value: 0, mask: 0 }));
        assert!(key(&info(MatchKind::Exact, 9), None).is_err());
    }
}
