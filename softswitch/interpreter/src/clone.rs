// SPDX-License-Identifier: Apache-2.0
//! Clones: ingress to egress, and egress to egress.

use narrows_program::Program;

use crate::intrinsics::Access;
use crate::machine::Machine;
use crate::packet::{Instance, Packet};
use crate::stages::{clear, parse, wire_length};

impl Machine {
    /// Makes `copy` the ingress-to-egress clone of a packet, `original` as it came in, that ingress has just seen: its original
    /// bytes, parsed again, metadata reset but for the field list of `clone` (session and list). Tables and cells stay as they
    /// are.
    pub fn clone_ingress(
        &mut self,
        program: &Program,
        packet: &Packet,
        copy: &mut Packet,
        original: &[u8],
        clone: Option<(u16, u16)>,
    ) {
        let list = clone.map_or(&[][..], |(_, list)| program.kept(list));
        let value = |&(position, slot): &(usize, u16)| (position, self.frame[usize::from(slot)]);
        let kept: Vec<(usize, u64)> = list.iter().map(value).collect();
        let port = program.intrinsics.ingress_port.get(&self.frame, packet);
        let length = packet.ingress_length as usize;
        copy.set_frame(program.headroom, length, original.len());
        copy.clear_bases(program);
        copy.bytes_mut().copy_from_slice(original);
        copy.owner = program.id;
        clear(program, self);
        program.intrinsics.ingress_port.set(&mut self.frame, copy, port);
        parse(program, self, copy);
        copy.live.clear();
        copy.live.resize(program.live.len(), 0);
        for (position, value) in kept {
            copy.live[position] = value;
        }
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
        copy.length = wire_length(program, copy).min(u32::try_from(limit).unwrap_or(u32::MAX));
        if copy.live.len() != self.kept.len() {
            copy.live.resize(self.kept.len(), 0);
        }
        copy.live.copy_from_slice(&self.kept);
        copy.instance = Instance::EgressClone;
    }
}
