// SPDX-License-Identifier: Apache-2.0
//! Several devices in one switch: each packet is of the program of its port, and nothing of one reaches another but by a cable.

#[path = "../../pipeline/tests/common/mod.rs"]
mod common;

use std::net::Ipv4Addr;

use common::{call, field, frame, hex, load, program};
use narrows_drop_records::{Cause, DropRecord};
use narrows_pipeline::{Packet, PacketPool, RegisterId};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::telemetry::{Bottleneck, Collector, Telemetry};
use narrows_switch::tm::{Changes, Counters, Rate};
use narrows_switch::unit::ProgramUnit;
use serde_json::{json, Value};

/// What left: port, time, bytes.
#[derive(Default)]
struct Seen {
    left: Vec<(u16, u64, Vec<u8>)>,
    drops: Vec<DropRecord>,
}

impl Output for Seen {
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        self.left.push((port, exit_ns, packet.bytes().to_vec()));
        pool.give(packet);
    }

    fn dropped(&mut self, record: &DropRecord) {
        self.drops.push(*record);
    }
}

impl Seen {
    fn at(&self, port: u16) -> Vec<&[u8]> {
        self.left.iter().filter(|(at, ..)| *at == port).map(|(.., bytes)| &bytes[..]).collect()
    }
}

/// Sends to the port in `a`, where it puts the next one, from `b`; adds a number to `c`, and writes the ingress port down.
fn signing(sign: u128) -> Value {
    let register = json!({"type": "register_array", "value": "r"});
    let ingress = json!([
        call("assign", json!([field("standard_metadata", "egress_spec"), field("h", "a")])),
        call("assign", json!([field("h", "a"), field("h", "b")])),
        call("assign", json!([field("h", "c"), common::binary("+", field("h", "c"), hex(sign))])),
        call("register_write", json!([register, hex(0), field("standard_metadata", "ingress_port")])),
    ]);
    program(ingress, json!([]))
}

/// Ports 1 to 3 are the first device's, 4 to 6 those of the second.
fn two() -> (Switch, usize) {
    let mut switch = Switch::new(&[1, 2, 3, 4, 5, 6].map(|port| (port, PortKind::Interface)), 1_000);
    let second = switch.add_device(&[4, 5, 6]);
    switch.set_unit(FIRST, ProgramUnit::new(load(&signing(0x100))));
    switch.set_unit(second, ProgramUnit::new(load(&signing(0x200))));
    (switch, second)
}

fn receive(switch: &mut Switch, port: u16, now_ns: u64, bytes: &[u8], seen: &mut Seen) {
    let packet = switch.pool_of(port).packet(bytes);
    switch.receive(port, now_ns, packet, seen);
}

fn written(switch: &mut Switch, device: usize) -> u64 {
    let unit = switch.unit(device).expect("a program");
    unit.pipeline.register_read(RegisterId(0), 0).expect("a cell")[0]
}

#[test]
fn packets_are_of_the_program_of_their_port() {
    let (mut switch, second) = two();
    let mut seen = Seen::default();
    for number in 0..100u32 {
        receive(&mut switch, 1, u64::from(number), &frame(2, 2, number, 0, 0), &mut seen);
        receive(&mut switch, 4, u64::from(number), &frame(5, 5, number, 0, 0), &mut seen);
    }
    switch.advance(1_000, &mut seen);
    let signed = |port: u8, sign: u32| (0..100).map(|c| frame(port, port.into(), c + sign, 0, 0)).collect::<Vec<_>>();
    assert_eq!((seen.at(2), seen.at(5)), (as_slices(&signed(2, 0x100)), as_slices(&signed(5, 0x200))));
    assert_eq!((written(&mut switch, FIRST), written(&mut switch, second)), (1, 4));
}

fn as_slices(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    frames.iter().map(Vec::as_slice).collect()
}

/// For a program ports of another device are ports that there are not.
#[test]
fn no_packet_goes_to_a_port_of_another_device() {
    let (mut switch, _) = two();
    let mut seen = Seen::default();
    receive(&mut switch, 1, 0, &frame(5, 5, 0, 0, 0), &mut seen);
    receive(&mut switch, 4, 0, &frame(2, 2, 0, 0, 0), &mut seen);
    switch.advance(1_000, &mut seen);
    assert_eq!((seen.left.len(), switch.discards().absent_port), (0, 2));
}

fn counters(switch: &Switch, port: u16) -> Counters {
    switch.tm.status().iter().find(|queue| queue.port == port).expect("a queue").counters
}

/// Of a million bits per second: 33 bytes take 264 us.
fn slow(switch: &mut Switch, port: u16) {
    let changes = Changes { rate: Some(Rate::Bps(1_000_000)), limit_packets: Some(4), ..Changes::default() };
    switch.tm.configure((port, 0), 0, changes).expect("a setting that is allowed");
}

/// What waits for one program's departure goes with it, and what waits for the other's stays, as do tables and cells.
#[test]
fn a_new_program_of_one_device_leaves_the_other_alone() {
    let (mut switch, second) = two();
    let mut seen = Seen::default();
    slow(&mut switch, 2);
    slow(&mut switch, 5);
    for number in 0..4 {
        receive(&mut switch, 1, number, &frame(2, 2, 0, 0, 0), &mut seen);
        receive(&mut switch, 4, number, &frame(5, 5, 0, 0, 0), &mut seen);
    }
    switch.set_unit(second, ProgramUnit::new(load(&signing(0x400))));
    receive(&mut switch, 4, 4, &frame(5, 5, 0, 0, 0), &mut seen);
    switch.advance(10_000_000, &mut seen);
    assert_eq!((counters(&switch, 2).flushed_packets, counters(&switch, 5).flushed_packets), (0, 3));
    assert_eq!(seen.at(2), [&frame(2, 2, 0x100, 0, 0)[..]; 4]);
    let [first, next] = [0x200, 0x400].map(|sign| frame(5, 5, sign, 0, 0));
    assert_eq!(seen.at(5), [&first[..], &next[..]]);
    assert_eq!((written(&mut switch, FIRST), written(&mut switch, second)), (1, 4));
}

/// What leaves the first program by one end is what the second one gets at the other, once the link has had its time; and back.
#[test]
fn a_cable_leads_from_one_program_to_the_other() {
    let kinds = [1, 5].map(|port| (port, PortKind::Interface)).into_iter();
    let ends = [7, 8].map(|port| (port, PortKind::Loopback));
    let mut switch = Switch::new(&kinds.chain(ends).collect::<Vec<_>>(), 1_000);
    switch.connect(7, 8);
    let second = switch.add_device(&[5, 8]);
    let mut seen = Seen::default();
    switch.set_unit(FIRST, ProgramUnit::new(load(&signing(0x100))));
    slow(&mut switch, 7);
    receive(&mut switch, 1, 0, &frame(7, 5, 0, 0, 0), &mut seen);
    switch.advance(1_000_000, &mut seen);
    assert_eq!((seen.left.len(), switch.discards().no_pipeline), (0, 1), "no program is there yet");

    switch.set_unit(second, ProgramUnit::new(load(&signing(0x200))));
    receive(&mut switch, 1, 1_000_000, &frame(7, 5, 0, 0, 0), &mut seen);
    receive(&mut switch, 1, 1_000_000, &frame(7, 5, 1, 0, 0), &mut seen);
    receive(&mut switch, 5, 1_000_000, &frame(8, 1, 2, 0, 0), &mut seen);
    switch.advance(10_000_000, &mut seen);
    let signed = |a, c| frame(a, a.into(), c, 0, 0);
    assert_eq!(
        seen.left,
        [(1, 1_000_000, signed(1, 0x302)), (5, 1_264_000, signed(5, 0x300)), (5, 1_528_000, signed(5, 0x301))]
    );
    assert_eq!((written(&mut switch, FIRST), written(&mut switch, second)), (7, 8));
}

fn collector(port: u16) -> Collector {
    Collector {
        port,
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source_address: Ipv4Addr::new(10, 0, 0, 1).octets(),
        destination_address: Ipv4Addr::new(10, 0, 0, 2).octets(),
        source_port: 5499,
        destination_port: 5500,
        length: 184,
    }
}

/// Reports are of the observed device's packets only, and so are the records of drops.
#[test]
fn one_device_is_observed() {
    let (mut switch, _) = two();
    let mut seen = Seen::default();
    slow(&mut switch, 2);
    slow(&mut switch, 5);
    let bottleneck = Bottleneck { index: 9, port: 5, ingress_ports: vec![4], sample_shift: 0, sample_seed: 0 };
    let telemetry = Telemetry::new(collector(3), vec![bottleneck]).expect("one bottleneck");
    switch.set_telemetry(Some(telemetry)).expect("queues are empty");
    for number in 0..10 {
        receive(&mut switch, 1, number, &frame(2, 2, 0, 0, 0), &mut seen);
        receive(&mut switch, 4, number, &frame(5, 5, 0, 0, 0), &mut seen);
    }
    switch.advance(10_000_000, &mut seen);
    // One is on the link, four wait, five find no room.
    assert_eq!((counters(&switch, 2).dropped_packets, counters(&switch, 5).dropped_packets), (5, 5));
    let dropped: Vec<_> = seen.drops.iter().map(|drop| (drop.bottleneck, drop.cause)).collect();
    assert_eq!(dropped, [(9, Cause::Full); 5]);
    assert_eq!((seen.at(2).len(), seen.at(5).len(), seen.at(3).len()), (5, 5, 5));
}
