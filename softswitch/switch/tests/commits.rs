// SPDX-License-Identifier: Apache-2.0
//! A thousand programs one after the other under a million packets a second of the switch's time: each packet is of one program,
//! and so are tables, cells, counters and digests.

#[path = "../../pipeline/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{call, entries, field, frame, hex, insert, program, table_named, with_table};
use narrows_pipeline::{CounterId, CounterValue, KeyMatch, Packet, PacketPool, Pipeline, Program, RegisterId};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::tm::{Changes, Rate};
use narrows_switch::unit::ProgramUnit;
use serde_json::{json, Value};

/// One packet comes each microsecond, and 500 before and after a program is saved.
const EVERY_NS: u64 = 1_000;
const HALF: u64 = 500;
/// 33 bytes take 1.32 us of the link: it always has a queue, which is full when the program is replaced.
const RATE: Rate = Rate::Bps(200_000_000);
const WAITING: u64 = 64;
const KEY: u16 = 5;
const WRITTEN_BY_PACKETS: u64 = 0;
const WRITTEN_BY_CONTROLLER: u64 = 1;

/// The tags of what has left, in order, and frames that no program can have made.
#[derive(Default)]
struct Seen {
    tags: Vec<u128>,
    wrong: usize,
}

impl Output for Seen {
    fn send(&mut self, port: u16, _: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        let bytes = packet.bytes();
        let tag =
            u128::from_be_bytes(bytes[bytes.len() - 18..bytes.len() - 2].try_into().expect("a field of 16 bytes"));
        let expected = if is_longer(tag) {
            // The header that the program adds is zero, and so is what it reads of it.
            [&[0; 31][..], &frame(1, KEY, 0, 4, tag)].concat()
        } else {
            frame(1, KEY, 3, 4, tag)
        };
        self.wrong += usize::from(port != 2 || bytes != expected);
        self.tags.push(tag);
        pool.give(packet);
    }
}

/// Whether the program with this tag adds a header.
fn is_longer(tag: u128) -> bool {
    tag % 2 == 1
}

/// Counts each packet, writes down its key, and sends a digest of it; the second one adds a header at departure.
fn programs() -> [Arc<Program>; 2] {
    let (counter, register) =
        (json!({"type": "counter_array", "value": "n"}), json!({"type": "register_array", "value": "r"}));
    let ingress = json!([
        call("count", json!([counter, hex(0)])),
        call("register_write", json!([register, hex(WRITTEN_BY_PACKETS.into()), field("h", "b")])),
        call("generate_digest", json!([hex(1), hex(1)])),
    ]);
    let longer = json!([
        call("add_header", json!([{"type": "header", "value": "g"}])),
        call("assign", json!([field("h", "c"), field("g", "c")])),
    ]);
    [json!([]), longer].map(|egress: Value| {
        let key = json!([{"match_type": "exact", "target": ["h", "b"], "mask": null, "name": "b"}]);
        let root = with_table(program(ingress.clone(), egress), key, "exact");
        Arc::new(Program::load(root.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}")))
    })
}

/// A program as it is saved, with what a controller writes before it is committed.
fn saved(program: &Arc<Program>, tag: u128) -> ProgramUnit {
    let mut pipeline = Pipeline::new(Arc::clone(program), 1);
    insert(&mut pipeline, "t", vec![KeyMatch::Exact(KEY.into())], 0, "set", vec![2, tag]);
    let written = pipeline.register_write(RegisterId(0), WRITTEN_BY_CONTROLLER, &[tag as u64]);
    assert_eq!(written, Ok(()));
    ProgramUnit::new(pipeline)
}

/// That a program has seen so many packets, all of which its entry has matched, and what their digests say.
fn check(unit: &mut ProgramUnit, tag: u128, packets: u64) {
    let pipeline = &mut unit.pipeline;
    let table = table_named(pipeline.program(), "t").id;
    let [(entry, counted)] = &entries(pipeline, table)[..] else { panic!("one entry") };
    let bytes = packets * frame(1, KEY, 3, 4, 5).len() as u64;
    let expected = CounterValue { packets, bytes };
    assert_eq!((&entry.action.params[..], *counted), (&[2, tag][..], expected));
    assert_eq!(pipeline.counter_read(CounterId(0), 0), Ok(expected));
    let cells = [WRITTEN_BY_PACKETS, WRITTEN_BY_CONTROLLER].map(|cell| pipeline.register_read(RegisterId(0), cell));
    let key = if packets > 0 { KEY.into() } else { 0 };
    assert_eq!(cells, [Ok(vec![key]), Ok(vec![tag as u64])]);
    let mut digests = Vec::new();
    pipeline.drain_digests(&mut digests);
    assert_eq!(digests.len() as u64, packets);
    let id = pipeline.program().id;
    assert!(digests.iter().all(|digest| digest.program == id && digest.values == [1, tag, 0]));
}

/// A packet each microsecond.
fn send(switch: &mut Switch, now_ns: &mut u64, seen: &mut Seen) {
    for _ in 0..HALF {
        *now_ns += EVERY_NS;
        let packet = switch.pool().packet(&frame(1, KEY, 3, 4, 0xffff_ffff));
        switch.receive(1, *now_ns, packet, seen);
    }
    switch.advance(*now_ns, seen);
}

#[test]
fn a_thousand_commits_at_a_million_packets_a_second() {
    let programs = programs();
    let mut switch = Switch::new(&[1, 2].map(|port| (port, PortKind::Interface)), 1_000);
    let limit = Changes { rate: Some(RATE), limit_packets: Some(WAITING), ..Changes::default() };
    switch.tm.configure((2, 0), 0, limit).expect("a setting that is allowed");
    let (mut seen, mut now_ns) = (Seen::default(), 0);
    switch.set_unit(FIRST, saved(&programs[0], 0));
    for tag in 0..1_000u128 {
        send(&mut switch, &mut now_ns, &mut seen);
        let next = tag + 1;
        let mut unit = saved(&programs[usize::from(is_longer(next))], next);
        send(&mut switch, &mut now_ns, &mut seen);
        // What is saved sees no packets, and what is replaced has seen all of them.
        check(&mut unit, next, 0);
        check(switch.unit(FIRST).expect("a program"), tag, 2 * HALF);
        switch.set_unit(FIRST, unit);
    }
    switch.advance(now_ns + 1_000_000, &mut seen);
    assert_eq!(seen.wrong, 0);
    assert!(seen.tags.is_sorted());
    let counters = switch.tm.status()[0].counters;
    let ended = seen.tags.len() as u64 + counters.flushed_packets + counters.dropped_packets;
    assert_eq!(ended, 1_000 * 2 * HALF);
    // The queue was full each time, but for the packet that is on the link.
    assert_eq!(counters.flushed_packets, 1_000 * WAITING);
    // Some of each program's packets have left.
    let mut tags = seen.tags.clone();
    tags.dedup();
    assert_eq!(tags, (0..1_000).collect::<Vec<_>>());
    assert_eq!((switch.discards().no_pipeline, switch.digests_lost()), (0, 0));
}
