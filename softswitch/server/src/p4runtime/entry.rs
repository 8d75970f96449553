//! Table entries: P4Runtime's form and the engine's.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::{bits, ActionCall, CounterValue, KeyMatch, MeterConfig};
use narrows_proto::p4::config::v1::{action_ref::Scope, match_field::MatchType, meter_spec::Type as MeterType};
use narrows_proto::p4::v1::{
    self as p4, action::Param, field_match, field_match::FieldMatchType, table_action, FieldMatch, TableAction,
};
use tonic::Code;

use super::error::UpdateError;
use super::schema::{Key, Schema, Table};
use super::value::{decode, encode};

/// The match that leaves a key field out.
fn wildcard(key: &Key) -> Option<KeyMatch> {
    match key.kind {
        MatchType::Lpm => Some(KeyMatch::Lpm { value: 0, prefix_len: 0 }),
        MatchType::Ternary | MatchType::Optional => Some(KeyMatch::Ternary { value: 0, mask: 0 }),
        MatchType::Range => Some(KeyMatch::Range { low: 0, high: bits::wide_ones(key.width) }),
        MatchType::Exact | MatchType::Unspecified => None,
    }
}

fn field(key: &Key, field: &FieldMatch, place: &str) -> Result<KeyMatch, UpdateError> {
    let value = |bytes: &[u8]| decode(bytes, key.width, place);
    let canonical = |found: KeyMatch| match wildcard(key) == Some(found) {
        true => {
            Err(UpdateError::invalid(format!("{place}: a match of everything is expressed by leaving the field out")))
        }
        false => Ok(found),
    };
    match (&field.field_match_type, key.kind) {
        (Some(FieldMatchType::Exact(exact)), MatchType::Exact) => Ok(KeyMatch::Exact(value(&exact.value)?)),
        (Some(FieldMatchType::Lpm(lpm)), MatchType::Lpm) => {
            let prefix_len = u32::try_from(lpm.prefix_len).ok().filter(|length| *length <= key.width);
            let prefix_len = prefix_len
                .ok_or_else(|| UpdateError::invalid(format!("{place}: a prefix has 1 to {} bits", key.width)))?;
            let value = value(&lpm.value)?;
            if value & !bits::prefix_mask(key.width, prefix_len) != 0 {
                return Err(UpdateError::invalid(format!("{place}: bits behind the prefix must be 0")));
            }
            canonical(KeyMatch::Lpm { value, prefix_len })
        }
        (Some(FieldMatchType::Ternary(ternary)), MatchType::Ternary) => {
            let (value, mask) = (value(&ternary.value)?, value(&ternary.mask)?);
            if value & !mask != 0 {
                return Err(UpdateError::invalid(format!("{place}: bits outside the mask must be 0")));
            }
            canonical(KeyMatch::Ternary { value, mask })
        }
        (Some(FieldMatchType::Range(range)), MatchType::Range) => {
            let (low, high) = (value(&range.low)?, value(&range.high)?);
            if low > high {
                return Err(UpdateError::invalid(format!("{place}: the range's low end is above its high end")));
            }
            canonical(KeyMatch::Range { low, high })
        }
        (Some(FieldMatchType::Optional(optional)), MatchType::Optional) => {
            Ok(KeyMatch::Ternary { value: value(&optional.value)?, mask: bits::wide_ones(key.width) })
        }
        _ => Err(UpdateError::invalid(format!("{place}: this field matches {:?}", key.kind))),
    }
}

/// The engine's key for the fields of an entry; fields that were left out match everything.
pub fn key(table: &Table, fields: &[FieldMatch]) -> Result<Vec<KeyMatch>, UpdateError> {
    matches(&format!("table {}", table.name), &table.keys, fields)
}

/// The matches of the key fields of `place`, a table or a value set.
pub fn matches(place: &str, keys: &[Key], fields: &[FieldMatch]) -> Result<Vec<KeyMatch>, UpdateError> {
    for (position, field) in fields.iter().enumerate() {
        if keys.iter().all(|key| key.id != field.field_id) {
            return Err(UpdateError::invalid(format!("{place} has no key field {}", field.field_id)));
        }
        if fields[..position].iter().any(|other| other.field_id == field.field_id) {
            return Err(UpdateError::invalid(format!("{place}: key field {} twice", field.field_id)));
        }
    }
    let matches = keys.iter().map(|key| {
        let place = format!("{place}, key field {}", key.name);
        match fields.iter().find(|field| field.field_id == key.id) {
            Some(found) => field(key, found, &place),
            None => wildcard(key).ok_or_else(|| UpdateError::invalid(format!("{place}: an exact field must be given"))),
        }
    });
    matches.collect()
}

/// Priority of an entry: positive where the table has priorities, 0 where not.
pub fn priority(table: &Table, priority: i32) -> Result<i32, UpdateError> {
    match (table.has_priority, priority) {
        (true, 1..) | (false, 0) => Ok(priority),
        (true, _) => Err(UpdateError::invalid(format!("table {}: priority must be above 0", table.name))),
        (false, _) => {
            Err(UpdateError::invalid(format!("table {}: its entries have no priority: leave it 0", table.name)))
        }
    }
}

/// The engine's action call. `default`: for the default action, else for an entry.
pub fn action(schema: &Schema, table: &Table, given: &TableAction, default: bool) -> Result<ActionCall, UpdateError> {
    match &given.r#type {
        Some(table_action::Type::Action(given)) => call(schema, table, given, default),
        _ => {
            let place = &table.name;
            Err(UpdateError::invalid(format!("table {place}: only direct actions, it has no action profile")))
        }
    }
}

/// The same of an action that is not within a table's.
pub fn call(schema: &Schema, table: &Table, given: &p4::Action, default: bool) -> Result<ActionCall, UpdateError> {
    let place = &table.name;
    let scope = table.actions.get(&given.action_id);
    let scope =
        scope.ok_or_else(|| UpdateError::invalid(format!("table {place} has no action {}", given.action_id)))?;
    let known = schema.actions.get(&given.action_id);
    let known = known.ok_or_else(|| UpdateError::invalid(format!("there is no action {}", given.action_id)))?;
    if *scope == (if default { Scope::TableOnly } else { Scope::DefaultOnly }) {
        let allowed = if default { "entries" } else { "the default" };
        let message = format!("table {place}: action {} is for {allowed} only", known.name);
        return Err(UpdateError::new(Code::PermissionDenied, message));
    }
    if given.params.len() != known.params.len() {
        let (got, wanted) = (given.params.len(), known.params.len());
        return Err(UpdateError::invalid(format!("action {}: {got} parameters given, it has {wanted}", known.name)));
    }
    let params = known.params.iter().map(|(id, name, width)| {
        let place = format!("action {}, parameter {name}", known.name);
        let found = given.params.iter().find(|param| param.param_id == *id);
        let found = found.ok_or_else(|| UpdateError::invalid(format!("{place} is missing")))?;
        decode(&found.value, *width, &place)
    });
    Ok(ActionCall { action: known.name.clone(), params: params.collect::<Result<_, _>>()? })
}

/// P4Runtime's form of a counter value.
pub fn counter_data(value: CounterValue) -> p4::CounterData {
    let saturate = |count| i64::try_from(count).unwrap_or(i64::MAX);
    p4::CounterData { byte_count: saturate(value.bytes), packet_count: saturate(value.packets) }
}

/// The engine's form of a counter value. Errors: negative counts.
pub fn counter_value(data: &p4::CounterData) -> Result<CounterValue, UpdateError> {
    match (u64::try_from(data.packet_count), u64::try_from(data.byte_count)) {
        (Ok(packets), Ok(bytes)) => Ok(CounterValue { packets, bytes }),
        _ => Err(UpdateError::invalid("counts must not be negative")),
    }
}

/// The engine's form of a meter's configuration. Errors: negative numbers, and what the specification forbids for its type.
pub fn meter_config(name: &str, kind: MeterType, given: &p4::MeterConfig) -> Result<MeterConfig, UpdateError> {
    let invalid = |why: &str| UpdateError::invalid(format!("meter {name}: {why}"));
    let numbers = [given.cir, given.cburst, given.pir, given.pburst, given.eburst].map(u64::try_from);
    let [Ok(cir), Ok(cburst), Ok(pir), Ok(pburst), Ok(eburst)] = numbers else {
        return Err(invalid("rates and bursts must not be negative"));
    };
    match kind {
        MeterType::TwoRateThreeColor if eburst != 0 => Err(invalid("eburst must be 0: it has two rates")),
        MeterType::TwoRateThreeColor if pir < cir => Err(invalid("pir is below cir")),
        MeterType::TwoRateThreeColor => Ok(MeterConfig::TwoRates { cir, cburst, pir, pburst }),
        _ if (cir, cburst) != (pir, pburst) => Err(invalid("pir must be cir, and pburst cburst: it has one rate")),
        MeterType::SingleRateTwoColor if eburst != 0 => Err(invalid("eburst must be 0: it has two colors")),
        _ => Ok(MeterConfig::OneRate { cir, cburst, eburst }),
    }
}

/// P4Runtime's form of a meter's configuration.
pub fn to_meter_config(config: MeterConfig) -> p4::MeterConfig {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (cir, cburst, pir, pburst, eburst) = match config {
        MeterConfig::TwoRates { cir, cburst, pir, pburst } => (cir, cburst, pir, pburst, 0),
        MeterConfig::OneRate { cir, cburst, eburst } => (cir, cburst, cir, cburst, eburst),
    };
    p4::MeterConfig {
        cir: number(cir),
        cburst: number(cburst),
        pir: number(pir),
        pburst: number(pburst),
        eburst: number(eburst),
    }
}

/// P4Runtime's form of an action call.
pub fn to_action(schema: &Schema, call: &ActionCall) -> Option<TableAction> {
    Some(TableAction { r#type: Some(table_action::Type::Action(to_call(schema, call)?)) })
}

/// The same where it is not within a table's.
pub fn to_call(schema: &Schema, call: &ActionCall) -> Option<p4::Action> {
    let id = *schema.action_ids.get(&call.action)?;
    let known = schema.actions.get(&id)?;
    let params = known.params.iter().zip(&call.params);
    let params = params.map(|((id, _, _), value)| Param { param_id: *id, value: encode(*value) }).collect();
    Some(p4::Action { action_id: id, params })
}

/// P4Runtime's form of the fields of a key.
pub fn to_fields(keys: &[Key], found: &[KeyMatch]) -> Vec<FieldMatch> {
    keys.iter().zip(found).filter_map(|(key, found)| to_field(key, found)).collect()
}

fn to_field(key: &Key, found: &KeyMatch) -> Option<FieldMatch> {
    if wildcard(key).as_ref() == Some(found) {
        return None;
    }
    let field_match_type = match (*found, key.kind) {
        (KeyMatch::Ternary { mask: 0, .. }, _) => return None,
        (KeyMatch::Exact(value), _) => FieldMatchType::Exact(field_match::Exact { value: encode(value) }),
        (KeyMatch::Lpm { value, prefix_len }, _) => {
            FieldMatchType::Lpm(field_match::Lpm { value: encode(value), prefix_len: prefix_len as i32 })
        }
        (KeyMatch::Ternary { value, .. }, MatchType::Optional) => {
            FieldMatchType::Optional(field_match::Optional { value: encode(value) })
        }
        (KeyMatch::Ternary { value, mask }, _) => {
            FieldMatchType::Ternary(field_match::Ternary { value: encode(value), mask: encode(mask) })
        }
        (KeyMatch::Range { low, high }, _) => {
            FieldMatchType::Range(field_match::Range { low: encode(low), high: encode(high) })
        }
    };
    Some(FieldMatch { field_id: key.id, field_match_type: Some(field_match_type) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(kind: MatchType) -> Key {
        Key { id: 1, name: "k".into(), width: 16, kind }
    }

    fn given(field_match_type: FieldMatchType) -> FieldMatch {
        FieldMatch { field_id: 1, field_match_type: Some(field_match_type) }
    }

    fn lpm(value: &[u8], prefix_len: i32) -> FieldMatch {
        given(FieldMatchType::Lpm(field_match::Lpm { value: value.into(), prefix_len }))
    }

    fn ternary(value: &[u8], mask: &[u8]) -> FieldMatch {
        given(FieldMatchType::Ternary(field_match::Ternary { value: value.into(), mask: mask.into() }))
    }

    fn range(low: &[u8], high: &[u8]) -> FieldMatch {
        given(FieldMatchType::Range(field_match::Range { low: low.into(), high: high.into() }))
    }

    #[test]
    fn every_kind_round_trips() {
        let cases = [
            (MatchType::Exact, given(FieldMatchType::Exact(field_match::Exact { value: vec![0] }))),
            (MatchType::Lpm, lpm(&[0xab, 0], 8)),
            (MatchType::Ternary, ternary(&[1], &[0xff])),
            (MatchType::Range, range(&[0], &[9])),
            (MatchType::Optional, given(FieldMatchType::Optional(field_match::Optional { value: vec![7] }))),
        ];
        for (kind, sent) in cases {
            let key = key_of(kind);
            let stored = field(&key, &sent, "k").expect("valid");
            assert_eq!(to_field(&key, &stored), Some(sent));
        }
    }

    #[test]
    fn meters_are_configured_as_their_type_allows() {
        let of = |kind, cir, cburst, pir, pburst, eburst| {
            let config = meter_config("m", kind, &p4::MeterConfig { cir, cburst, pir, pburst, eburst });
            config.map(|config| to_meter_config(config) == p4::MeterConfig { cir, cburst, pir, pburst, eburst }).ok()
        };
        let (two, one, two_colors) =
            (MeterType::TwoRateThreeColor, MeterType::SingleRateThreeColor, MeterType::SingleRateTwoColor);
        assert_eq!([of(two, 1, 2, 3, 4, 0), of(one, 1, 2, 1, 2, 5), of(two_colors, 1, 2, 1, 2, 0)], [Some(true); 3]);
        let wrong =
            [of(two, 1, 2, 3, 4, 5), of(two, 3, 2, 1, 4, 0), of(one, 1, 2, 3, 4, 5), of(two_colors, 1, 2, 1, 2, 5)];
        assert_eq!(wrong, [None; 4]);
        assert_eq!((of(two, -1, 2, 3, 4, 0), of(one, 1, 2, 1, 2, -1)), (None, None));
    }

    #[test]
    fn what_the_specification_forbids() {
        let invalid = [
            (MatchType::Lpm, lpm(&[0], 0)),
            (MatchType::Lpm, lpm(&[0xab, 1], 8)),
            (MatchType::Lpm, lpm(&[0xab, 1], 17)),
            (MatchType::Lpm, lpm(&[0xab, 1], -1)),
            (MatchType::Ternary, ternary(&[0], &[0])),
            (MatchType::Ternary, ternary(&[3], &[1])),
            (MatchType::Range, range(&[0], &[0xff, 0xff])),
            (MatchType::Range, range(&[2], &[1])),
            (MatchType::Exact, ternary(&[1], &[1])),
        ];
        for (kind, sent) in invalid {
            let error = field(&key_of(kind), &sent, "k").expect_err("must be refused");
            assert_eq!(error.code, Code::InvalidArgument, "{sent:?}: {}", error.message);
        }
        let wide = field(&key_of(MatchType::Ternary), &ternary(&[1, 0, 0], &[1, 0, 0]), "k").expect_err("too wide");
        assert_eq!(wide.code, Code::OutOfRange);
    }
}
