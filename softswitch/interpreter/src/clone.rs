// SPDX-License-Identifier: Apache-2.0
//! Clones: ingress to egress, and egress to egress.

use narrows_program::Program;

use crate::frame::preserve;
use crate::intrinsics::Access;
use crate::machine::Machine;
use crate::packet::{Instance, Packet};
use crate::stages::{clear, parse, wire_length};

impl Machine {
    /// Leaves the values of a field list with a packet that goes through ingress again.
    pub fn preserve_again(&self, program: &Program, packet: &mut Packet, list: u16) {
        packet.live.clear();
        packet.live.extend(program.again(list).iter().map(|&slot| self.frame[usize::from(slot)]));
    }

    /// Keeps what ingress-to-egress clones of the packet that ingress has just seen carry on: making one of them parses the
    /// packet again, which overwrites the metadata that it comes from, and there may be several.
    pub fn keep_for_clones(&mut self, program: &Program, packet: &Packet, list: u16) {
        preserve(program, &self.frame, list, &mut self.ingress_clones.live);
        self.ingress_clones.port = program.intrinsics.ingress_port.get(&self.frame, packet);
    }

    /// Makes `copy` an ingress-to-egress clone of a packet, `original` as it came in, for which [`Machine::keep_for_clones`] was
    /// called: its original bytes, parsed again, metadata reset but for what was kept. Tables and cells stay as they are.
    ///
    /// At most `limit` bytes of the frame (but all parsed headers) are left, and accounted by queues.
    pub fn clone_ingress(
        &mut self,
        program: &Program,
        packet: &Packet,
        copy: &mut Packet,
        original: &[u8],
        limit: usize,
    ) {
        let length = packet.ingress_length as usize;
        copy.set_frame(program.headroom, length, original.len());
        copy.clear_bases(program);
        copy.bytes_mut().copy_from_slice(original);
        copy.owner = program.id;
        clear(program, self);
        program.intrinsics.ingress_port.set(&mut self.frame, copy, self.ingress_clones.port);
        parse(program, self, copy);
        copy.length = wire_length(program, copy);
        copy.limit(limit);
        copy.live.clone_from(&self.ingress_clones.live);
        copy.instance = Instance::IngressClone;
        copy.generation = packet.generation.saturating_add(1);
    }

    /// Makes `copy` the egress-to-egress clone of the packet that egress has just seen: headers as after egress and not yet
    /// deparsed, metadata reset but for the preserved field list. `zeros` is [`Program::zeros`].
    ///
    /// At most `limit` bytes of the frame (but all parsed headers) are copied, and accounted by queues.
    #[inline(never)]
    pub fn clone_egress(&self, program: &Program, packet: &Packet, copy: &mut Packet, zeros: usize, limit: usize) {
        let start = program.headroom;
        let whole = packet.end as usize + packet.missing as usize;
        let end = start.saturating_add(limit).clamp(packet.payload as usize, whole);
        // Added headers lie in the headroom, behind its zeros.
        let from = match packet.valid & program.added_headers {
            0 => start,
            _ => zeros,
        };
        copy.set_copy(packet, program, from, end);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        // Most copies are cut off long before the end of the frame.
        copy.length = match packet.end - packet.payload + packet.missing {
            rest if rest >= limit => limit,
            _ => wire_length(program, packet).min(limit),
        };
        if copy.live.len() != self.kept.len() {
            copy.live.resize(self.kept.len(), 0);
        }
        copy.live.copy_from_slice(&self.kept);
        copy.instance = Instance::EgressClone;
    }
}
