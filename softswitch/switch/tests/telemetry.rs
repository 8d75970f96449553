// SPDX-License-Identifier: Apache-2.0
//! Reports that the traffic manager makes for a program that makes none: those of our own program, byte for byte.

#[path = "../../pipeline/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{call, field, insert, load, program};
use narrows_drop_records::{Cause, DropRecord};
use narrows_pipeline::{KeyMatch, Packet, PacketPool, Pipeline, Program};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::telemetry::{Bottleneck, Collector, Telemetry};
use narrows_switch::tm::{Changes, Management, Rate, Scheduling};
use narrows_switch::unit::{CloneSession, ProgramUnit};
use serde_json::json;

const MANAGED: &str = include_str!("../../../p4src/compiled/v1model-managed/narrows.json");
/// Where packets come in and go out, where our program's reports leave, and where those of the traffic manager do.
const SENDERS: u16 = 1;
const RECEIVERS: u16 = 2;
const OWN: u16 = 3;
const MADE: u16 = 4;
const BOTTLENECK: u8 = 5;
const SESSION: u16 = 7;
const SEED: u32 = 0x1234_5678;
const ANY: KeyMatch = KeyMatch::Ternary { value: 0, mask: 0 };
/// Of 100 bytes a packet takes 800 ns; one comes each 400 ns.
const RATE: Rate = Rate::Bps(1_000_000_000);
const EVERY_NS: u64 = 400;
const PACKETS: u64 = 3_000;

/// Frames transmitted on each port, and the records of drops.
#[derive(Default)]
struct Seen {
    sent: Vec<(u16, u64, Vec<u8>)>,
    drops: Vec<DropRecord>,
}

impl Output for Seen {
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        self.sent.push((port, exit_ns, packet.bytes().to_vec()));
        pool.give(packet);
    }

    fn dropped(&mut self, record: &DropRecord) {
        self.drops.push(*record);
    }
}

impl Seen {
    fn left(&self, port: u16) -> Vec<(u64, &[u8])> {
        let of_port = self.sent.iter().filter(|(by, ..)| *by == port);
        of_port.map(|(_, exit_ns, bytes)| (*exit_ns, &bytes[..])).collect()
    }
}

fn collector(port: u16) -> Collector {
    Collector {
        port,
        source_mac: [0, 0, 0, 0, 0, 0x0a],
        destination_mac: [0, 0, 0, 0, 0, 0x0b],
        source_address: [10, 0, 0, 1],
        destination_address: [10, 0, 0, 2],
        source_port: 4000,
        destination_port: 5500,
        length: 184,
    }
}

fn telemetry(port: u16, sample_shift: u8) -> Telemetry {
    let bottleneck = Bottleneck {
        index: BOTTLENECK,
        port: RECEIVERS,
        ingress_ports: vec![SENDERS],
        sample_shift,
        sample_seed: SEED,
    };
    Telemetry::new(collector(port), vec![bottleneck]).expect("settings that are allowed")
}

/// Our program's settings, and the queue's.
#[derive(Default)]
struct Case {
    laws: Vec<(&'static str, &'static str, Vec<u128>)>,
    ecn_threshold: Option<u128>,
    sample_shift: u8,
    loss: u128,
    changes: Changes,
}

fn managed(scheduling: Scheduling) -> Option<Option<Management>> {
    Some(Some(Management::new(BOTTLENECK.into(), 0, scheduling).expect("a setting that is allowed")))
}

impl Case {
    fn switch(&self, observed: bool) -> Switch {
        let kinds = [SENDERS, RECEIVERS, OWN, MADE].map(|port| (port, PortKind::Interface));
        let mut switch = Switch::new(&kinds, 10_000);
        let program = Program::load(MANAGED.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let mut pipeline = Pipeline::new(Arc::new(program), 1);
        let mut key = vec![ANY; 6];
        key[0] = KeyMatch::Ternary { value: SENDERS.into(), mask: 0x1ff };
        let index = u128::from(BOTTLENECK);
        insert(&mut pipeline, ".cross_connect", key, 1, ".bottleneck", vec![index, RECEIVERS.into(), 0]);
        let of_bottleneck = vec![KeyMatch::Exact(index)];
        let threshold = self.ecn_threshold.unwrap_or(0xffff_ffff);
        let shift = u128::from(self.sample_shift);
        let observe = vec![threshold, 0, SEED.into(), (1 << shift) - 1, shift, 0, SESSION.into()];
        insert(&mut pipeline, ".settings.bottleneck", of_bottleneck.clone(), 0, ".observe", observe);
        let to = vec![0x0a, 0x0b, 0x0a00_0001, 0x0a00_0002, 4000, 5500, 184];
        insert(&mut pipeline, ".collector", of_bottleneck.clone(), 0, ".encapsulate", to);
        if self.loss > 0 {
            insert(&mut pipeline, ".loss", of_bottleneck.clone(), 0, ".set_loss", vec![self.loss]);
        }
        for (table, action, data) in &self.laws {
            insert(&mut pipeline, table, of_bottleneck.clone(), 0, action, data.clone());
        }
        let mut unit = ProgramUnit::new(pipeline);
        let session = CloneSession { replicas: vec![(OWN, 0)], ..CloneSession::default() };
        unit.sessions.set(SESSION, Some(session));
        switch.set_unit(FIRST, unit);
        let changes = Changes { rate: Some(RATE), ..self.changes.clone() };
        switch.tm.configure((RECEIVERS, 0), 0, changes).expect("changes that are allowed");
        if observed {
            switch.set_telemetry(Some(telemetry(MADE, self.sample_shift))).expect("queues are empty");
        }
        switch
    }

    /// What is seen of the case's packets, and the switch afterwards.
    fn run(&self, observed: bool) -> (Seen, Switch) {
        let (mut switch, mut seen) = (self.switch(observed), Seen::default());
        for number in 0..PACKETS {
            // In between the queue becomes empty.
            let now_ns = EVERY_NS * number + 500_000 * (number / 700);
            let packet = switch.pool().packet(&frame(number));
            switch.receive(SENDERS, now_ns, packet, &mut seen);
        }
        switch.advance(1_000_000_000, &mut seen);
        (seen, switch)
    }

    /// The reports of both sides are the same, and so are the records of drops, which our program tells of by itself, too. Returns
    /// both, and the reports.
    fn agrees(&self) -> (Vec<Vec<u8>>, Vec<DropRecord>) {
        let (alone, _) = self.run(false);
        let (seen, switch) = self.run(true);
        assert_eq!(alone.left(OWN), seen.left(OWN), "our program sees nothing of it");
        assert_eq!(alone.left(RECEIVERS), seen.left(RECEIVERS));
        let (own, made) = (seen.left(OWN), seen.left(MADE));
        assert!(own.len() >= 300, "{} reports", own.len());
        for (own, made) in own.iter().zip(&made) {
            assert_eq!(own, made);
        }
        assert_eq!(own.len(), made.len());
        assert_eq!(alone.drops, seen.drops);
        let flows = switch.telemetry().expect("it is set").flows();
        let departures: u64 = flows.iter().map(|flow| flow.departures.packets).sum();
        assert_eq!(departures as usize, seen.left(RECEIVERS).len());
        let arrivals: u64 = flows.iter().map(|flow| flow.arrivals.packets + flow.losses.packets).sum();
        assert_eq!(arrivals, PACKETS);
        (own.into_iter().map(|(_, bytes)| bytes.to_vec()).collect(), seen.drops)
    }
}

/// Frames of all forms that a flow's identity is read from, and of those that it is not; each flow comes again and again.
fn frame(number: u64) -> Vec<u8> {
    let flow = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let (kind, flow, ecn) = (flow % 16, (flow >> 8) as u8 % 20, (number % 4) as u8);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match kind {
        0 => frame.extend([0x81, 0, 0, 7]),
        1 => frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]),
        // Three tags are too many, and the inner one of two must not be a service tag.
        2 => frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x81, 0, 0, 1]),
        3 => frame.extend([0x81, 0, 0, 7, 0x88, 0xa8, 0, 9]),
        _ => {}
    }
    let transport = [0x13, 0x88 + flow, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
    if kind == 4 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    } else if kind % 2 == 1 {
        let next = [6, 17, 58, 136, 132][usize::from(flow) % 5];
        frame.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0, 0, 40, next, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, flow]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]);
        frame.extend(transport);
    } else {
        let (first, fragment) = match kind {
            6 => (0x46, [0, 0]),
            8 => (0x45, [0x20, 0]),
            10 => (0x45, [0, 5]),
            _ => (0x45, [0x40, 0]),
        };
        let protocol = [6, 17, 33, 132, 136, 1][usize::from(flow) % 6];
        frame.extend([8, 0, first, ecn, 0, 80, 0, 1, fragment[0], fragment[1], 64, protocol, 0x12, 0x34]);
        frame.extend([10, 0, flow, 1, 10, 0, 1, 1]);
        if kind == 6 {
            frame.extend([1, 1, 1, 1]);
        }
        frame.extend(transport);
    }
    frame.resize(100 + usize::from(flow), 0xab);
    // Some end within a header.
    match number % 97 {
        13 => frame.truncate(16),
        14 => frame.truncate(20),
        15 => frame.truncate(36),
        16 => frame.truncate(56),
        _ => {}
    }
    frame
}

fn limited(packets: u64) -> Changes {
    Changes { limit_packets: Some(packets), ..Changes::default() }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[test]
fn reports_of_a_queue_that_overflows_are_those_of_our_program() {
    let case = Case { changes: limited(30), ..Case::default() };
    let (reports, drops) = case.agrees();
    assert!(drops.len() > 500 && drops.iter().all(|drop| drop.cause == Cause::Full));
    let mut flows: Vec<u64> = reports.iter().map(|report| number(&report[46..48])).collect();
    flows.sort_unstable();
    flows.dedup();
    // IPv4 with ports and without, and IPv6, of 20 addresses each.
    assert!(flows.len() > 50, "{} flows", flows.len());
    // All that is not IP is one flow, and says so.
    assert!(reports.iter().any(|report| report[43] & 4 != 0));
}

#[test]
fn reports_with_marks_and_losses_are_those_of_our_program() {
    // Half a queue, and one in eight.
    let case = Case { changes: limited(30), ecn_threshold: Some(1_500), loss: 1 << 29, ..Case::default() };
    let (reports, drops) = case.agrees();
    let marked = reports.iter().filter(|report| report[43] & 1 != 0).count();
    assert!(marked > 100 && marked < reports.len() / 2, "{marked} marked");
    let lost = drops.iter().filter(|drop| drop.cause == Cause::LossEmulation).count();
    // 375 of 3,000 expected; the standard deviation is 18.
    assert!((285..465).contains(&lost), "{lost} lost");
    assert!(reports.iter().any(|report| number(&report[66..70]) > 0), "losses in reports");
}

#[test]
fn reports_of_queues_that_codel_and_blue_manage_are_those_of_our_program() {
    let management = managed(Scheduling::Fifo);
    let codel = vec![4_000, 40_000, 100, 0, 0, 0xffff_ffff, 0];
    let codel = Case {
        laws: vec![(".dequeue_aqm", ".codel", codel)],
        changes: Changes { management, ..limited(200) },
        ..Case::default()
    };
    let blue = vec![0, 30, 1 << 28, 1, 1_000, 0];
    let blue = Case {
        laws: vec![(".enqueue_aqm", ".blue", blue)],
        changes: Changes { management, ..limited(30) },
        ..Case::default()
    };
    for case in [codel, blue] {
        let (reports, drops) = case.agrees();
        let managed = drops.iter().filter(|drop| drop.cause == Cause::Management).count();
        assert!(managed > 100, "{managed} drops by management");
        assert!(reports.iter().any(|report| number(&report[70..74]) > 0), "drops by management in reports");
    }
}

#[test]
fn reports_say_which_of_two_queues_a_packet_left() {
    let scheduling = Scheduling::Coupled { classic_percent: 10, mtu: 100 };
    let case = Case {
        laws: vec![(".enqueue_aqm", ".two_queues", vec![])],
        changes: Changes { management: managed(scheduling), ..limited(30) },
        ..Case::default()
    };
    let (reports, _) = case.agrees();
    let second = reports.iter().filter(|report| number(&report[96..98]) == 1).count();
    assert!(second > 100 && second < reports.len(), "{second} of {}", reports.len());
}

#[test]
fn the_same_departures_are_sampled() {
    let case = Case { changes: limited(30), sample_shift: 2, ..Case::default() };
    let (reports, _) = case.agrees();
    let phases: Vec<u64> = reports.iter().map(|report| number(&report[54..58]) % 4).collect();
    assert!((0..4).all(|phase| phases.iter().filter(|found| **found == phase).count() > reports.len() / 8));
}

/// A program of others says nothing of its drops: those of ingress are the bottleneck's that all of that port is for.
#[test]
fn drops_of_a_program_of_others_are_of_its_bottleneck() {
    let drop = json!([call("mark_to_drop", json!([{"type": "header", "value": "standard_metadata"}]))]);
    let bottleneck = Bottleneck { index: 3, port: 1, ingress_ports: vec![2], sample_shift: 0, sample_seed: 0 };
    let management = managed(Scheduling::Fifo);
    let (ingress, egress) = (Cause::ProgramIngress, Cause::ProgramEgress);
    for (root, management, port, expected, cause) in [
        (program(drop.clone(), json!([])), None, 2, 2, ingress),
        (program(drop.clone(), json!([])), None, 1, 0, ingress),
        (program(json!([]), drop.clone()), None, 2, 2, egress),
        (program(json!([]), drop.clone()), management, 2, 2, egress),
    ] {
        let kinds = [1, 2, MADE].map(|port| (port, PortKind::Interface));
        let mut switch = Switch::new(&kinds, 1_000);
        switch.set_unit(FIRST, ProgramUnit::new(load(&root)));
        let changes = Changes { rate: Some(RATE), management, ..Changes::default() };
        switch.tm.configure((1, 0), 0, changes).expect("changes that are allowed");
        let telemetry = Telemetry::new(collector(MADE), vec![bottleneck.clone()]).expect("allowed");
        switch.set_telemetry(Some(telemetry)).expect("queues are empty");
        let mut seen = Seen::default();
        for now_ns in [0, 5_000] {
            let packet = switch.pool().packet(&frame(1));
            switch.receive(port, now_ns, packet, &mut seen);
        }
        switch.advance(1_000_000, &mut seen);
        assert_eq!(seen.sent, vec![]);
        assert_eq!(seen.drops.len(), expected);
        assert!(seen.drops.iter().all(|drop| (drop.cause, drop.bottleneck) == (cause, 3)));
        let flows = switch.telemetry().expect("it is set").flows();
        let counted = flows.iter().map(|flow| (flow.arrivals.packets, flow.departures.packets));
        assert_eq!(counted.collect::<Vec<_>>(), if expected == 0 { vec![] } else { vec![(2, 0)] });
        let dropped: u64 = flows.iter().map(|flow| flow.ingress_drops.packets + flow.egress_drops.packets).sum();
        assert_eq!(dropped as usize, expected);
    }
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let made = |index: u8, port: u16, ingress_ports: Vec<u16>, sample_shift: u8| Bottleneck {
        index,
        port,
        ingress_ports,
        sample_shift,
        sample_seed: 0,
    };
    let refused = |bottlenecks: Vec<Bottleneck>| Telemetry::new(collector(MADE), bottlenecks).expect_err("refused");
    assert_eq!(refused(vec![made(64, 1, vec![], 0)]), "bottleneck 64: allowed are 0 to 63");
    assert_eq!(refused(vec![made(0, 511, vec![], 0)]), "port 511: allowed are 0 to 510");
    assert_eq!(refused(vec![made(0, 1, vec![], 21)]), "sample_shift 21: allowed are 0 to 20");
    assert_eq!(refused(vec![made(0, 1, vec![], 0), made(1, 1, vec![], 0)]), "port 1: it is another bottleneck's");
    assert_eq!(refused(vec![made(0, 1, vec![3], 0), made(1, 2, vec![3], 0)]), "port 3: it is another bottleneck's");
    assert_eq!(refused(vec![made(0, 1, vec![], 0), made(0, 2, vec![], 0)]), "bottleneck 0: it is there twice");
    let short = Telemetry::new(Collector { length: 97, ..collector(MADE) }, vec![]);
    assert_eq!(short.expect_err("refused"), "length 97: allowed are 98 and more");

    let mut switch = Case::default().switch(false);
    let absent = switch.set_telemetry(Some(telemetry(9, 0)));
    assert_eq!(absent, Err("port 9 of the collector: the switch has no interface of that number".to_owned()));
    let mut seen = Seen::default();
    for number in 0..3 {
        let packet = switch.pool().packet(&frame(number));
        switch.receive(SENDERS, 0, packet, &mut seen);
    }
    let waiting = switch.set_telemetry(Some(telemetry(MADE, 0)));
    assert_eq!(waiting, Err("port 2: packets wait in its queues".to_owned()));
    switch.advance(1_000_000, &mut seen);
    assert_eq!(switch.set_telemetry(Some(telemetry(MADE, 0))), Ok(()));
}

/// Packets of the priorities that a program gives wait for one link, and the highest goes first; reports say which one it was.
#[test]
fn priorities_are_served_strictly_at_one_rate() {
    let assign = call("assign", json!([field("standard_metadata", "priority"), field("h", "a")]));
    let mut root = program(json!([assign]), json!([]));
    let aliases = root["field_aliases"].as_array_mut().expect("aliases");
    aliases.push(json!(["intrinsic_metadata.priority", ["standard_metadata", "priority"]]));
    let mut switch = Switch::new(&[1, MADE].map(|port| (port, PortKind::Interface)), 1_000);
    switch.set_unit(FIRST, ProgramUnit::new(load(&root)));
    let changes = Changes { rate: Some(Rate::Bps(264_000_000)), management: managed(Scheduling::Strict), ..limited(6) };
    switch.tm.configure((1, 0), 0, changes).expect("changes that are allowed");
    let bottleneck = Bottleneck { index: 0, port: 1, ingress_ports: vec![], sample_shift: 0, sample_seed: 0 };
    switch
        .set_telemetry(Some(Telemetry::new(collector(MADE), vec![bottleneck]).expect("allowed")))
        .expect("queues are empty");
    let mut seen = Seen::default();
    for (number, priority) in [0, 0, 5, 2, 7, 5, 3, 1].into_iter().enumerate() {
        let packet = switch.pool().packet(&common::frame(priority, number as u16, 3, 4, 5));
        switch.receive(1, number as u64, packet, &mut seen);
    }
    switch.advance(1_000_000, &mut seen);
    // One is on the link, and there is room for six, whatever their priorities: of 33 bytes, 1,000 ns each.
    let expected = [(1_000, 0), (2_000, 4), (3_000, 2), (4_000, 5), (5_000, 6), (6_000, 3), (7_000, 1)];
    let sent = seen.left(1).into_iter().map(|(exit_ns, bytes)| (exit_ns, number(&bytes[1..3])));
    assert_eq!(sent.collect::<Vec<_>>(), expected);
    let queues = seen.left(MADE).into_iter().map(|(_, report)| number(&report[96..98]));
    assert_eq!(queues.collect::<Vec<_>>(), [0, 7, 5, 5, 3, 2, 0]);
    assert_eq!(seen.drops.iter().map(|drop| (drop.timestamp, drop.cause)).collect::<Vec<_>>(), [(7, Cause::Full)]);

    // What is another queue already cannot be one of them.
    switch.tm.configure((2, 4), 0, Changes::default()).expect("a queue of its own");
    let changes = Changes { management: managed(Scheduling::Strict), ..Changes::default() };
    let refused = switch.tm.configure((2, 0), 0, changes).expect_err("refused");
    assert!(refused.contains("port 2, queue 4: it is a queue of its own already"), "{refused}");
}

/// In the queue and on the link a packet has the length with which it leaves ingress, whatever egress makes of it.
#[test]
fn a_packet_that_egress_makes_shorter_is_charged_as_it_left_ingress() {
    let remove = call("remove_header", json!([{"type": "header", "value": "h"}]));
    let mut switch = Switch::new(&[1, MADE].map(|port| (port, PortKind::Interface)), 1_000);
    switch.set_unit(FIRST, ProgramUnit::new(load(&program(json!([]), json!([remove])))));
    // Of 33 bytes one waits, and each takes 16,500 ns, though two bytes are left of it.
    let changes = Changes {
        rate: Some(Rate::Bps(16_000_000)),
        limit_bytes: Some(65),
        management: managed(Scheduling::Strict),
        ..Changes::default()
    };
    switch.tm.configure((1, 0), 0, changes).expect("changes that are allowed");
    let bottleneck = Bottleneck { index: 0, port: 1, ingress_ports: vec![], sample_shift: 0, sample_seed: 0 };
    let telemetry = Telemetry::new(collector(MADE), vec![bottleneck]).expect("allowed");
    switch.set_telemetry(Some(telemetry)).expect("queues are empty");
    let mut seen = Seen::default();
    for number in 0..3 {
        let packet = switch.pool().packet(&common::frame(0, number, 3, 4, 5));
        switch.receive(1, u64::from(number), packet, &mut seen);
    }
    switch.advance(1_000_000, &mut seen);
    let sent = seen.left(1).into_iter().map(|(exit_ns, bytes)| (exit_ns, bytes.len()));
    assert_eq!(sent.collect::<Vec<_>>(), [(16_500, 2), (33_000, 2)]);
    assert_eq!(seen.drops.iter().map(|drop| (drop.timestamp, drop.cause)).collect::<Vec<_>>(), [(2, Cause::Full)]);
}
