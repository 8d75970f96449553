// SPDX-License-Identifier: Apache-2.0
//! The generated functions: what happens before and behind the program's own parts.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64, I8};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::super::context::Context;
use super::{Extra, Lowering};
use crate::layout::{Field, Place, Slot};
use crate::packet::Packet;
use crate::pipeline::EgressMeta;
use crate::program::{Intrinsic, DROP_PORT};

impl Lowering<'_, '_> {
    /// Parser, verification of checksums, ingress.
    pub(super) fn ingress(&mut self) {
        let (program, fields) = (self.program, &self.program.intrinsics);
        let code = &program.code;
        self.take_frame();
        self.part(code.parser, code.verify);
        if program.verifies {
            self.part(code.verify, code.ingress);
        }
        let error = self.get_extra(Extra::ParserError);
        self.set_intrinsic_anywhere(fields.parser_error, error);
        let error = self.get_extra(Extra::ChecksumError);
        self.set_intrinsic_anywhere(fields.checksum_error, error);
        self.part(code.ingress, code.egress);

        self.at_end();
        self.give_headers(code.parser, code.egress);
        let payload = self.get_extra(Extra::Payload);
        self.set_field(self.packet, I32, offset_of!(Packet, payload), payload);
        self.wire_length();
        let flow = self.get_intrinsic(fields.flow);
        self.set_field(self.packet, I32, offset_of!(Packet, flow), flow);
        let live = self.context_word(offset_of!(Context, live));
        for (position, &slot) in program.live.iter().enumerate() {
            let value = self.slot(slot);
            self.set_field(live, I64, 8 * position, value);
        }
        for (field, offset) in [
            (fields.egress_spec, offset_of!(Context, egress_spec)),
            (fields.mcast_grp, offset_of!(Context, group)),
            (fields.priority, offset_of!(Context, priority)),
        ] {
            let value = self.get_intrinsic(field);
            self.set_context_word(offset, value);
        }
        self.leave_ingress_clone();
        self.leave_digest();
        self.b.ins().return_(&[]);
    }

    /// Egress.
    pub(super) fn egress(&mut self) {
        let program = self.program;
        let fields = &program.intrinsics;
        let code = &program.code;
        self.at = code.egress;
        self.take_headers();
        let payload = self.field(self.packet, I32, offset_of!(Packet, payload));
        self.set_extra(Extra::Payload, payload);
        let live = self.context_word(offset_of!(Context, live));
        for (position, &slot) in program.live.iter().enumerate() {
            let value = self.input(live, I64, 8 * position);
            self.set(slot, value);
        }
        self.take_inputs();

        self.part(code.egress, code.update);

        self.at_end();
        self.give_headers(code.egress, code.update);
        let port = self.get_intrinsic(fields.egress_spec);
        self.set_context_word(offset_of!(Context, egress_spec), port);
        for slot in program.left_for_update.clone() {
            self.spill(slot);
        }
        self.leave_egress_clone(live);
        self.b.ins().return_(&[]);
    }

    /// Updates of checksums, and where the output is: headers in a row are sent from where they lie.
    pub(super) fn deparse(&mut self) {
        let program = self.program;
        let (start, limit) = (program.code.update, program.code.ops.len() as u32);
        self.at = start;
        self.take_headers();
        let payload = self.field(self.packet, I32, offset_of!(Packet, payload));
        self.set_extra(Extra::Payload, payload);
        for slot in program.left_for_update.clone() {
            self.unspill(slot);
        }
        self.part(start, limit);
        self.at_end();
        self.give_headers(start, limit);
        let scattered = self.b.create_block();
        // Where the headers behind start, from the last one to the first.
        let found = self.extra(Extra::States);
        let payload = self.get_extra(Extra::Payload);
        self.b.def_var(found, payload);
        for &header in program.deparser.iter().rev() {
            let valid = self.validity(header);
            self.when(valid, |l| {
                let bytes = i64::from(l.program.headers[usize::from(header)]);
                let (base, next) = (l.get_extra(Extra::Base(header)), l.b.use_var(found));
                let behind = l.b.ins().iadd_imm(base, bytes);
                let apart = l.b.ins().icmp(IntCC::NotEqual, behind, next);
                l.branch_out(apart, scattered);
                l.b.def_var(found, base);
            });
        }
        let first = self.b.use_var(found);
        self.set_field(self.packet, I32, offset_of!(Packet, start), first);
        let cut = self.field(self.packet, I32, offset_of!(Packet, truncated));
        let cut = self.b.ins().iadd(first, cut);
        let end = self.field(self.packet, I32, offset_of!(Packet, end));
        let end = self.b.ins().umin(end, cut);
        self.set_field(self.packet, I32, offset_of!(Packet, end), end);
        let one = self.constant(1);
        self.set_context_word(offset_of!(Context, contiguous), one);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(scattered);
        self.cold();
        self.b.ins().return_(&[]);
    }

    /// What the architecture gives egress.
    fn take_inputs(&mut self) {
        let fields = &self.program.intrinsics;
        let meta = self.context_word(offset_of!(Context, meta));
        let of_meta = |offset| (meta, offset);
        let given = [
            (
                fields.instance_type,
                I8,
                (self.packet, offset_of!(Packet, instance)),
            ),
            (
                fields.egress_port,
                I16,
                of_meta(offset_of!(EgressMeta, port)),
            ),
            (fields.egress_rid, I16, of_meta(offset_of!(EgressMeta, rid))),
            (fields.qid, I8, of_meta(offset_of!(EgressMeta, priority))),
            (
                fields.egress_timestamp,
                I64,
                of_meta(offset_of!(EgressMeta, timestamp)),
            ),
            (
                fields.enq_timestamp,
                I32,
                of_meta(offset_of!(EgressMeta, enq_timestamp)),
            ),
            (
                fields.enq_qdepth,
                I32,
                of_meta(offset_of!(EgressMeta, enq_qdepth)),
            ),
            (
                fields.deq_timedelta,
                I32,
                of_meta(offset_of!(EgressMeta, deq_timedelta)),
            ),
            (
                fields.deq_qdepth,
                I32,
                of_meta(offset_of!(EgressMeta, deq_qdepth)),
            ),
            (
                fields.enq_depth_bytes,
                I32,
                of_meta(offset_of!(EgressMeta, enq_depth_bytes)),
            ),
            (
                fields.deq_depth_bytes,
                I32,
                of_meta(offset_of!(EgressMeta, deq_depth_bytes)),
            ),
            (fields.epoch, I16, of_meta(offset_of!(EgressMeta, epoch))),
        ];
        let forward = self.constant(DROP_PORT + 1);
        self.set_intrinsic_anywhere(fields.egress_spec, forward);
        // The packet's own length changes while the code runs: this is no input.
        let length = self.get_extra(Extra::RegisterLength);
        self.set_intrinsic_anywhere(fields.packet_length, length);
        for (field, kind, (of, offset)) in given {
            if field.header().is_none() {
                let value = self.input(of, kind, offset);
                self.set_intrinsic(field, value);
            }
        }
        // Fields of one header together: its validity is looked at once.
        let mut headers: Vec<u8> = given.iter().filter_map(|(f, ..)| f.header()).collect();
        headers.sort_unstable();
        headers.dedup();
        for header in headers {
            let valid = self.validity(header);
            self.when(valid, |l| {
                for (field, kind, (of, offset)) in given {
                    if field.header() == Some(header) {
                        let value = l.input(of, kind, offset);
                        l.store_intrinsic(field, value);
                    }
                }
            });
        }
    }

    /// Behind the last instruction nothing is known about headers.
    fn at_end(&mut self) {
        self.at = u32::MAX;
    }

    pub(super) fn set_intrinsic(&mut self, field: Intrinsic, value: Value) {
        if let Intrinsic::Slot { slot, mask } = field {
            let mask = self.constant(mask);
            let value = self.b.ins().band(value, mask);
            self.set(slot, value);
        }
    }

    /// The same where the field may lie in a header, which takes it if it is valid.
    fn set_intrinsic_anywhere(&mut self, field: Intrinsic, value: Value) {
        match field {
            Intrinsic::Header { header, .. } => {
                let valid = self.validity(header);
                self.when(valid, |l| l.store_intrinsic(field, value));
            }
            _ => self.set_intrinsic(field, value),
        }
    }

    /// Writes a field of a header that is valid.
    fn store_intrinsic(&mut self, field: Intrinsic, value: Value) {
        if let Intrinsic::Header {
            header,
            byte,
            count,
        } = field
        {
            let address = self.header_address(header);
            self.store_bytes(address, i32::from(byte), u32::from(count), value);
        }
    }

    fn get_intrinsic(&mut self, field: Intrinsic) -> Value {
        match field {
            Intrinsic::Absent => self.constant(0),
            Intrinsic::Slot { slot, .. } => self.slot(slot),
            Intrinsic::Header {
                header,
                byte,
                count,
            } => {
                let address = self.header_address(header);
                self.load_bytes(address, i32::from(byte), u32::from(count))
            }
        }
    }

    /// The length that queues account: without headers that only carry fields of the traffic manager.
    fn wire_length(&mut self) {
        let mut length = self.get_extra(Extra::RegisterLength);
        let valid = self.get_extra(Extra::Valid);
        for header in (0..64u8).filter(|h| self.program.manager_headers >> h & 1 == 1) {
            let shifted = self.b.ins().ushr_imm(valid, i64::from(header));
            let is_valid = self.b.ins().band_imm(shifted, 1);
            let bytes = self.b.ins().imul_imm(
                is_valid,
                i64::from(self.program.headers[usize::from(header)]),
            );
            length = self.b.ins().isub(length, bytes);
        }
        self.set_field(self.packet, I32, offset_of!(Packet, length), length);
    }

    /// Says which clone of ingress to make, and leaves the metadata that it keeps in the frame.
    fn leave_ingress_clone(&mut self) {
        let clone = self.get_extra(Extra::Clone);
        self.set_context_word(offset_of!(Context, clone), clone);
        let kept = self.program.kept.iter().flat_map(|(_, kept)| kept);
        let mut kept: Vec<Slot> = kept.map(|(_, slot)| *slot).collect();
        kept.extend(self.program.intrinsics.ingress_port.slot());
        kept.sort_unstable();
        kept.dedup();
        self.when(clone, |l| kept.into_iter().for_each(|slot| l.spill(slot)));
    }

    /// Says which clone of egress to make, and turns the metadata that the packet carried into what the clone keeps.
    fn leave_egress_clone(&mut self, live: Value) {
        let clone = self.get_extra(Extra::Clone);
        self.set_context_word(offset_of!(Context, clone), clone);
        let (program, list) = (self.program, self.b.ins().ushr_imm(clone, 16));
        self.when(clone, |l| {
            let done = l.b.create_block();
            for (id, kept) in &program.kept {
                let (this, next) = (l.b.create_block(), l.b.create_block());
                let same =
                    l.b.ins()
                        .icmp_imm(IntCC::Equal, list, 1 << 16 | i64::from(*id));
                l.branch(same, this, next);
                l.b.switch_to_block(this);
                l.keep(live, kept);
                l.jump(done);
                l.b.switch_to_block(next);
            }
            l.keep(live, &[]);
            l.jump(done);
            l.b.switch_to_block(done);
        });
    }

    fn keep(&mut self, live: Value, kept: &[(usize, Slot)]) {
        for position in 0..self.program.live.len() {
            let value = match kept.iter().find(|(kept, _)| *kept == position) {
                Some((_, slot)) => self.slot(*slot),
                None => self.constant(0),
            };
            self.set_field(live, I64, 8 * position, value);
        }
    }

    /// The same for a digest and its fields.
    fn leave_digest(&mut self) {
        let digest = self.get_extra(Extra::Digest);
        self.set_context_word(offset_of!(Context, digest), digest);
        let fields: Vec<Field> = self
            .program
            .digest_fields
            .iter()
            .flatten()
            .copied()
            .collect();
        self.when(digest, |l| {
            l.cold();
            for field in fields {
                if let Place::Slot(slot) = field.place {
                    l.spill(slot);
                    if field.width > 64 {
                        l.spill(slot + 1);
                    }
                }
            }
        });
    }
}
