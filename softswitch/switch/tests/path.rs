// SPDX-License-Identifier: Apache-2.0
//! A packet's way through the switch, and that of its copies, with programs made for it.

#[path = "../../pipeline/tests/common/mod.rs"]
mod common;

use common::{call, field, frame, hex, load, program};
use narrows_pipeline::{Packet, PacketPool};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::tm::{Changes, Management, Rate, Scheduling};
use narrows_switch::unit::{CloneSession, ProgramUnit};
use serde_json::{json, Value};

/// What left, port and bytes, in order.
#[derive(Default)]
struct Sent(Vec<(u16, Vec<u8>)>);

impl Output for Sent {
    fn send(&mut self, port: u16, _: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        self.0.push((port, packet.bytes().to_vec()));
        pool.give(packet);
    }
}

/// A switch with ports 1, 2 and 3.
fn switch(root: &Value, sessions: &[(u16, CloneSession)]) -> Switch {
    let mut switch = Switch::new(&[1, 2, 3].map(|port| (port, PortKind::Interface)), 1_000);
    let mut unit = ProgramUnit::new(load(root));
    for (number, session) in sessions {
        unit.sessions.set(*number, Some(session.clone()));
    }
    switch.set_unit(FIRST, unit);
    switch
}

/// What leaves for one frame after another.
fn sent(switch: &mut Switch, frames: usize) -> Vec<(u16, Vec<u8>)> {
    let mut sent = Sent::default();
    for number in 0..frames as u64 {
        let packet = switch.pool().packet(&frame(1, 2, 3, 4, 5));
        switch.receive(1, 1_000 * number, packet, &mut sent);
    }
    switch.advance(1_000_000_000, &mut sent);
    sent.0
}

/// Each replica of a session has a whole copy of what the clone preserves, no longer than the session says.
#[test]
fn copies_at_ingress_are_alike_and_truncated() {
    let ingress = json!([
        call("assign", json!([field("m", "c"), hex(0x55)])),
        call("clone_ingress_pkt_to_egress", json!([hex(5), hex(1)])),
    ]);
    let egress = json!([call("assign", json!([field("h", "c"), field("m", "c")]))]);
    let session = CloneSession { replicas: vec![(2, 1), (3, 1)], length_limit: 32, ..CloneSession::default() };
    let mut switch = switch(&program(ingress, egress), &[(5, session)]);
    // The headers are 31 bytes, and 2 follow.
    let whole = frame(1, 2, 0x55, 4, 5);
    let expected = vec![(2, whole[..32].to_vec()), (3, whole[..32].to_vec()), (1, whole.clone())];
    assert_eq!(sent(&mut switch, 1), expected);
}

/// Every packet may have the same number of copies, however those of the packet before have ended: here eight generations, and one
/// that is too many. 1,024 copies are what a single packet may have.
#[test]
fn copies_are_counted_for_each_packet() {
    let egress = json!([call("clone_egress_pkt_to_egress", json!([hex(6), hex(0)]))]);
    let session = CloneSession { replicas: vec![(2, 0)], ..CloneSession::default() };
    let mut switch = switch(&program(json!([]), egress), &[(6, session)]);
    let sent = sent(&mut switch, 200);
    assert_eq!(sent.iter().filter(|(port, _)| *port == 2).count(), 200 * 8);
    assert_eq!((sent.len(), switch.discards().clones), (200 * 9, 200));
}

/// A queue that there is not is as a port that there is not: counted.
#[test]
fn a_packet_to_no_queue_is_counted() {
    let mut root = program(json!([call("assign", json!([field("standard_metadata", "priority"), hex(9)]))]), json!([]));
    let fields = root["header_types"][2]["fields"].as_array_mut().expect("fields");
    let priority = fields.iter_mut().find(|field| field[0] == "priority").expect("priority");
    priority[1] = json!(8);
    let aliases = root["field_aliases"].as_array_mut().expect("aliases");
    aliases.push(json!(["intrinsic_metadata.priority", ["standard_metadata", "priority"]]));
    let mut switch = switch(&root, &[]);
    assert_eq!(sent(&mut switch, 3), vec![]);
    assert_eq!(switch.discards().absent_port, 3);
}

/// A frame's time, its bytes as far as they are held, and its whole length.
#[derive(Default)]
struct Left(Vec<(u16, u64, Vec<u8>, u32)>);

impl Output for Left {
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        self.0.push((port, exit_ns, packet.bytes().to_vec(), packet.frame_length()));
        pool.give(packet);
    }
}

/// Frames that go to port `a`, and by what `b` says when they come in again at the loopback port 2.
fn looping(egress: Value) -> Switch {
    let ingress = json!([
        call("assign", json!([field("standard_metadata", "egress_spec"), field("h", "a")])),
        call("assign", json!([field("h", "a"), field("h", "b")])),
    ]);
    let kinds = [(1, PortKind::Interface), (2, PortKind::Loopback), (3, PortKind::Interface)];
    let mut switch = Switch::new(&kinds, 1_000);
    switch.set_unit(FIRST, ProgramUnit::new(load(&program(ingress, egress))));
    switch
}

/// What has left of a hundred frames, of each of which `held` bytes are held; what leaves within `ahead_ns` is given out
/// early.
fn looped(switch: &mut Switch, held: usize, ahead_ns: u64) -> Left {
    let mut left = Left::default();
    for number in 0..100 {
        let whole = frame(2, 3, number, 4, 5);
        let mut packet = switch.pool().take_beginning(whole.len(), held.min(whole.len()));
        let beginning = packet.bytes().len();
        packet.bytes_mut().copy_from_slice(&whole[..beginning]);
        let now_ns = 1_000 * u64::from(number);
        switch.receive(1, now_ns, packet, &mut left);
        switch.release(now_ns + ahead_ns, &mut left);
    }
    switch.advance(1_000_000_000, &mut left);
    left
}

/// A frame that crosses a loopback port leaves at the same time, and is as long, whether it is given out early or not and
/// whether all of it is held or only what the program parses.
#[test]
fn looking_ahead_and_holding_less_change_nothing_on_a_loopback() {
    const HEADERS: usize = 31;
    let expected = looped(&mut looping(json!([])), usize::MAX, 0);
    assert_eq!(expected.0.len(), 100);
    for (number, (port, _, bytes, length)) in expected.0.iter().enumerate() {
        assert_eq!((*port, *length as usize), (3, bytes.len()));
        assert_eq!(*bytes, frame(3, 3, number as u32, 4, 5));
    }
    for (held, ahead_ns) in [(usize::MAX, 50_000), (HEADERS, 0), (HEADERS, 50_000)] {
        let mut switch = looping(json!([]));
        let found = looped(&mut switch, held, ahead_ns);
        let beginnings = expected
            .0
            .iter()
            .map(|(port, exit_ns, bytes, length)| (*port, *exit_ns, bytes[..held.min(bytes.len())].to_vec(), *length));
        assert_eq!(found.0, beginnings.collect::<Vec<_>>());
        assert_eq!(switch.discards().loopback, 0);
    }
}

/// What the program would parse, but is not held any more, cannot come in again: it is counted.
#[test]
fn a_frame_of_which_too_little_is_held_does_not_loop() {
    let without_headers = json!([call("remove_header", json!([{"type": "header", "value": "h"}]))]);
    let mut switch = looping(without_headers.clone());
    // Two bytes follow the headers: they are not held, and are what the program would look at.
    assert_eq!(looped(&mut switch, 31, 0).0.len(), 0);
    assert_eq!(switch.discards().loopback, 100);
    let mut switch = looping(without_headers);
    looped(&mut switch, usize::MAX, 0);
    assert_eq!(switch.discards().loopback, 0);
}

/// The registers of the traffic manager's hold what a managed queue is like, and are set right by the first packet behind a time
/// in which it was not managed, though that finds nothing waiting.
#[test]
fn registers_hold_what_a_managed_queue_is_like() {
    const INDEX: u32 = 2;
    let mut root = program(json!([]), json!([]));
    root["register_arrays"] = json!([
        {"name": "tm_depth_bytes", "id": 0, "size": 4, "bitwidth": 32},
        {"name": "tm_link_free_ns", "id": 1, "size": 4, "bitwidth": 48}
    ]);
    let mut switch = switch(&root, &[]);
    let mut sent = Sent::default();
    let receive = |switch: &mut Switch, now_ns: u64, sent: &mut Sent| {
        let packet = switch.pool().packet(&frame(1, 2, 3, 4, 5));
        switch.receive(1, now_ns, packet, sent);
    };
    let manage = |switch: &mut Switch, now_ns: u64, managed: bool| {
        let management = Management::new(INDEX, 0, Scheduling::Fifo).expect("a setting that is allowed");
        // A frame of 33 bytes takes 1,000 ns.
        let rate = Some(Rate::Bps(264_000_000));
        let changes = Changes { rate, management: Some(managed.then_some(management)), ..Changes::default() };
        switch.tm.configure((1, 0), now_ns, changes).expect("a change that is allowed");
    };
    let seen = |switch: &mut Switch| {
        let pipeline = &switch.unit(FIRST).expect("a pipeline").pipeline;
        let ids: Vec<_> = pipeline.program().registers.iter().map(|register| register.id).collect();
        let cell = |number: usize| pipeline.register_read(ids[number], INDEX.into()).expect("a cell")[0];
        (cell(0), cell(1))
    };
    manage(&mut switch, 0, true);
    receive(&mut switch, 0, &mut sent);
    assert_eq!(seen(&mut switch), (0, 1_000));
    receive(&mut switch, 100, &mut sent);
    assert_eq!(seen(&mut switch), (33, 1_000));
    manage(&mut switch, 200, false);
    switch.advance(5_000, &mut sent);
    assert_eq!(seen(&mut switch), (33, 1_000));
    manage(&mut switch, 6_000, true);
    receive(&mut switch, 10_000, &mut sent);
    assert_eq!(seen(&mut switch), (0, 11_000));
    receive(&mut switch, 20_000, &mut sent);
    assert_eq!(seen(&mut switch), (0, 21_000));
}

/// Bytes that queues have accounted of one frame that ingress has worked on.
fn accounted(root: &Value) -> u64 {
    let mut switch = switch(root, &[]);
    sent(&mut switch, 1);
    switch.tm.status().iter().map(|queue| queue.counters.dequeued_bytes).sum()
}

/// What queues and shapers account is what leaves: headers that are valid and emitted, and what follows them. Whether a header came
/// by an assignment makes no difference, one that is never emitted takes no time, and nothing that is removed twice counts twice.
#[test]
fn a_packet_is_as_long_as_what_leaves() {
    // Headers `h` and `g` are 31 bytes each, `small` is 2, and 2 bytes follow.
    let header = |name: &str| json!({"type": "header", "value": name});
    let copy = || call("assign_header", json!([header("g"), header("h")]));
    let remove = || call("remove_header", json!([header("g")]));
    assert_eq!(accounted(&program(json!([copy()]), json!([]))), 31 + 31 + 2);
    assert_eq!(accounted(&program(json!([copy(), remove(), copy(), remove()]), json!([]))), 31 + 2);
    let mut root = program(json!([call("add_header", json!([header("small")]))]), json!([]));
    assert_eq!(accounted(&root), 2 + 31 + 2);
    root["deparsers"][0]["order"] = json!(["g", "h"]);
    assert_eq!(accounted(&root), 31 + 2);
}

/// A frame of the old program's that is on its way while the program is replaced comes back into no buffer of the new one's: there,
/// zeros are read in place of a header that is not valid.
#[test]
fn a_new_program_reads_nothing_of_frames_of_the_old_one() {
    let add = json!([call("add_header", json!([{"type": "header", "value": "small"}]))]);
    let mut switch = switch(&program(add, json!([])), &[]);
    let delay = Changes { delay_ns: Some(1_000_000), ..Changes::default() };
    switch.tm.configure((1, 0), 0, delay).expect("a change that is allowed");
    let mut left = Sent::default();
    let ones = frame(0xff, u16::MAX, u32::MAX, u64::MAX, u128::MAX);
    let packet = switch.pool().packet(&ones);
    switch.receive(1, 0, packet, &mut left);

    // The new program has a longer header, which lies where the old one's frame is, and is never valid.
    let mut root = program(json!([call("assign", json!([field("h", "a"), field("long", "z")]))]), json!([]));
    let long: Vec<Value> = (0..5).map(|n| json!([format!("f{n}"), 128, false])).collect();
    let long = [&long[..], &[json!(["z", 8, false])]].concat();
    let types = root["header_types"].as_array_mut().expect("types");
    types.push(json!({"name": "long_t", "id": 9, "fields": long}));
    let headers = root["headers"].as_array_mut().expect("headers");
    headers.push(json!({"name": "long", "id": 9, "header_type": "long_t", "metadata": false}));
    switch.set_unit(FIRST, ProgramUnit::new(load(&root)));
    switch.advance(2_000_000, &mut left);
    assert_eq!(left.0.len(), 1, "the frame of the old program left");
    for number in 1..3 {
        let packet = switch.pool().packet(&frame(7, 2, 3, 4, 5));
        switch.receive(1, 2_000_000 * number, packet, &mut left);
    }
    switch.advance(1_000_000_000, &mut left);
    assert_eq!(left.0[1..], [(1, frame(0, 2, 3, 4, 5)), (1, frame(0, 2, 3, 4, 5))]);
}
