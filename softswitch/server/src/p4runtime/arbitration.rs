//! Who may write: connected clients, their roles and election ids.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use narrows_proto::google::rpc;
use narrows_proto::p4::v1::{
    stream_message_response::Update, MasterArbitrationUpdate, Role, StreamMessageResponse, Uint128,
};
use tokio::sync::mpsc::Sender;
use tonic::{Code, Status};

/// Empty role configurations: finsy always sends one. Anything else is refused, not ignored.
const EMPTY_ROLE: [&str; 2] = ["", "type.googleapis.com/google.protobuf.Empty"];

/// Bytes of a role's name; roles that have had a primary; streams that are open at once. What a client can make the switch
/// remember is bounded by them.
const MAX_ROLE_NAME: usize = 256;
const MAX_ROLES: usize = 64;
const MAX_STREAMS: usize = 256;

/// The role of a client that prepares the switch for a controller of another role: what the program has to say is not for it.
const SILENT_ROLE: &str = "narrows";

/// Messages to one client's stream.
pub type ToClient = Sender<Result<StreamMessageResponse, Status>>;

struct Client {
    role: Role,
    /// `None`: never primary.
    election_id: Option<u128>,
    stream: ToClient,
}

/// All clients of a device with an open stream that have sent an arbitration message.
#[derive(Default)]
pub struct Clients {
    device_id: u64,
    next: u64,
    streams: usize,
    clients: BTreeMap<u64, Client>,
    /// Highest election id seen for each role, also of clients that left: a role's primary is the client that holds it.
    highest: BTreeMap<String, u128>,
}

fn number(id: &Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn message(id: u128) -> Uint128 {
    Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

impl Clients {
    /// No clients yet.
    pub fn new(device_id: u64) -> Self {
        Clients { device_id, ..Clients::default() }
    }

    /// A number for a new stream. Errors: RESOURCE_EXHAUSTED.
    pub fn connect(&mut self) -> Result<u64, Status> {
        if self.streams >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!("{MAX_STREAMS} streams are open: no more are served")));
        }
        self.streams += 1;
        self.next += 1;
        Ok(self.next)
    }

    /// An arbitration message of a stream. On error the stream is to be closed with it.
    pub fn arbitrate(
        &mut self,
        client: u64,
        stream: &ToClient,
        update: &MasterArbitrationUpdate,
    ) -> Result<(), Status> {
        let previous = self.clients.get(&client);
        if update.device_id != self.device_id {
            return Err(Status::failed_precondition("the device of a stream cannot change"));
        }
        let role = update.role.clone().unwrap_or_default();
        let says =
            |config: &prost_types::Any| !EMPTY_ROLE.contains(&config.type_url.as_str()) || !config.value.is_empty();
        if role.config.as_ref().is_some_and(says) {
            return Err(Status::invalid_argument(
                "role.config: allowed is google.protobuf.Empty or none: every role has full access",
            ));
        }
        if role.name.len() > MAX_ROLE_NAME {
            let length = role.name.len();
            let message = format!("role.name has {length} bytes: allowed are at most {MAX_ROLE_NAME}");
            return Err(Status::invalid_argument(message));
        }
        if previous.is_some_and(|previous| previous.role.name != role.name) {
            return Err(Status::failed_precondition("the role of a stream cannot change"));
        }
        let election_id = update.election_id.as_ref().map(number).filter(|id| *id > 0);
        let taken = self.clients.iter().any(|(other, state)| {
            *other != client
                && state.role.name == role.name
                && election_id.is_some()
                && state.election_id == election_id
        });
        if taken {
            // Clients match the first words.
            return Err(Status::invalid_argument("election id exists: another client of this role has it"));
        }
        let name = role.name.clone();
        if election_id.is_some() && !self.highest.contains_key(&name) && self.highest.len() >= MAX_ROLES {
            return Err(Status::resource_exhausted(format!("{MAX_ROLES} roles have had a primary: no more are kept")));
        }
        let before = self.primary(&name);
        if let Some(id) = election_id {
            let highest = self.highest.entry(name.clone()).or_default();
            *highest = (*highest).max(id);
        }
        self.clients.insert(client, Client { role, election_id, stream: stream.clone() });
        if self.primary(&name) == before && before != Some(client) {
            self.notify(&name, |other| other == client);
        } else {
            self.notify(&name, |_| true);
        }
        Ok(())
    }

    /// A stream has ended.
    pub fn disconnect(&mut self, client: u64) {
        self.streams = self.streams.saturating_sub(1);
        let Some(name) = self.clients.get(&client).map(|state| state.role.name.clone()) else {
            return;
        };
        let was_primary = self.primary(&name) == Some(client);
        self.clients.remove(&client);
        if was_primary {
            self.notify(&name, |_| true);
        }
    }

    fn primary(&self, role: &str) -> Option<u64> {
        let highest = *self.highest.get(role)?;
        let mut clients = self.clients.iter();
        clients.find(|(_, state)| state.role.name == role && state.election_id == Some(highest)).map(|(id, _)| *id)
    }

    fn notify(&self, role: &str, whom: impl Fn(u64) -> bool) {
        let primary = self.primary(role);
        let highest = self.highest.get(role).copied();
        for (client, state) in self.clients.iter().filter(|(client, state)| state.role.name == role && whom(**client)) {
            let (code, text) = match primary {
                Some(primary) if primary == *client => (Code::Ok, "this client is the primary"),
                Some(_) => (Code::AlreadyExists, "another client is the primary"),
                None => (Code::NotFound, "there is no primary"),
            };
            let update = MasterArbitrationUpdate {
                device_id: self.device_id,
                role: (!state.role.name.is_empty()).then(|| state.role.clone()),
                election_id: highest.map(message),
                status: Some(rpc::Status { code: code as i32, message: text.into(), details: vec![] }),
            };
            // A client that does not read its stream misses updates; it must not hold up the others.
            let _ = state.stream.try_send(Ok(StreamMessageResponse { update: Some(Update::Arbitration(update)) }));
        }
    }

    /// Checks that a request comes from the primary of its role.
    pub fn check_primary(&self, role: &str, election_id: Option<&Uint128>) -> Result<(), Status> {
        let id = election_id.map(number).filter(|id| *id > 0);
        let primary = self.primary(role).and_then(|client| self.clients.get(&client));
        match primary {
            Some(primary) if primary.election_id == id => Ok(()),
            _ => Err(Status::permission_denied("only the primary client of the role may do this")),
        }
    }

    /// Whether this stream's client has said which device and which role it is about.
    pub fn knows(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// True if this stream's client is a primary.
    pub fn is_primary(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|state| self.primary(&state.role.name) == Some(client))
    }

    /// Sends a message to the primary of every role that takes any; returns how many got it and how many missed it.
    pub fn to_primaries(&self, response: &StreamMessageResponse) -> (usize, usize) {
        let primaries =
            (self.clients.iter()).filter(|(client, state)| state.role.name != SILENT_ROLE && self.is_primary(**client));
        primaries.fold((0, 0), |(reached, missed), (_, state)| match state.stream.try_send(Ok(response.clone())) {
            Ok(()) => (reached + 1, missed),
            Err(_) => (reached, missed + 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{channel, Receiver};

    type FromSwitch = Receiver<Result<StreamMessageResponse, Status>>;

    fn client(clients: &mut Clients) -> (u64, ToClient, FromSwitch) {
        let (sender, receiver) = channel(16);
        (clients.connect().expect("few streams"), sender, receiver)
    }

    fn ask(election_id: u64) -> MasterArbitrationUpdate {
        let election_id = Some(Uint128 { high: 0, low: election_id });
        MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() }
    }

    fn answers(receiver: &mut FromSwitch) -> Vec<(i32, u64)> {
        let mut all = vec![];
        while let Ok(Ok(StreamMessageResponse { update: Some(Update::Arbitration(update)) })) = receiver.try_recv() {
            all.push((update.status.expect("status").code, update.election_id.expect("id").low));
        }
        all
    }

    const OK: i32 = Code::Ok as i32;
    const BACKUP: i32 = Code::AlreadyExists as i32;
    const NONE: i32 = Code::NotFound as i32;

    #[test]
    fn highest_election_id_is_primary() {
        let mut clients = Clients::new(1);
        let (a, to_a, mut from_a) = client(&mut clients);
        let (b, to_b, mut from_b) = client(&mut clients);
        clients.arbitrate(a, &to_a, &ask(5)).expect("first");
        assert_eq!(answers(&mut from_a), vec![(OK, 5)]);
        clients.arbitrate(b, &to_b, &ask(3)).expect("lower");
        assert_eq!((answers(&mut from_a), answers(&mut from_b)), (vec![], vec![(BACKUP, 5)]));
        clients.arbitrate(b, &to_b, &ask(6)).expect("higher");
        assert_eq!((answers(&mut from_a), answers(&mut from_b)), (vec![(BACKUP, 6)], vec![(OK, 6)]));
        assert!(clients.check_primary("", Some(&Uint128 { high: 0, low: 6 })).is_ok());
        let denied = clients.check_primary("", Some(&Uint128 { high: 0, low: 5 })).expect_err("backup");
        assert_eq!(denied.code(), Code::PermissionDenied);
        clients.disconnect(b);
        assert_eq!(answers(&mut from_a), vec![(NONE, 6)]);
        assert!(clients.check_primary("", Some(&Uint128 { high: 0, low: 6 })).is_err());
    }

    #[test]
    fn refusals() {
        let mut clients = Clients::new(1);
        let (a, to_a, _from_a) = client(&mut clients);
        let (b, to_b, _from_b) = client(&mut clients);
        clients.arbitrate(a, &to_a, &ask(5)).expect("first");
        let same = clients.arbitrate(b, &to_b, &ask(5)).expect_err("same id");
        assert_eq!(same.code(), Code::InvalidArgument);
        let other_device = MasterArbitrationUpdate { device_id: 9, ..ask(8) };
        assert_eq!(clients.check_primary("", None).expect_err("no id").code(), Code::PermissionDenied);
        let moved = clients.arbitrate(a, &to_a, &other_device).expect_err("device of a live stream");
        assert_eq!(moved.code(), Code::FailedPrecondition);
        let config = |type_url: &str| Some(prost_types::Any { type_url: type_url.into(), value: vec![] });
        let role = |config| Some(Role { name: "x".into(), config, ..Default::default() });
        let restricted = MasterArbitrationUpdate { role: role(config("example/Role")), ..ask(8) };
        assert_eq!(clients.arbitrate(b, &to_b, &restricted).expect_err("config").code(), Code::InvalidArgument);
        let mut full = config(EMPTY_ROLE[1]);
        full.iter_mut().for_each(|config| config.value = vec![0; 9]);
        let full = MasterArbitrationUpdate { role: role(full), ..ask(8) };
        assert_eq!(clients.arbitrate(b, &to_b, &full).expect_err("value").code(), Code::InvalidArgument);
        let empty = MasterArbitrationUpdate { role: role(config(EMPTY_ROLE[1])), ..ask(8) };
        assert!(clients.arbitrate(b, &to_b, &empty).is_ok());
    }

    #[test]
    fn what_clients_make_it_remember_is_bounded() {
        let mut clients = Clients::new(1);
        let named = |name: String| {
            let role = Some(Role { name, ..Default::default() });
            MasterArbitrationUpdate { role, ..ask(5) }
        };
        let (a, to_a, _from_a) = client(&mut clients);
        let long = clients.arbitrate(a, &to_a, &named("r".repeat(MAX_ROLE_NAME + 1))).expect_err("long name");
        assert_eq!(long.code(), Code::InvalidArgument);
        clients.disconnect(a);
        for number in 0..MAX_ROLES {
            let (one, to_one, _from_one) = client(&mut clients);
            clients.arbitrate(one, &to_one, &named(format!("role {number}"))).expect("within bounds");
            clients.disconnect(one);
        }
        let (b, to_b, _from_b) = client(&mut clients);
        let one_more = clients.arbitrate(b, &to_b, &named("one more".into())).expect_err("too many roles");
        assert_eq!(one_more.code(), Code::ResourceExhausted);
        clients.arbitrate(b, &to_b, &named("role 7".into())).expect("a role that is known");
    }

    #[test]
    fn open_streams_are_bounded() {
        let mut clients = Clients::new(1);
        let open: Vec<u64> = (0..MAX_STREAMS).map(|_| clients.connect().expect("within bounds")).collect();
        assert_eq!(clients.connect().expect_err("too many").code(), Code::ResourceExhausted);
        clients.disconnect(open[0]);
        assert!(clients.connect().is_ok());
    }

    #[test]
    fn a_primary_that_does_not_read_is_counted() {
        let mut clients = Clients::new(1);
        let none = clients.to_primaries(&StreamMessageResponse::default());
        assert_eq!(none, (0, 0));
        let (sender, _receiver) = channel(2);
        let a = clients.connect().expect("few streams");
        clients.arbitrate(a, &sender, &ask(5)).expect("first");
        let counts: Vec<_> = (0..3).map(|_| clients.to_primaries(&StreamMessageResponse::default())).collect();
        assert_eq!(counts, vec![(1, 0), (0, 1), (0, 1)]);
    }

    #[test]
    fn who_only_prepares_the_switch_has_no_messages_of_the_program() {
        let mut clients = Clients::new(1);
        let (a, to_a, mut from_a) = client(&mut clients);
        let (b, to_b, mut from_b) = client(&mut clients);
        let role = Some(Role { name: SILENT_ROLE.into(), ..Default::default() });
        clients.arbitrate(a, &to_a, &MasterArbitrationUpdate { role, ..ask(1) }).expect("its own role");
        assert_eq!(clients.to_primaries(&StreamMessageResponse::default()), (0, 0));
        clients.arbitrate(b, &to_b, &ask(1)).expect("default role");
        assert_eq!((answers(&mut from_a), answers(&mut from_b)), (vec![(OK, 1)], vec![(OK, 1)]));
        assert_eq!(clients.to_primaries(&StreamMessageResponse::default()), (1, 0));
        assert!(from_a.try_recv().is_err() && from_b.try_recv().is_ok());
    }

    #[test]
    fn without_any_primary_no_election_id_is_given() {
        let mut clients = Clients::new(1);
        let (a, to_a, mut from_a) = client(&mut clients);
        clients.arbitrate(a, &to_a, &MasterArbitrationUpdate { election_id: None, ..ask(0) }).expect("backup");
        let Ok(Ok(StreamMessageResponse { update: Some(Update::Arbitration(update)) })) = from_a.try_recv() else {
            panic!("no answer")
        };
        assert_eq!((update.election_id, update.status.map(|status| status.code)), (None, Some(NONE)));
    }

    #[test]
    fn roles_have_primaries_of_their_own() {
        let mut clients = Clients::new(1);
        let (a, to_a, mut from_a) = client(&mut clients);
        let (b, to_b, mut from_b) = client(&mut clients);
        clients.arbitrate(a, &to_a, &ask(5)).expect("default role");
        let role = Some(Role { name: "monitor".into(), ..Default::default() });
        clients.arbitrate(b, &to_b, &MasterArbitrationUpdate { role, ..ask(1) }).expect("other role");
        assert_eq!((answers(&mut from_a), answers(&mut from_b)), (vec![(OK, 5)], vec![(OK, 1)]));
        assert!(clients.check_primary("monitor", Some(&Uint128 { high: 0, low: 1 })).is_ok());
    }
}
