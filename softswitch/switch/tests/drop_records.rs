// SPDX-License-Identifier: Apache-2.0
//! What is told of packets that a bottleneck drops, and when.

#[path = "../../pipeline/tests/common/mod.rs"]
mod common;

use common::{call, field, frame, hex, load, program};
use narrows_drop_records::{Cause, DropRecord};
use narrows_pipeline::{Packet, PacketPool};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::tm::{BucketSettings, Changes, Management, PolicerSettings, Rate, Scheduling};
use narrows_switch::unit::ProgramUnit;
use serde_json::{json, Value};

/// A frame's bytes, which take 1,000 ns at [`RATE`].
const LENGTH: u16 = 33;
const RATE: Rate = Rate::Bps(264_000_000);

#[derive(Default)]
struct Dropped(Vec<DropRecord>);

impl Output for Dropped {
    fn send(&mut self, _: u16, _: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        pool.give(packet);
    }

    fn dropped(&mut self, record: &DropRecord) {
        self.0.push(*record);
    }
}

/// A program that says of each packet that it is of bottleneck 7, and of the flow in the header's field `b`.
fn identifying(ingress: &[Value], egress: Value) -> Value {
    let mut steps = vec![
        call("add_header", json!([{"type": "header", "value": "tm"}])),
        call("assign", json!([field("tm", "flow"), field("h", "b")])),
        call("assign", json!([field("tm", "signature"), field("h", "c")])),
        call("assign", json!([field("tm", "bottleneck"), hex(7)])),
        call("assign", json!([field("tm", "drop_cause"), hex(0)])),
    ];
    steps.extend_from_slice(ingress);
    let mut root = program(Value::Array(steps), egress);
    let mut add = |list: &str, value: Value| root[list].as_array_mut().expect("a list").push(value);
    let fields =
        json!([["flow", 32, false], ["signature", 32, false], ["bottleneck", 8, false], ["drop_cause", 8, false]]);
    add("header_types", json!({"name": "tm_t", "id": 9, "fields": fields}));
    add("headers", json!({"name": "tm", "id": 9, "header_type": "tm_t", "metadata": false}));
    for name in ["flow", "signature", "bottleneck", "drop_cause"] {
        add("field_aliases", json!([format!("narrows.{name}"), ["tm", name]]));
    }
    root
}

/// A switch whose link on port 1 has room for two packets that wait.
fn switch(root: &Value, changes: Changes) -> Switch {
    let mut switch = Switch::new(&[(1, PortKind::Interface)], 1_000);
    switch.set_unit(FIRST, ProgramUnit::new(load(root)));
    let changes = Changes { rate: Some(RATE), limit_packets: Some(2), ..changes };
    switch.tm.configure((1, 0), 0, changes).expect("changes that are allowed");
    switch
}

/// What is told of as many frames of successive flows, one each 100 ns.
fn dropped(switch: &mut Switch, frames: u16) -> Vec<DropRecord> {
    let mut output = Dropped::default();
    for number in 0..frames {
        let packet = switch.pool().packet(&frame(1, number, 0x100 + u32::from(number), 4, 5));
        switch.receive(1, 100 * u64::from(number), packet, &mut output);
    }
    switch.advance(1_000_000, &mut output);
    output.0
}

fn record(cause: Cause, number: u16, timestamp: u64) -> DropRecord {
    DropRecord {
        cause,
        bottleneck: 7,
        flow: number,
        signature: 0x100 + u32::from(number),
        packet_length: LENGTH,
        timestamp,
        ..DropRecord::default()
    }
}

#[test]
fn a_packet_that_finds_the_queue_full_is_dropped_when_it_comes() {
    let mut switch = switch(&identifying(&[], json!([])), Changes::default());
    // One is on the link, two wait.
    let full = |number| DropRecord {
        depth_bytes: 66,
        depth_packets: 2,
        ..record(Cause::Full, number, 100 * u64::from(number))
    };
    assert_eq!(dropped(&mut switch, 6), [full(3), full(4), full(5)]);
}

#[test]
fn what_a_policer_drops_has_its_cause() {
    // Two packets fit into the bucket, which 33 bytes take 1 s to fill.
    let bucket = BucketSettings { rate_bps: 264, burst_bytes: 66 };
    let policer = Some(Some(PolicerSettings::new(bucket, None).expect("in range")));
    let mut switch = switch(&identifying(&[], json!([])), Changes { policer, ..Changes::default() });
    // One is on the link, one waits.
    let policed = |number| DropRecord {
        depth_bytes: 33,
        depth_packets: 1,
        ..record(Cause::Policer, number, 100 * u64::from(number))
    };
    assert_eq!(dropped(&mut switch, 4), [policed(2), policed(3)]);
}

#[test]
fn a_packet_that_makes_room_has_waited() {
    let changes = Changes { head_drop: Some(true), ..Changes::default() };
    let mut switch = switch(&identifying(&[], json!([])), changes);
    // The third one that waits pushes the first out, which came at 100 ns, and so on.
    let pushed = |number: u16, at_ns| {
        let waited = at_ns - 100 * u64::from(number);
        DropRecord { waited, depth_bytes: 66, depth_packets: 2, ..record(Cause::Full, number, at_ns) }
    };
    assert_eq!(dropped(&mut switch, 5), [pushed(1, 300), pushed(2, 400)]);
}

#[test]
fn what_the_program_drops_before_the_queue_has_its_cause() {
    let drop = call("mark_to_drop", json!([{"type": "header", "value": "standard_metadata"}]));
    for cause in [Cause::LossEmulation, Cause::Management] {
        let ingress = [call("assign", json!([field("tm", "drop_cause"), hex(cause as u128)])), drop.clone()];
        let mut switch = switch(&identifying(&ingress, json!([])), Changes::default());
        assert_eq!(dropped(&mut switch, 2), [record(cause, 0, 0), record(cause, 1, 100)]);
    }
    // A packet that it drops for another reason is not the bottleneck's.
    let mut switch = switch(&identifying(&[drop], json!([])), Changes::default());
    assert_eq!(dropped(&mut switch, 2), []);
}

#[test]
fn what_the_program_drops_at_departure_has_waited() {
    let drop = json!([call("mark_to_drop", json!([{"type": "header", "value": "standard_metadata"}]))]);
    let management = Management::new(0, 0, Scheduling::Fifo).expect("a setting that is allowed");
    let changes = Changes { management: Some(Some(management)), ..Changes::default() };
    let mut switch = switch(&identifying(&[], drop), changes);
    // None costs the link any time, so none waits.
    assert_eq!(dropped(&mut switch, 2), [record(Cause::Management, 0, 0), record(Cause::Management, 1, 100)]);
}

#[test]
fn a_program_that_does_not_say_whose_packets_are_has_no_records() {
    let mut switch = switch(&program(json!([]), json!([])), Changes::default());
    assert_eq!(dropped(&mut switch, 6), []);
}
