//! Changes of a device that its primary asks for: updates applied in order, or all of them or none.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::p4::v1::{self as p4, entity::Entity, update::Type, write_request::Atomicity};
use narrows_switch::unit::ProgramUnit;
use tonic::Status;

use super::change::{Before, Change, Cookie, Decoded, EntryKey, Operation};
use super::control::{Control, Pipelines};
use super::error::UpdateError;
use super::write::decode_update;

/// Updates that are applied between the same two packets, so that a large batch does not hold up packets.
const UPDATES_AT_ONCE: usize = 64;

/// Changes the programs of one device.
pub struct Updates {
    /// Of that device.
    pub control: Arc<Control>,
}

impl Updates {
    /// Carries out a Write of the primary's. Errors: those of the whole request; the result has those of its updates.
    pub async fn write(
        &self,
        request: &p4::WriteRequest,
        atomicity: Atomicity,
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let mut pipelines = self.control.of_primary(&request.role, request.election_id.as_ref()).await?;
        let results = match atomicity {
            Atomicity::ContinueOnError => self.write_all(&mut pipelines, &request.updates).await,
            Atomicity::RollbackOnError | Atomicity::DataplaneAtomic => {
                self.write_all_or_none(&mut pipelines, &request.updates).await
            }
        }?;
        if !pipelines.current()?.schema.profiles.is_empty() {
            let tidied = self.control.with_unit(&mut pipelines, |unit| unit.pipeline.tidy_profiles()).await?;
            tidied.map_err(UpdateError::from)?;
        }
        Ok(results)
    }

    /// Applies operations in order, a few between two packets.
    async fn apply(
        &self,
        pipelines: &mut Pipelines,
        operations: Vec<Operation>,
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let mut results = Vec::with_capacity(operations.len());
        let mut operations = operations.into_iter();
        while operations.len() > 0 {
            let part: Vec<Operation> = operations.by_ref().take(UPDATES_AT_ONCE).collect();
            let apply = move |unit: &mut _| part.into_iter().map(|operation| operation(unit)).collect();
            let done: Vec<_> = self.control.with_unit(pipelines, apply).await?;
            results.extend(done);
        }
        Ok(results)
    }

    fn configure_digest(
        &self,
        pipelines: &mut Pipelines,
        id: u32,
        config: Option<p4::digest_entry::Config>,
        kind: Type,
    ) -> Result<(), UpdateError> {
        let known = pipelines.current().ok().and_then(|current| current.schema.digests.get(&id).cloned());
        let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no digest {id}")))?;
        self.control.with_digests(pipelines, |digests| digests.update(kind, id, &known, config))?;
        self.control.digests_changed.notify_one();
        Ok(())
    }

    /// Applies the parts of one update, packets between them, until one fails.
    async fn apply_parts(
        &self,
        pipelines: &mut Pipelines,
        parts: Vec<Operation>,
    ) -> Result<Result<(), UpdateError>, Status> {
        for part in parts {
            if let Err(error) = self.control.with_unit(pipelines, part).await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    async fn write_all(
        &self,
        pipelines: &mut Pipelines,
        updates: &[p4::Update],
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let schema = Arc::clone(&pipelines.current()?.schema);
        let mut results: Vec<Result<(), UpdateError>> = updates.iter().map(|_| Ok(())).collect();
        let (mut positions, mut operations, mut cookies) = (vec![], vec![], vec![]);
        for (position, update) in updates.iter().enumerate() {
            match decode_update(&schema, update) {
                Ok(Decoded::Change(Change { parts, of_cells, cookie, .. })) => {
                    cookies.extend(cookie.map(|(key, cookie)| (position, key, cookie)));
                    if !of_cells {
                        positions.push(position);
                        operations.extend(parts);
                        continue;
                    }
                    // Updates are applied in order.
                    let earlier = self.apply(pipelines, std::mem::take(&mut operations)).await?;
                    for (position, result) in std::mem::take(&mut positions).into_iter().zip(earlier) {
                        results[position] = result;
                    }
                    results[position] = self.apply_parts(pipelines, parts).await?;
                }
                Ok(Decoded::Digest { id, config, kind }) => {
                    results[position] = self.configure_digest(pipelines, id, config, kind);
                }
                Err(error) => results[position] = Err(error),
            }
        }
        for (position, result) in positions.into_iter().zip(self.apply(pipelines, operations).await?) {
            results[position] = result;
        }
        let done = cookies.into_iter().filter(|(position, ..)| results[*position].is_ok());
        self.store(pipelines, done.map(|(_, key, cookie)| (key, cookie)))?;
        Ok(results)
    }

    /// Keeps what controllers store with their entries.
    fn store(
        &self,
        pipelines: &mut Pipelines,
        cookies: impl Iterator<Item = (EntryKey, Option<Cookie>)>,
    ) -> Result<(), Status> {
        let stored = Arc::make_mut(&mut pipelines.current()?.cookies);
        let mut timed = false;
        for (key, cookie) in cookies {
            timed |= cookie.as_ref().is_some_and(|cookie| cookie.idle_timeout_ns > 0);
            match cookie.filter(|cookie| *cookie != Default::default()) {
                Some(cookie) => stored.insert(key, cookie),
                None => stored.remove(&key),
            };
        }
        if timed {
            self.control.idle_changed.notify_one();
        }
        Ok(())
    }

    /// Applies all updates between the same two packets, or none of them.
    async fn write_all_or_none(
        &self,
        pipelines: &mut Pipelines,
        updates: &[p4::Update],
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let schema = Arc::clone(&pipelines.current()?.schema);
        let (mut changes, mut cookies) = (vec![], vec![]);
        for (position, update) in updates.iter().enumerate() {
            match decode_update(&schema, update) {
                Ok(Decoded::Change(Change { before, parts, cookie, .. })) => {
                    changes.push((before, parts));
                    cookies.extend(cookie);
                }
                Ok(Decoded::Digest { .. }) => {
                    let message = "atomicity: batches with digest entries can only be CONTINUE_ON_ERROR";
                    return Err(Status::unimplemented(message));
                }
                Err(error) => return Ok(failed_at(updates.len(), position, error)),
            }
        }
        let apply = move |unit: &mut ProgramUnit| all_or_none(unit, changes);
        match self.control.with_unit(pipelines, apply).await? {
            Ok(()) => {
                self.store(pipelines, cookies.into_iter())?;
                Ok(updates.iter().map(|_| Ok(())).collect())
            }
            Err((position, error)) => Ok(failed_at(updates.len(), position, error)),
        }
    }

    /// The configurations of a digest that are read, or of all for 0.
    pub fn read_digests(&self, pipelines: &mut Pipelines, digest_id: u32) -> Result<Vec<p4::Entity>, Status> {
        let schema = Arc::clone(&pipelines.current()?.schema);
        let wanted = schema.digests.keys().copied().filter(|id| digest_id == 0 || *id == digest_id);
        Ok(self.control.with_digests(pipelines, |digests| {
            let entries =
                wanted.filter_map(|id| Some(p4::DigestEntry { digest_id: id, config: Some(digests.config(id)?) }));
            entries.map(|entry| p4::Entity { entity: Some(Entity::DigestEntry(entry)) }).collect()
        }))
    }
}

/// Applies changes; if one fails, takes back those before it, and says which and why.
fn all_or_none(unit: &mut ProgramUnit, changes: Vec<(Before, Vec<Operation>)>) -> Result<(), (usize, UpdateError)> {
    let mut undo: Vec<Operation> = vec![];
    for (position, (before, parts)) in changes.into_iter().enumerate() {
        let done = before(unit).and_then(|back| {
            undo.push(back);
            parts.into_iter().try_for_each(|part| part(unit))
        });
        if let Err(error) = done {
            for back in undo.into_iter().rev() {
                // What was there a moment ago fits there again.
                let _ = back(unit);
            }
            return Err((position, error));
        }
    }
    Ok(())
}

/// The results of updates of which one has failed, so that none is in effect.
fn failed_at(count: usize, failed: usize, error: UpdateError) -> Vec<Result<(), UpdateError>> {
    let why = format!("not in effect, since update {failed} of the batch has failed");
    let aborted = || UpdateError::new(tonic::Code::Aborted, why.clone());
    (0..count).map(|position| Err(if position == failed { error.clone() } else { aborted() })).collect()
}

#[cfg(test)]
mod tests {
    use narrows_proto::p4::config::v1 as config;
    use narrows_switch::io::{control_channels, spawn, LoopSettings, Pace};
    use narrows_switch::switch::Switch;

    use super::*;
    use crate::p4runtime::read::queries;
    use crate::p4runtime::test_programs::*;

    /// Runs a test with the service of a switch that has no ports and no program yet, and ends the switch.
    fn with_service(test: impl AsyncFnOnce(&Updates)) {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (to_control, _from) = control_channels();
        let running = spawn(Switch::new(&[], 1), vec![], Pace::RealTime(settings), vec![to_control]).expect("threads");
        let service = Updates { control: Arc::new(Control::new(1, running.handle.clone(), 1, None)) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(test(&service));
        running.handle.stop();
        running.thread.join().expect("ends");
    }

    async fn load(control: &Control, program: p4::ForwardingPipelineConfig) {
        let mut pipelines = control.pipelines.lock().await;
        let fresh = control.fresh(control.verify(Some(program)).await.expect("verified"));
        control.commit(&mut pipelines, fresh).await.expect("committed");
    }

    /// Everything that a controller can read.
    async fn state(control: &Control) -> Vec<p4::Entity> {
        let all = [
            Entity::TableEntry(p4::TableEntry { counter_data: Some(p4::CounterData::default()), ..Default::default() }),
            Entity::RegisterEntry(p4::RegisterEntry::default()),
            Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry::default()),
        ];
        read_all(control, all).await
    }

    async fn read_all(control: &Control, wanted: [Entity; 3]) -> Vec<p4::Entity> {
        let mut found = vec![];
        for entity in wanted {
            let mut pipelines = control.pipelines.lock().await;
            let current = pipelines.current().expect("a pipeline");
            let (schema, cookies) = (Arc::clone(&current.schema), Arc::clone(&current.cookies));
            drop(pipelines);
            let entity = p4::Entity { entity: Some(entity) };
            for query in queries(&schema, &cookies, &entity).expect("can be asked") {
                found.extend(control.query(query).await.expect("answered"));
            }
        }
        found
    }

    /// P4Runtime, Batch Atomicity: after an error the state is what it was before the batch, with the former order of entries; the
    /// default goes on instead.
    #[test]
    fn a_batch_that_fails_leaves_nothing_behind_unless_it_may() {
        with_service(async |service| {
            let control = &service.control;
            load(control, with_table()).await;
            let first = [entry(Type::Insert, 1, 1), entry(Type::Insert, 2, 1), group(Type::Insert, 5), cells(9)];
            let results =
                service.write_all_or_none(&mut *control.pipelines.lock().await, &first).await.expect("written");
            assert_eq!(results, vec![Ok(()); 4]);
            let before = state(control).await;
            // Two entries, four cells, a group.
            assert_eq!(before.len(), 2 + 4 + 1);

            let default = update(
                Type::Modify,
                Entity::TableEntry(p4::TableEntry {
                    table_id: TABLE,
                    is_default_action: true,
                    action: match entry(Type::Modify, 1, 6).entity.and_then(|e| e.entity) {
                        Some(Entity::TableEntry(found)) => found.action,
                        _ => None,
                    },
                    ..Default::default()
                }),
            );
            let batch = [
                entry(Type::Insert, 3, 1),
                entry(Type::Modify, 2, 8),
                entry(Type::Delete, 1, 1),
                group(Type::Modify, 6),
                cells(8),
                default,
                entry(Type::Insert, 2, 1),
                entry(Type::Insert, 4, 1),
            ];
            let codes = |results: Vec<Result<(), UpdateError>>| -> Vec<tonic::Code> {
                results.into_iter().map(|result| result.map_or_else(|error| error.code, |()| tonic::Code::Ok)).collect()
            };
            use tonic::Code::{Aborted, AlreadyExists, Ok as Done};
            let results =
                service.write_all_or_none(&mut *control.pipelines.lock().await, &batch).await.expect("answered");
            let six = [Aborted; 6];
            assert_eq!(codes(results), [&six[..], &[AlreadyExists, Aborted]].concat());
            assert_eq!(state(control).await, before);
            let default_of = |unit: &mut ProgramUnit| unit.pipeline.table_default(narrows_pipeline::TableId(1));
            let mut pipelines = control.pipelines.lock().await;
            let call = control.with_unit(&mut pipelines, default_of).await.expect("runs").expect("a table");
            assert_eq!(call.action, "nothing");

            let results = service.write_all(&mut pipelines, &batch).await.expect("answered");
            drop(pipelines);
            assert_eq!(codes(results), [&[Done; 6][..], &[AlreadyExists, Done]].concat());
            // 2, 3 and 4.
            assert_eq!(state(control).await.len(), 3 + 4 + 1);
        });
    }

    /// The same with a direct meter of the table, and a value set of two fields.
    fn with_meter_and_set() -> p4::ForwardingPipelineConfig {
        let mut wanted = with_table();
        let mut program: serde_json::Value = serde_json::from_slice(&wanted.p4_device_config).expect("JSON");
        let target = serde_json::json!(["m", "a"]);
        program["meter_arrays"] = serde_json::json!([
            {"name": "m", "id": 0, "is_direct": true, "type": "bytes", "binding": "t", "result_target": target}
        ]);
        program["parse_vsets"] = serde_json::json!([{"name": "v", "id": 0, "max_size": 2}]);
        let state = &mut program["parsers"][0]["parse_states"][0];
        state["transition_key"] = serde_json::json!([common::field("h", "a"), common::field("h", "b")]);
        state["transitions"] =
            serde_json::json!([{"type": "parse_vset", "value": "v", "mask": null, "next_state": null}]);
        wanted.p4_device_config = program.to_string().into_bytes();
        let exact = Some(config::match_field::Match::MatchType(config::match_field::MatchType::Exact as i32));
        let field = |id, bitwidth| config::MatchField { id, bitwidth, r#match: exact.clone(), ..Default::default() };
        let info = wanted.p4info.as_mut().expect("p4info");
        info.value_sets =
            vec![config::ValueSet { preamble: preamble(SETS, "v"), r#match: vec![field(1, 8), field(2, 16)], size: 2 }];
        let spec = config::MeterSpec { unit: config::meter_spec::Unit::Bytes as i32, ..Default::default() };
        info.direct_meters =
            vec![config::DirectMeter { preamble: preamble(METER, "m"), spec: Some(spec), direct_table_id: TABLE }];
        wanted
    }

    /// P4Runtime, DirectMeterEntry and ValueSetEntry: what is written is read, in each of the forms it has; what cannot be changes
    /// nothing; and a program that replaces this one has it.
    #[test]
    fn direct_meters_and_value_sets_are_read_as_they_were_written() {
        with_service(async |service| {
            let control = &service.control;
            load(control, with_meter_and_set()).await;
            let rates = |cir| Some(p4::MeterConfig { cir, cburst: 1_500, pir: 2 * cir, pburst: 3_000, eburst: 0 });
            let with_rates = |kind, key, meter_config| match entry(kind, key, 1).entity.and_then(|e| e.entity) {
                Some(Entity::TableEntry(entry)) => p4::TableEntry { meter_config, ..entry },
                _ => unreachable!("a table entry"),
            };
            let meter = |key, config| {
                let table_entry = Some(p4::TableEntry { action: None, ..with_rates(Type::Modify, key, None) });
                let entry = p4::DirectMeterEntry { table_entry, config, ..Default::default() };
                update(Type::Modify, Entity::DirectMeterEntry(entry))
            };
            let set = |members: &[[&[u8]; 2]]| {
                let field = |(at, value): (usize, &&[u8])| p4::FieldMatch {
                    field_id: at as u32 + 1,
                    field_match_type: Some(p4::field_match::FieldMatchType::Exact(p4::field_match::Exact {
                        value: value.to_vec(),
                    })),
                };
                let member = |fields: &[&[u8]; 2]| p4::ValueSetMember {
                    r#match: fields.iter().enumerate().map(field).collect(),
                };
                let members = members.iter().map(member).collect();
                update(Type::Modify, Entity::ValueSetEntry(p4::ValueSetEntry { value_set_id: SETS, members }))
            };
            let write = async |updates: Vec<p4::Update>| {
                let results =
                    service.write_all(&mut *control.pipelines.lock().await, &updates).await.expect("answered");
                results.into_iter().map(|result| result.map_err(|error| error.code)).collect::<Vec<_>>()
            };
            let read = async || {
                let wanted = [
                    Entity::TableEntry(p4::TableEntry { meter_config: rates(0), ..Default::default() }),
                    Entity::DirectMeterEntry(p4::DirectMeterEntry::default()),
                    Entity::ValueSetEntry(p4::ValueSetEntry::default()),
                ];
                let (mut meters, mut of_entries, mut members) = (vec![], vec![], vec![]);
                for found in read_all(control, wanted).await {
                    match found.entity.expect("an entity") {
                        Entity::DirectMeterEntry(found) => meters.push(found.config),
                        Entity::TableEntry(found) => of_entries.push(found.meter_config),
                        found => members.push(found),
                    }
                }
                assert_eq!(meters, of_entries);
                (meters, members)
            };
            let inserted =
                |key, config| update(Type::Insert, Entity::TableEntry(with_rates(Type::Insert, key, config)));
            let members = set(&[[&[7], &[0x0a, 0xbc]], [&[8], &[1]]]);
            let written = members.entity.clone().and_then(|e| e.entity).expect("a set");
            let done = write(vec![inserted(1, rates(1_000)), inserted(2, None), members]).await;
            assert_eq!(done, [Ok(()); 3]);
            assert_eq!(read().await, (vec![rates(1_000), None], vec![written.clone()]));
            assert_eq!(write(vec![meter(2, rates(5_000)), meter(1, None)]).await, [Ok(()); 2]);
            let now = (vec![None, rates(5_000)], vec![written]);
            assert_eq!(read().await, now);

            use tonic::Code::{AlreadyExists, InvalidArgument, NotFound, OutOfRange, ResourceExhausted};
            let below = Some(p4::MeterConfig { cir: 2, pir: 1, ..Default::default() });
            let refused = write(vec![
                meter(3, rates(1)),
                meter(2, below),
                set(&[[&[1], &[1]], [&[1], &[2]], [&[1], &[3]]]),
                set(&[[&[1], &[1]], [&[1], &[1]]]),
                set(&[[&[1, 0], &[1]]]),
            ]);
            let codes = [NotFound, InvalidArgument, ResourceExhausted, AlreadyExists, OutOfRange];
            assert_eq!(refused.await, codes.map(Err));
            assert_eq!(read().await, now);
            let batch = [meter(1, rates(9)), set(&[]), meter(3, None)];
            let results =
                service.write_all_or_none(&mut *control.pipelines.lock().await, &batch).await.expect("answered");
            assert!(results.iter().all(Result::is_err));
            assert_eq!(read().await, now);

            let next = control.fresh(control.verify(Some(with_meter_and_set())).await.expect("verified"));
            let mut pipelines = control.pipelines.lock().await;
            control.reconcile(&mut pipelines, next).await.expect("takes over");
            drop(pipelines);
            assert_eq!(read().await, now);
        });
    }

    /// P4Runtime, SetForwardingPipelineConfig: the state is preserved, or INVALID_ARGUMENT and nothing has changed.
    #[test]
    fn a_program_is_replaced_with_its_state_or_not_at_all() {
        with_service(async |service| {
            let control = &service.control;
            load(control, with_table()).await;
            let batch = [entry(Type::Insert, 1, 1), entry(Type::Insert, 2, 1), group(Type::Insert, 5), cells(9)];
            let results = service.write_all(&mut *control.pipelines.lock().await, &batch).await.expect("written");
            assert_eq!(results, vec![Ok(()); 4]);
            let before = state(control).await;
            // The same program, but for a change.
            let reconcile = |change: fn(&mut serde_json::Value)| async move {
                let mut wanted = with_table();
                let mut program: serde_json::Value = serde_json::from_slice(&wanted.p4_device_config).expect("JSON");
                change(&mut program);
                wanted.p4_device_config = program.to_string().into_bytes();
                if let Some(info) = wanted.p4info.as_mut() {
                    let known = program.to_string();
                    info.registers.retain(|_| known.contains(r#""name":"r""#));
                }
                let next = control.fresh(control.verify(Some(wanted)).await.expect("verified"));
                let mut pipelines = control.pipelines.lock().await;
                control
                    .reconcile(&mut pipelines, next)
                    .await
                    .map_err(|status| (status.code(), status.message().to_owned()))
            };
            assert_eq!(reconcile(|_| ()).await, Ok(()));
            assert_eq!(state(control).await, before);
            let rename = |program: &mut serde_json::Value| program["register_arrays"][0]["name"] = "other".into();
            let (code, message) = reconcile(rename).await.expect_err("nowhere to put the cells");
            assert_eq!((code, message.contains("register r")), (tonic::Code::InvalidArgument, true), "{message}");
            let shorten = |program: &mut serde_json::Value| program["register_arrays"][0]["size"] = 3.into();
            let (code, message) = reconcile(shorten).await.expect_err("a cell too many");
            assert_eq!((code, message.contains("register r")), (tonic::Code::InvalidArgument, true), "{message}");
            assert_eq!(state(control).await, before);
            // Cells without a value can go.
            let results = service.write_all(&mut *control.pipelines.lock().await, &[cells(0)]).await.expect("written");
            assert_eq!(results, vec![Ok(())]);
            assert_eq!(reconcile(shorten).await, Ok(()));
            assert_eq!(state(control).await.len(), before.len() - 1);
        });
    }

    /// P4Runtime, Table Idle Timeout Notification: one after each timeout without a packet, with the key and what is stored with it.
    #[test]
    fn an_idle_entry_is_notified_after_each_timeout() {
        const TIMEOUT_NS: i64 = 60_000_000;
        with_service(async |service| {
            let control = &service.control;
            load(control, with_table()).await;
            let (stream, mut messages) = tokio::sync::mpsc::channel(16);
            let client = control.clients().connect().expect("few streams");
            let election_id = Some(p4::Uint128 { high: 0, low: 1 });
            let arbitration = p4::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
            control.arbitrate(client, &stream, &arbitration).await.expect("primary");
            let watch = tokio::spawn(crate::p4runtime::watch_idle(Arc::clone(control)));
            let timed = |key: u8, idle_timeout_ns| match entry(Type::Insert, key, 1).entity.and_then(|e| e.entity) {
                Some(Entity::TableEntry(entry)) => {
                    update(Type::Insert, Entity::TableEntry(p4::TableEntry { idle_timeout_ns, ..entry }))
                }
                _ => unreachable!("a table entry"),
            };
            let begun = std::time::Instant::now();
            let batch = [timed(1, TIMEOUT_NS), timed(2, 0), timed(3, -1)];
            let results = service.write_all(&mut *control.pipelines.lock().await, &batch).await.expect("written");
            assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
            let mut notified = vec![];
            while notified.len() < 2 {
                let message = tokio::time::timeout(std::time::Duration::from_secs(60), messages.recv()).await;
                let message = message.expect("in time").expect("a message").expect("no error");
                if let Some(p4::stream_message_response::Update::IdleTimeoutNotification(idle)) = message.update {
                    notified.push((begun.elapsed().as_nanos() as i64, idle));
                }
            }
            for (number, (elapsed_ns, idle)) in notified.iter().enumerate() {
                assert!(*elapsed_ns >= TIMEOUT_NS * (number as i64 + 1), "{elapsed_ns}");
                let [entry] = &idle.table_entry[..] else { panic!("{idle:?}") };
                assert_eq!((entry.table_id, &entry.metadata, entry.idle_timeout_ns), (TABLE, &vec![1], TIMEOUT_NS));
                assert_eq!(entry.r#match.len(), 1);
            }
            watch.abort();
        });
    }

    /// What is configured of digests for a saved program comes with its COMMIT, and not before.
    #[test]
    fn digests_are_those_of_the_program_for_which_they_were_configured() {
        with_service(async |service| {
            let control = &service.control;
            let lists_of = |max_list_size| Some(p4::digest_entry::Config { max_list_size, ..Default::default() });
            let in_use = || control.digests().config(DIGEST).map(|config| config.max_list_size);
            let mut pipelines = control.pipelines.lock().await;
            let first = control.fresh(control.verify(Some(config())).await.expect("verified"));
            control.commit(&mut pipelines, first).await.expect("committed");
            let configure = |pipelines: &mut Pipelines, size, kind| {
                service.configure_digest(pipelines, DIGEST, lists_of(size), kind).map_err(|error| error.message)
            };
            assert_eq!(configure(&mut pipelines, 1, Type::Insert), Ok(()));

            pipelines.saved = Some(control.fresh(control.verify(Some(config())).await.expect("verified")));
            assert_eq!(configure(&mut pipelines, 2, Type::Insert), Ok(()), "the saved program has none yet");
            assert_eq!(configure(&mut pipelines, 3, Type::Modify), Ok(()));
            assert_eq!(in_use(), Some(1), "the program in the data path keeps its own");

            let saved = pipelines.saved.take().expect("saved");
            control.commit(&mut pipelines, saved).await.expect("committed");
            assert_eq!(in_use(), Some(3), "what was accepted for the saved program");
        });
    }
}
