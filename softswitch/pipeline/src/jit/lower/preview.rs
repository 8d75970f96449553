// SPDX-License-Identifier: Apache-2.0
//! A look ahead: which cells a packet that comes in soon will use first.
//!
//! With many flows their cells are in no cache, and where they are is known only behind the parser, tables and a hash.
//! This function is the beginning of ingress once more, as far as it changes nothing, up to the first cell: what it
//! costs is less than waiting for memory. It reads tables and the packet, and writes nothing but its answer.

use std::mem::offset_of;

use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::InstBuilder;

use super::super::context::Context;
use super::{Extra, Lowering};
use crate::hash::Piece;
use crate::op::Op;
use crate::packet::Packet;

impl Lowering<'_, '_> {
    /// Parser and ingress, up to the first cell or the first change.
    pub(super) fn preview(&mut self) {
        let code = &self.program.code;
        let stop = self.b.create_block();
        self.stop = Some(stop);
        let nothing = self.constant(0);
        self.set_context_word(offset_of!(Context, row), nothing);
        self.take_frame();
        self.part(code.parser, code.verify);
        self.leave_parser();
        self.part(code.ingress, code.egress);
        self.jump(stop);
        self.b.switch_to_block(stop);
        self.b.ins().return_(&[]);
    }

    /// Ends a preview before an instruction on a cell, whose row is the answer, or before one that changes something.
    pub(super) fn ends_preview(&mut self, op: Op) -> bool {
        let Some(stop) = self.stop else {
            return false;
        };
        let places = &self.program.places;
        let cell = match op {
            Op::RegisterRead {
                register, index, ..
            }
            | Op::RegisterWrite {
                register, index, ..
            }
            | Op::RegisterAdd {
                register, index, ..
            } => places.register_place(register).map(|place| (place, index)),
            Op::Count { counter, index } => {
                places.counter_place(counter).map(|place| (place, index))
            }
            _ => None,
        };
        if let Some((place, index)) = cell {
            let index = self.slot(index);
            let (cell, _) = self.row(place, index);
            let row = self.b.ins().iadd_imm(cell, -(place.byte as i64));
            self.set_context_word(offset_of!(Context, row), row);
            let bytes = self.constant(8 * place.stride as u64);
            self.set_context_word(offset_of!(Context, row_bytes), bytes);
        } else if self.changes_nothing(op) {
            return false;
        }
        self.jump(stop);
        true
    }

    /// True of instructions whose translation writes to slots and to what is known of headers only.
    fn changes_nothing(&self, op: Op) -> bool {
        match op {
            Op::Store1 { .. }
            | Op::Store2 { .. }
            | Op::Store4 { .. }
            | Op::Store8 { .. }
            | Op::StoreBytes { .. }
            | Op::StoreBits { .. }
            | Op::StoreWide { .. }
            | Op::AddHeader { .. }
            | Op::CopyHeader { .. }
            | Op::RegisterRead { .. }
            | Op::RegisterWrite { .. }
            | Op::RegisterAdd { .. }
            | Op::Count { .. }
            | Op::Random { .. }
            | Op::Truncate { .. }
            | Op::LookAhead { .. }
            | Op::LookAheadWide { .. } => false,
            Op::Table { table } => !self.program.tables[usize::from(table)].info.direct_counter,
            Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } => {
                self.is_of_words(calculation)
            }
            _ => true,
        }
    }

    /// True of a calculation over slots and constants: others may be left to the interpreter's code, which needs the
    /// packet to be up to date.
    pub(super) fn is_of_words(&self, calculation: u16) -> bool {
        let pieces = &self.program.calculations[usize::from(calculation)].pieces;
        let word = |p: &Piece| matches!(p, Piece::Slot { .. } | Piece::Constant { .. });
        !pieces.is_empty() && pieces.iter().all(word)
    }

    /// What a parser starts with.
    pub(super) fn take_frame(&mut self) {
        let (program, fields) = (self.program, &self.program.intrinsics);
        let length = self.field(self.packet, I32, offset_of!(Packet, register_length));
        self.set_extra(Extra::RegisterLength, length);
        let payload = self.field(self.packet, I32, offset_of!(Packet, payload));
        self.set_extra(Extra::Payload, payload);
        let none = self.constant(program.errors.none);
        self.set_extra(Extra::ParserError, none);
        // Headers are invalid still: only metadata takes a value.
        let port = self.context_word(offset_of!(Context, port));
        self.set_intrinsic(fields.ingress_port, port);
        self.set_intrinsic(fields.packet_length, length);
        let timestamp = self.context_word(offset_of!(Context, timestamp));
        self.set_intrinsic(fields.ingress_timestamp, timestamp);
    }

    /// What parser and verification tell ingress.
    pub(super) fn leave_parser(&mut self) {
        let fields = &self.program.intrinsics;
        let error = self.get_extra(Extra::ParserError);
        self.set_intrinsic(fields.parser_error, error);
        let error = self.get_extra(Extra::ChecksumError);
        self.set_intrinsic(fields.checksum_error, error);
    }
}
