//! Random requests at a switch of two devices while packets run, against a model of what the P4Runtime specification says.
//!
//! The model knows nothing of the server's code: a device has a program at work and perhaps a saved one, each with what was
//! written for it; what is read is that of the saved one if there is one; packets see the other. After every step all that can be
//! read of both devices is compared, and each packet of the step with what has become of it. Packets of another kind run all the
//! time, between any two commands of the data path.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_proto::p4::v1::{
    self as p4, entity::Entity, p4_runtime_server::P4Runtime, set_forwarding_pipeline_config_request::Action,
    stream_message_response::Update as Message, update::Type, write_request::Atomicity,
};
use narrows_switch::io::{control_channels, spawn, DataPath, FromDataPath, Handle, LoopSettings, Pace, Running};
use narrows_switch::switch::{PortKind, Switch, FIRST};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};

use super::test_programs::common::{call, frame, hex};
use super::test_programs::*;
use super::{Control, Devices, P4RuntimeService};

const DEVICES: [u64; 2] = [1, 7];
/// Of each device the port that packets come in by, the one that they go to, and one that is the other device's.
const PORTS: [[u8; 3]; 2] = [[1, 2, 4], [3, 4, 2]];
const CELLS: usize = 4;
const GROUP: u32 = 3;
/// `a` of the packets that run all the time; those of steps have smaller numbers.
const BACKGROUND: u8 = 255;
const ELECTION_ID: p4::Uint128 = p4::Uint128 { high: 0, low: 5 };

/// The programs that are loaded in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Whole,
    /// The register has a cell less.
    Shorter,
    /// It has no digest.
    Silent,
}

impl Variant {
    fn cells(self) -> usize {
        CELLS - usize::from(self == Variant::Shorter)
    }

    fn config(self, cookie: u64) -> p4::ForwardingPipelineConfig {
        let learn = serde_json::json!([call("generate_digest", serde_json::json!([hex(1), hex(1)]))]);
        let mut wanted = with_table_behind(if self == Variant::Silent { serde_json::json!([]) } else { learn });
        if self == Variant::Shorter {
            let mut program: serde_json::Value = serde_json::from_slice(&wanted.p4_device_config).expect("JSON");
            program["register_arrays"][0]["size"] = self.cells().into();
            wanted.p4_device_config = program.to_string().into_bytes();
        }
        if let Some(info) = wanted.p4info.as_mut() {
            info.registers.iter_mut().for_each(|register| register.size = self.cells() as i32);
            let digests = config().p4info.expect("p4info").digests;
            info.digests = if self == Variant::Silent { vec![] } else { digests };
        }
        p4::ForwardingPipelineConfig { cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie }), ..wanted }
    }
}

/// What an entry does: to which of the three [`PORTS`] a packet goes, and what is written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    port: usize,
    tag: u8,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Entry(Type, u8, Call),
    /// `None`: as the program has it.
    Default(Option<Call>),
    Cell(usize, u8),
    Group(Type, u8),
    Digest(Type),
}

#[derive(Debug, Clone)]
enum Step {
    Set(Action, Variant),
    Write(Atomicity, Vec<Change>),
    Packet(u8),
}

/// What belongs to one program.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    variant: Variant,
    cookie: u64,
    /// With packets that have found it.
    entries: BTreeMap<u8, (Call, i64)>,
    default: Option<Call>,
    cells: [u8; CELLS],
    group: Option<u8>,
    learns: bool,
}

impl Model {
    fn new(variant: Variant, cookie: u64) -> Self {
        let (entries, cells) = (BTreeMap::new(), [0; CELLS]);
        Model { variant, cookie, entries, default: None, cells, group: None, learns: false }
    }

    /// P4Runtime, Write: INSERT of what is there is ALREADY_EXISTS, MODIFY and DELETE of what is not NOT_FOUND.
    fn apply(&mut self, change: Change) -> Code {
        let exists = match change {
            Change::Entry(_, key, _) => self.entries.contains_key(&key),
            Change::Group(..) => self.group.is_some(),
            Change::Digest(_) if self.variant == Variant::Silent => return Code::NotFound,
            Change::Digest(_) => self.learns,
            Change::Cell(index, _) if index >= self.variant.cells() => return Code::OutOfRange,
            Change::Default(_) | Change::Cell(..) => true,
        };
        if let Change::Entry(kind, ..) | Change::Group(kind, _) | Change::Digest(kind) = change {
            match (kind, exists) {
                (Type::Insert, true) => return Code::AlreadyExists,
                (Type::Modify | Type::Delete, false) => return Code::NotFound,
                _ => {}
            }
        }
        match change {
            Change::Entry(Type::Delete, key, _) => drop(self.entries.remove(&key)),
            // MODIFY leaves the counter as it is.
            Change::Entry(_, key, call) => {
                self.entries.entry(key).and_modify(|found| found.0 = call).or_insert((call, 0));
            }
            Change::Default(call) => self.default = call,
            Change::Cell(index, value) => self.cells[index] = value,
            Change::Group(kind, port) => self.group = (kind != Type::Delete).then_some(port),
            Change::Digest(kind) => self.learns = kind != Type::Delete,
        }
        Code::Ok
    }

    /// P4Runtime, SetForwardingPipelineConfig: RECONCILE_AND_COMMIT preserves all state, or is refused.
    fn adopted(&self, variant: Variant, cookie: u64) -> Option<Self> {
        let fits = self.cells[variant.cells()..].iter().all(|cell| *cell == 0);
        let learns = self.learns && variant == Variant::Silent;
        (fits && !learns).then(|| Model { variant, cookie, ..self.clone() })
    }

    /// A packet with this key comes in: what is done with it.
    fn packet(&mut self, key: u8) -> Option<Call> {
        let found = self.entries.get_mut(&key);
        found.map_or(self.default, |(call, packets)| {
            *packets += 1;
            Some(*call)
        })
    }
}

/// A device as the specification has it.
#[derive(Debug, Clone, Default)]
struct Expected {
    active: Option<Model>,
    saved: Option<Model>,
}

impl Expected {
    fn current(&mut self) -> Option<&mut Model> {
        self.saved.as_mut().or(self.active.as_mut())
    }

    fn set(&mut self, action: Action, variant: Variant, cookie: u64) -> Code {
        let fresh = Model::new(variant, cookie);
        let next = match action {
            Action::Verify => return Code::Ok,
            Action::VerifyAndSave => {
                self.saved = Some(fresh);
                return Code::Ok;
            }
            Action::Commit => match self.saved.take() {
                Some(saved) => saved,
                None => return Code::NotFound,
            },
            Action::ReconcileAndCommit => match &self.active {
                Some(active) => match active.adopted(variant, cookie) {
                    Some(adopted) => adopted,
                    None => return Code::InvalidArgument,
                },
                None => fresh,
            },
            _ => fresh,
        };
        *self = Expected { active: Some(next), saved: None };
        Code::Ok
    }

    /// The code of the request, and of each update where that is UNKNOWN.
    fn write(&mut self, atomicity: Atomicity, changes: &[Change]) -> (Code, Vec<Code>) {
        let Some(current) = self.current() else {
            return (Code::FailedPrecondition, vec![]);
        };
        let mut next = current.clone();
        let codes: Vec<Code> = changes.iter().map(|change| next.apply(*change)).collect();
        if atomicity != Atomicity::ContinueOnError {
            // Of several that fail, one is reported; what cannot be of any state is found first.
            let never = codes.iter().position(|code| *code == Code::OutOfRange);
            if let Some(position) = never.or(codes.iter().position(|code| *code != Code::Ok)) {
                let of = |at| if at == position { codes[at] } else { Code::Aborted };
                return (Code::Unknown, (0..changes.len()).map(of).collect());
            }
        }
        *current = next;
        match codes.iter().all(|code| *code == Code::Ok) {
            true => (Code::Ok, vec![]),
            false => (Code::Unknown, codes),
        }
    }
}

/// The server of a switch of two devices.
struct Server {
    service: P4RuntimeService,
    controls: [Arc<Control>; 2],
    from_data_path: Vec<FromDataPath>,
    handle: Handle,
}

fn entity(entity: Entity) -> p4::Entity {
    p4::Entity { entity: Some(entity) }
}

fn message(device: usize, change: Change) -> p4::Update {
    let call = |call: Call| {
        let param = |param_id, value| p4::action::Param { param_id, value: vec![value] };
        let params = vec![param(1, PORTS[device][call.port]), param(2, call.tag)];
        let action = p4::table_action::Type::Action(p4::Action { action_id: SET, params });
        Some(p4::TableAction { r#type: Some(action) })
    };
    match change {
        Change::Entry(kind, key, wanted) => match entry(kind, key, 0).entity.and_then(|found| found.entity) {
            Some(Entity::TableEntry(found)) => {
                update(kind, Entity::TableEntry(p4::TableEntry { action: call(wanted), ..found }))
            }
            _ => unreachable!("a table entry"),
        },
        Change::Default(wanted) => {
            let action = wanted.and_then(call);
            let entry = p4::TableEntry { table_id: TABLE, is_default_action: true, action, ..Default::default() };
            update(Type::Modify, Entity::TableEntry(entry))
        }
        Change::Cell(index, value) => {
            let data = Some(p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(vec![value])) });
            let index = Some(p4::Index { index: index as i64 });
            update(Type::Modify, Entity::RegisterEntry(p4::RegisterEntry { register_id: REGISTER, index, data }))
        }
        Change::Group(kind, port) => group(kind, port),
        Change::Digest(kind) => {
            let config = Some(p4::digest_entry::Config { max_list_size: 1, ..Default::default() });
            update(kind, Entity::DigestEntry(p4::DigestEntry { digest_id: DIGEST, config }))
        }
    }
}

/// The codes of the updates of a request that has failed.
fn details(status: &Status) -> Vec<Code> {
    let status = narrows_proto::google::rpc::Status::decode(status.details()).expect("google.rpc.Status");
    let code = |any: &prost_types::Any| p4::Error::decode(&any.value[..]).expect("p4.v1.Error").canonical_code.into();
    status.details.iter().map(code).collect()
}

impl Server {
    /// A switch whose ports lead to the control thread, where what is sent can be seen.
    fn start() -> (Self, Running) {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (to_control, from_data_path): (Vec<_>, _) = DEVICES.iter().map(|_| control_channels()).unzip();
        let mut switch = Switch::new(&[1, 2, 3, 4].map(|port| (port, PortKind::Controller)), 1_000);
        let second = switch.add_device(&[3, 4]);
        let running = spawn(switch, vec![], Pace::RealTime(settings), to_control).expect("threads");
        let handle = running.handle.clone();
        let controls = [(FIRST, DEVICES[0]), (second, DEVICES[1])].map(|(device, id)| {
            let mut control = Control::new(id, handle.clone(), 1, None);
            control.device = device;
            Arc::new(control)
        });
        let devices = Devices::new(Arc::clone(&controls[0]), vec![Arc::clone(&controls[1])]);
        (Server { service: P4RuntimeService::new(devices), controls, from_data_path, handle }, running)
    }

    async fn become_primary(&self, stream: &super::arbitration::ToClient) {
        for control in &self.controls {
            let client = control.clients().connect().expect("few streams");
            let (device_id, election_id) = (control.device_id, Some(ELECTION_ID));
            let update = p4::MasterArbitrationUpdate { device_id, election_id, ..Default::default() };
            control.arbitrate(client, stream, &update).await.expect("primary");
        }
    }

    async fn set(&self, device: usize, action: Action, (variant, cookie): (Variant, u64)) -> Code {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICES[device],
            election_id: Some(ELECTION_ID),
            action: action as i32,
            config: (action != Action::Commit).then(|| variant.config(cookie)),
            ..Default::default()
        };
        let set = self.service.set_forwarding_pipeline_config(Request::new(request)).await;
        set.map_or_else(|status| status.code(), |_| Code::Ok)
    }

    async fn write(&self, device: usize, atomicity: Atomicity, changes: &[Change]) -> (Code, Vec<Code>) {
        let request = p4::WriteRequest {
            device_id: DEVICES[device],
            election_id: Some(ELECTION_ID),
            updates: changes.iter().map(|change| message(device, *change)).collect(),
            atomicity: atomicity as i32,
            ..Default::default()
        };
        match self.service.write(Request::new(request)).await {
            Ok(_) => (Code::Ok, vec![]),
            Err(status) if status.code() == Code::Unknown => (Code::Unknown, details(&status)),
            Err(status) => (status.code(), vec![]),
        }
    }

    /// What a device says that it has; without a program the code of the refusal. What only packets show is the model's.
    async fn state(&self, device: usize, expected: Option<&Model>) -> Result<Model, Code> {
        let entities = [
            Entity::TableEntry(p4::TableEntry { counter_data: Some(p4::CounterData::default()), ..Default::default() }),
            Entity::RegisterEntry(p4::RegisterEntry::default()),
            Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry::default()),
            Entity::DigestEntry(p4::DigestEntry::default()),
        ];
        let entities = entities.map(entity).into();
        let request = p4::ReadRequest { device_id: DEVICES[device], entities, ..Default::default() };
        let answers = self.service.read(Request::new(request)).await.map_err(|status| status.code())?.into_inner();
        let answers = answers.collect::<Result<Vec<_>, _>>().await.map_err(|status| status.code())?;
        let request = p4::GetForwardingPipelineConfigRequest { device_id: DEVICES[device], response_type: 1 };
        let config = self.service.get_forwarding_pipeline_config(Request::new(request)).await;
        let config = config.map_err(|status| status.code())?.into_inner().config.expect("a configuration");
        let (variant, default) =
            expected.map_or((Variant::Whole, None), |expected| (expected.variant, expected.default));
        let mut found = Model::new(variant, config.cookie.expect("a cookie").cookie);
        found.default = default;
        for entity in answers.into_iter().flat_map(|answer| answer.entities) {
            match entity.entity.expect("an entity") {
                Entity::TableEntry(entry) => {
                    let [p4::FieldMatch { field_match_type: Some(key), .. }] = &entry.r#match[..] else {
                        panic!("{entry:?}")
                    };
                    let p4::field_match::FieldMatchType::Exact(exact) = key else { panic!("{key:?}") };
                    let action = entry.action.and_then(|action| action.r#type).expect("an action");
                    let p4::table_action::Type::Action(action) = action else { panic!("{action:?}") };
                    let [port, tag] = [0, 1].map(|at| action.params[at].value[0]);
                    let port = PORTS[device].iter().position(|known| *known == port).expect("a port that was written");
                    let counted = entry.counter_data.expect("counters");
                    assert_eq!(counted.byte_count, counted.packet_count * frame(0, 0, 0, 0, 0).len() as i64);
                    assert_eq!(entry.metadata, exact.value, "what came with it");
                    let of_key = (Call { port, tag }, counted.packet_count);
                    assert_eq!(found.entries.insert(exact.value[0], of_key), None, "an entry is there twice");
                }
                Entity::RegisterEntry(cell) => {
                    let Some(p4::p4_data::Data::Bitstring(value)) = cell.data.and_then(|data| data.data) else {
                        panic!("no value")
                    };
                    let index = cell.index.expect("an index").index as usize;
                    assert!(index < variant.cells());
                    found.cells[index] = *value.last().expect("one byte or more");
                }
                Entity::PacketReplicationEngineEntry(replication) => {
                    use p4::packet_replication_engine_entry::Type::MulticastGroupEntry;
                    let Some(MulticastGroupEntry(group)) = replication.r#type else { panic!("{replication:?}") };
                    assert_eq!(group.multicast_group_id, GROUP);
                    let Some(p4::replica::PortKind::Port(port)) = &group.replicas[0].port_kind else {
                        panic!("{group:?}")
                    };
                    found.group = Some(port[0]);
                }
                Entity::DigestEntry(digest) => {
                    assert_eq!(digest.digest_id, DIGEST);
                    found.learns = true;
                }
                other => panic!("{other:?}"),
            }
        }
        Ok(found)
    }

    /// Sends a packet into a device. Returns the frames that have left for it, and the values of its digests.
    async fn packet(&mut self, device: usize, bytes: Vec<u8>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (number, port) = (bytes[0], PORTS[device][0].into());
        let send = move |data_path: &mut DataPath| data_path.packet_out(port, &bytes, 0);
        self.handle.call(send).await.expect("the data path runs");
        let mut sent = vec![];
        let mut learned = vec![];
        for (control, from) in self.controls.iter().zip(&mut self.from_data_path) {
            while let Ok(packet) = from.packet_ins.try_recv() {
                sent.extend(Some(packet.frame).filter(|frame| frame[0] == number));
            }
            let (now, mut digests) = (Instant::now(), control.digests());
            while let Ok(record) = from.digests.try_recv() {
                digests.add(record, now);
            }
            for list in digests.due(now) {
                let Some(Message::Digest(list)) = list.update else { panic!("no digest") };
                let [p4::P4Data { data: Some(p4::p4_data::Data::Struct(values)) }] = &list.data[..] else {
                    panic!("{list:?}")
                };
                let values: Vec<u8> = (values.members.iter())
                    .map(|value| match &value.data {
                        Some(p4::p4_data::Data::Bitstring(bits)) => *bits.last().expect("one byte or more"),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                learned.extend(Some(values).filter(|values| values[0] == number));
            }
        }
        (sent, learned)
    }
}

/// Packets of a key that no entry has, in both devices, until the data path has ended; fewer than there is room for on their way.
async fn background(handle: Handle) {
    let send = |data_path: &mut DataPath| {
        for [port, ..] in [PORTS, PORTS, PORTS, PORTS].concat() {
            data_path.packet_out(port.into(), &frame(BACKGROUND, 0xff00, 0, 0, 9), 0);
        }
    };
    while handle.call(send).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn check(steps: Vec<(usize, Step)>) {
    let (mut server, running) = Server::start();
    let (stream, _messages) = tokio::sync::mpsc::channel(64);
    server.become_primary(&stream).await;
    let noise = tokio::spawn(background(server.handle.clone()));
    let mut expected = [Expected::default(), Expected::default()];
    for (number, (device, step)) in steps.into_iter().enumerate() {
        let what = format!("step {number}, device {device}: {step:?}");
        match step {
            Step::Set(action, variant) => {
                let cookie = number as u64;
                let code = expected[device].set(action, variant, cookie);
                assert_eq!(server.set(device, action, (variant, cookie)).await, code, "{what}");
            }
            Step::Write(atomicity, changes) => {
                let codes = expected[device].write(atomicity, &changes);
                assert_eq!(server.write(device, atomicity, &changes).await, codes, "{what}");
            }
            Step::Packet(key) => {
                let a = (number % usize::from(BACKGROUND)) as u8;
                let active = expected[device].active.as_mut();
                let learns = active.as_ref().is_some_and(|active| active.learns);
                let has_program = active.is_some();
                let call = active.and_then(|active| active.packet(key));
                let e = call.map_or(5, |call| call.tag);
                // Without an entry the program sends it to port 1, which the first device has.
                let port = call.map_or(1, |call| PORTS[device][call.port]);
                let leaves = has_program && PORTS[device][..2].contains(&port);
                let (sent, learned) = server.packet(device, frame(a, key.into(), 0, 0, 5)).await;
                let frames = if leaves { vec![frame(a, key.into(), 0, 0, e.into())] } else { vec![] };
                assert_eq!(sent, frames, "{what}");
                assert_eq!(learned, if learns { vec![vec![a, e, 0]] } else { vec![] }, "{what}");
            }
        }
        for (device, expected) in expected.iter_mut().enumerate() {
            let current = expected.current();
            match (server.state(device, current.as_deref()).await, current) {
                (Ok(found), Some(current)) => assert_eq!(&found, current, "{what}"),
                (Err(code), None) => assert_eq!(code, Code::FailedPrecondition, "{what}"),
                (found, current) => panic!("{what}: {found:?}, not {current:?}"),
            }
        }
    }
    running.handle.stop();
    running.thread.join().expect("no panic");
    noise.await.expect("no panic");
}

fn kind() -> impl Strategy<Value = Type> {
    prop_oneof![3 => Just(Type::Insert), 2 => Just(Type::Modify), 1 => Just(Type::Delete)]
}

fn call_of() -> impl Strategy<Value = Call> {
    (0..3usize, 1..=255u8).prop_map(|(port, tag)| Call { port, tag })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (kind(), 1..5u8, call_of()).prop_map(|(kind, key, call)| Change::Entry(kind, key, call)),
        1 => proptest::option::of(call_of()).prop_map(Change::Default),
        2 => (0..CELLS, 0..3u8).prop_map(|(index, value)| Change::Cell(index, value)),
        1 => (kind(), 1..3u8).prop_map(|(kind, port)| Change::Group(kind, port)),
        2 => kind().prop_map(Change::Digest),
    ]
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let variant = prop_oneof![4 => Just(Variant::Whole), 1 => Just(Variant::Shorter), 1 => Just(Variant::Silent)];
    let action = prop_oneof![
        1 => Just(Action::Verify),
        4 => Just(Action::VerifyAndSave),
        2 => Just(Action::VerifyAndCommit),
        4 => Just(Action::Commit),
        4 => Just(Action::ReconcileAndCommit),
    ];
    let atomicity = prop_oneof![
        Just(Atomicity::ContinueOnError),
        Just(Atomicity::RollbackOnError),
        Just(Atomicity::DataplaneAtomic)
    ];
    let step = prop_oneof![
        2 => (action, variant).prop_map(|(action, variant)| Step::Set(action, variant)),
        4 => (atomicity, vec(change(), 1..6)).prop_map(|(atomicity, mut changes)| {
            // Digests are not state that can be taken back: they are refused there, by name.
            changes.retain(|change| atomicity == Atomicity::ContinueOnError || !matches!(change, Change::Digest(_)));
            Step::Write(atomicity, changes)
        }),
        4 => (1..6u8).prop_map(Step::Packet),
    ];
    (0..2usize, step)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_requests_do_what_the_specification_says(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("runtime").block_on(check(steps));
    }
}
