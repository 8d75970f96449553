//! Entities of a Read request.
// SPDX-License-Identifier: Apache-2.0
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use narrows_pipeline::{ControlError, Entry, EntryState, KeyMatch, Target};
use narrows_proto::p4::v1::{
    self as p4, entity::Entity, p4_data, packet_replication_engine_entry::Type as Replication, replica::PortKind,
};
use narrows_switch::io::now_ns;
use narrows_switch::unit::ProgramUnit;
use prost::Message;

use super::change::{default_key, Cookie, EntryKey};
use super::entry;
use super::error::UpdateError;
use super::profile;
use super::query::{select, wrap, Entities, Query};
use super::schema::{Schema, Table, ValueSet};
use super::value::{encode, encode_words};
use super::write::{cells, cookie_number, parts};

/// Entries of a table that are read between the same two packets, so that a large table does not hold up packets.
pub const ENTRIES_AT_ONCE: usize = 512;

/// Bytes of one reply at most; clients accept 4 MiB unless they say otherwise.
const REPLY_BYTES: usize = 1 << 20;

/// Entities on their way into replies of bounded length.
#[derive(Default)]
pub struct Replies {
    filled: p4::ReadResponse,
    bytes: usize,
    /// A reply was full before.
    began: bool,
}

impl Replies {
    /// Adds an entity; returns the reply that was filled before, if there is no room for it.
    pub fn add(&mut self, entity: p4::Entity) -> Option<p4::ReadResponse> {
        let length = entity.encoded_len();
        let full = self.bytes > 0 && self.bytes + length > REPLY_BYTES;
        let reply = full.then(|| std::mem::take(&mut self.filled));
        self.bytes = if full { length } else { self.bytes + length };
        self.began |= full;
        self.filled.entities.push(entity);
        reply
    }

    /// The last reply. A Read that finds nothing has one without entities: some clients always receive once.
    pub fn last(self) -> Option<p4::ReadResponse> {
        (!self.began || !self.filled.entities.is_empty()).then_some(self.filled)
    }
}

/// What controllers stored with their entries.
pub type Cookies = Arc<HashMap<EntryKey, Cookie>>;

/// P4Runtime's form of an entry, without what the engine does not know (metadata).
fn to_entry(schema: &Schema, table_id: u32, table: &Table, found: &Entry, target: &Target) -> p4::TableEntry {
    p4::TableEntry {
        table_id,
        r#match: entry::to_fields(&table.keys, &found.key),
        action: profile::to_target(schema, target, &found.action),
        priority: if table.has_priority { found.priority } else { 0 },
        is_const: table.const_entries,
        ..Default::default()
    }
}

/// Queries that together answer one entity of the request.
pub fn queries(schema: &Arc<Schema>, cookies: &Cookies, wanted: &p4::Entity) -> Result<Vec<Query>, UpdateError> {
    match wanted.entity.as_ref().ok_or_else(|| UpdateError::invalid("an entity is empty"))? {
        Entity::TableEntry(wanted) => {
            let tables = select(&schema.tables, wanted.table_id, "table")?;
            if wanted.time_since_last_hit.is_some() && (wanted.is_default_action || wanted.table_id != 0) {
                if let Some((_, table)) = tables.iter().find(|(_, t)| wanted.is_default_action || !t.idle_timeout) {
                    let what = if wanted.is_default_action { "the default action" } else { "its entries" };
                    return Err(UpdateError::invalid(format!("table {}: {what} have no idle timeouts", table.name)));
                }
            }
            tables.into_iter().map(|(id, table)| entries(schema, cookies, id, table, wanted, Form::Entries)).collect()
        }
        Entity::DirectCounterEntry(wanted) => {
            let wanted = wanted.table_entry.clone().unwrap_or_default();
            let tables = select(&schema.tables, wanted.table_id, "table")?;
            if wanted.table_id != 0 && tables.iter().any(|(_, table)| !table.direct_counter) {
                return Err(UpdateError::invalid(format!("table {} has no direct counter", wanted.table_id)));
            }
            let tables = tables.into_iter().filter(|(_, table)| table.direct_counter);
            tables.map(|(id, table)| entries(schema, cookies, id, table, &wanted, Form::Counters)).collect()
        }
        Entity::DirectMeterEntry(wanted) => {
            let wanted = wanted.table_entry.clone().unwrap_or_default();
            let tables = select(&schema.tables, wanted.table_id, "table")?;
            if wanted.table_id != 0 && tables.iter().any(|(_, table)| table.direct_meter.is_none()) {
                return Err(UpdateError::invalid(format!("table {} has no direct meter", wanted.table_id)));
            }
            let tables = tables.into_iter().filter(|(_, table)| table.direct_meter.is_some());
            tables.map(|(id, table)| entries(schema, cookies, id, table, &wanted, Form::Meters)).collect()
        }
        Entity::CounterEntry(wanted) => counters(schema, wanted),
        Entity::RegisterEntry(wanted) => registers(schema, wanted),
        Entity::PacketReplicationEngineEntry(wanted) => match &wanted.r#type {
            Some(Replication::CloneSessionEntry(wanted)) => Ok(vec![sessions(wanted.session_id)]),
            Some(Replication::MulticastGroupEntry(wanted)) => Ok(vec![groups(wanted.multicast_group_id)]),
            None => Ok(vec![sessions(0), groups(0)]),
        },
        Entity::MeterEntry(wanted) => meters(schema, wanted),
        Entity::ActionProfileMember(wanted) => profile::members(schema, wanted),
        Entity::ActionProfileGroup(wanted) => profile::groups(schema, wanted),
        Entity::ValueSetEntry(wanted) => value_sets(schema, wanted),
        Entity::ExternEntry(_) => Err(UpdateError::unimplemented("extern entries are not supported")),
        Entity::DigestEntry(_) => Err(UpdateError::invalid("digest entries are answered elsewhere")),
    }
}

/// What entries of a table are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Entries,
    /// Their direct counters.
    Counters,
    /// Their direct meters.
    Meters,
}

fn entries(
    schema: &Arc<Schema>,
    cookies: &Cookies,
    id: u32,
    table: &Table,
    wanted: &p4::TableEntry,
    form: Form,
) -> Result<Query, UpdateError> {
    let table_id = table.id;
    let admitted = filter(wanted);
    let (schema, cookies, table) = (Arc::clone(schema), Arc::clone(cookies), table.clone());
    if wanted.is_default_action {
        let call = move |unit: &mut ProgramUnit| {
            let call = unit.pipeline.table_default(table.id)?;
            let target = unit.pipeline.target(table.id, &call);
            let entities = move || {
                let action = profile::to_target(&schema, &target, &call);
                let is_const = table.const_default;
                let mut entry =
                    p4::TableEntry { table_id: id, action, is_default_action: true, is_const, ..Default::default() };
                add_cookie(&mut entry, cookies.get(&default_key(table.id)));
                match form != Form::Entries || !admitted(&entry) {
                    true => vec![],
                    false => vec![wrap(Entity::TableEntry(entry))],
                }
            };
            Ok(Box::new(entities) as Entities)
        };
        return Ok(Query::Once(Box::new(call)));
    }
    let exactly = match wanted.r#match.is_empty() {
        true => None,
        false => Some((entry::key(&table, &wanted.r#match)?, entry::priority(&table, wanted.priority)?)),
    };
    let (priority, with_counter) = (wanted.priority, wanted.counter_data.is_some() && table.direct_counter);
    let with_meter = wanted.meter_config.is_some() && table.direct_meter.is_some();
    let with_age = wanted.time_since_last_hit.is_some() && table.idle_timeout;
    let answer = move |found: Vec<(Entry, EntryState)>| {
        let found = found.into_iter().filter(|(found, _)| match &exactly {
            Some((key, priority)) => found.key == *key && (!table.has_priority || found.priority == *priority),
            None => priority == 0 || found.priority == priority,
        });
        let now_ns = if with_age { now_ns() } else { 0 };
        let answers = found.filter_map(|(found, state)| {
            let mut answer = to_entry(&schema, id, &table, &found, &state.target);
            let key = (table.id, found.key, answer.priority);
            add_cookie(&mut answer, cookies.get(&key));
            if !admitted(&answer) {
                return None;
            }
            let config = state.meter.map(entry::to_meter_config);
            if form != Form::Entries {
                answer.action = None;
            }
            Some(wrap(match form {
                Form::Entries => {
                    answer.counter_data = with_counter.then(|| entry::counter_data(state.counter));
                    answer.meter_config = config.filter(|_| with_meter);
                    let elapsed_ns = i64::try_from(now_ns.saturating_sub(state.hit_ns)).unwrap_or(i64::MAX);
                    answer.time_since_last_hit = with_age.then_some(p4::table_entry::IdleTimeout { elapsed_ns });
                    Entity::TableEntry(answer)
                }
                Form::Counters => Entity::DirectCounterEntry(p4::DirectCounterEntry {
                    table_entry: Some(answer),
                    data: Some(entry::counter_data(state.counter)),
                }),
                Form::Meters => Entity::DirectMeterEntry(p4::DirectMeterEntry {
                    table_entry: Some(answer),
                    config,
                    ..Default::default()
                }),
            }))
        });
        let answers: Vec<p4::Entity> = answers.collect();
        match answers.is_empty() && exactly.is_some() {
            true => Err(UpdateError::not_found(format!("table {}: no entry with this key", table.name))),
            false => Ok(answers),
        }
    };
    Ok(Query::Entries(table_id, Box::new(answer)))
}

/// What a request asks of an entry beside its key: its action, and what its controller stored with it.
fn filter(wanted: &p4::TableEntry) -> impl Fn(&p4::TableEntry) -> bool + Send + 'static {
    let action_of = |entry: &p4::TableEntry| match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(p4::table_action::Type::Action(action)) => action.action_id,
        _ => 0,
    };
    let (action, number, metadata) = (action_of(wanted), cookie_number(wanted), wanted.metadata.clone());
    move |entry| {
        (action == 0 || action_of(entry) == action)
            && (number == 0 || cookie_number(entry) == number)
            && (metadata.is_empty() || entry.metadata == metadata)
    }
}

#[allow(deprecated)]
pub fn add_cookie(entry: &mut p4::TableEntry, cookie: Option<&Cookie>) {
    if let Some(cookie) = cookie {
        entry.metadata = cookie.metadata.clone();
        entry.controller_metadata = cookie.controller_metadata;
        entry.idle_timeout_ns = cookie.idle_timeout_ns;
    }
}

fn index(cell: u64) -> Option<p4::Index> {
    Some(p4::Index { index: cell as i64 })
}

/// Reads cells, and makes an entity of each.
fn of_cells<Value: Send + 'static>(
    cells: Range<u64>,
    read: impl Fn(&ProgramUnit, u64) -> Result<Value, ControlError> + Send + 'static,
    entity: impl Fn(u64, Value) -> Entity + Send + 'static,
) -> Query {
    Query::Once(Box::new(move |unit| {
        let values = cells.clone().map(|cell| read(unit, cell)).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(move || cells.zip(values).map(|(cell, value)| wrap(entity(cell, value))).collect()))
    }))
}

fn counters(schema: &Schema, wanted: &p4::CounterEntry) -> Result<Vec<Query>, UpdateError> {
    let mut queries: Vec<Query> = vec![];
    for (counter_id, known) in select(&schema.counters, wanted.counter_id, "counter")? {
        let id = known.id;
        for part in parts(cells(wanted.index.as_ref(), known.size, "counter")?) {
            queries.push(of_cells(
                part,
                move |unit, cell| unit.pipeline.counter_read(id, cell),
                move |cell, value| {
                    let data = Some(entry::counter_data(value));
                    Entity::CounterEntry(p4::CounterEntry { counter_id, index: index(cell), data })
                },
            ));
        }
    }
    Ok(queries)
}

fn registers(schema: &Schema, wanted: &p4::RegisterEntry) -> Result<Vec<Query>, UpdateError> {
    let mut queries: Vec<Query> = vec![];
    for (register_id, known) in select(&schema.registers, wanted.register_id, "register")? {
        let id = known.id;
        for part in parts(cells(wanted.index.as_ref(), known.size, &known.name)?) {
            queries.push(of_cells(
                part,
                move |unit, cell| unit.pipeline.register_read(id, cell),
                move |cell, value| {
                    let data = Some(p4::P4Data { data: Some(p4_data::Data::Bitstring(encode_words(&value))) });
                    Entity::RegisterEntry(p4::RegisterEntry { register_id, index: index(cell), data })
                },
            ));
        }
    }
    Ok(queries)
}

fn meters(schema: &Schema, wanted: &p4::MeterEntry) -> Result<Vec<Query>, UpdateError> {
    let mut queries: Vec<Query> = vec![];
    for (meter_id, known) in select(&schema.meters, wanted.meter_id, "meter")? {
        let id = known.id;
        for part in parts(cells(wanted.index.as_ref(), known.size, &known.name)?) {
            queries.push(of_cells(
                part,
                move |unit, cell| unit.pipeline.meter_read(id, cell),
                move |cell, config| {
                    let config = config.map(entry::to_meter_config);
                    Entity::MeterEntry(p4::MeterEntry { meter_id, index: index(cell), config, ..Default::default() })
                },
            ));
        }
    }
    Ok(queries)
}

fn value_sets(schema: &Schema, wanted: &p4::ValueSetEntry) -> Result<Vec<Query>, UpdateError> {
    let query = |(value_set_id, known): (u32, &ValueSet)| {
        let known = known.clone();
        Query::Once(Box::new(move |unit| {
            let members = unit.pipeline.value_set_read(known.number)?;
            let member = |values: &Vec<u64>| {
                let found: Vec<KeyMatch> = values.iter().map(|value| KeyMatch::Exact((*value).into())).collect();
                p4::ValueSetMember { r#match: entry::to_fields(&known.keys, &found) }
            };
            let members = members.iter().map(member).collect();
            let entry = p4::ValueSetEntry { value_set_id, members };
            Ok(Box::new(move || vec![wrap(Entity::ValueSetEntry(entry))]))
        }))
    };
    Ok(select(&schema.value_sets, wanted.value_set_id, "value set")?.into_iter().map(query).collect())
}

/// P4Runtime's form of replicas.
fn to_replicas(replicas: &[(u16, u16)], numeric_ports: bool) -> Vec<p4::Replica> {
    let replica = |&(port, instance): &(u16, u16)| p4::Replica {
        instance: instance.into(),
        #[allow(deprecated)]
        port_kind: Some(match numeric_ports {
            true => PortKind::EgressPort(port.into()),
            false => PortKind::Port(encode(port.into())),
        }),
        backup_replicas: vec![],
    };
    replicas.iter().map(replica).collect()
}

fn replication(r#type: Replication) -> p4::Entity {
    wrap(Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(r#type) }))
}

fn groups(group_id: u32) -> Query {
    Query::Once(Box::new(move |unit| {
        let all = unit.groups.iter().filter(|(number, _)| group_id == 0 || u32::from(*number) == group_id);
        let answers = all.map(|(number, group)| {
            let replicas = to_replicas(&group.replicas, group.numeric_ports);
            let entry = p4::MulticastGroupEntry { multicast_group_id: number.into(), replicas, ..Default::default() };
            replication(Replication::MulticastGroupEntry(entry))
        });
        let answers: Vec<p4::Entity> = answers.collect();
        match answers.is_empty() && group_id != 0 {
            true => Err(UpdateError::not_found(format!("there is no multicast group {group_id}"))),
            false => Ok(Box::new(|| answers)),
        }
    }))
}

fn sessions(session_id: u32) -> Query {
    Query::Once(Box::new(move |unit| {
        let all = unit.sessions.iter().filter(|(number, _)| session_id == 0 || u32::from(*number) == session_id);
        let answers = all.map(|(number, session)| {
            let entry = p4::CloneSessionEntry {
                session_id: number.into(),
                replicas: to_replicas(&session.replicas, session.numeric_ports),
                class_of_service: session.priority.into(),
                packet_length_bytes: session.length_limit as i32,
            };
            replication(Replication::CloneSessionEntry(entry))
        });
        let answers: Vec<p4::Entity> = answers.collect();
        match answers.is_empty() && session_id != 0 {
            true => Err(UpdateError::not_found(format!("there is no clone session {session_id}"))),
            false => Ok(Box::new(|| answers)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(entities: &[p4::Entity]) -> Vec<p4::ReadResponse> {
        let mut filling = Replies::default();
        let mut all: Vec<_> = entities.iter().filter_map(|entity| filling.add(entity.clone())).collect();
        all.extend(filling.last());
        all
    }

    #[test]
    fn replies_are_of_bounded_length() {
        assert_eq!(replies(&[]), vec![p4::ReadResponse::default()]);
        let entity = |length: usize| {
            let entry = p4::TableEntry { metadata: vec![7; length], ..Default::default() };
            wrap(Entity::TableEntry(entry))
        };
        let all: Vec<p4::Entity> = (0..5_000).map(|number| entity(800 + number % 400)).collect();
        let parts = replies(&all);
        // 5,000 of 1,000 bytes on average, and a few for each field: five replies of 1 MiB hold them.
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|part| part.encoded_len() < REPLY_BYTES + (16 << 10)));
        assert_eq!(parts.into_iter().flat_map(|part| part.entities).collect::<Vec<_>>(), all);
        // What is longer than a reply by itself is alone in one.
        let sizes = replies(&[entity(9), entity(REPLY_BYTES), entity(9)]);
        assert_eq!(sizes.iter().map(|part| part.entities.len()).collect::<Vec<_>>(), vec![1, 1, 1]);
    }
}
