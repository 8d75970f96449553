// SPDX-License-Identifier: Apache-2.0
//! What runs before the program's own parts at egress and before the deparser, and what the architecture sets.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64, I8};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use narrows_interpreter::packet::{Instance, Packet};
use narrows_interpreter::stages::EgressMeta;
use narrows_program::field::Slot;
use narrows_program::intrinsics::Intrinsic;
use narrows_program::op::Use;
use narrows_program::DROP_PORT;

use super::super::context::Context;
use super::super::shape::Shape;
use super::super::validity::Known;
use super::{Extra, Lowering, MadeFor};

impl Lowering<'_, '_> {
    /// Egress. A packet that is not cloned is deparsed as well.
    pub(super) fn egress(&mut self, made_for: MadeFor) {
        let program = self.program;
        self.never_copy = self.instance_slot().filter(|_| made_for == MadeFor::Packets);
        self.moving = program.moved(program.code.egress, program.code.ops.len() as u32);
        self.take_headers();
        let live = self.context_word(offset_of!(Context, live));
        for (position, &slot) in program.live.iter().enumerate() {
            let value = self.input(live, I64, 8 * position);
            self.set(slot, value);
        }
        let zero = self.constant(0);
        program.zeroed_at_egress.iter().for_each(|&slot| self.set(slot, zero));
        self.for_each_shape(|l| {
            l.take_inputs();
            if made_for == MadeFor::Copies {
                let copy = l.constant(Instance::EgressClone as u64);
                l.set_intrinsic(program.intrinsics.instance_type, copy);
            }
            l.go(program.code.egress);
        });
        self.translate();
    }

    /// The slot in which egress finds what the packet is, if it does not write to it.
    fn instance_slot(&self) -> Option<Slot> {
        let (code, slot) = (&self.program.code, self.program.intrinsics.instance_type.slot()?);
        let mut written = self.program.tables.iter().any(|t| (t.params..t.params + t.words() as Slot).contains(&slot));
        for op in &code.ops[code.egress as usize..code.update as usize] {
            op.clone().visit(|&mut s, how| match how {
                Use::Read | Use::ReadWide => {}
                Use::Write | Use::MayWrite => written |= s == slot,
                Use::WriteWide => written |= s == slot || s + 1 == slot,
            });
        }
        (!written).then_some(slot)
    }

    /// Updates of checksums, and where the output is, of a packet that egress has left.
    pub(super) fn deparse(&mut self) {
        let program = self.program;
        let start = program.code.update;
        self.moving = program.moved(start, program.code.ops.len() as u32);
        self.take_headers();
        for slot in program.left_for_update.clone() {
            self.unspill(slot);
        }
        self.for_each_shape(|l| l.go(start));
        self.translate();
    }

    /// Makes what follows for each set of added headers that packets usually come with: those of the traffic manager, as
    /// ingress leaves them, or none, as clones have; and for all others.
    fn for_each_shape(&mut self, mut body: impl FnMut(&mut Self)) {
        let added = self.program.added_only();
        let mut sets = vec![self.program.manager_headers & added, 0];
        sets.dedup();
        if added == 0 {
            sets.clear();
        }
        let all = self.constant(added);
        let valid = self.get_extra(Extra::Valid);
        let there = self.b.ins().band(valid, all);
        for set in sets {
            let same = self.b.ins().icmp_imm(IntCC::Equal, there, set as i64);
            let [this, next] = self.fork(same);
            self.b.switch_to_block(this);
            self.shape = Shape::new(Known::default());
            for header in (0..64u8).filter(|h| added >> h & 1 == 1) {
                self.shape.set(header, Some(set >> header & 1 == 1), self.home(header));
            }
            body(self);
            self.b.switch_to_block(next);
        }
        self.shape = Shape::new(Known::default());
        self.shape.general = added != 0;
        body(self);
    }

    /// What else the architecture gives egress: fields, and where their values are.
    fn inputs_of_egress(&mut self) -> [(Intrinsic, Type, (Value, usize)); 13] {
        let fields = &self.program.intrinsics;
        let meta = self.context_word(offset_of!(Context, meta));
        let of_meta = |offset| (meta, offset);
        [
            (fields.instance_type, I8, (self.packet, offset_of!(Packet, instance))),
            (fields.egress_port, I16, of_meta(offset_of!(EgressMeta, port))),
            (fields.egress_rid, I16, of_meta(offset_of!(EgressMeta, rid))),
            (fields.qid, I8, of_meta(offset_of!(EgressMeta, priority))),
            (fields.egress_timestamp, I64, of_meta(offset_of!(EgressMeta, timestamp))),
            (fields.enq_timestamp, I32, of_meta(offset_of!(EgressMeta, enq_timestamp))),
            (fields.enq_qdepth, I32, of_meta(offset_of!(EgressMeta, enq_qdepth))),
            (fields.deq_timedelta, I32, of_meta(offset_of!(EgressMeta, deq_timedelta))),
            (fields.deq_qdepth, I32, of_meta(offset_of!(EgressMeta, deq_qdepth))),
            (fields.enq_depth_bytes, I32, of_meta(offset_of!(EgressMeta, enq_depth_bytes))),
            (fields.deq_depth_bytes, I32, of_meta(offset_of!(EgressMeta, deq_depth_bytes))),
            (fields.queue_delay, I64, of_meta(offset_of!(EgressMeta, queue_delay))),
            (fields.epoch, I16, of_meta(offset_of!(EgressMeta, epoch))),
        ]
    }

    /// What the architecture gives egress.
    fn take_inputs(&mut self) {
        let fields = &self.program.intrinsics;
        let forward = self.constant(DROP_PORT + 1);
        self.set_intrinsic_anywhere(fields.egress_spec, forward);
        // The packet's own length changes while the code runs: this is not an input.
        let length = self.get_extra(Extra::RegisterLength);
        self.set_intrinsic_anywhere(fields.packet_length, length);
        let given = self.inputs_of_egress();
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
            let valid = self.shape.headers.of(header) == Some(true);
            if valid && !self.shape.general {
                // Often the header is removed before anything but those fields has been read.
                self.shape.given |= 1 << (header & 63);
            } else {
                self.if_valid(header, |l| l.store_inputs(header));
            }
        }
    }

    /// Writes what the architecture gives to a header's fields.
    pub(super) fn store_inputs(&mut self, header: u8) {
        for (field, kind, (of, offset)) in self.inputs_of_egress() {
            if field.header() == Some(header) {
                let value = self.input(of, kind, offset);
                self.store_intrinsic(field, value);
            }
        }
    }

    /// The value of such a field where it has not been written yet.
    pub(super) fn input_not_stored(&mut self, header: u8, byte: u16, count: u32) -> Option<Value> {
        if self.shape.given >> (header & 63) & 1 == 0 {
            return None;
        }
        let mut given = self.inputs_of_egress().into_iter().rev();
        let is_it = |field: Intrinsic| match field {
            Intrinsic::Header { header: h, byte: b, count: c } => (h, b, u32::from(c)) == (header, byte, count),
            _ => false,
        };
        let (_, kind, (of, offset)) = given.find(|g| is_it(g.0))?;
        let value = self.input(of, kind, offset);
        Some(if count < 8 { self.mask(value, 8 * count as u8) } else { value })
    }

    pub(super) fn set_intrinsic(&mut self, field: Intrinsic, value: Value) {
        if let Intrinsic::Slot { slot, mask } = field {
            let value = match self.known_value(value) {
                Some(value) => self.constant(value & mask),
                None => self.b.ins().band_imm(value, mask as i64),
            };
            self.set(slot, value);
        }
    }

    /// The same where the field may lie in a header, which takes it if it is valid.
    pub(super) fn set_intrinsic_anywhere(&mut self, field: Intrinsic, value: Value) {
        match field {
            Intrinsic::Header { header, .. } => self.if_valid(header, |l| l.store_intrinsic(field, value)),
            _ => self.set_intrinsic(field, value),
        }
    }

    /// Writes a field of a header that is valid.
    fn store_intrinsic(&mut self, field: Intrinsic, value: Value) {
        if let Intrinsic::Header { header, byte, count } = field {
            self.write(header, byte, u32::from(count), value);
        }
    }

    pub(super) fn get_intrinsic(&mut self, field: Intrinsic) -> Value {
        match field {
            Intrinsic::Absent => self.constant(0),
            Intrinsic::Slot { slot, .. } => self.slot(slot),
            Intrinsic::Header { header, byte, count } => self.window(header, byte, u32::from(count), 0),
        }
    }
}
