// SPDX-License-Identifier: Apache-2.0
//! A program as native code and interpreted, and a packet's way through both.

use std::sync::Arc;

use narrows_pipeline::{EgressMeta, Entry, Forward, Packet, PacketPool, Pipeline, Program};

use super::preparation::{take_entries, Preparation};
use crate::common::{entries, table_named};

/// The same program twice.
pub struct Twins {
    pub program: Arc<Program>,
    pub both: [Pipeline; 2],
    /// Packets are recycled: what earlier ones left in them must not be seen.
    pools: [PacketPool; 2],
}

/// What one packet led to, clones of clones included.
#[derive(Debug, Default, PartialEq)]
pub struct Trace {
    pub verdict: Option<Forward>,
    pub length: u32,
    pub flow: u32,
    pub sent: Vec<Vec<u8>>,
    pub clones: Vec<u16>,
    pub watched: Vec<u64>,
}

impl Twins {
    pub fn new(program: Arc<Program>) -> Self {
        let both = [Pipeline::new(program.clone(), 7), Pipeline::interpreter(program.clone(), 7)];
        let pools = [(); 2].map(|()| PacketPool::new(&program));
        Self { program, both, pools }
    }

    pub fn insert(&mut self, table: &str, entry: &Entry) {
        let id = table_named(&self.program, table).id;
        let [a, b] = &mut self.both;
        assert_eq!(a.table_insert(id, entry), b.table_insert(id, entry));
    }

    /// Passes a frame through both and compares what comes of it.
    pub fn pass(&mut self, frame: &[u8], port: u16, meta: &EgressMeta, preparation: Preparation) -> Trace {
        let ([a, b], [p, q]) = (&mut self.both, &mut self.pools);
        let (native, reference) =
            (pass(a, p, frame, port, meta, preparation), pass(b, q, frame, port, meta, preparation));
        assert_eq!(native, reference);
        native
    }

    /// Compares all state.
    pub fn compare(&mut self) {
        let [a, b] = &mut self.both;
        let records = [&mut *a, &mut *b].map(|p| {
            let mut records = Vec::new();
            p.drain_digests(&mut records);
            records
        });
        assert_eq!(records[0], records[1]);
        for register in &self.program.registers {
            for i in 0..register.size as u64 {
                let [x, y] = [&*a, &*b].map(|p| p.register_read(register.id, i));
                assert_eq!(x, y, "{} {i}", register.name);
            }
        }
        for counter in &self.program.counters {
            for i in 0..counter.size as u64 {
                let [x, y] = [&*a, &*b].map(|p| p.counter_read(counter.id, i));
                assert_eq!(x, y, "{} {i}", counter.name);
            }
        }
        for table in self.program.tables() {
            let [x, y] = [&*a, &*b].map(|p| entries(p, table.id));
            assert_eq!(x, y, "{}", table.name);
        }
    }
}

fn pass(
    pipeline: &mut Pipeline,
    pool: &mut PacketPool,
    frame: &[u8],
    port: u16,
    meta: &EgressMeta,
    preparation: Preparation,
) -> Trace {
    let mut packet = pool.packet(frame);
    let time = meta.timestamp / 2;
    let mut taken = Vec::new();
    match preparation {
        Preparation::Nothing => {}
        Preparation::OtherPort => pipeline.prepare(&mut packet, port ^ 1, time),
        Preparation::OtherTime => pipeline.prepare(&mut packet, port, time ^ 1),
        Preparation::OtherBytes => {
            packet.bytes_mut().reverse();
            pipeline.prepare(&mut packet, port, time);
            packet.bytes_mut().copy_from_slice(frame);
        }
        _ => pipeline.prepare(&mut packet, port, time),
    }
    match preparation {
        Preparation::TableChange => taken = take_entries(pipeline),
        Preparation::Departure => {
            let mut other = pool.packet(frame);
            let _ = pipeline.ingress(&mut other, port, time);
            let mut trace = Trace::default();
            leave(pipeline, pool, &mut other, meta, &mut trace);
        }
        Preparation::Others(count) => {
            let other = |i: u8| &frame[..frame.len() - frame.len() * usize::from(i) / 9];
            let mut others: Vec<_> = (0..count).map(|i| pool.packet(other(i))).collect();
            for (i, other) in others.iter_mut().enumerate() {
                pipeline.prepare(other, port, time);
                if i % 2 == 1 {
                    let _ = pipeline.ingress(other, port, time);
                }
            }
        }
        _ => {}
    }
    let verdict = pipeline.ingress(&mut packet, port, time);
    for (table, entry) in taken {
        assert_eq!(pipeline.table_insert(table, &entry), Ok(()));
    }
    let mut trace =
        Trace { verdict: Some(verdict.forward), length: packet.length(), flow: packet.flow(), ..Trace::default() };
    if let Some(session) = verdict.clone {
        let mut copy = pool.take(0);
        pipeline.clone_ingress(&packet, &mut copy, usize::MAX);
        trace.clones.push(session);
        leave(pipeline, pool, &mut copy, meta, &mut trace);
        pool.give(copy);
    }
    leave(pipeline, pool, &mut packet, meta, &mut trace);
    pool.give(packet);
    trace
}

fn leave(pipeline: &mut Pipeline, pool: &mut PacketPool, packet: &mut Packet, meta: &EgressMeta, trace: &mut Trace) {
    let verdict = pipeline.egress(packet, meta);
    trace.watched.extend(pipeline.watched(packet));
    let copy = verdict.clone.map(|session| {
        trace.clones.push(session);
        let mut copy = pool.take(0);
        pipeline.clone_egress(packet, &mut copy, 90 + usize::from(session) % 60);
        copy
    });
    if verdict.transmit {
        trace.sent.push(pipeline.deparse(packet).to_vec());
    }
    if let Some(mut copy) = copy.filter(|_| trace.clones.len() < 4) {
        leave(pipeline, pool, &mut copy, meta, trace);
        pool.give(copy);
    }
}
