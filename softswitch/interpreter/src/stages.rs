// SPDX-License-Identifier: Apache-2.0
//! The stages of v1model, interpreted: what goes in, what is decided.

use narrows_program::{Program, DROP_PORT};

use crate::frame::preserve;
use crate::intrinsics::Access;
use crate::machine::{Machine, Outcome};
use crate::output::place;
use crate::packet::Packet;

/// What the queue measured, for one packet that leaves it. Units as v1model says or as the target's profile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressMeta {
    pub port: u16,
    /// Priority of the queue it left.
    pub priority: u8,
    /// Replica id of a multicast copy, else 0.
    pub rid: u16,
    /// `egress_global_timestamp`, 48 bits.
    pub timestamp: u64,
    pub enq_timestamp: u32,
    pub deq_timedelta: u32,
    /// In packets, 19 bits, saturated by the caller.
    pub enq_qdepth: u32,
    pub deq_qdepth: u32,
    /// `narrows.enq_depth_bytes`
    pub enq_depth_bytes: u32,
    /// `narrows.deq_depth_bytes`
    pub deq_depth_bytes: u32,
    /// `narrows.queue_delay`, 48 bits
    pub queue_delay: u64,
    /// `narrows.epoch`
    pub epoch: u16,
}

/// What ingress or egress decided.
pub struct Decisions {
    pub egress_spec: u16,
    pub group: u16,
    pub priority: u8,
    /// Session and field list.
    pub clone: Option<(u16, u16)>,
    /// Index of the digest.
    pub digest: Option<u16>,
}

impl Machine {
    /// Parser, checksum verification and ingress of a new packet.
    pub fn ingress(&mut self, program: &Program, packet: &mut Packet, port: u16, timestamp: u64) -> Decisions {
        let (machine, fields) = (self, &program.intrinsics);
        packet.forget();
        packet.owner = program.id;
        packet.clear_bases(program);
        clear(program, machine);
        let frame = &mut machine.frame;
        fields.ingress_port.set(frame, packet, u64::from(port));
        let length = u64::from(packet.register_length);
        fields.packet_length.set(frame, packet, length);
        fields.ingress_timestamp.set(frame, packet, timestamp);
        for (slot, value) in packet.kept_again(program) {
            frame[usize::from(slot)] = value;
        }
        let instance = packet.instance as u64;
        fields.instance_type.set(frame, packet, instance);
        parse(program, machine, packet);
        machine.run(program, packet, program.code.ingress);

        let frame = &machine.frame;
        packet.length = wire_length(program, packet);
        packet.flow = fields.flow.get(frame, packet) as u32;
        packet.live.clear();
        packet.live.extend(program.live.iter().map(|&slot| frame[usize::from(slot)]));
        Decisions {
            egress_spec: fields.egress_spec.get(frame, packet) as u16,
            group: fields.mcast_grp.get(frame, packet) as u16,
            priority: fields.priority.get(frame, packet) as u8,
            clone: machine.outcome.clone,
            digest: machine.outcome.digest,
        }
    }

    /// Egress of a packet that ingress has seen.
    pub fn egress(&mut self, program: &Program, packet: &mut Packet, meta: &EgressMeta) -> Decisions {
        let (machine, fields) = (self, &program.intrinsics);
        packet.forget();
        let frame = &mut machine.frame;
        for (&slot, &value) in program.live.iter().zip(&packet.live) {
            frame[usize::from(slot)] = value;
        }
        program.zeroed_at_egress.iter().for_each(|&slot| frame[usize::from(slot)] = 0);
        let instance = packet.instance as u64;
        fields.instance_type.set(frame, packet, instance);
        fields.egress_spec.set(frame, packet, DROP_PORT + 1);
        fields.egress_port.set(frame, packet, u64::from(meta.port));
        let length = u64::from(packet.register_length);
        fields.packet_length.set(frame, packet, length);
        fields.egress_rid.set(frame, packet, u64::from(meta.rid));
        fields.qid.set(frame, packet, u64::from(meta.priority));
        fields.egress_timestamp.set(frame, packet, meta.timestamp);
        fields.enq_timestamp.set(frame, packet, u64::from(meta.enq_timestamp));
        fields.enq_qdepth.set(frame, packet, u64::from(meta.enq_qdepth));
        fields.deq_timedelta.set(frame, packet, u64::from(meta.deq_timedelta));
        fields.deq_qdepth.set(frame, packet, u64::from(meta.deq_qdepth));
        fields.enq_depth_bytes.set(frame, packet, u64::from(meta.enq_depth_bytes));
        fields.deq_depth_bytes.set(frame, packet, u64::from(meta.deq_depth_bytes));
        fields.queue_delay.set(frame, packet, meta.queue_delay);
        fields.epoch.set(frame, packet, u64::from(meta.epoch));
        machine.outcome = Outcome::default();
        machine.run(program, packet, program.code.egress);
        if let Some((_, list)) = machine.outcome.clone {
            preserve(program, &machine.frame, list, &mut machine.kept);
        }
        Decisions {
            egress_spec: fields.egress_spec.get(&machine.frame, packet) as u16,
            group: 0,
            priority: 0,
            clone: machine.outcome.clone,
            digest: None,
        }
    }

    /// Checksums, and where the output starts and ends. False: the headers do not lie in a row, see [`gather`].
    ///
    /// [`gather`]: crate::output::gather
    pub fn deparse(&mut self, program: &Program, packet: &mut Packet) -> bool {
        packet.forget();
        self.run(program, packet, program.code.update);
        place(program, packet)
    }
}

/// Metadata starts as 0, where anything reads it.
pub(crate) fn clear(program: &Program, machine: &mut Machine) {
    for &slot in &program.zeroed {
        machine.frame[usize::from(slot)] = 0;
    }
}

/// Parser and checksum verification, and the metadata that they set.
pub(crate) fn parse(program: &Program, machine: &mut Machine, packet: &mut Packet) {
    machine.outcome = Outcome { parser_error: program.errors.none, ..Outcome::default() };
    machine.run(program, packet, program.code.parser);
    if program.verifies {
        machine.run(program, packet, program.code.verify);
    }
    let outcome = machine.outcome;
    program.intrinsics.parser_error.set(&mut machine.frame, packet, outcome.parser_error);
    program.intrinsics.checksum_error.set(&mut machine.frame, packet, u64::from(outcome.checksum_error));
}

/// The length that queues account, what would leave: headers that are valid and emitted, and the bytes behind them.
pub(crate) fn wire_length(program: &Program, packet: &Packet) -> u32 {
    let mut length = packet.end - packet.payload + packet.missing;
    let mut headers = packet.valid & program.emitted;
    while headers != 0 {
        length += program.emitted_bytes[headers.trailing_zeros() as usize];
        headers &= headers - 1;
    }
    length
}
