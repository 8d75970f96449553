// SPDX-License-Identifier: Apache-2.0
//! Packets per second of the compiled Narrows program on one core: ingress, egress, and a report for every packet
//! (clone, its egress, both deparsed), without queues and I/O.
//!
//! `cargo bench -p narrows-pipeline [-- FRAME_BYTES FLOWS BOTTLENECKS SECONDS]`

use std::sync::Arc;
use std::time::Instant;

use narrows_pipeline::{
    ActionCall, EgressMeta, Entry, Forward, KeyMatch, Packet, PacketPool, Pipeline, Program, TableId,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let runs: Vec<[usize; 4]> = match numbers[..] {
        [frame, flows, bottlenecks, seconds] => vec![[frame, flows, bottlenecks, seconds]],
        _ => [
            [64, 1, 1, 1],
            [64, 1000, 1, 1],
            [64, 60_000, 1, 1],
            [64, 1000, 16, 1],
            [64, 1000, 64, 1],
            [1500, 1000, 1, 1],
        ]
        .to_vec(),
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/compiled/v1model/narrows.json");
    let program = Arc::new(Program::load(&std::fs::read(path)?)?);
    println!("frame  flows  bottlenecks  report  Mpps   ns/packet");
    for [frame, flows, bottlenecks, seconds] in runs {
        for report in [false, true] {
            let rate = measure(&program, frame, flows, bottlenecks, seconds, report)?;
            println!(
                "{frame:5}  {flows:5}  {bottlenecks:11}  {:6}  {:5.2}  {:9.1}",
                if report { "all" } else { "none" },
                rate / 1e6,
                1e9 / rate
            );
        }
    }
    Ok(())
}

/// Processor time of this thread, which other load does not stretch (Linux).
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

fn table(program: &Program, suffix: &str) -> TableId {
    let found = program.tables().iter().find(|t| t.name.ends_with(suffix));
    found.map_or_else(|| panic!("no table {suffix}"), |t| t.id)
}

fn entry(program: &Program, table: TableId, key: Vec<KeyMatch>, action: &str, params: Vec<u128>) -> Entry {
    let info = program.tables().iter().find(|t| t.id == table);
    let action = info.and_then(|t| t.actions.iter().find(|a| a.name.ends_with(action)));
    let priority = i32::from(info.is_some_and(|t| t.has_priority));
    let action = action.map_or_else(String::new, |a| a.name.clone());
    Entry { key, priority, action: ActionCall { action, params } }
}

fn configure(pipeline: &mut Pipeline, bottlenecks: usize, report: bool) -> Result<(), Box<dyn std::error::Error>> {
    let program = pipeline.program().clone();
    let any = KeyMatch::Ternary { value: 0, mask: 0 };
    for b in 0..bottlenecks as u128 {
        let cross = table(&program, ".cross_connect");
        let mut key = vec![any; 6];
        key[0] = KeyMatch::Ternary { value: b, mask: 0x1ff };
        pipeline.table_insert(cross, &entry(&program, cross, key, ".bottleneck", vec![b, b + 100, 0]))?;
        let settings = table(&program, ".settings.bottleneck");
        let session = u128::from(report);
        let params = vec![0xffff_ffff, 0, 0, 0, 0, 1, session];
        let exact = vec![KeyMatch::Exact(b)];
        pipeline.table_insert(settings, &entry(&program, settings, exact.clone(), ".observe", params))?;
        let collector = table(&program, ".collector");
        let params = vec![0x0200_0000_0001, 0x0200_0000_0002, 0x0a00_0001, 0x0a00_0002, 4000, 5500, 184];
        pipeline.table_insert(collector, &entry(&program, collector, exact, ".encapsulate", params))?;
    }
    let bins = table(&program, ".delay_bins");
    for octave in 2..32u32 {
        for quarter in 0..4u128 {
            let value = (1 << octave) | quarter << (octave - 2);
            let key = vec![KeyMatch::Lpm { value, prefix_len: 32 - octave + 2 }];
            let bin = u128::from(octave * 4) + quarter;
            pipeline.table_insert(bins, &entry(&program, bins, key, ".set_bin", vec![bin & 127]))?;
        }
    }
    Ok(())
}

/// An Ethernet/IPv4/TCP frame of a flow.
fn frame(length: usize, flow: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 6]);
    bytes[26..30].copy_from_slice(&[10, 0, 0, 1]);
    bytes[30..34].copy_from_slice(&[10, 0, 1, 1]);
    bytes[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    bytes[36..38].copy_from_slice(&5201u16.to_be_bytes());
    bytes
}

fn measure(
    program: &Arc<Program>,
    length: usize,
    flows: usize,
    bottlenecks: usize,
    seconds: usize,
    report: bool,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut pipeline = Pipeline::new(program.clone(), 1);
    configure(&mut pipeline, bottlenecks, report)?;
    let mut pool = PacketPool::new(program);
    let frames: Vec<Vec<u8>> = (0..flows).map(|f| frame(length, f)).collect();
    let mut digests = Vec::new();
    let (mut packets, mut sent, mut next) = (0u64, 0u64, 0usize);
    let cpu_start = cpu_seconds().unwrap_or_default();
    let start = Instant::now();
    while packets % 1024 != 0 || start.elapsed().as_secs() < seconds as u64 {
        // Flows in an order that no prefetcher follows.
        next = (next + 7919) % flows;
        let mut packet = pool.packet(&frames[next]);
        let verdict = pipeline.ingress(&mut packet, (next % bottlenecks) as u16, packets * 100);
        if let Forward::Unicast { port, priority } = verdict.forward {
            let meta = EgressMeta {
                port,
                priority,
                timestamp: packets * 100 + 5000,
                queue_delay: 5000 + packets.wrapping_mul(7919) % 1_000_000,
                enq_depth_bytes: 15_000,
                deq_depth_bytes: 14_000,
                epoch: 1,
                ..EgressMeta::default()
            };
            sent += send(&mut pipeline, &mut pool, &mut packet, &meta);
        }
        pool.give(packet);
        packets += 1;
        if packets % 4096 == 0 {
            pipeline.drain_digests(&mut digests);
            digests.clear();
        }
    }
    let elapsed = cpu_seconds().map_or_else(|| start.elapsed().as_secs_f64(), |now| now - cpu_start);
    let expected = packets * (1 + u64::from(report));
    if sent != expected {
        return Err(format!("{sent} packets came out, not {expected}").into());
    }
    Ok(packets as f64 / elapsed)
}

fn send(pipeline: &mut Pipeline, pool: &mut PacketPool, packet: &mut Packet, meta: &EgressMeta) -> u64 {
    let verdict = pipeline.egress(packet, meta);
    let mut sent = 0;
    let clone = verdict.clone.map(|_| {
        let mut copy = pool.take(packet.bytes().len().min(256));
        pipeline.clone_egress(packet, &mut copy, 184);
        copy
    });
    if verdict.transmit {
        sent += u64::from(!pipeline.deparse(packet).is_empty());
    }
    if let Some(mut copy) = clone {
        sent += send(pipeline, pool, &mut copy, &EgressMeta { port: 200, ..*meta });
        pool.give(copy);
    }
    sent
}
