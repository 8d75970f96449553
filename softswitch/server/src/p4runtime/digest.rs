//! Digests: gathers records into lists, sends them to the primaries, holds back what was sent and not yet acknowledged.
// SPDX-License-Identifier: Apache-2.0
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_pipeline::DigestRecord;
use narrows_proto::p4::v1::{
    digest_entry::Config, p4_data::Data, stream_message_response::Update, update::Type, DigestList, P4Data,
    P4StructLike, StreamMessageResponse,
};

use super::error::UpdateError;
use super::schema::{Digest, DigestShape};
use super::value::encode;

/// Records a list holds at most, and when its configuration does not say.
const MAX_LIST: usize = 1_024;
/// Records that wait or are unacknowledged, of each digest; more are dropped and counted.
pub const MAX_HELD: usize = 65_536;

struct InFlight {
    expires: Instant,
    records: Vec<Vec<u128>>,
}

struct Stream {
    id: u32,
    shape: DigestShape,
    config: Config,
    waiting: Vec<Vec<u128>>,
    oldest: Option<Instant>,
    in_flight: BTreeMap<u64, InFlight>,
    /// What waits, and what was sent and is neither acknowledged nor expired: it is not sent again.
    known: HashSet<Vec<u128>>,
}

/// The digests that a controller has configured.
#[derive(Default)]
pub struct Digests {
    /// Whose records these are: [`DigestRecord::program`].
    program: u64,
    /// By the number that the program's records carry.
    streams: BTreeMap<u32, Stream>,
    next_list: u64,
    dropped: u64,
}

fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

impl Digests {
    /// Carries out an update of a digest's configuration. Errors: ALREADY_EXISTS; NOT_FOUND.
    pub fn update(&mut self, kind: Type, id: u32, digest: &Digest, config: Option<Config>) -> Result<(), UpdateError> {
        match (kind, self.config(id).is_some()) {
            (Type::Insert, true) => {
                Err(UpdateError::new(tonic::Code::AlreadyExists, format!("digest entry {id} exists")))
            }
            (Type::Modify | Type::Delete, false) => {
                Err(UpdateError::not_found(format!("there is no digest entry {id}")))
            }
            _ => {
                self.configure(id, digest, config);
                Ok(())
            }
        }
    }

    /// Configures a digest, or stops it.
    pub fn configure(&mut self, id: u32, digest: &Digest, config: Option<Config>) {
        match config {
            None => {
                self.streams.remove(&digest.list);
            }
            Some(config) => {
                let stream = self.streams.entry(digest.list).or_insert_with(|| Stream {
                    id,
                    shape: digest.shape,
                    config,
                    waiting: vec![],
                    oldest: None,
                    in_flight: BTreeMap::new(),
                    known: HashSet::new(),
                });
                stream.config = config;
            }
        }
    }

    /// Configuration of a digest, if it has one.
    pub fn config(&self, id: u32) -> Option<Config> {
        self.streams.values().find(|stream| stream.id == id).map(|stream| stream.config)
    }

    /// Digests of a program, none of which is configured.
    pub fn of(program: u64) -> Self {
        Digests { program, ..Digests::default() }
    }

    /// Goes on with the digests of another program, as they were configured for it. Lists are numbered on.
    pub fn replace(&mut self, next: Digests) {
        (self.program, self.streams) = (next.program, next.streams);
    }

    /// Records that were dropped because too many wait or are unacknowledged, or that no or not every primary got.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A record of a program. Ignored if that is another one, while no client has configured its digest, or while the same data waits or is
    /// unacknowledged.
    pub fn add(&mut self, record: DigestRecord, now: Instant) {
        let Some(stream) = self.streams.get_mut(&record.list).filter(|_| record.program == self.program) else {
            return;
        };
        if stream.known.contains(&record.values) {
            return;
        }
        if stream.known.len() >= MAX_HELD {
            self.dropped += 1;
            return;
        }
        stream.known.insert(record.values.clone());
        stream.waiting.push(record.values);
        stream.oldest.get_or_insert(now);
    }

    /// A controller has processed a list.
    pub fn acknowledge(&mut self, id: u32, list_id: u64) {
        if let Some(stream) = self.streams.values_mut().find(|stream| stream.id == id) {
            stream.release(list_id);
        }
    }

    /// A list did not get to a primary: its records are counted as dropped. If it got to none, they may be sent again.
    pub fn undelivered(&mut self, list: &StreamMessageResponse, to_none: bool) {
        let Some(Update::Digest(list)) = &list.update else {
            return;
        };
        self.dropped += list.data.len() as u64;
        if to_none {
            self.acknowledge(list.digest_id, list.list_id);
        }
    }

    /// Lists that are due.
    pub fn due(&mut self, now: Instant) -> Vec<StreamMessageResponse> {
        let mut lists = vec![];
        for stream in self.streams.values_mut() {
            let expired = stream.in_flight.iter().filter(|(_, list)| list.expires <= now).map(|(id, _)| *id);
            for list_id in expired.collect::<Vec<_>>() {
                stream.release(list_id);
            }
            let limit = usize::try_from(stream.config.max_list_size).ok().filter(|size| *size > 0);
            let limit = limit.unwrap_or(MAX_LIST).min(MAX_LIST);
            let aged = stream.oldest.is_some_and(|oldest| now >= oldest + duration(stream.config.max_timeout_ns));
            while stream.waiting.len() >= limit || (aged && !stream.waiting.is_empty()) {
                self.next_list += 1;
                let rest = stream.waiting.split_off(stream.waiting.len().min(limit));
                let records = std::mem::replace(&mut stream.waiting, rest);
                lists.push(stream.list(self.next_list, records, now));
            }
            if stream.waiting.is_empty() {
                stream.oldest = None;
            }
        }
        lists
    }

    /// How long until a list becomes due or an acknowledgement expires.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let due =
            self.streams.values().filter_map(|stream| Some(stream.oldest? + duration(stream.config.max_timeout_ns)));
        let expiry = self.streams.values().flat_map(|stream| stream.in_flight.values().map(|list| list.expires));
        due.chain(expiry).min().map(|instant| instant.saturating_duration_since(now))
    }
}

impl Stream {
    fn release(&mut self, list_id: u64) {
        for record in self.in_flight.remove(&list_id).into_iter().flat_map(|list| list.records) {
            self.known.remove(&record);
        }
    }

    fn list(&mut self, list_id: u64, records: Vec<Vec<u128>>, now: Instant) -> StreamMessageResponse {
        let bits = |value: &u128| P4Data { data: Some(Data::Bitstring(encode(*value))) };
        let data = records.iter().map(|values| {
            let members = P4StructLike { members: values.iter().map(bits).collect() };
            match self.shape {
                DigestShape::Bits => values.first().map(bits).unwrap_or_default(),
                DigestShape::Tuple => P4Data { data: Some(Data::Tuple(members)) },
                DigestShape::Struct => P4Data { data: Some(Data::Struct(members)) },
            }
        });
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        let list = DigestList { digest_id: self.id, list_id, data: data.collect(), timestamp };
        if self.config.ack_timeout_ns > 0 {
            let expires = now + duration(self.config.ack_timeout_ns);
            self.in_flight.insert(list_id, InFlight { expires, records });
        } else {
            for record in &records {
                self.known.remove(record);
            }
        }
        StreamMessageResponse { update: Some(Update::Digest(list)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> Digests {
        let mut digests = Digests::default();
        let config = Config { max_timeout_ns, max_list_size, ack_timeout_ns };
        digests.configure(77, &Digest { list: 1, shape: DigestShape::Struct }, Some(config));
        digests
    }

    fn record(value: u128) -> DigestRecord {
        DigestRecord { program: 0, list: 1, values: vec![value, 0] }
    }

    fn sizes(lists: &[StreamMessageResponse]) -> Vec<usize> {
        let size = |list: &StreamMessageResponse| match &list.update {
            Some(Update::Digest(list)) => list.data.len(),
            _ => panic!("not a digest"),
        };
        lists.iter().map(size).collect()
    }

    #[test]
    fn lists_by_size_and_by_age() {
        let start = Instant::now();
        let mut digests = digests(1_000, 2, 0);
        (0..5).for_each(|value| digests.add(record(value), start));
        assert_eq!(sizes(&digests.due(start)), vec![2, 2]);
        assert!(digests.due(start + Duration::from_nanos(999)).is_empty());
        assert_eq!(sizes(&digests.due(start + Duration::from_nanos(1_000))), vec![1]);
        assert_eq!(digests.wait(start), None);
    }

    #[test]
    fn same_data_is_held_back_until_acknowledged_or_expired() {
        let start = Instant::now();
        let mut digests = digests(0, 1, 500);
        digests.add(record(9), start);
        digests.add(record(9), start);
        assert_eq!(sizes(&digests.due(start)), vec![1]);
        digests.add(record(9), start);
        assert!(digests.due(start).is_empty());
        digests.acknowledge(77, 1);
        digests.add(record(9), start);
        assert_eq!(sizes(&digests.due(start)), vec![1]);
        let later = start + Duration::from_nanos(500);
        assert!(digests.due(later).is_empty());
        digests.add(record(9), later);
        assert_eq!(sizes(&digests.due(later)), vec![1]);
    }

    #[test]
    fn lists_hold_nothing_twice_also_without_acknowledgement() {
        let start = Instant::now();
        let mut digests = digests(1_000, 9, 0);
        [7, 7, 8, 7].into_iter().for_each(|value| digests.add(record(value), start));
        let later = start + Duration::from_nanos(1_000);
        assert_eq!(sizes(&digests.due(later)), vec![2]);
        digests.add(record(7), later);
        assert_eq!(sizes(&digests.due(later + Duration::from_nanos(1_000))), vec![1]);
    }

    #[test]
    fn memory_is_bounded_and_drops_are_counted() {
        let start = Instant::now();
        // A list larger than a message may be, never acknowledged.
        let mut digests = digests(i64::MAX, i32::MAX, i64::MAX);
        (0..MAX_HELD as u128 + 5).for_each(|value| digests.add(record(value), start));
        assert_eq!(digests.dropped(), 5);
        assert_eq!(sizes(&digests.due(start)), vec![MAX_LIST; MAX_HELD / MAX_LIST]);
        digests.add(record(u128::MAX), start);
        assert_eq!(digests.dropped(), 6);
        digests.acknowledge(77, 1);
        digests.add(record(u128::MAX), start);
        assert_eq!(digests.dropped(), 6);
    }

    #[test]
    fn what_no_client_got_is_counted_and_may_be_sent_again() {
        let start = Instant::now();
        let mut digests = digests(0, 2, i64::MAX);
        digests.add(record(1), start);
        digests.add(record(2), start);
        let lists = digests.due(start);
        assert_eq!(sizes(&lists), vec![2]);
        digests.undelivered(&lists[0], false);
        digests.add(record(1), start);
        assert_eq!((digests.dropped(), digests.due(start).len()), (2, 0));
        digests.undelivered(&lists[0], true);
        digests.add(record(1), start);
        assert_eq!((digests.dropped(), sizes(&digests.due(start))), (4, vec![1]));
    }

    #[test]
    fn nothing_without_configuration() {
        let mut digests = digests(0, 1, 0);
        digests.configure(77, &Digest { list: 1, shape: DigestShape::Struct }, None);
        digests.add(record(1), Instant::now());
        assert!(digests.due(Instant::now()).is_empty());
        assert_eq!(digests.config(77), None);
    }
}
