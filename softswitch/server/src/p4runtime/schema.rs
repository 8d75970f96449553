//! P4Info beside the loaded program: which id is which table, action, counter, register or digest.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use narrows_pipeline::{CounterId, KeyInfo, MatchKind, MeterId, MeterInfo, ProfileInfo, Program, RegisterId, TableId};
use narrows_proto::p4::config::v1::{
    self as config, match_field::MatchType, meter_spec::Type as MeterType, P4Info, Preamble,
};

use super::error::UpdateError;
use super::packet_io::ControllerHeaders;

/// A key field of a table.
#[derive(Debug, Clone)]
pub struct Key {
    pub id: u32,
    pub name: String,
    pub width: u32,
    pub kind: MatchType,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    /// In the program's order.
    pub keys: Vec<Key>,
    /// Entries carry a priority.
    pub has_priority: bool,
    /// Actions by id: where they may be used.
    pub actions: BTreeMap<u32, config::action_ref::Scope>,
    pub direct_counter: bool,
    /// The kind of its direct meter, if there is one.
    pub direct_meter: Option<MeterType>,
    /// Its entries may have idle timeouts.
    pub idle_timeout: bool,
    pub const_default: bool,
    pub const_entries: bool,
    /// Its actions are in the profile with this id.
    pub profile: Option<u32>,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its number in the program.
    pub number: usize,
    pub name: String,
    pub selector: bool,
    /// A table whose actions members may have; 0: it implements none.
    pub table: u32,
    /// The size of a group at most; 0: no such limit.
    pub max_group_size: u32,
    /// Sizes are numbers of members, of at most this weight (0: any); else sums of weights.
    pub by_members: Option<u32>,
    pub weights_disallowed: bool,
}

/// An action.
#[derive(Debug, Clone)]
pub struct Action {
    pub name: String,
    /// Id, name and width of each parameter, in the program's order.
    pub params: Vec<(u32, String, u32)>,
}

/// A counter array.
#[derive(Debug, Clone)]
pub struct Counter {
    pub id: CounterId,
    pub size: u64,
}

/// A register array.
#[derive(Debug, Clone)]
pub struct Register {
    pub id: RegisterId,
    pub name: String,
    pub size: u64,
    pub width: u32,
}

/// A meter array.
#[derive(Debug, Clone)]
pub struct Meter {
    pub id: MeterId,
    pub name: String,
    pub size: u64,
    pub kind: MeterType,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSet {
    /// Its number in the program.
    pub number: usize,
    pub name: String,
    pub keys: Vec<Key>,
}

/// Shape of a digest's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestShape {
    Bits,
    Tuple,
    Struct,
}

/// A digest.
#[derive(Debug, Clone)]
pub struct Digest {
    /// The number that the program's records carry.
    pub list: u32,
    pub shape: DigestShape,
}

/// Everything P4Runtime can name, by id.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub tables: BTreeMap<u32, Table>,
    pub actions: BTreeMap<u32, Action>,
    pub action_ids: BTreeMap<String, u32>,
    pub counters: BTreeMap<u32, Counter>,
    pub registers: BTreeMap<u32, Register>,
    pub meters: BTreeMap<u32, Meter>,
    pub digests: BTreeMap<u32, Digest>,
    pub value_sets: BTreeMap<u32, ValueSet>,
    pub profiles: BTreeMap<u32, Profile>,
    pub controller_headers: ControllerHeaders,
}

fn identity<'a>(preamble: Option<&'a Preamble>, kind: &str) -> Result<(u32, &'a str), UpdateError> {
    let preamble = preamble.ok_or_else(|| UpdateError::invalid(format!("p4info: a {kind} has no preamble")))?;
    Ok((preamble.id, &preamble.name))
}

fn mismatch(kind: &str, name: &str, why: impl std::fmt::Display) -> UpdateError {
    UpdateError::invalid(format!("p4info and p4_device_config disagree about {kind} {name}: {why}"))
}

fn width(bits: i32) -> u32 {
    u32::try_from(bits).unwrap_or(0)
}

impl Schema {
    /// Matches P4Info with the program. Errors: INVALID_ARGUMENT for what the switch cannot do and where the two disagree;
    /// they name the thing.
    pub fn new(info: &P4Info, program: &Program) -> Result<Self, UpdateError> {
        refuse_unsupported(info)?;
        let mut schema = Schema { controller_headers: ControllerHeaders::new(info)?, ..Schema::default() };
        for action in &info.actions {
            let (id, name) = identity(action.preamble.as_ref(), "action")?;
            let params = action.params.iter().map(|param| (param.id, param.name.clone(), width(param.bitwidth)));
            schema.actions.insert(id, Action { name: name.to_owned(), params: params.collect() });
            schema.action_ids.insert(name.to_owned(), id);
        }
        for profile in &info.action_profiles {
            let (id, name) = identity(profile.preamble.as_ref(), "action profile")?;
            schema.profiles.extend(profile_of(profile, name, program)?.map(|known| (id, known)));
        }
        for table in &info.tables {
            let (id, name) = identity(table.preamble.as_ref(), "table")?;
            schema.tables.insert(id, schema.table(table, name, program)?);
        }
        for counter in &info.counters {
            let (id, name) = identity(counter.preamble.as_ref(), "counter")?;
            let found = program.counters.iter().find(|known| known.name == name && known.table.is_none());
            let found = found.ok_or_else(|| mismatch("counter", name, "the program has none of this name"))?;
            schema.counters.insert(id, Counter { id: found.id, size: found.size as u64 });
        }
        for register in &info.registers {
            let (id, name) = identity(register.preamble.as_ref(), "register")?;
            let found = program.registers.iter().find(|known| known.name == name);
            let found = found.ok_or_else(|| mismatch("register", name, "the program has none of this name"))?;
            let (size, name) = (found.size as u64, name.to_owned());
            schema.registers.insert(id, Register { id: found.id, name, size, width: found.width });
        }
        for meter in &info.meters {
            let (id, name) = identity(meter.preamble.as_ref(), "meter")?;
            schema.meters.insert(id, meter_of(meter, name, program)?);
        }
        for meter in &info.direct_meters {
            let (_, name) = identity(meter.preamble.as_ref(), "direct meter")?;
            let kind = meter_kind(name, meter.spec, program)?.1;
            let table = schema.tables.get_mut(&meter.direct_table_id);
            let table = table.ok_or_else(|| mismatch("direct meter", name, "its table is not in p4info"))?;
            table.direct_meter = Some(kind);
        }
        for set in &info.value_sets {
            let (id, name) = identity(set.preamble.as_ref(), "value set")?;
            schema.value_sets.insert(id, value_set(set, name, program)?);
        }
        for digest in &info.digests {
            let (id, name) = identity(digest.preamble.as_ref(), "digest")?;
            schema.digests.insert(id, digest_of(digest, name, program)?);
        }
        Ok(schema)
    }

    fn table(&self, table: &config::Table, name: &str, program: &Program) -> Result<Table, UpdateError> {
        let known = program.tables().iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| mismatch("table", name, "the program has none of this name"))?;
        if known.keys.len() != table.match_fields.len() {
            let (ours, theirs) = (known.keys.len(), table.match_fields.len());
            return Err(mismatch("table", name, format!("the program has {ours} key fields, p4info {theirs}")));
        }
        let keys = known.keys.iter().zip(&table.match_fields).map(|(ours, theirs)| key(name, ours, theirs));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let implementation = |info: &ProfileInfo| info.tables.iter().find(|tables| tables.entries == known.id).copied();
        let found = program.profiles.iter().position(|info| implementation(info).is_some());
        let profile = Some(table.implementation_id).filter(|id| *id > 0);
        let stated = profile.map(|id| self.profiles.get(&id).map(|known| known.number));
        if stated != found.map(Some) {
            return Err(mismatch("table", name, "its action profile is another one"));
        }
        // The actions of such a table are those that members may have.
        let members = found.and_then(|number| implementation(&program.profiles[number])).map(|tables| tables.members);
        let with_actions = members.map_or(known, |members| &program.tables()[members.0 as usize]);
        let mut actions = BTreeMap::new();
        for reference in &table.action_refs {
            let action = self.actions.get(&reference.id);
            let action = action.ok_or_else(|| mismatch("table", name, format!("no action has id {}", reference.id)))?;
            let ours = with_actions.actions.iter().find(|ours| ours.name == action.name);
            let ours =
                ours.ok_or_else(|| mismatch("table", name, format!("no action {} in the program", action.name)))?;
            let widths_agree = ours.params.iter().map(|(_, width)| width).eq(action.params.iter().map(|(_, _, w)| w));
            if !widths_agree {
                return Err(mismatch("action", &action.name, "parameters differ"));
            }
            actions.insert(reference.id, reference.scope());
        }
        Ok(Table {
            id: known.id,
            name: name.to_owned(),
            has_priority: keys.iter().any(|key| !matches!(key.kind, MatchType::Exact | MatchType::Lpm)),
            keys,
            actions,
            direct_counter: known.direct_counter,
            direct_meter: None,
            idle_timeout: known.idle_timeout,
            // The program does not know of default actions that are not in the profile.
            const_default: known.const_default || profile.is_some() && table.const_default_action_id > 0,
            const_entries: known.const_entries,
            profile,
        })
    }
}

fn key(table: &str, ours: &KeyInfo, theirs: &config::MatchField) -> Result<Key, UpdateError> {
    let kind = match_type(theirs);
    let agree = matches!(
        (ours.kind, kind),
        (MatchKind::Exact, MatchType::Exact)
            | (MatchKind::Lpm, MatchType::Lpm)
            | (MatchKind::Ternary, MatchType::Ternary | MatchType::Optional)
            | (MatchKind::Range, MatchType::Range)
    );
    if ours.name != theirs.name || ours.width != width(theirs.bitwidth) || !agree {
        let ours = format!("{} of {} bits, {:?}", ours.name, ours.width, ours.kind);
        let theirs = format!("{} of {} bits, {kind:?}", theirs.name, theirs.bitwidth);
        return Err(mismatch("table", table, format!("key field {ours} in the program, {theirs} in p4info")));
    }
    Ok(Key { id: theirs.id, name: theirs.name.clone(), width: ours.width, kind })
}

fn meter_of(meter: &config::Meter, name: &str, program: &Program) -> Result<Meter, UpdateError> {
    let (known, kind) = meter_kind(name, meter.spec, program)?;
    Ok(Meter { id: known.id, name: name.to_owned(), size: known.size as u64, kind })
}

/// The program's meter with this name, and its kind.
fn meter_kind<'p>(
    name: &str,
    spec: Option<config::MeterSpec>,
    program: &'p Program,
) -> Result<(&'p MeterInfo, MeterType), UpdateError> {
    let known = program.meters.iter().find(|known| known.name == name);
    let known = known.ok_or_else(|| mismatch("meter", name, "the program has none of this name"))?;
    let spec = spec.unwrap_or_default();
    if (spec.unit() == config::meter_spec::Unit::Bytes) != known.bytes {
        return Err(mismatch("meter", name, "one counts bytes, the other packets"));
    }
    Ok((known, spec.r#type()))
}

fn value_set(set: &config::ValueSet, name: &str, program: &Program) -> Result<ValueSet, UpdateError> {
    let number = program.value_sets.iter().position(|known| known.name == name);
    let number = number.ok_or_else(|| mismatch("value set", name, "the program has none of this name"))?;
    let widths = &program.value_sets[number].widths;
    let theirs: Vec<u32> = set.r#match.iter().map(|field| width(field.bitwidth)).collect();
    // A set that no state of the parser asks has no fields in the program.
    if !widths.is_empty() && *widths != theirs {
        let why = format!("fields of {widths:?} bits in the program, of {theirs:?} in p4info");
        return Err(mismatch("value set", name, why));
    }
    let keys = set.r#match.iter().map(|field| match match_type(field) {
        MatchType::Exact => {
            Ok(Key { id: field.id, name: field.name.clone(), width: width(field.bitwidth), kind: MatchType::Exact })
        }
        other => Err(UpdateError::invalid(format!("value set {name}: a field that matches {other:?} (Exact is)"))),
    });
    Ok(ValueSet { number, name: name.to_owned(), keys: keys.collect::<Result<_, _>>()? })
}

fn match_type(field: &config::MatchField) -> MatchType {
    match field.r#match {
        Some(config::match_field::Match::MatchType(kind)) => {
            MatchType::try_from(kind).unwrap_or(MatchType::Unspecified)
        }
        _ => MatchType::Unspecified,
    }
}

/// `None`: a profile that implements no table, which the program does not know.
fn profile_of(profile: &config::ActionProfile, name: &str, program: &Program) -> Result<Option<Profile>, UpdateError> {
    use config::action_profile::SelectorSizeSemantics;
    let number = match program.profiles.iter().position(|known| known.name == name) {
        Some(number) => number,
        None if profile.table_ids.is_empty() => return Ok(None),
        None => return Err(mismatch("action profile", name, "the program has none of this name")),
    };
    if program.profiles[number].selector != profile.with_selector {
        return Err(mismatch("action profile", name, "only one of them has a selector"));
    }
    let by_members = match &profile.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(semantics)) => Some(width(semantics.max_member_weight)),
        _ => None,
    };
    Ok(Some(Profile {
        number,
        name: name.to_owned(),
        selector: profile.with_selector,
        table: profile.table_ids.first().copied().unwrap_or(0),
        max_group_size: width(profile.max_group_size),
        by_members,
        weights_disallowed: profile.weights_disallowed,
    }))
}

fn digest_of(digest: &config::Digest, name: &str, program: &Program) -> Result<Digest, UpdateError> {
    use config::p4_data_type_spec::TypeSpec;
    let known = program.digests.iter().find(|known| known.name == name);
    let known = known.ok_or_else(|| mismatch("digest", name, "the program has none of this name"))?;
    let shape = match digest.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref()) {
        Some(TypeSpec::Bitstring(_)) => DigestShape::Bits,
        Some(TypeSpec::Tuple(_)) => DigestShape::Tuple,
        Some(TypeSpec::Struct(_)) => DigestShape::Struct,
        _ => return Err(UpdateError::invalid(format!("digest {name}: only structs, tuples and bit strings"))),
    };
    Ok(Digest { list: known.list, shape })
}

fn refuse_unsupported(info: &P4Info) -> Result<(), UpdateError> {
    match info.externs.first() {
        Some(found) => Err(UpdateError::invalid(format!("extern {}: not supported", found.extern_type_name))),
        None => Ok(()),
    }
}
