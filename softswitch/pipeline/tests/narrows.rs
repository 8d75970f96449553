// SPDX-License-Identifier: Apache-2.0
//! The compiled Narrows program: what a bottleneck does to a packet and what its reports say.

mod common;

use std::sync::Arc;

use common::{insert, NARROWS};
use narrows_pipeline::{CounterValue, EgressMeta, Forward, KeyMatch, Packet, PacketPool, Pipeline, Program};

const ANY: KeyMatch = KeyMatch::Ternary { value: 0, mask: 0 };

struct Switch {
    pipeline: Pipeline,
    pool: PacketPool,
}

impl Switch {
    fn new() -> Self {
        let program = Program::load(NARROWS.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let program = Arc::new(program);
        Self { pool: PacketPool::new(&program), pipeline: Pipeline::new(program, 1) }
    }

    /// Bottleneck 5 from port 1 to port 2, queue 3; every packet is reported to session 7, at most 150 bytes.
    fn with_bottleneck() -> Self {
        let mut switch = Self::new();
        let mut key = vec![ANY; 6];
        key[0] = KeyMatch::Ternary { value: 1, mask: 0x1ff };
        insert(&mut switch.pipeline, ".cross_connect", key, 1, ".bottleneck", vec![5, 2, 3]);
        let five = vec![KeyMatch::Exact(5)];
        let observe = vec![20_000, 0, 0, 0, 0, 9, 7];
        insert(&mut switch.pipeline, ".settings.bottleneck", five.clone(), 0, ".observe", observe);
        let to = vec![0x0a, 0x0b, 0x0a00_0001, 0x0a00_0002, 4000, 5500, 150];
        insert(&mut switch.pipeline, ".collector", five, 0, ".encapsulate", to);
        switch
    }

    /// One packet through everything: what leaves, and its report.
    fn pass(&mut self, frame: &[u8], depth: u32) -> (Vec<u8>, Option<Vec<u8>>) {
        let packet = self.pool.packet(frame);
        self.pass_on(packet, depth)
    }

    fn pass_on(&mut self, mut packet: Box<Packet>, depth: u32) -> (Vec<u8>, Option<Vec<u8>>) {
        let received = packet.frame_length();
        let verdict = self.pipeline.ingress(&mut packet, 1, 1000);
        assert_eq!(verdict.forward, Forward::Unicast { port: 2, priority: 3 });
        assert_eq!(packet.length(), received, "the queue accounts the frame");
        let meta = EgressMeta {
            port: 2,
            priority: 3,
            timestamp: 0x0102_0304_0506,
            enq_timestamp: 1000,
            deq_timedelta: u32::MAX,
            enq_qdepth: 4,
            deq_qdepth: 3,
            enq_depth_bytes: depth,
            deq_depth_bytes: 4500,
            queue_delay: 12_112_000_000,
            epoch: 11,
            ..EgressMeta::default()
        };
        self.leave(packet, &meta)
    }

    fn leave(&mut self, mut packet: Box<Packet>, meta: &EgressMeta) -> (Vec<u8>, Option<Vec<u8>>) {
        let verdict = self.pipeline.egress(&mut packet, meta);
        assert!(verdict.transmit);
        let report = verdict.clone.map(|session| {
            assert_eq!(session, 7);
            let mut copy = self.pool.take(0);
            self.pipeline.clone_egress(&packet, &mut copy, usize::MAX);
            copy
        });
        let out = self.pipeline.deparse(&mut packet).to_vec();
        let report = report.map(|copy| self.leave(copy, &EgressMeta { port: 9, ..*meta }).0);
        (out, report)
    }
}

/// Ethernet, IPv4 (ECN-capable), TCP header of 20 bytes, payload.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0x02, 0, 0, 0, 1, 0x40, 0, 64, 6, 0x12, 0x34, 10, 0, 0, 1, 10, 0, 1, 1]);
    frame.extend([0x13, 0x88, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.resize(frame.len() + payload, 0xab);
    frame
}

#[test]
fn the_beginning_of_a_frame_stands_for_all_of_it() {
    let frame = tcp(1400);
    let (out, report) = Switch::with_bottleneck().pass(&frame, 0);
    let mut switch = Switch::with_bottleneck();
    let held = 200;
    let mut packet = switch.pool.take_beginning(frame.len(), held);
    packet.bytes_mut().copy_from_slice(&frame[..held]);
    let (of_beginning, same_report) = switch.pass_on(packet, 0);
    assert_eq!(of_beginning, out[..held]);
    assert_eq!(same_report, report);
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |v, &b| v << 8 | u64::from(b))
}

#[test]
fn what_comes_in_at_a_port_without_an_entry_is_dropped() {
    let mut switch = Switch::new();
    let mut packet = switch.pool.packet(&tcp(10));
    assert_eq!(switch.pipeline.ingress(&mut packet, 1, 0).forward, Forward::Drop);
}

#[test]
fn a_report_says_what_the_packet_met() {
    let mut switch = Switch::with_bottleneck();
    let frame = tcp(200);
    for count in 1..=3u64 {
        let (out, report) = switch.pass(&frame, 6000);
        assert_eq!(out, frame, "the packet itself is unchanged");
        let report = report.unwrap_or_default();
        assert_eq!(report.len(), 150);
        // Ethernet and IPv4 of the report.
        assert_eq!(report[..14], [0, 0, 0, 0, 0, 0x0b, 0, 0, 0, 0, 0, 0x0a, 8, 0]);
        assert_eq!(number(&report[16..18]), 150 - 14);
        let sum: u64 = report[14..34].chunks(2).map(number).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the IPv4 checksum");
        let body = &report[42..98];
        // The last six bits of the source port are those of the flow.
        assert_eq!(number(&report[34..36]), (4000 & !63) | (number(&body[4..6]) & 63));
        assert_eq!(report[36..42], [0x15, 0x7c, 0, 116, 0, 0]);
        // report_t, field by field.
        assert_eq!(body[0], 2, "version");
        assert_eq!(body[1], 2 << 3, "flags: it came as ECT(0)");
        assert_eq!((body[2], body[3]), (5, 0), "bottleneck and sampling");
        assert_eq!(number(&body[6..8]), frame.len() as u64, "packet length");
        assert_eq!(number(&body[12..16]), count, "sequence");
        assert_eq!(number(&body[16..20]), count, "arrivals");
        assert_eq!(number(&body[20..24]), count, "departures");
        assert_eq!(number(&body[24..28]), 0, "loss drops");
        assert_eq!(number(&body[28..32]), 0, "no queue management");
        assert_eq!(number(&body[32..36]), 6000, "depth found");
        assert_eq!(number(&body[36..40]), 4500, "depth left behind");
        assert_eq!(number(&body[40..46]), 12_112_000_000, "queue delay");
        assert_eq!(number(&body[46..48]), 11, "epoch");
        assert_eq!(number(&body[48..54]), 0x0102_0304_0506, "timestamp");
        assert_eq!(number(&body[54..56]), 0, "its only queue");
        assert_eq!(report[98..], frame[..52]);
    }
    let program = switch.pipeline.program().clone();
    let counter = program.counters.iter().find(|c| c.name.ends_with("departure_counter.flows"));
    let counter = counter.map_or_else(|| panic!("no counter"), |c| c.id);
    let total = (0..65_536).filter_map(|i| switch.pipeline.counter_read(counter, i).ok()).fold(
        CounterValue::default(),
        |t, c| CounterValue { packets: t.packets + c.packets, bytes: t.bytes + c.bytes },
    );
    assert_eq!(total, CounterValue { packets: 3, bytes: 3 * frame.len() as u64 });
}

#[test]
fn a_deep_queue_marks_ecn_capable_packets_and_keeps_the_checksum_right() {
    let mut switch = Switch::with_bottleneck();
    let frame = tcp(100);
    let (out, report) = switch.pass(&frame, 20_000);
    assert_eq!(out[15], 0x03, "CE");
    // RFC 1624: the ToS octet grew by 1.
    assert_eq!(number(&out[24..26]), 0x1233);
    assert_eq!(report.unwrap_or_default()[43] & 1, 1, "the report says so");
    let (out, _) = switch.pass(&frame, 19_999);
    assert_eq!(out, frame);
}

#[test]
fn a_new_flow_is_learned_once() {
    let mut switch = Switch::with_bottleneck();
    switch.pass(&tcp(1), 0);
    switch.pass(&tcp(1), 0);
    let mut records = Vec::new();
    switch.pipeline.drain_digests(&mut records);
    assert_eq!(records.len(), 1);
    let widths = &switch.pipeline.program().digests[0].widths;
    assert_eq!(records[0].values.len(), widths.len());
    assert!(records[0].values.contains(&0x0a00_0001) && records[0].values.contains(&5201));
}

#[test]
fn loss_follows_its_probability_and_is_counted() {
    let mut switch = Switch::with_bottleneck();
    insert(&mut switch.pipeline, ".loss", vec![KeyMatch::Exact(5)], 0, ".set_loss", vec![1 << 30]);
    let mut lost = 0;
    for _ in 0..4000 {
        let mut packet = switch.pool.packet(&tcp(10));
        lost += u32::from(switch.pipeline.ingress(&mut packet, 1, 0).forward == Forward::Drop);
        switch.pool.give(packet);
    }
    assert!((850..1150).contains(&lost), "{lost} of 4000 at a quarter");
}
