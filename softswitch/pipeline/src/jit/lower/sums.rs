// SPDX-License-Identifier: Apache-2.0
//! Hashes and checksums.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::super::{callbacks, clmul};
use super::Lowering;
use crate::hash::{Algorithm, Piece};
use crate::packet::Packet;

impl Lowering<'_, '_> {
    /// The value of a calculation.
    pub(super) fn calculation(&mut self, index: u16) -> Value {
        let calculation = &self.program.calculations[usize::from(index)];
        if self.is_of_words(index) {
            return self.hash_of_words(calculation.algorithm, &calculation.pieces);
        }
        if calculation.algorithm == Algorithm::Csum16 {
            if let Some(sum) = self.header_checksum(&calculation.pieces) {
                return sum;
            }
        }
        self.calculate(index)
    }

    /// By the interpreter's code, which finds its input in the packet and in the frame.
    fn calculate(&mut self, index: u16) -> Value {
        let program = self.program;
        for piece in &program.calculations[usize::from(index)].pieces {
            if let Piece::Slot { slot, .. } = piece {
                self.spill(*slot);
            }
        }
        self.give_headers();
        let payload = self.payload();
        self.set_field(self.packet, I32, offset_of!(Packet, payload), payload);
        let index = self.constant(u64::from(index));
        self.call(
            callbacks::calculate as *const u8,
            &[self.context, index],
            Some(I64),
        )
    }

    /// Fields are shifted together to words, which are laid down as the bytes that the algorithm sees.
    fn hash_of_words(&mut self, algorithm: Algorithm, pieces: &[Piece]) -> Value {
        let total: u32 = pieces.iter().map(Piece::narrow_width).sum();
        let room = self.room(total.div_ceil(64) * 8);
        let (mut word, mut used, mut at) = (self.constant(0), 0, 0);
        for piece in pieces {
            let (value, width) = match *piece {
                Piece::Slot { slot, width } => (self.slot(slot), width),
                Piece::Constant { value, width } => (self.constant(value), width),
                _ => continue,
            };
            let free = 64 - used;
            if width < free {
                let placed = self.b.ins().ishl_imm(value, i64::from(free - width));
                word = self.b.ins().bor(word, placed);
                used += width;
                continue;
            }
            let over = width - free;
            let high = if over > 0 {
                self.b.ins().ushr_imm(value, i64::from(over))
            } else {
                value
            };
            let full = self.b.ins().bor(word, high);
            let full = self.b.ins().bswap(full);
            self.b.ins().stack_store(full, room, at);
            at += 8;
            word = if over > 0 {
                self.b.ins().ishl_imm(value, i64::from(64 - over))
            } else {
                self.constant(0)
            };
            used = over;
        }
        if used > 0 {
            let last = self.b.ins().bswap(word);
            self.b.ins().stack_store(last, room, at);
        }
        let address = self.address_of(room);
        let bytes = total.div_ceil(8);
        if clmul::usable(algorithm, bytes) {
            let (function, factor) = clmul::function(bytes);
            let factor = self.constant(factor as usize as u64);
            return self.call(function, &[address, factor], Some(I64));
        }
        let count = self.constant(u64::from(bytes));
        let number = self.constant(algorithm as u64);
        self.call(
            callbacks::hash as *const u8,
            &[number, address, count],
            Some(I64),
        )
    }

    /// The Internet checksum over whole 16-bit words of one header that is surely valid.
    fn header_checksum(&mut self, pieces: &[Piece]) -> Option<Value> {
        let mut fields = Vec::new();
        for piece in pieces {
            let Piece::Header { header, bit, width } = *piece else {
                return None;
            };
            if self.shape.headers.of(header) != Some(true) || bit % 8 != 0 || width % 16 != 0 {
                return None;
            }
            let (mut byte, mut left) = (bit / 8, width / 8);
            while left > 0 {
                // The sum is the same however its 16-bit words are taken together.
                let count = if left >= 4 { 4 } else { 2 };
                fields.push((header, byte, count));
                (byte, left) = (byte + count, left - count);
            }
        }
        let mut sum = self.constant(0);
        for (header, byte, count) in fields {
            let word = self.window(header, byte as u16, count, 0);
            sum = self.b.ins().iadd(sum, word);
        }
        // Below 2^42 for the longest header, then below 2^27, below 2^17, 2^16.
        for _ in 0..3 {
            let (low, high) = (self.mask(sum, 16), self.b.ins().ushr_imm(sum, 16));
            sum = self.b.ins().iadd(low, high);
        }
        let over = self
            .b
            .ins()
            .icmp_imm(IntCC::UnsignedGreaterThan, sum, 0xffff);
        let over = self.b.ins().uextend(I64, over);
        let sum = self.b.ins().iadd(sum, over);
        let sum = self.b.ins().bnot(sum);
        Some(self.mask(sum, 16))
    }
}
