//! Updates of a Write request, decoded into operations on the forwarding state.
// SPDX-License-Identifier: Apache-2.0
use std::collections::HashSet;
use std::ops::Range;

use narrows_pipeline::{ControlError, Entry, KeyMatch, MeterConfig, TableId};
use narrows_proto::p4::v1::{
    self as p4, entity::Entity, p4_data, packet_replication_engine_entry::Type as Replication, replica::PortKind,
    update::Type,
};
use narrows_switch::io::now_ns;
use narrows_switch::tm::{PORTS, PRIORITIES};
use narrows_switch::unit::{CloneSession, Group, ProgramUnit, MAX_SESSION};

use super::change::{default_key, entry_before, Before, Change, Cookie, Decoded, EntryKey, Operation};
use super::entry;
use super::error::UpdateError;
use super::profile::{self, Action};
use super::schema::{Schema, Table};
use super::value::{decode, decode_words};

/// Cells of a counter or register that are read or written between the same two packets, so that a large array does not hold
/// up packets.
pub const CELLS_AT_ONCE: u64 = 4_096;

/// Bytes of `metadata` that are kept with an entry.
const MAX_METADATA: usize = 1_024;

fn default_before(table: TableId) -> Before {
    Box::new(move |unit| {
        let call = unit.pipeline.table_default(table)?;
        // Where no action runs, that is what the program says: no controller can.
        let known = unit.pipeline.program().tables().iter().find(|info| info.id == table);
        let call = known.is_some_and(|info| info.actions.iter().any(|a| a.name == call.action)).then_some(call);
        Ok(Box::new(move |unit| Ok(unit.pipeline.table_set_default(table, call.as_ref())?)))
    })
}

fn only_modify(kind: Type, what: &str) -> Result<(), UpdateError> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(UpdateError::invalid(format!("{what}: only MODIFY is allowed"))),
    }
}

/// Decodes one update against the schema.
pub fn decode_update(schema: &Schema, update: &p4::Update) -> Result<Decoded, UpdateError> {
    let kind = update.r#type();
    if kind == Type::Unspecified {
        return Err(UpdateError::invalid("update.type: allowed are INSERT, MODIFY and DELETE"));
    }
    let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
    match entity.ok_or_else(|| UpdateError::invalid("update.entity is missing"))? {
        Entity::TableEntry(given) => table_entry(schema, kind, given),
        Entity::CounterEntry(given) => counter(schema, kind, given),
        Entity::DirectCounterEntry(given) => direct_counter(schema, kind, given),
        Entity::RegisterEntry(given) => register(schema, kind, given),
        Entity::PacketReplicationEngineEntry(given) => match &given.r#type {
            Some(Replication::CloneSessionEntry(session)) => clone_session(kind, session),
            Some(Replication::MulticastGroupEntry(group)) => multicast_group(kind, group),
            None => Err(UpdateError::invalid("packet_replication_engine_entry.type is missing")),
        },
        Entity::DigestEntry(given) => {
            if !schema.digests.contains_key(&given.digest_id) {
                return Err(UpdateError::not_found(format!("there is no digest {}", given.digest_id)));
            }
            let config = (kind != Type::Delete).then(|| given.config.unwrap_or_default());
            Ok(Decoded::Digest { id: given.digest_id, config, kind })
        }
        Entity::MeterEntry(given) => meter(schema, kind, given),
        Entity::DirectMeterEntry(given) => direct_meter(schema, kind, given),
        Entity::ActionProfileMember(given) => profile::change_member(schema, kind, given),
        Entity::ActionProfileGroup(given) => profile::change_group(schema, kind, given),
        Entity::ValueSetEntry(given) => value_set(schema, kind, given),
        Entity::ExternEntry(_) => Err(UpdateError::unimplemented("extern entries are not supported")),
    }
}

fn table_entry(schema: &Schema, kind: Type, given: &p4::TableEntry) -> Result<Decoded, UpdateError> {
    let table = schema.tables.get(&given.table_id);
    let table = table.ok_or_else(|| UpdateError::not_found(format!("there is no table {}", given.table_id)))?;
    let id = table.id;
    let meter = table_meter(table, given)?;
    check_idle_timeout(table, given)?;
    let counter = given.counter_data.as_ref().map(entry::counter_value).transpose()?;
    if counter.is_some() && !table.direct_counter {
        return Err(UpdateError::invalid(format!("table {} has no direct counter", table.name)));
    }
    if given.is_default_action {
        if kind != Type::Modify {
            return Err(UpdateError::invalid("the default action can only be modified"));
        }
        if !given.r#match.is_empty() || given.priority != 0 {
            return Err(UpdateError::invalid("the default action has neither match nor priority"));
        }
        let call = given.action.as_ref().map(|action| Action::decode(schema, table, action, true)).transpose()?;
        // Without an action the program's own is set again, of which no controller has said anything.
        let cookie = call.is_some().then(|| cookie(given)).transpose()?;
        let operation: Operation = Box::new(move |unit| {
            let call = call.map(|action| action.call(&mut unit.pipeline, 0)).transpose()?;
            Ok(unit.pipeline.table_set_default(id, call.as_ref())?)
        });
        let change = Change::new(default_before(id), operation);
        return Ok(Decoded::Change(Change { cookie: Some((default_key(id), cookie)), ..change }));
    }
    if table.keys.is_empty() {
        let message = format!("table {} has no key, and so no entries: its default action can be modified", table.name);
        return Err(UpdateError::invalid(message));
    }
    let key = entry::key(table, &given.r#match)?;
    let priority = entry::priority(table, given.priority)?;
    let entry_key = (id, key.clone(), priority);
    if kind == Type::Delete {
        let operation: Operation = Box::new(move |unit| Ok(unit.pipeline.table_delete(id, &key, priority)?));
        return Ok(Decoded::Change(Change::of_entry((entry_key, None), operation)));
    }
    // An entry of the program is constant, its counter is not.
    if let (Type::Modify, true, None, Some(value)) = (kind, table.const_entries, &given.action, counter) {
        let operation: Operation =
            Box::new(move |unit| Ok(unit.pipeline.direct_counter_write(id, &key, priority, value)?));
        return Ok(Decoded::Change(Change::new(entry_before(entry_key), operation)));
    }
    let action = given.action.as_ref();
    let action =
        action.ok_or_else(|| UpdateError::invalid(format!("table {}: an entry needs an action", table.name)))?;
    let action = Action::decode(schema, table, action, false)?;
    let cookie = cookie(given)?;
    let (ages, metered) = (table.idle_timeout, table.direct_meter.is_some());
    let operation: Operation = Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        let replaced = if kind == Type::Modify { pipeline.taken_by_entry(id, &key, priority) } else { 0 };
        let entry = Entry { key, priority, action: action.call(pipeline, replaced)? };
        if ages {
            pipeline.pass_time(now_ns());
        }
        match kind {
            Type::Insert => pipeline.table_insert(id, &entry)?,
            _ => pipeline.table_modify(id, &entry)?,
        }
        if metered {
            // Without a configuration it is the default, also where there was one.
            pipeline.direct_meter_write(id, &entry.key, entry.priority, meter)?;
        }
        match counter {
            Some(value) => Ok(pipeline.direct_counter_write(id, &entry.key, entry.priority, value)?),
            None => Ok(()),
        }
    });
    Ok(Decoded::Change(Change::of_entry((entry_key, Some(cookie)), operation)))
}

/// The configuration of the direct meter that comes with an entry.
fn table_meter(table: &Table, given: &p4::TableEntry) -> Result<Option<MeterConfig>, UpdateError> {
    let Some(kind) = table.direct_meter else {
        return match given.meter_config.is_some() || given.meter_counter_data.is_some() {
            true => Err(UpdateError::invalid(format!("table {} has no direct meter", table.name))),
            false => Ok(None),
        };
    };
    if given.meter_counter_data.is_some() {
        return Err(no_meter_counters(&table.name));
    }
    if given.is_default_action && given.meter_config.is_some() {
        return Err(UpdateError::invalid(format!("table {}: the default action has no meter", table.name)));
    }
    given.meter_config.as_ref().map(|config| entry::meter_config(&table.name, kind, config)).transpose()
}

fn no_meter_counters(name: &str) -> UpdateError {
    UpdateError::unimplemented(format!("{name}: packets are not counted by their colors"))
}

fn check_idle_timeout(table: &Table, given: &p4::TableEntry) -> Result<(), UpdateError> {
    let name = &table.name;
    if given.time_since_last_hit.is_some() {
        return Err(UpdateError::invalid(format!("table {name}: time_since_last_hit is only read")));
    }
    match given.idle_timeout_ns {
        0 => Ok(()),
        ..0 => Err(UpdateError::invalid(format!("table {name}: idle_timeout_ns must not be negative"))),
        _ if !table.idle_timeout => Err(UpdateError::invalid(format!("table {name} has no idle timeouts"))),
        _ if given.is_default_action => {
            Err(UpdateError::invalid(format!("table {name}: the default action has no idle timeout")))
        }
        _ => Ok(()),
    }
}

/// What is kept with an entry.
fn cookie(given: &p4::TableEntry) -> Result<Cookie, UpdateError> {
    if given.metadata.len() > MAX_METADATA {
        let length = given.metadata.len();
        return Err(UpdateError::invalid(format!("metadata of {length} bytes: allowed are at most {MAX_METADATA}")));
    }
    Ok(Cookie {
        controller_metadata: cookie_number(given),
        metadata: given.metadata.clone(),
        idle_timeout_ns: given.idle_timeout_ns,
    })
}

/// The deprecated cookie, which old controllers still use.
#[allow(deprecated)]
pub fn cookie_number(entry: &p4::TableEntry) -> u64 {
    entry.controller_metadata
}

/// Cell numbers that an index names in an array: one, or all.
pub fn cells(index: Option<&p4::Index>, size: u64, what: &str) -> Result<Range<u64>, UpdateError> {
    let Some(index) = index else {
        return Ok(0..size);
    };
    let allowed = || match size {
        0 => format!("{what}: index {}: it has no cells", index.index),
        _ => format!("{what}: index {} is not within 0 to {}", index.index, size - 1),
    };
    let index = u64::try_from(index.index).map_err(|_| UpdateError::invalid(allowed()))?;
    match index < size {
        true => Ok(index..index + 1),
        false => Err(UpdateError::out_of_range(allowed())),
    }
}

/// A range of cells in parts.
pub fn parts(cells: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = cells.end;
    cells.step_by(CELLS_AT_ONCE as usize).map(move |start| start..(start + CELLS_AT_ONCE).min(end))
}

/// Does the same to each cell; `keep` reads one, and `put_back` makes it so again.
fn in_parts<Kept: Send + 'static>(
    cells: Range<u64>,
    action: impl Fn(&mut ProgramUnit, u64) -> Result<(), ControlError> + Clone + Send + 'static,
    keep: impl Fn(&ProgramUnit, u64) -> Result<Kept, ControlError> + Send + 'static,
    put_back: impl Fn(&mut ProgramUnit, u64, Kept) -> Result<(), ControlError> + Send + 'static,
) -> Decoded {
    let operation = |part: Range<u64>| -> Operation {
        let action = action.clone();
        Box::new(move |unit| Ok(part.into_iter().try_for_each(|index| action(unit, index))?))
    };
    let operations = parts(cells.clone()).map(operation).collect();
    let before: Before = Box::new(move |unit| {
        let kept = cells.clone().map(|index| keep(unit, index)).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(move |unit| Ok(cells.zip(kept).try_for_each(|(index, kept)| put_back(unit, index, kept))?)))
    });
    Decoded::Change(Change { before, parts: operations, of_cells: true, cookie: None })
}

fn counter(schema: &Schema, kind: Type, given: &p4::CounterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "counter entry")?;
    let known = schema.counters.get(&given.counter_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no counter {}", given.counter_id)))?;
    let cells = cells(given.index.as_ref(), known.size, "counter")?;
    let value = given.data.as_ref().map(entry::counter_value).transpose()?;
    let id = known.id;
    // Without data nothing is modified.
    let Some(value) = value else {
        let before: Before = Box::new(|_| Ok(Box::new(|_| Ok(()))));
        return Ok(Decoded::Change(Change { before, parts: vec![], of_cells: true, cookie: None }));
    };
    Ok(in_parts(
        cells,
        move |unit, index| unit.pipeline.counter_write(id, index, value),
        move |unit, index| unit.pipeline.counter_read(id, index),
        move |unit, index, value| unit.pipeline.counter_write(id, index, value),
    ))
}

/// The table and the entry to which a direct counter or meter belongs.
fn entry_of<'s>(
    schema: &'s Schema,
    named: Option<&p4::TableEntry>,
    what: &str,
) -> Result<(&'s Table, EntryKey), UpdateError> {
    let named = named.ok_or_else(|| UpdateError::invalid(format!("{what}.table_entry is missing")))?;
    let table = schema.tables.get(&named.table_id);
    let table = table.ok_or_else(|| UpdateError::not_found(format!("there is no table {}", named.table_id)))?;
    let key = (table.id, entry::key(table, &named.r#match)?, entry::priority(table, named.priority)?);
    Ok((table, key))
}

fn direct_meter(schema: &Schema, kind: Type, given: &p4::DirectMeterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "direct meter entry")?;
    let (table, entry_key) = entry_of(schema, given.table_entry.as_ref(), "direct_meter_entry")?;
    let name = &table.name;
    let meter = table.direct_meter;
    let meter = meter.ok_or_else(|| UpdateError::invalid(format!("table {name} has no direct meter")))?;
    if given.counter_data.is_some() {
        return Err(no_meter_counters(name));
    }
    let config = given.config.as_ref().map(|config| entry::meter_config(name, meter, config)).transpose()?;
    let (id, key, priority) = entry_key.clone();
    let operation: Operation =
        Box::new(move |unit| Ok(unit.pipeline.direct_meter_write(id, &key, priority, config)?));
    Ok(Decoded::Change(Change::new(entry_before(entry_key), operation)))
}

fn value_set(schema: &Schema, kind: Type, given: &p4::ValueSetEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "value set entry")?;
    let known = schema.value_sets.get(&given.value_set_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no value set {}", given.value_set_id)))?;
    let place = format!("value set {}", known.name);
    let member = |member: &p4::ValueSetMember| -> Result<Vec<u64>, UpdateError> {
        let found = entry::matches(&place, &known.keys, &member.r#match)?;
        let value = |part: &KeyMatch| match part {
            KeyMatch::Exact(value) => u64::try_from(*value).ok(),
            _ => None,
        };
        let values: Option<Vec<u64>> = found.iter().map(value).collect();
        values.ok_or_else(|| UpdateError::invalid(format!("{place}: fields have at most 64 bits")))
    };
    let members = given.members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
    let number = known.number;
    let before: Before = Box::new(move |unit| {
        let kept = unit.pipeline.value_set_read(number)?;
        Ok(Box::new(move |unit| Ok(unit.pipeline.value_set_write(number, &kept)?)))
    });
    let operation: Operation = Box::new(move |unit| Ok(unit.pipeline.value_set_write(number, &members)?));
    Ok(Decoded::Change(Change::new(before, operation)))
}

fn direct_counter(schema: &Schema, kind: Type, given: &p4::DirectCounterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "direct counter entry")?;
    let (table, entry_key) = entry_of(schema, given.table_entry.as_ref(), "direct_counter_entry")?;
    if !table.direct_counter {
        return Err(UpdateError::invalid(format!("table {} has no direct counter", table.name)));
    }
    let value = given.data.as_ref().map(entry::counter_value).transpose()?;
    let (id, key, priority) = entry_key.clone();
    let operation: Operation = Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        match value {
            Some(value) => Ok(pipeline.direct_counter_write(id, &key, priority, value)?),
            // Without data nothing is modified.
            None => Ok(()),
        }
    });
    Ok(Decoded::Change(Change::new(entry_before(entry_key), operation)))
}

fn register(schema: &Schema, kind: Type, given: &p4::RegisterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "register entry")?;
    let known = schema.registers.get(&given.register_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no register {}", given.register_id)))?;
    let cells = cells(given.index.as_ref(), known.size, &known.name)?;
    let value = match given.data.as_ref().and_then(|data| data.data.as_ref()) {
        Some(p4_data::Data::Bitstring(bytes)) => decode_words(bytes, known.width, &known.name)?,
        _ => return Err(UpdateError::invalid(format!("register {}: data must be a bit string", known.name))),
    };
    let id = known.id;
    Ok(in_parts(
        cells,
        move |unit, index| unit.pipeline.register_write(id, index, &value),
        move |unit, index| unit.pipeline.register_read(id, index),
        move |unit, index, value| unit.pipeline.register_write(id, index, &value),
    ))
}

fn replica(given: &p4::Replica) -> Result<(u16, u16), UpdateError> {
    #[allow(deprecated)]
    let port = match &given.port_kind {
        Some(PortKind::Port(bytes)) => decode(bytes, 32, "replica.port")?,
        Some(PortKind::EgressPort(port)) => u128::from(*port),
        None => return Err(UpdateError::invalid("replica.port is missing")),
    };
    if port >= PORTS as u128 {
        return Err(UpdateError::out_of_range(format!("replica.port {port}: allowed are 0 to {}", PORTS - 1)));
    }
    if !given.backup_replicas.is_empty() {
        return Err(UpdateError::unimplemented("backup replicas are not supported"));
    }
    let instance = u16::try_from(given.instance);
    let instance = instance.map_err(|_| {
        UpdateError::out_of_range(format!("replica.instance {}: allowed are 0 to 65535", given.instance))
    })?;
    Ok((port as u16, instance))
}

/// The replicas of a session or a group, and whether the controller named a port by the number that P4Runtime 1.4 replaced.
fn replicas(given: &[p4::Replica]) -> Result<(Vec<(u16, u16)>, bool), UpdateError> {
    if given.len() > PORTS {
        let given = given.len();
        return Err(UpdateError::invalid(format!("{given} replicas: allowed are at most {PORTS}")));
    }
    let replicas = given.iter().map(replica).collect::<Result<Vec<_>, _>>()?;
    if replicas.iter().collect::<HashSet<_>>().len() < replicas.len() {
        return Err(UpdateError::invalid("two replicas have the same port and instance"));
    }
    #[allow(deprecated)]
    let numeric = |replica: &p4::Replica| matches!(replica.port_kind, Some(PortKind::EgressPort(_)));
    Ok((replicas, given.iter().any(numeric)))
}

/// Whether an object that is there or not can be changed in this way.
fn check_presence(kind: Type, there: bool, what: &str) -> Result<(), UpdateError> {
    match (kind, there) {
        (Type::Insert, true) => Err(UpdateError::new(tonic::Code::AlreadyExists, format!("{what} exists"))),
        (Type::Modify | Type::Delete, false) => Err(UpdateError::not_found(format!("there is no {what}"))),
        _ => Ok(()),
    }
}

fn multicast_group(kind: Type, given: &p4::MulticastGroupEntry) -> Result<Decoded, UpdateError> {
    let id = given.multicast_group_id;
    let number = u16::try_from(id).ok().filter(|number| *number > 0);
    let number =
        number.ok_or_else(|| UpdateError::invalid(format!("multicast group {id}: allowed are 1 to {}", u16::MAX)))?;
    let group = match kind {
        Type::Delete => None,
        _ => {
            let (replicas, numeric_ports) = replicas(&given.replicas)?;
            Some(Group { replicas, numeric_ports })
        }
    };
    let before: Before = Box::new(move |unit| {
        let kept = unit.groups.get(number).cloned();
        Ok(Box::new(move |unit| {
            unit.groups.set(number, kept);
            Ok(())
        }))
    });
    let operation: Operation = Box::new(move |unit| {
        check_presence(kind, unit.groups.get(number).is_some(), &format!("multicast group {number}"))?;
        unit.groups.set(number, group);
        Ok(())
    });
    Ok(Decoded::Change(Change::new(before, operation)))
}

fn meter(schema: &Schema, kind: Type, given: &p4::MeterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "meter entry")?;
    let known = schema.meters.get(&given.meter_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no meter {}", given.meter_id)))?;
    let cells = cells(given.index.as_ref(), known.size, &known.name)?;
    let config =
        given.config.as_ref().map(|config| entry::meter_config(&known.name, known.kind, config)).transpose()?;
    let id = known.id;
    // Without a configuration it is the default again: every packet is green.
    Ok(in_parts(
        cells,
        move |unit, index| unit.pipeline.meter_write(id, index, config),
        move |unit, index| unit.pipeline.meter_keep(id, index),
        move |unit, index, cell| unit.pipeline.meter_put_back(id, index, cell),
    ))
}

fn clone_session(kind: Type, given: &p4::CloneSessionEntry) -> Result<Decoded, UpdateError> {
    let number = u16::try_from(given.session_id).ok().filter(|number| (1..=MAX_SESSION).contains(number));
    let number = number.ok_or_else(|| {
        UpdateError::invalid(format!("clone session {}: allowed are 1 to {MAX_SESSION}", given.session_id))
    })?;
    let session = match kind {
        Type::Delete => None,
        _ => {
            let priority = u8::try_from(given.class_of_service).ok().filter(|queue| usize::from(*queue) < PRIORITIES);
            let priority = priority.ok_or_else(|| {
                UpdateError::invalid(format!("class_of_service {}: allowed are 0 to 7", given.class_of_service))
            })?;
            let length_limit = u32::try_from(given.packet_length_bytes)
                .map_err(|_| UpdateError::invalid("packet_length_bytes must not be negative"))?;
            let (replicas, numeric_ports) = replicas(&given.replicas)?;
            Some(CloneSession { replicas, priority, length_limit, numeric_ports })
        }
    };
    let before: Before = Box::new(move |unit| {
        let kept = unit.sessions.get(number).cloned();
        Ok(Box::new(move |unit| {
            unit.sessions.set(number, kept);
            Ok(())
        }))
    });
    let operation: Operation = Box::new(move |unit| {
        check_presence(kind, unit.sessions.get(number).is_some(), &format!("clone session {number}"))?;
        unit.sessions.set(number, session);
        Ok(())
    });
    Ok(Decoded::Change(Change::new(before, operation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(replicas: Vec<p4::Replica>) -> Result<(), String> {
        let entry = p4::CloneSessionEntry { session_id: 1, replicas, ..Default::default() };
        clone_session(Type::Insert, &entry).map(drop).map_err(|error| error.message)
    }

    fn replica_of(port: u8, instance: u32) -> p4::Replica {
        p4::Replica { port_kind: Some(PortKind::Port(vec![port])), instance, ..Default::default() }
    }

    #[test]
    fn replicas_are_bounded_and_differ() {
        let many = |count: u32| (0..count).map(|instance| replica_of(7, instance)).collect::<Vec<_>>();
        assert_eq!(session(many(PORTS as u32)), Ok(()));
        assert_eq!(session(many(PORTS as u32 + 1)), Err("512 replicas: allowed are at most 511".into()));
        let twice = session(vec![replica_of(7, 1), replica_of(8, 1), replica_of(7, 1)]);
        assert_eq!(twice, Err("two replicas have the same port and instance".into()));
    }

    #[test]
    fn an_array_may_have_no_cells() {
        assert_eq!(cells(None, 0, "empty").map_err(|error| error.message), Ok(0..0));
        let none = cells(Some(&p4::Index { index: 0 }), 0, "empty").expect_err("there is none");
        assert_eq!(none.message, "empty: index 0: it has no cells");
    }

    #[test]
    fn a_range_of_cells_is_done_in_parts() {
        assert_eq!(parts(0..0).count(), 0);
        assert_eq!(parts(5..6).collect::<Vec<_>>(), vec![5..6]);
        let large = parts(0..2 * CELLS_AT_ONCE + 1).collect::<Vec<_>>();
        assert_eq!(large, vec![0..4_096, 4_096..8_192, 8_192..8_193]);
        let Decoded::Change(change) = in_parts(0..3 * CELLS_AT_ONCE, |_, _| Ok(()), |_, _| Ok(()), |_, _, ()| Ok(()))
        else {
            panic!("no change");
        };
        assert_eq!(change.parts.len(), 3);
    }
}
