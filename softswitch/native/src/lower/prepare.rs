// SPDX-License-Identifier: Apache-2.0
//! Ingress in two functions: what changes nothing but slots and the places of headers, and the rest.
//!
//! With many flows their cells are in no cache, and where they are is known only behind the parser, tables and a hash.
//! So a packet that is known to come in soon is prepared: parser and ingress run up to the first cell, which is
//! asked for, or the first change. Ingress resumes there, if nothing that the first part depends on has changed in
//! between.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::InstBuilder;
use narrows_interpreter::packet::{Packet, BASES};
use narrows_program::calculation::Piece;
use narrows_program::field::Slot;
use narrows_program::intrinsics::Intrinsic;
use narrows_program::liveness::{needed_at_ingress, Set};
use narrows_program::op::Op;
use narrows_program::Program;

use super::super::context::Context;
use super::super::shape::Shape;
use super::super::validity::Known;
use super::flow::{INGRESS_END, PARSER_END, VERIFY_END};
use super::memory::inputs;
use super::{Extra, Lowering};

/// Where preparation can stop.
pub(super) struct Stop {
    /// The instruction before which it stops, and what is known there.
    at: u32,
    shape: Shape,
    /// What is kept of the slots.
    slots: Vec<Slot>,
}

/// What is kept besides of a parser that is not at its end, in words behind those of the slots.
const EXTRAS: [Extra; 3] = [Extra::States, Extra::ParserError, Extra::ChecksumError];

/// Words that are kept of a prepared packet: a slot's, those, and the number of the place where it stopped.
pub(crate) fn kept_words(program: &Program) -> usize {
    number_word(program) + 1
}

fn number_word(program: &Program) -> usize {
    usize::from(program.slots) + EXTRAS.len()
}

impl Lowering<'_, '_> {
    /// Parser and ingress, up to the first cell or the first change. Returns where it can stop.
    pub(super) fn prepare(&mut self) -> Vec<Stop> {
        (self.prepares, self.moving) = (true, u64::MAX);
        let nothing = self.constant(0);
        self.set_context_word(offset_of!(Context, row), nothing);
        for word in 0..self.program.headers.len().div_ceil(BASES) {
            let place = offset_of!(Packet, base) + 2 * BASES * word;
            self.set_field(self.packet, I64, place, nothing);
        }
        self.shape = Shape::new(Known { valid: 0, invalid: u64::MAX });
        self.take_frame();
        self.go(self.program.code.parser);
        self.translate();
        self.keep_slots();
        std::mem::take(&mut self.stops)
    }

    /// The rest of ingress.
    pub(super) fn resume(&mut self, stops: &[Stop]) {
        let program = self.program;
        self.moving = program.moved(program.code.parser, program.code.egress);
        let kept = self.context_word(offset_of!(Context, prepared));
        let number = self.input(kept, I64, 8 * number_word(program));
        self.take_headers();
        for (position, stop) in stops.iter().enumerate() {
            let next = self.b.create_block();
            if position + 1 < stops.len() {
                let (this, is) = (self.b.create_block(), IntCC::Equal);
                let same = self.b.ins().icmp_imm(is, number, position as i64);
                self.branch(same, this, next);
                self.b.switch_to_block(this);
            }
            for &slot in &stop.slots {
                let offset = 8 * i32::from(slot);
                let value = self.b.ins().load(I64, inputs(), kept, offset);
                self.set(slot, value);
            }
            if self.is_before_ingress(stop.at) {
                for (position, extra) in EXTRAS.into_iter().enumerate() {
                    let place = 8 * (usize::from(program.slots) + position);
                    let value = self.b.ins().load(I64, inputs(), kept, place as i32);
                    self.set_extra(extra, value);
                }
            }
            self.shape = stop.shape;
            self.go(stop.at);
            self.b.switch_to_block(next);
        }
        self.b.ins().return_(&[]);
        self.translate();
    }

    /// Stops before an instruction on a cell, whose row is asked for, or one that changes something. False: it does
    /// neither.
    pub(super) fn stops_before(&mut self, op: Op) -> bool {
        let cells = &self.program.cells;
        let cell = match op {
            Op::RegisterRead { register, index, .. }
            | Op::RegisterWrite { register, index, .. }
            | Op::RegisterAdd { register, index, .. } => cells.register(register).map(|place| (place, index)),
            Op::Count { counter, index } => cells.counter(counter).map(|place| (place, index)),
            _ => None,
        };
        if let Some((place, index)) = cell {
            let index = self.slot(index);
            let row = self.cell(place, index);
            self.set_context_word(offset_of!(Context, row), row);
            let bytes = self.constant(8 * place.stride as u64);
            self.set_context_word(offset_of!(Context, row_bytes), bytes);
        } else if !self.has_effects(op) {
            return false;
        }
        self.stop();
        true
    }

    /// True of instructions that do more than write slots and locate parsed headers.
    fn has_effects(&self, op: Op) -> bool {
        match op {
            Op::Extern { .. } | Op::Random { .. } | Op::Truncate { .. } | Op::Digest { .. } | Op::Clone { .. } => true,
            Op::Table { table } => self.program.tables[usize::from(table)].info.notes_hits(),
            Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } => !self.is_of_words(calculation),
            Op::Extract { .. } => false,
            _ => op.uses_cell() || op.writes_header(),
        }
    }

    /// True of a calculation over slots and constants: others may be left to the interpreter's code, which needs the
    /// packet to be up to date.
    pub(super) fn is_of_words(&self, calculation: u16) -> bool {
        let pieces = &self.program.calculations[usize::from(calculation)].pieces;
        let word = |p: &Piece| matches!(p, Piece::Slot { .. } | Piece::Constant { .. });
        !pieces.is_empty() && pieces.iter().all(word)
    }

    /// Preparation ends before the current instruction.
    fn stop(&mut self) {
        // Ingress has one variant for all packets that stop here: they differ in where headers are, which is in memory,
        // and in headers that were parsed.
        let added = self.program.added_only();
        let known = Known { valid: self.shape.headers.valid & added, invalid: self.shape.headers.invalid & added };
        let (at, shape) = (self.at, self.shape.widened(known));
        let found = self.stops.iter().position(|s| s.at == at && s.shape == shape);
        let number = found.unwrap_or_else(|| {
            let slots = Vec::new();
            self.stops.push(Stop { at, shape, slots });
            self.stops.len() - 1
        });
        let valid = self.get_extra(Extra::Valid);
        self.set_field(self.packet, I64, offset_of!(Packet, valid), valid);
        let payload = self.payload();
        self.set_field(self.packet, I32, offset_of!(Packet, payload), payload);
        let keeps = self.b.create_block();
        self.jump(keeps);
        self.keeping.push((keeps, number));
    }

    /// Writes what ingress needs of the slots where preparation stops, now that it is known which were written to.
    fn keep_slots(&mut self) {
        let program = self.program;
        let needed = needed_at_ingress(program);
        for stop in &mut self.stops {
            let at = match stop.at {
                PARSER_END => program.code.verify,
                VERIFY_END => program.code.ingress,
                INGRESS_END => program.code.egress,
                at => at,
            };
            let needed = needed.get((at - program.code.parser) as usize);
            let is_needed = |slot: &Slot| needed.is_some_and(|n: &Set| n.contains(*slot));
            let kept = (0..program.slots).filter(is_needed);
            stop.slots = kept.filter(|s| self.written[usize::from(*s)]).collect();
        }
        for (block, number) in std::mem::take(&mut self.keeping) {
            self.b.switch_to_block(block);
            self.keep(number);
        }
    }

    fn keep(&mut self, number: usize) {
        let (at, slots) = (self.stops[number].at, self.stops[number].slots.clone());
        let kept = self.context_word(offset_of!(Context, prepared));
        for slot in slots {
            let value = self.slot(slot);
            self.set_field(kept, I64, 8 * usize::from(slot), value);
        }
        if self.is_before_ingress(at) {
            for (position, extra) in EXTRAS.into_iter().enumerate() {
                let value = self.get_extra(extra);
                let place = 8 * (usize::from(self.program.slots) + position);
                self.set_field(kept, I64, place, value);
            }
        }
        let number = self.constant(number as u64);
        self.set_field(kept, I64, 8 * number_word(self.program), number);
        self.b.ins().return_(&[]);
    }

    fn is_before_ingress(&self, at: u32) -> bool {
        at < self.program.code.ingress || at == PARSER_END || at == VERIFY_END
    }

    /// What a parser starts with.
    fn take_frame(&mut self) {
        let (program, fields) = (self.program, &self.program.intrinsics);
        let length = self.field(self.packet, I32, offset_of!(Packet, register_length));
        self.set_extra(Extra::RegisterLength, length);
        let start = program.headroom as u64;
        let payload = self.constant(start);
        self.set_extra(Extra::Payload, payload);
        self.shape.payload = start as u16;
        let none = self.constant(program.errors.none);
        self.set_extra(Extra::ParserError, none);
        // Headers are invalid still: only metadata takes a value.
        let port = self.context_word(offset_of!(Context, port));
        self.set_intrinsic(fields.ingress_port, port);
        self.set_intrinsic(fields.packet_length, length);
        let timestamp = self.context_word(offset_of!(Context, timestamp));
        self.set_intrinsic(fields.ingress_timestamp, timestamp);
    }

    /// Translates what happens where a part of ingress ends.
    pub(super) fn finish_ingress(&mut self, part: u32) {
        let (code, fields) = (&self.program.code, &self.program.intrinsics);
        let errors = [fields.parser_error, fields.checksum_error];
        if part == PARSER_END && self.program.verifies {
            return self.go(code.verify);
        }
        let in_header = |f: &Intrinsic| f.header().is_some();
        if self.prepares && (part == INGRESS_END || errors.iter().any(in_header)) {
            return self.stop();
        }
        if part == INGRESS_END {
            return self.leave_ingress();
        }
        for (field, extra) in errors.into_iter().zip([Extra::ParserError, Extra::ChecksumError]) {
            let error = self.get_extra(extra);
            self.set_intrinsic_anywhere(field, error);
        }
        self.go(code.ingress);
    }
}
