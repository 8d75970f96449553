// SPDX-License-Identifier: Apache-2.0
//! Instructions of parsers.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{InstBuilder, StackSlot, Value};
use narrows_interpreter::packet::Packet;
use narrows_program::field::Slot;

use super::super::callbacks;
use super::super::shape::UNKNOWN;
use super::{Extra, Lowering};

impl Lowering<'_, '_> {
    /// Ends the parser with an error code if the condition holds.
    fn fail(&mut self, condition: Value, code: u64) {
        let [failed, next] = self.fork(condition);
        self.b.switch_to_block(failed);
        self.cold();
        let code = self.constant(code);
        self.set_extra(Extra::ParserError, code);
        let end = self.end();
        self.jump(end);
        self.b.switch_to_block(next);
    }

    pub(super) fn guard_loops(&mut self, most: u32) {
        let states = self.get_extra(Extra::States);
        let states = self.b.ins().iadd_imm(states, 1);
        self.set_extra(Extra::States, states);
        let over = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, states, i64::from(most));
        self.fail(over, self.program.errors.timeout);
    }

    pub(super) fn extract(&mut self, header: u8) {
        let bytes = self.program.headers[usize::from(header)];
        let payload = self.payload();
        let end = self.input(self.packet, I32, offset_of!(Packet, end));
        let behind = self.b.ins().iadd_imm(payload, i64::from(bytes));
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, behind, end);
        self.fail(short, self.program.errors.packet_too_short);
        let place = Some(self.shape.payload).filter(|&place| place != UNKNOWN);
        self.place(header, payload, place);
        self.set_extra(Extra::Payload, behind);
        let behind = place.map(|place| u32::from(place) + bytes);
        let behind = behind.and_then(|behind| u16::try_from(behind).ok());
        self.shape.payload = behind.unwrap_or(UNKNOWN);
    }

    /// Where the bytes start that no header covers.
    pub(super) fn payload(&mut self) -> Value {
        match self.shape.payload {
            UNKNOWN => self.get_extra(Extra::Payload),
            place => self.constant(u64::from(place)),
        }
    }

    pub(super) fn advance(&mut self, s: Slot) {
        let bits = self.slot(s);
        let rest = self.b.ins().band_imm(bits, 7);
        self.fail(rest, self.program.errors.invalid_argument);
        let bytes = self.b.ins().ushr_imm(bits, 3);
        let payload = self.payload();
        let end = self.input(self.packet, I32, offset_of!(Packet, end));
        let left = self.b.ins().isub(end, payload);
        let short = self.b.ins().icmp(IntCC::UnsignedLessThan, left, bytes);
        self.fail(short, self.program.errors.packet_too_short);
        let payload = self.b.ins().iadd(payload, bytes);
        self.set_extra(Extra::Payload, payload);
        self.shape.payload = UNKNOWN;
    }

    pub(super) fn require(&mut self, bits: Slot) {
        let needed = self.slot(bits);
        let payload = self.payload();
        let end = self.input(self.packet, I32, offset_of!(Packet, end));
        let left = self.b.ins().isub(end, payload);
        let left = self.b.ins().ishl_imm(left, 3);
        let short = self.b.ins().icmp(IntCC::UnsignedLessThan, left, needed);
        self.fail(short, self.program.errors.packet_too_short);
    }

    /// Reads ahead to two words on the stack.
    pub(super) fn look_ahead(&mut self, bit: u32, bits: u8) -> StackSlot {
        let payload = self.payload();
        self.set_field(self.packet, I32, offset_of!(Packet, payload), payload);
        let room = self.room(16);
        let address = self.address_of(room);
        let (bit, bits) = (self.constant(u64::from(bit)), self.constant(u64::from(bits)));
        let arguments = [self.packet, bit, bits, address];
        let found = self.call(callbacks::look_ahead as *const u8, &arguments, Some(I32));
        let short = self.b.ins().icmp_imm(IntCC::Equal, found, 0);
        self.fail(short, self.program.errors.packet_too_short);
        room
    }
}
