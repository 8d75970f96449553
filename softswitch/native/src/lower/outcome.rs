// SPDX-License-Identifier: Apache-2.0
//! What runs after the program's own parts: decisions, what the packet carries on, and where the output is.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder};
use narrows_interpreter::packet::Packet;
use narrows_program::field::{Place, Slot};
use narrows_program::op::Op;

use super::super::context::Context;
use super::{Extra, Lowering};

impl Lowering<'_, '_> {
    /// After ingress.
    pub(super) fn leave_ingress(&mut self) {
        let (program, fields) = (self.program, &self.program.intrinsics);
        self.flush_all_pending_stores();
        self.give_headers();
        let payload = self.payload();
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
        self.leave_clone();
        if let Some(list) = self.shape.clone {
            // The clone's metadata is put together later.
            let mut kept: Vec<Slot> = program.kept(list).iter().map(|k| k.1).collect();
            kept.extend(fields.ingress_port.slot());
            kept.into_iter().for_each(|slot| self.spill(slot));
        }
        self.spill_again();
        self.leave_digest();
        self.b.ins().return_(&[]);
    }

    /// What a packet may keep that goes through ingress again, which is put together later.
    fn spill_again(&mut self) {
        if self.program.calls {
            self.program.again.iter().flat_map(|(_, slots)| slots).for_each(|&slot| self.spill(slot));
        }
    }

    /// After egress.
    pub(super) fn leave_egress(&mut self) {
        let program = self.program;
        let port = self.get_intrinsic(program.intrinsics.egress_spec);
        self.set_context_word(offset_of!(Context, egress_spec), port);
        self.leave_clone();
        self.spill_again();
        program.watched.iter().flat_map(|field| field.slots()).for_each(|slot| self.spill(slot));
        let Some(list) = self.shape.clone else {
            let deparsed = self.constant(1);
            self.set_context_word(offset_of!(Context, deparsed), deparsed);
            return self.go(program.code.update);
        };
        self.deparse_if_idle();
        self.flush_all_pending_stores();
        self.give_headers();
        for slot in program.left_for_update.clone() {
            self.spill(slot);
        }
        // What the clone keeps of the metadata that the packet carried.
        let kept = self.context_word(offset_of!(Context, kept));
        for position in 0..program.live.len() {
            let slot = program.kept(list).iter().find(|k| k.0 == position);
            let value = match slot {
                Some(&(_, slot)) => self.slot(slot),
                None => self.constant(0),
            };
            self.set_field(kept, I64, 8 * position, value);
        }
        self.b.ins().return_(&[]);
    }

    /// A packet that is cloned stays as egress has left it, but often that is how it is sent: no checksum is updated, nothing
    /// is cut off, and it is known where it starts.
    fn deparse_if_idle(&mut self) {
        let zero = self.constant(0);
        self.set_context_word(offset_of!(Context, deparsed), zero);
        let Some(start) = self.output_start().filter(|_| self.updates_nothing()) else {
            return;
        };
        let cut = self.field(self.packet, I32, offset_of!(Packet, truncated));
        let whole = self.b.ins().icmp_imm(IntCC::Equal, cut, i64::from(u32::MAX));
        self.when(whole, |l| {
            let (start, one) = (l.constant(u64::from(start)), l.constant(1));
            l.set_field(l.packet, I32, offset_of!(Packet, start), start);
            l.set_context_word(offset_of!(Context, deparsed), one);
            l.set_context_word(offset_of!(Context, contiguous), one);
        });
    }

    /// True if no instruction of the updates of checksums does anything for this packet.
    fn updates_nothing(&self) -> bool {
        let ops = &self.program.code.ops;
        let mut at = self.program.code.update;
        // Jumps may go round in circles.
        for _ in 0..ops.len() {
            let known = |header| self.shape.headers.of(header);
            at = match ops[at as usize] {
                Op::End => return true,
                Op::Jump(to) => to,
                Op::JumpValid { header, to } if known(header) == Some(true) => to,
                Op::JumpInvalid { header, to } if known(header) == Some(false) => to,
                Op::JumpValid { header, .. } if known(header) == Some(false) => at + 1,
                Op::JumpInvalid { header, .. } if known(header) == Some(true) => at + 1,
                _ => return false,
            };
        }
        false
    }

    /// Where the output starts, if that is known and headers lie in a row.
    fn output_start(&self) -> Option<u16> {
        let mut start = self.in_a_row.then_some(self.program.headroom as u16)?;
        let headers = self.program.deparser.iter().rev();
        for &header in headers.filter(|&&h| self.home(h).is_some()) {
            if self.shape.headers.of(header)? {
                let base = self.home(header)?;
                let behind = u32::from(base) + self.program.headers[usize::from(header)];
                if behind != u32::from(start) {
                    return None;
                }
                start = base;
            }
        }
        Some(start)
    }

    /// After the updates of checksums: headers in a row are sent from where they lie.
    pub(super) fn leave_deparse(&mut self) {
        let program = self.program;
        self.flush_all_pending_stores();
        self.give_headers();
        let scattered = self.b.create_block();
        // Where the headers behind start, from the last one to the first. Parsed ones need not be looked at if they are
        // always in a row from the start of the frame.
        let row = self.extra(Extra::Row);
        let start = match self.output_start() {
            Some(start) => self.constant(u64::from(start)),
            None if self.in_a_row => self.constant(program.headroom as u64),
            None => self.payload(),
        };
        self.b.def_var(row, start);
        let looked_at = |header: u8| !self.in_a_row || self.home(header).is_some();
        let headers: Vec<u8> = match self.output_start() {
            Some(_) => Vec::new(),
            None => program.deparser.iter().copied().filter(|h| looked_at(*h)).collect(),
        };
        for &header in headers.iter().rev() {
            self.if_valid(header, |l| l.join_row(header, scattered));
        }
        let first = self.b.use_var(row);
        self.set_field(self.packet, I32, offset_of!(Packet, start), first);
        let cut = self.field(self.packet, I32, offset_of!(Packet, truncated));
        let cut = self.b.ins().iadd(first, cut);
        let end = self.field(self.packet, I32, offset_of!(Packet, end));
        let end = self.b.ins().umin(end, cut);
        self.set_field(self.packet, I32, offset_of!(Packet, end), end);
        let one = self.constant(1);
        self.set_context_word(offset_of!(Context, contiguous), one);
        self.b.ins().return_(&[]);
        self.leave_scattered(scattered);
    }

    /// A valid header that ends where the row starts is its new start.
    fn join_row(&mut self, header: u8, scattered: Block) {
        let row = self.extra(Extra::Row);
        let bytes = i64::from(self.program.headers[usize::from(header)]);
        let (base, next) = (self.base(header), self.b.use_var(row));
        let behind = self.b.ins().iadd_imm(base, bytes);
        let apart = self.b.ins().icmp(IntCC::NotEqual, behind, next);
        self.branch_out(apart, scattered);
        self.b.def_var(row, base);
    }

    fn leave_scattered(&mut self, scattered: Block) {
        self.b.switch_to_block(scattered);
        self.cold();
        let zero = self.constant(0);
        self.set_context_word(offset_of!(Context, contiguous), zero);
        self.b.ins().return_(&[]);
    }

    /// The length that queues account, what would leave: headers that are valid and emitted, and the bytes behind them.
    fn wire_length(&mut self) {
        let (mut length, counted) = if self.in_a_row {
            // All that came in leaves.
            (self.input(self.packet, I32, offset_of!(Packet, ingress_length)), self.program.added_only())
        } else {
            let [end, missing] =
                [offset_of!(Packet, end), offset_of!(Packet, missing)].map(|place| self.field(self.packet, I32, place));
            let payload = self.payload();
            let rest = self.b.ins().isub(end, payload);
            (self.b.ins().iadd(rest, missing), u64::MAX)
        };
        for header in (0..64u8).filter(|h| (self.program.emitted & counted) >> h & 1 == 1) {
            if self.shape.headers.of(header) == Some(false) {
                continue;
            }
            let bytes = i64::from(self.program.emitted_bytes[usize::from(header)]);
            let is_valid = self.is_valid(header);
            let bytes = self.b.ins().imul_imm(is_valid, bytes);
            length = self.b.ins().iadd(length, bytes);
        }
        self.set_field(self.packet, I32, offset_of!(Packet, length), length);
    }

    /// Says which clone to make.
    fn leave_clone(&mut self) {
        let clone = match self.shape.clone {
            None => self.constant(0),
            Some(list) => {
                let session = self.get_extra(Extra::Session);
                let rest = self.constant(1 << 32 | u64::from(list) << 16);
                self.b.ins().bor(session, rest)
            }
        };
        self.set_context_word(offset_of!(Context, clone), clone);
    }

    /// The same for a digest, and leaves its fields in the frame.
    fn leave_digest(&mut self) {
        let Some(index) = self.shape.digest else {
            let none = self.constant(0);
            return self.set_context_word(offset_of!(Context, digest), none);
        };
        self.cold();
        let digest = self.constant(1 << 16 | u64::from(index));
        self.set_context_word(offset_of!(Context, digest), digest);
        for field in &self.program.digest_fields[usize::from(index)] {
            if let Place::Slot(slot) = field.place {
                self.spill(slot);
                if field.width > 64 {
                    self.spill(slot + 1);
                }
            }
        }
    }
}
