//! State of the control side: pipeline configurations, and the way to the forwarding state they describe.
// SPDX-License-Identifier: Apache-2.0
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_pipeline::{ControlError, Pipeline, Program, TableId};
use narrows_proto::p4::v1::{self as p4, ForwardingPipelineConfig};
use narrows_switch::io::{DataPath, Gone, Handle};
use narrows_switch::switch::FIRST;
use narrows_switch::unit::ProgramUnit;
use tonic::Status;

use super::arbitration::{Clients, ToClient};
use super::device_config;
use super::digest::Digests;
use super::error::UpdateError;
use super::query::Query;
use super::read::{Cookies, ENTRIES_AT_ONCE};
use super::schema::Schema;

/// Bits of the seeds that are given.
const SEED_BITS: u32 = 56;

/// A verified pipeline configuration.
pub struct Configuration {
    /// As the controller sent it.
    pub message: ForwardingPipelineConfig,
    /// What its ids mean.
    pub schema: Arc<Schema>,
    program: Arc<Program>,
    /// What controllers stored with the table entries.
    pub cookies: Cookies,
}

impl Configuration {
    /// The number of its program, of which no two are alike.
    pub fn program_id(&self) -> u64 {
        self.program.id
    }
}

/// A configuration with all the state that belongs to it, ready for the data path.
pub struct Prepared {
    configuration: Configuration,
    unit: ProgramUnit,
    /// Those that were configured for it.
    digests: Digests,
}

/// The configurations of the device.
#[derive(Default)]
pub struct Pipelines {
    /// In the data path.
    pub active: Option<Configuration>,
    /// Saved but not committed: reads and writes go here until the commit.
    pub saved: Option<Prepared>,
}

impl Pipelines {
    /// The configuration that reads and writes refer to.
    pub fn current(&mut self) -> Result<&mut Configuration, Status> {
        let current = self.saved.as_mut().map(|saved| &mut saved.configuration).or(self.active.as_mut());
        current.ok_or_else(|| Status::failed_precondition("no forwarding pipeline config was set"))
    }
}

/// What all RPCs of a device share.
pub struct Control {
    /// Its id.
    pub device_id: u64,
    /// Its number in the switch.
    pub device: usize,
    /// One request at a time changes pipelines or entries.
    pub pipelines: tokio::sync::Mutex<Pipelines>,
    clients: Mutex<Clients>,
    digests: Mutex<Digests>,
    /// Wakes the task that sends digests.
    pub digests_changed: tokio::sync::Notify,
    /// Wakes the task that looks for idle entries.
    pub idle_changed: tokio::sync::Notify,
    /// The data path.
    pub handle: Handle,
    /// Where packets from and to controllers enter and leave the program.
    pub cpu_port: Option<u16>,
    packet_ins_lost: AtomicU64,
    /// Fields of metadata of every program that are recorded of reported packets.
    pub watched: Arc<[String]>,
    seed: u64,
    snaplen: Option<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data path has stopped: the switch is going down.
pub fn unavailable(gone: Gone) -> Status {
    Status::unavailable(gone.to_string())
}

/// Carries out a request even if its client disconnects: what the data path was made to do and what is recorded
/// of it must agree.
pub async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(work).await.map_err(|_| Status::internal("the request was given up by a fault of the switch"))?
}

impl Control {
    /// The first device, without a pipeline and a CPU port, which holds the first `snaplen` bytes of a frame or all of them.
    pub fn new(device_id: u64, handle: Handle, seed: u64, snaplen: Option<usize>) -> Self {
        Control {
            device_id,
            device: FIRST,
            cpu_port: None,
            watched: Arc::default(),
            packet_ins_lost: AtomicU64::new(0),
            pipelines: tokio::sync::Mutex::default(),
            clients: Mutex::new(Clients::new(device_id)),
            digests: Mutex::default(),
            digests_changed: tokio::sync::Notify::new(),
            idle_changed: tokio::sync::Notify::new(),
            handle,
            seed,
            snaplen,
        }
    }

    /// Clients; hold the guard for a moment only.
    pub fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }

    /// Digests of the program in the data path; hold the guard for a moment only.
    pub fn digests(&self) -> MutexGuard<'_, Digests> {
        lock(&self.digests)
    }

    /// Runs `action` on the digests that reads and writes refer to: the saved configuration's if there is one.
    pub fn with_digests<R>(&self, pipelines: &mut Pipelines, action: impl FnOnce(&mut Digests) -> R) -> R {
        match &mut pipelines.saved {
            Some(saved) => action(&mut saved.digests),
            None => action(&mut self.digests()),
        }
    }

    /// A packet of the program did not get to every primary.
    pub fn lose_packet_in(&self) {
        self.packet_ins_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Packets of the program that did not get to every primary.
    pub fn packet_ins_lost(&self) -> u64 {
        self.packet_ins_lost.load(Ordering::Relaxed)
    }

    /// What the primary of a role may change. No other client becomes primary while this is held, as that, too, takes it: what a
    /// former primary asked for has happened before, or is refused.
    pub async fn of_primary(
        &self,
        role: &str,
        election_id: Option<&p4::Uint128>,
    ) -> Result<tokio::sync::MutexGuard<'_, Pipelines>, Status> {
        let pipelines = self.pipelines.lock().await;
        self.clients().check_primary(role, election_id)?;
        Ok(pipelines)
    }

    /// An arbitration message of a stream, after the writes that are in progress. On error the stream is to be closed
    /// with it.
    pub async fn arbitrate(
        &self,
        client: u64,
        stream: &ToClient,
        update: &p4::MasterArbitrationUpdate,
    ) -> Result<(), Status> {
        let _writes = self.pipelines.lock().await;
        self.clients().arbitrate(client, stream, update)
    }

    /// Verifies a configuration: the program loads, and P4Info describes it.
    pub async fn verify(&self, config: Option<ForwardingPipelineConfig>) -> Result<Configuration, Status> {
        let (snaplen, watched) = (self.snaplen, Arc::clone(&self.watched));
        let message = config.ok_or_else(|| Status::invalid_argument("config is missing"))?;
        let load = move || -> Result<Configuration, UpdateError> {
            let info = message.p4info.as_ref().ok_or_else(|| UpdateError::invalid("config.p4info is missing"))?;
            let json = device_config::program(&message.p4_device_config);
            if json.is_empty() {
                return Err(UpdateError::invalid("config.p4_device_config is empty: it must be the BMv2 JSON"));
            }
            // INVALID_ARGUMENT also for what the switch cannot do: the specification's code for what cannot be realized.
            let program = Program::load_watching(&json, &watched);
            let program = program.map_err(|error| UpdateError::invalid(format!("p4_device_config: {error}")))?;
            if let Some(warning) = program.warning() {
                eprintln!("narrows-softswitch: warning: p4_device_config: {warning}");
            }
            if let Some(snaplen) = snaplen.filter(|snaplen| program.parsed_bytes().is_none_or(|bytes| bytes > *snaplen))
            {
                return Err(UpdateError::invalid(format!(
                    "p4_device_config: the program may parse more of a frame than the {snaplen} bytes of --snaplen"
                )));
            }
            let schema = Arc::new(Schema::new(info, &program)?);
            Ok(Configuration { schema, program: Arc::new(program), message, cookies: Arc::new(HashMap::new()) })
        };
        let loaded = tokio::task::spawn_blocking(load).await;
        Ok(loaded.map_err(|_| Status::internal("the program could not be loaded: the loader failed"))??)
    }

    /// A configuration with empty tables.
    pub fn fresh(&self, configuration: Configuration) -> Prepared {
        // Programs of several devices draw other numbers.
        let seed = self.seed.wrapping_add((self.device as u64) << SEED_BITS);
        let unit = ProgramUnit::new(Pipeline::new(Arc::clone(&configuration.program), seed));
        Prepared { digests: Digests::of(configuration.program.id), configuration, unit }
    }

    /// Puts a configuration with its state into the data path.
    pub async fn commit(&self, pipelines: &mut Pipelines, next: Prepared) -> Result<(), Status> {
        let Prepared { configuration, unit, digests } = next;
        let device = self.device;
        self.handle.call(move |data_path| data_path.switch.set_unit(device, unit)).await.map_err(unavailable)?;
        self.digests().replace(digests);
        pipelines.active = Some(configuration);
        self.idle_changed.notify_one();
        pipelines.saved = None;
        Ok(())
    }

    /// Puts a configuration into the data path that takes over the state of the active one.
    ///
    /// Errors: INVALID_ARGUMENT, and nothing has changed, if something of that has no place in it.
    pub async fn reconcile(&self, pipelines: &mut Pipelines, mut next: Prepared) -> Result<(), Status> {
        let Some(active) = &pipelines.active else {
            return self.commit(pipelines, next).await;
        };
        let renamed = |table: TableId| {
            let name = active.schema.tables.values().find(|known| known.id == table).map(|known| &known.name)?;
            next.configuration.schema.tables.values().find(|known| known.name == *name).map(|known| known.id)
        };
        let cookies = active.cookies.iter().filter_map(|((table, key, priority), cookie)| {
            Some(((renamed(*table)?, key.clone(), *priority), cookie.clone()))
        });
        next.configuration.cookies = Arc::new(cookies.collect());
        for id in active.schema.digests.keys() {
            let Some(config) = self.digests().config(*id) else { continue };
            match next.configuration.schema.digests.get(id) {
                Some(digest) => next.digests.configure(*id, digest, Some(config)),
                None => {
                    let message = format!("digest {id} cannot be preserved: the new program has none of this id");
                    return Err(Status::invalid_argument(message));
                }
            }
        }
        let Prepared { configuration, mut unit, digests } = next;
        let device = self.device;
        let replace = move |data_path: &mut DataPath| {
            if let Some(old) = data_path.switch.unit(device) {
                unit.adopt(old)?;
            }
            data_path.switch.set_unit(device, unit);
            Ok(())
        };
        let replaced: Result<(), ControlError> = self.handle.call(replace).await.map_err(unavailable)?;
        replaced.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.digests().replace(digests);
        pipelines.active = Some(configuration);
        pipelines.saved = None;
        self.idle_changed.notify_one();
        Ok(())
    }

    /// Answers a query from one consistent state, since writes wait until it is done. Packets do not.
    pub async fn query(&self, query: Query) -> Result<Vec<p4::Entity>, Status> {
        let mut pipelines = self.pipelines.lock().await;
        let answer = match query {
            Query::Once(look) => self.with_unit(&mut pipelines, look).await?.map(|entities| entities()),
            Query::Entries(table, answer) => {
                let (mut found, mut next) = (vec![], Some(0));
                while let Some(place) = next {
                    let fetch =
                        move |unit: &mut ProgramUnit| unit.pipeline.table_entries_from(table, place, ENTRIES_AT_ONCE);
                    let part = self.with_unit(&mut pipelines, fetch).await?.map_err(UpdateError::from)?;
                    found.extend(part.entries);
                    next = part.next;
                }
                drop(pipelines);
                found.sort_by_key(|(sequence, ..)| *sequence);
                answer(found.into_iter().map(|(_, entry, state)| (entry, state)).collect())
            }
        };
        Ok(answer?)
    }

    /// Runs `action` on the forwarding state that reads and writes refer to: the saved one if there is one, else the data
    /// path's, between two packets.
    pub async fn with_unit<R: Send + 'static>(
        &self,
        pipelines: &mut Pipelines,
        action: impl FnOnce(&mut ProgramUnit) -> R + Send + 'static,
    ) -> Result<R, Status> {
        if let Some(saved) = &mut pipelines.saved {
            return Ok(action(&mut saved.unit));
        }
        let device = self.device;
        let result = self.handle.call(move |data_path| data_path.switch.unit(device).map(action)).await;
        result.map_err(unavailable)?.ok_or_else(|| Status::failed_precondition("no forwarding pipeline config was set"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_switch::io::{control_channels, spawn, LoopSettings, Pace};
    use narrows_switch::switch::Switch;
    use tonic::Code;

    fn id(low: u64) -> Option<p4::Uint128> {
        Some(p4::Uint128 { high: 0, low })
    }

    /// While one write is at work, a client of a higher id and a write of the primary wait, in either order.
    #[test]
    fn a_former_primary_changes_nothing_after_another_became_primary() {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (to_control, _from) = control_channels();
        let running = spawn(Switch::new(&[], 1), vec![], Pace::RealTime(settings), vec![to_control]).expect("threads");
        let control = Control::new(1, running.handle.clone(), 1, None);
        let (stream, mut answers) = tokio::sync::mpsc::channel(16);
        let update = |low| p4::MasterArbitrationUpdate { device_id: 1, election_id: id(low), ..Default::default() };
        let first = control.clients().connect().expect("few streams");
        let second = control.clients().connect().expect("few streams");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        runtime.block_on(async {
            control.arbitrate(first, &stream, &update(5)).await.expect("first");
            while answers.try_recv().is_ok() {}
            let at_work = control.of_primary("", id(5).as_ref()).await.expect("primary");
            let successor = async {
                control.arbitrate(second, &stream, &update(6)).await.expect("higher");
            };
            let late = async { control.of_primary("", id(5).as_ref()).await.map(drop) };
            let release = async {
                // All others wait by now, in their order.
                tokio::task::yield_now().await;
                assert!(answers.try_recv().is_err(), "another became primary while a write is at work");
                drop(at_work);
            };
            let ((), refused, ()) = tokio::join!(successor, late, release);
            assert_eq!(refused.expect_err("not the primary any more").code(), Code::PermissionDenied);
        });
        running.handle.stop();
        running.thread.join().expect("ends");
    }
}
