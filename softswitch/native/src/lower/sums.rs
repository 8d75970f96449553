// SPDX-License-Identifier: Apache-2.0
//! Hashes and checksums.

use std::mem::offset_of;

use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use narrows_interpreter::packet::Packet;
use narrows_program::calculation::{Algorithm, Piece};

use super::super::{callbacks, clmul};
use super::memory::stack;
use super::Lowering;

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
        self.flush_all_pending_stores();
        self.give_headers();
        let payload = self.payload();
        self.set_field(self.packet, I32, offset_of!(Packet, payload), payload);
        let index = self.constant(u64::from(index));
        self.call(callbacks::calculate as *const u8, &[self.context, index], Some(I64))
    }

    /// Fields are shifted together to words, which are laid down as the bytes that the algorithm sees.
    fn hash_of_words(&mut self, algorithm: Algorithm, pieces: &[Piece]) -> Value {
        let total: u32 = pieces.iter().map(Piece::narrow_width).sum();
        let mut words = match self.whole_bytes(pieces) {
            Some(fields) => self.words_of_bytes(&fields),
            None => self.words_of_bits(pieces),
        };
        let bytes = total.div_ceil(8);
        let fast = clmul::usable(algorithm, bytes).then(|| clmul::function(bytes));
        let factor = fast.map(|(_, factor)| self.constant(factor as usize as u64));
        if let (Some((function, _)), Some(factor)) = (fast, factor) {
            if words.len() <= clmul::IN_REGISTERS {
                words.resize(clmul::IN_REGISTERS, factor);
                words.insert(0, factor);
                return self.call(function, &words, Some(I64));
            }
        }
        let room = self.room(total.div_ceil(64) * 8);
        let address = self.address_of(room);
        for (position, word) in words.into_iter().enumerate() {
            let offset = 8 * position as i32;
            self.b.ins().store(stack(), word, address, offset);
        }
        if let (Some((function, _)), Some(factor)) = (fast, factor) {
            return self.call(function, &[factor, address], Some(I64));
        }
        let count = self.constant(u64::from(bytes));
        let number = self.constant(algorithm as u64);
        let arguments = [number, address, count];
        self.call(callbacks::hash as *const u8, &arguments, Some(I64))
    }

    fn piece(&mut self, piece: &Piece) -> Option<(Value, u32)> {
        match *piece {
            Piece::Slot { slot, width } => Some((self.slot(slot), width)),
            Piece::Constant { value, width } => Some((self.constant(value), width)),
            _ => None,
        }
    }

    /// Fields of whole bytes, some put together of several; `None` if they cannot be.
    fn whole_bytes(&mut self, pieces: &[Piece]) -> Option<Vec<(Value, u32)>> {
        let (mut fields, mut open) = (Vec::new(), None);
        for piece in pieces {
            let (value, width) = self.piece(piece)?;
            let (value, width) = match open.take() {
                None => (value, width),
                Some((_, before)) if before + width > 64 => return None,
                Some((high, before)) => {
                    let high = self.b.ins().ishl_imm(high, i64::from(width));
                    (self.b.ins().bor(high, value), before + width)
                }
            };
            if width % 8 == 0 {
                fields.push((value, width));
            } else {
                open = Some((value, width));
            }
        }
        open.is_none().then_some(fields)
    }

    /// The words of fields of whole bytes: these are turned round one by one, which often undoes what reading them from the
    /// packet did.
    fn words_of_bytes(&mut self, fields: &[(Value, u32)]) -> Vec<Value> {
        let (mut words, mut word, mut used) = (Vec::new(), self.constant(0), 0);
        for &(value, width) in fields.iter().filter(|f| f.1 > 0) {
            let turned = self.turned(value, width);
            let placed = self.b.ins().ishl_imm(turned, i64::from(used));
            word = self.b.ins().bor(word, placed);
            used += width;
            if used >= 64 {
                words.push(word);
                used -= 64;
                word = match used {
                    0 => self.constant(0),
                    used => self.b.ins().ushr_imm(turned, i64::from(width - used)),
                };
            }
        }
        if used > 0 {
            words.push(word);
        }
        words
    }

    /// The lowest `width` bits of a value, whole bytes, in reverse order of bytes.
    fn turned(&mut self, value: Value, width: u32) -> Value {
        let kind = match width {
            8 => return value,
            16 => I16,
            32 => I32,
            _ => {
                let high = self.b.ins().ishl_imm(value, i64::from(64 - width.min(64)));
                return self.b.ins().bswap(high);
            }
        };
        let value = self.b.ins().ireduce(kind, value);
        let value = self.b.ins().bswap(value);
        self.b.ins().uextend(I64, value)
    }

    /// The words of any fields.
    fn words_of_bits(&mut self, pieces: &[Piece]) -> Vec<Value> {
        let (mut words, mut word, mut used) = (Vec::new(), self.constant(0), 0);
        for piece in pieces {
            let Some((value, width)) = self.piece(piece) else {
                continue;
            };
            let free = 64 - used;
            if width < free {
                let placed = self.b.ins().ishl_imm(value, i64::from(free - width));
                word = self.b.ins().bor(word, placed);
                used += width;
                continue;
            }
            let over = width - free;
            let high = if over > 0 { self.b.ins().ushr_imm(value, i64::from(over)) } else { value };
            let full = self.b.ins().bor(word, high);
            words.push(self.b.ins().bswap(full));
            word = if over > 0 { self.b.ins().ishl_imm(value, i64::from(64 - over)) } else { self.constant(0) };
            used = over;
        }
        if used > 0 {
            words.push(self.b.ins().bswap(word));
        }
        words
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
        // Words are added as they lie in memory: the sum's bytes change places with theirs.
        let mut sum = self.constant(0);
        for (header, byte, count) in fields {
            let kind = if count == 4 { I32 } else { I16 };
            self.flush_pending_stores(header);
            let address = self.header_address(header);
            let word = self.load_as_it_is(kind, address, byte as i32);
            sum = self.b.ins().iadd(sum, word);
        }
        // A number plus itself with its halves exchanged has the sum of them in its upper half, the carry added to it.
        let turned = self.b.ins().rotr_imm(sum, 32);
        let sum = self.b.ins().iadd(sum, turned);
        let sum = self.b.ins().ushr_imm(sum, 32);
        let sum = self.b.ins().ireduce(I32, sum);
        let turned = self.b.ins().rotr_imm(sum, 16);
        let sum = self.b.ins().iadd(sum, turned);
        let sum = self.b.ins().ushr_imm(sum, 16);
        let sum = self.b.ins().ireduce(I16, sum);
        let sum = self.b.ins().bnot(sum);
        let sum = self.b.ins().bswap(sum);
        Some(self.b.ins().uextend(I64, sum))
    }
}
