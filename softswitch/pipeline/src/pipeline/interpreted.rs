// SPDX-License-Identifier: Apache-2.0
//! Ingress and egress by the interpreter.

use super::output::place;
use super::{verdict, EgressMeta, EgressVerdict, Pipeline};
use crate::exec::{Machine, Outcome};
use crate::jit::Decisions;
use crate::packet::{Packet, FOREIGN};
use crate::program::{Program, DROP_PORT};

impl Pipeline {
    #[cold]
    pub(super) fn ingress_interpreted(
        &mut self,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
        ours: bool,
    ) -> Decisions {
        self.machine.changed = true;
        packet.forget();
        packet.owner = if ours { self.program.id } else { FOREIGN };
        packet.clear_bases(&self.program);
        self.interpret_ingress(packet, port, timestamp)
    }

    #[cold]
    pub(super) fn egress_interpreted(
        &mut self,
        packet: &mut Packet,
        meta: &EgressMeta,
    ) -> EgressVerdict {
        self.machine.changed = true;
        packet.forget();
        verdict(&self.interpret_egress(packet, meta))
    }

    #[cold]
    pub(super) fn deparse_interpreted(&mut self, packet: &mut Packet) -> bool {
        let program = &*self.program;
        self.machine.changed = true;
        packet.forget();
        self.machine.run(program, packet, program.code.update);
        place(program, packet)
    }

    pub(super) fn interpret_ingress(
        &mut self,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) -> Decisions {
        let program = &*self.program;
        let (machine, fields) = (&mut self.machine, &program.intrinsics);
        clear(program, machine);
        let frame = &mut machine.frame;
        fields.ingress_port.set(frame, packet, u64::from(port));
        let length = u64::from(packet.register_length);
        fields.packet_length.set(frame, packet, length);
        fields.ingress_timestamp.set(frame, packet, timestamp);
        parse(program, machine, packet);
        machine.run(program, packet, program.code.ingress);

        let frame = &machine.frame;
        packet.length = wire_length(program, packet);
        packet.flow = fields.flow.get(frame, packet) as u32;
        packet.live.clear();
        packet
            .live
            .extend(program.live.iter().map(|&slot| frame[usize::from(slot)]));
        Decisions {
            egress_spec: fields.egress_spec.get(frame, packet) as u16,
            group: fields.mcast_grp.get(frame, packet) as u16,
            priority: fields.priority.get(frame, packet) as u8,
            clone: machine.outcome.clone,
            digest: machine.outcome.digest,
        }
    }

    pub(super) fn interpret_egress(&mut self, packet: &mut Packet, meta: &EgressMeta) -> Decisions {
        let program = &*self.program;
        let (machine, fields) = (&mut self.machine, &program.intrinsics);
        let frame = &mut machine.frame;
        for (&slot, &value) in program.live.iter().zip(&packet.live) {
            frame[usize::from(slot)] = value;
        }
        let instance = packet.instance as u64;
        fields.instance_type.set(frame, packet, instance);
        fields.egress_spec.set(frame, packet, DROP_PORT + 1);
        fields.egress_port.set(frame, packet, u64::from(meta.port));
        let length = u64::from(packet.register_length);
        fields.packet_length.set(frame, packet, length);
        fields.egress_rid.set(frame, packet, u64::from(meta.rid));
        fields.qid.set(frame, packet, u64::from(meta.priority));
        fields.egress_timestamp.set(frame, packet, meta.timestamp);
        fields
            .enq_timestamp
            .set(frame, packet, u64::from(meta.enq_timestamp));
        fields
            .enq_qdepth
            .set(frame, packet, u64::from(meta.enq_qdepth));
        fields
            .deq_timedelta
            .set(frame, packet, u64::from(meta.deq_timedelta));
        fields
            .deq_qdepth
            .set(frame, packet, u64::from(meta.deq_qdepth));
        fields
            .enq_depth_bytes
            .set(frame, packet, u64::from(meta.enq_depth_bytes));
        fields
            .deq_depth_bytes
            .set(frame, packet, u64::from(meta.deq_depth_bytes));
        fields.epoch.set(frame, packet, u64::from(meta.epoch));
        machine.outcome = Outcome::default();
        machine.run(program, packet, program.code.egress);
        if let Some((_, list)) = machine.outcome.clone {
            machine.kept.clear();
            machine.kept.resize(program.live.len(), 0);
            for &(position, slot) in program.kept(list) {
                if let Some(kept) = machine.kept.get_mut(position) {
                    *kept = machine.frame[usize::from(slot)];
                }
            }
        }
        Decisions {
            egress_spec: fields.egress_spec.get(&machine.frame, packet) as u16,
            group: 0,
            priority: 0,
            clone: machine.outcome.clone,
            digest: None,
        }
    }
}

/// Metadata starts as 0, as far as anything reads it.
pub(super) fn clear(program: &Program, machine: &mut Machine) {
    for &slot in &program.zeroed {
        machine.frame[usize::from(slot)] = 0;
    }
}

/// Parser and checksum verification, and the metadata that they set.
pub(super) fn parse(program: &Program, machine: &mut Machine, packet: &mut Packet) {
    machine.outcome = Outcome {
        parser_error: program.errors.none,
        ..Outcome::default()
    };
    machine.run(program, packet, program.code.parser);
    if program.verifies {
        machine.run(program, packet, program.code.verify);
    }
    let outcome = machine.outcome;
    program
        .intrinsics
        .parser_error
        .set(&mut machine.frame, packet, outcome.parser_error);
    program.intrinsics.checksum_error.set(
        &mut machine.frame,
        packet,
        u64::from(outcome.checksum_error),
    );
}

/// The length that queues account: without headers that only carry fields of the traffic manager.
pub(super) fn wire_length(program: &Program, packet: &Packet) -> u32 {
    let mut length = packet.register_length;
    let mut headers = packet.valid & program.manager_headers;
    while headers != 0 {
        let header = headers.trailing_zeros() as usize;
        length = length.wrapping_sub(program.headers[header]);
        headers &= headers - 1;
    }
    length
}

/// Positions and values of the metadata that a clone keeps.
pub(super) fn kept(
    program: &Program,
    machine: &Machine,
    clone: Option<(u16, u16)>,
) -> Vec<(usize, u64)> {
    let list = clone.map_or(&[][..], |(_, list)| program.kept(list));
    list.iter()
        .map(|&(position, slot)| (position, machine.frame[usize::from(slot)]))
        .collect()
}
