//! Updates of a Write request, decoded into operations on the forwarding state.
// SPDX-License-Identifier: Apache-2.0
use std::collections::HashSet;
use std::ops::Range;

use narrows_pipeline::{Entry, KeyMatch, TableId};
use narrows_proto::p4::v1::{
    self as p4, entity::Entity, p4_data, packet_replication_engine_entry::Type as Replication, replica::PortKind,
    update::Type,
};
use narrows_switch::tm::{PORTS, PRIORITIES};
use narrows_switch::unit::{CloneSession, Group, ProgramUnit, MAX_SESSION};

use super::entry;
use super::error::UpdateError;
use super::schema::Schema;
use super::value::decode;

/// What is done to the forwarding state, between two packets.
pub type Operation = Box<dyn FnOnce(&mut ProgramUnit) -> Result<(), UpdateError> + Send>;

/// Cells of a counter or register that are read or written between the same two packets, so that a large array does not hold
/// up packets.
pub const CELLS_AT_ONCE: u64 = 4_096;

/// Bytes of `metadata` that are kept with an entry.
const MAX_METADATA: usize = 1_024;

/// Which entry of which table.
pub type EntryKey = (TableId, Vec<KeyMatch>, i32);

/// The key under which what comes with a table's default action is kept: no entry has it.
pub fn default_key(table: TableId) -> EntryKey {
    (table, vec![], 0)
}

/// What a controller wants back with an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cookie {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
}

/// A decoded update.
pub enum Decoded {
    /// Changes forwarding state.
    Operation(Operation),
    /// Changes many cells: enough work that packets are processed between the parts.
    Parts(Vec<Operation>),
    /// Changes a table entry: also what the controller stores with it (`None`: the entry goes).
    Entry { key: EntryKey, cookie: Option<Cookie>, operation: Operation },
    /// Configures a digest (`None`: stops it).
    Digest { id: u32, config: Option<p4::digest_entry::Config>, kind: Type },
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
        Entity::DirectMeterEntry(_) => Err(UpdateError::unimplemented("direct meters are not supported")),
        Entity::ActionProfileMember(_) | Entity::ActionProfileGroup(_) => {
            Err(UpdateError::unimplemented("action profiles are not supported"))
        }
        Entity::ValueSetEntry(_) => Err(UpdateError::unimplemented("value sets are not supported")),
        Entity::ExternEntry(_) => Err(UpdateError::unimplemented("extern entries are not supported")),
    }
}

fn table_entry(schema: &Schema, kind: Type, given: &p4::TableEntry) -> Result<Decoded, UpdateError> {
    let table = schema.tables.get(&given.table_id);
    let table = table.ok_or_else(|| UpdateError::not_found(format!("there is no table {}", given.table_id)))?;
    let id = table.id;
    if given.meter_config.is_some() || given.meter_counter_data.is_some() {
        return Err(UpdateError::invalid(format!("table {} has no direct meter", table.name)));
    }
    if given.idle_timeout_ns != 0 {
        return Err(UpdateError::invalid(format!("table {} has no idle timeouts", table.name)));
    }
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
        let call = given.action.as_ref().map(|action| entry::action(schema, table, action, true)).transpose()?;
        // Without an action the program's own is set again, of which no controller has said anything.
        let cookie = call.is_some().then(|| cookie(given)).transpose()?;
        let operation: Operation = Box::new(move |unit| Ok(unit.pipeline.table_set_default(id, call.as_ref())?));
        return Ok(Decoded::Entry { key: default_key(id), cookie, operation });
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
        return Ok(Decoded::Entry { key: entry_key, cookie: None, operation });
    }
    // An entry of the program is constant, its counter is not.
    if let (Type::Modify, true, None, Some(value)) = (kind, table.const_entries, &given.action, counter) {
        return Ok(Decoded::Operation(Box::new(move |unit| {
            Ok(unit.pipeline.direct_counter_write(id, &key, priority, value)?)
        })));
    }
    let action = given.action.as_ref();
    let action =
        action.ok_or_else(|| UpdateError::invalid(format!("table {}: an entry needs an action", table.name)))?;
    let entry = Entry { key, priority, action: entry::action(schema, table, action, false)? };
    let cookie = cookie(given)?;
    let operation: Operation = Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        match kind {
            Type::Insert => pipeline.table_insert(id, &entry)?,
            _ => pipeline.table_modify(id, &entry)?,
        }
        match counter {
            Some(value) => Ok(pipeline.direct_counter_write(id, &entry.key, entry.priority, value)?),
            None => Ok(()),
        }
    });
    Ok(Decoded::Entry { key: entry_key, cookie: Some(cookie), operation })
}

/// What is kept with an entry.
fn cookie(given: &p4::TableEntry) -> Result<Cookie, UpdateError> {
    if given.metadata.len() > MAX_METADATA {
        let length = given.metadata.len();
        return Err(UpdateError::invalid(format!("metadata of {length} bytes: allowed are at most {MAX_METADATA}")));
    }
    Ok(Cookie { controller_metadata: cookie_number(given), metadata: given.metadata.clone() })
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

/// Does the same to each cell.
fn in_parts(
    cells: Range<u64>,
    action: impl Fn(&mut ProgramUnit, u64) -> Result<(), UpdateError> + Clone + Send + 'static,
) -> Decoded {
    let operation = |part: Range<u64>| -> Operation {
        let action = action.clone();
        Box::new(move |unit| part.into_iter().try_for_each(|index| action(unit, index)))
    };
    Decoded::Parts(parts(cells).map(operation).collect())
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
        return Ok(Decoded::Parts(vec![]));
    };
    Ok(in_parts(cells, move |unit, index| Ok(unit.pipeline.counter_write(id, index, value)?)))
}

fn direct_counter(schema: &Schema, kind: Type, given: &p4::DirectCounterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "direct counter entry")?;
    let named = given.table_entry.as_ref();
    let named = named.ok_or_else(|| UpdateError::invalid("direct_counter_entry.table_entry is missing"))?;
    let table = schema.tables.get(&named.table_id);
    let table = table.ok_or_else(|| UpdateError::not_found(format!("there is no table {}", named.table_id)))?;
    if !table.direct_counter {
        return Err(UpdateError::invalid(format!("table {} has no direct counter", table.name)));
    }
    let (id, key) = (table.id, entry::key(table, &named.r#match)?);
    let priority = entry::priority(table, named.priority)?;
    let value = given.data.as_ref().map(entry::counter_value).transpose()?;
    Ok(Decoded::Operation(Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        match value {
            Some(value) => Ok(pipeline.direct_counter_write(id, &key, priority, value)?),
            // Without data nothing is modified.
            None => Ok(()),
        }
    })))
}

fn register(schema: &Schema, kind: Type, given: &p4::RegisterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "register entry")?;
    let known = schema.registers.get(&given.register_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no register {}", given.register_id)))?;
    let cells = cells(given.index.as_ref(), known.size, &known.name)?;
    let value = match given.data.as_ref().and_then(|data| data.data.as_ref()) {
        Some(p4_data::Data::Bitstring(bytes)) => decode(bytes, known.width, &known.name)?,
        _ => return Err(UpdateError::invalid(format!("register {}: data must be a bit string", known.name))),
    };
    let id = known.id;
    Ok(in_parts(cells, move |unit, index| Ok(unit.pipeline.register_write(id, index, value)?)))
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
    Ok(Decoded::Operation(Box::new(move |unit| {
        check_presence(kind, unit.groups.get(number).is_some(), &format!("multicast group {number}"))?;
        unit.groups.set(number, group);
        Ok(())
    })))
}

fn meter(schema: &Schema, kind: Type, given: &p4::MeterEntry) -> Result<Decoded, UpdateError> {
    only_modify(kind, "meter entry")?;
    let known = schema.meters.get(&given.meter_id);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no meter {}", given.meter_id)))?;
    let cells = cells(given.index.as_ref(), known.size, &known.name)?;
    let config = given.config.as_ref().map(|config| entry::meter_config(known, config)).transpose()?;
    let id = known.id;
    // Without a configuration it is the default again: every packet is green.
    Ok(in_parts(cells, move |unit, index| Ok(unit.pipeline.meter_write(id, index, config)?)))
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
    Ok(Decoded::Operation(Box::new(move |unit| {
        check_presence(kind, unit.sessions.get(number).is_some(), &format!("clone session {number}"))?;
        unit.sessions.set(number, session);
        Ok(())
    })))
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
        assert_eq!(session(many(PORTS as u32 + 1)), Err("511 replicas: allowed are at most 510".into()));
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
        let Decoded::Parts(operations) = in_parts(0..3 * CELLS_AT_ONCE, |_, _| Ok(())) else {
            panic!("not in parts");
        };
        assert_eq!(operations.len(), 3);
    }
}
