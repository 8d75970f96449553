// SPDX-License-Identifier: Apache-2.0
//! Frames to the collector: each is decoded the same whatever came before, none is counted twice or not at all, and what
//! is aggregated of them takes bounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_collector::aggregate::{CountersStart, DepthShown, Engine, EngineSettings};
use narrows_collector::wire::{self, encapsulation, Decoder};
use narrows_fuzz::frames;

const PORT: u16 = 5500;
const UDP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;

/// What a switch puts in front of a report.
fn carried(report: &[u8]) -> Vec<u8> {
    let udp = UDP_BYTES + report.len();
    let mut ip = vec![0x45, 0];
    ip.extend(((IPV4_BYTES + udp) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let sum = !encapsulation::checksum(0, &ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = [PORT.to_be_bytes(), PORT.to_be_bytes()].concat();
    [&[2; 12][..], &[0x08, 0], &ip, &ports, &(udp as u16).to_be_bytes(), &[0, 0], report].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(PORT);
    let mut records = Vec::new();
    let mut kind = 0;
    for ([front], rest) in frames(bytes) {
        kind = *front;
        // One of eight is a frame of its own, the others are reports in order.
        let frame = if kind % 8 == 7 { rest.to_vec() } else { carried(rest) };
        let decoded = decoder.decode(&frame);
        assert_eq!(decoded, wire::decode(&frame, PORT));
        records.extend(decoded.map(|(record, _)| record));
    }
    let mut engine = Engine::new(EngineSettings {
        interval_units: 100_000_000,
        queue_units: 10_000_000,
        origin: (kind & 8 != 0).then_some(u64::from(kind)),
        counters: [CountersStart::Detect, CountersStart::Zero, CountersStart::Run][usize::from(kind >> 4) % 3],
        depth: if kind & 64 == 0 { DepthShown::Left } else { DepthShown::Found },
        depth_unit_bytes: if kind & 128 == 0 { 1 } else { 80 },
    });
    engine.take(&records);
    let (counts, placed) = engine.finish();
    let accounted: u64 = counts.iter().map(|(_, one)| one.reports + one.duplicates + one.late + one.implausible).sum();
    assert_eq!(accounted, records.len() as u64);
    assert!(placed.flows.states.len() <= records.len());
});
