// SPDX-License-Identifier: Apache-2.0
//! Instructions on headers: fields, validity, extraction.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use narrows_interpreter::packet::Packet;
use narrows_program::bits::{cut, wide_ones};
use narrows_program::field::Slot;
use narrows_program::op::{At, Op};

use super::super::callbacks;
use super::{Extra, Lowering};

impl Lowering<'_, '_> {
    /// Not 0 if the header is valid.
    pub(super) fn is_valid(&mut self, header: u8) -> Value {
        match self.shape.headers.of(header) {
            Some(known) => self.constant(u64::from(known)),
            None => {
                let valid = self.get_extra(Extra::Valid);
                let shifted = self.b.ins().ushr_imm(valid, i64::from(header & 63));
                self.b.ins().band_imm(shifted, 1)
            }
        }
    }

    /// The same, for a branch only: any bit may be set.
    pub(super) fn validity(&mut self, header: u8) -> Value {
        match self.shape.headers.of(header) {
            Some(known) => self.constant(u64::from(known)),
            None => {
                let valid = self.get_extra(Extra::Valid);
                let bit = self.constant(1 << (header & 63));
                let bit = self.b.ins().band(valid, bit);
                self.b.ins().icmp_imm(IntCC::NotEqual, bit, 0)
            }
        }
    }

    /// Where the header lies: zeros if it is invalid.
    pub(super) fn header_address(&mut self, header: u8) -> Value {
        let base = self.base(header);
        self.b.ins().iadd(self.buffer, base)
    }

    /// The same in the buffer.
    pub(super) fn base(&mut self, header: u8) -> Value {
        let place = offset_of!(Packet, base) + 2 * usize::from(header);
        match self.shape.base(header) {
            Some(base) => self.constant(u64::from(base)),
            None if self.moving >> (header & 63) & 1 == 1 => self.field(self.packet, I16, place),
            None => self.input(self.packet, I16, place),
        }
    }

    /// Where the header always lies when it is valid, if there is such a place.
    pub(super) fn home(&self, header: u8) -> Option<u16> {
        let home = self.program.homes[usize::from(header)];
        (self.program.added_only() >> (header & 63) & 1 == 1).then_some(home)
    }

    /// Runs `body` if the header is valid.
    pub(super) fn if_valid(&mut self, header: u8, body: impl FnOnce(&mut Self)) {
        match self.shape.headers.of(header) {
            Some(true) => body(self),
            Some(false) => {}
            None => {
                let valid = self.validity(header);
                self.when(valid, body);
            }
        }
    }

    /// The header is valid and lies at `base`, which may be a known `place`.
    pub(super) fn place(&mut self, header: u8, base: Value, place: Option<u16>) {
        let valid = self.get_extra(Extra::Valid);
        let bit = self.constant(1 << (header & 63));
        let valid = self.b.ins().bor(valid, bit);
        self.set_extra(Extra::Valid, valid);
        self.set_base(header, base);
        self.shape.set(header, Some(true), place);
    }

    fn invalidate(&mut self, header: u8) {
        let valid = self.get_extra(Extra::Valid);
        let others = self.constant(!(1 << (header & 63)));
        let valid = self.b.ins().band(valid, others);
        self.set_extra(Extra::Valid, valid);
        let zero = self.constant(0);
        self.set_base(header, zero);
        self.shape.set(header, Some(false), None);
    }

    fn set_base(&mut self, header: u8, base: Value) {
        let place = offset_of!(Packet, base) + 2 * usize::from(header);
        self.set_field(self.packet, I16, place, base);
    }

    fn grow(&mut self, bytes: i64) {
        let length = self.get_extra(Extra::RegisterLength);
        let length = self.b.ins().iadd_imm(length, bytes);
        self.set_extra(Extra::RegisterLength, length);
    }

    /// False if the instruction is of another kind.
    pub(super) fn header(&mut self, op: Op) -> bool {
        match op {
            Op::Valid { d, header } => {
                let valid = self.is_valid(header);
                self.set(d, valid);
            }
            Op::Load1 { d, at } => self.load(d, at, 1),
            Op::Load2 { d, at } => self.load(d, at, 2),
            Op::Load4 { d, at } => self.load(d, at, 4),
            Op::Load8 { d, at } => self.load(d, at, 8),
            Op::LoadWide { d, at } => {
                let (low, high) = self.wide_window(at.header, at.byte, u32::from(at.shift), u32::from(at.bits));
                self.set(d, low);
                self.set(d.wrapping_add(1), high);
            }
            Op::Store1 { s, header, byte } => self.store(s, header, byte, 1),
            Op::Store2 { s, header, byte } => self.store(s, header, byte, 2),
            Op::Store4 { s, header, byte } => self.store(s, header, byte, 4),
            Op::Store8 { s, header, byte } => self.store(s, header, byte, 8),
            Op::StoreBytes { s, header, byte, count } => self.store(s, header, byte, u32::from(count)),
            Op::StoreBits { s, at, count } => {
                self.flush_pending_stores(at.header);
                self.if_valid(at.header, |l| l.store_bits(s, at, u32::from(count)))
            }
            Op::StoreWide { s, at } => {
                self.flush_pending_stores(at.header);
                self.if_valid(at.header, |l| l.store_wide(s, at));
            }
            Op::AddHeader { header } => match self.shape.headers.of(header) {
                Some(true) => {}
                Some(false) => self.add_header(header),
                None => {
                    let valid = self.validity(header);
                    let (add, next) = (self.b.create_block(), self.b.create_block());
                    self.branch(valid, next, add);
                    self.b.switch_to_block(add);
                    self.add_header(header);
                    self.flush_pending_stores(header);
                    self.jump(next);
                    self.b.switch_to_block(next);
                    self.shape.set(header, Some(true), self.home(header));
                }
            },
            Op::RemoveHeader { header } => self.if_valid(header, |l| {
                l.invalidate(header);
                let bytes = i64::from(l.program.headers[usize::from(header)]);
                l.grow(-bytes);
            }),
            Op::CopyHeader { to, from } => self.copy_header(to, from),
            Op::Extract { header } => self.extract(header),
            Op::Advance { s } => self.advance(s),
            Op::Require { bits } => self.require(bits),
            Op::LookAhead { d, bit, bits } => {
                let room = self.look_ahead(bit, bits);
                let value = self.b.ins().stack_load(I64, room, 0);
                self.set(d, value);
            }
            Op::LookAheadWide { d, bit, bits } => {
                let room = self.look_ahead(bit, bits);
                self.take_wide(d, room);
            }
            _ => return false,
        }
        true
    }

    fn load(&mut self, d: Slot, at: At, count: u32) {
        if let Some(value) = self.given_field(at, count) {
            return self.set(d, value);
        }
        let value = self.window(at.header, at.byte, count, u32::from(at.shift & 63));
        let value =
            if u32::from(at.shift) + u32::from(at.bits) < 8 * count { self.mask(value, at.bits) } else { value };
        self.set(d, value);
    }

    /// A field of whole bytes in a window of `count` bytes, where the architecture gives it and it has not been written yet.
    fn given_field(&mut self, at: At, count: u32) -> Option<Value> {
        let (shift, bits) = (u32::from(at.shift), u32::from(at.bits));
        let before = (8 * count).checked_sub(shift + bits)?;
        if shift % 8 != 0 || bits % 8 != 0 {
            return None;
        }
        self.input_not_stored(at.header, at.byte + (before / 8) as u16, bits / 8)
    }

    /// `count` bytes of a header, shifted right.
    pub(super) fn window(&mut self, header: u8, byte: u16, count: u32, shift: u32) -> Value {
        let value = match self.input_not_stored(header, byte, count) {
            Some(value) => value,
            None => {
                self.flush_some_pending_stores(header, byte, count);
                let address = self.header_address(header);
                self.load_bytes(address, i32::from(byte), count)
            }
        };
        if shift > 0 {
            self.b.ins().ushr_imm(value, i64::from(shift))
        } else {
            value
        }
    }

    /// 16 bytes of a header, shifted right and cut to `bits`: low and high word.
    pub(super) fn wide_window(&mut self, header: u8, byte: u16, shift: u32, bits: u32) -> (Value, Value) {
        self.flush_some_pending_stores(header, byte, 16);
        let address = self.header_address(header);
        let high = self.load_bytes(address, i32::from(byte), 8);
        let low = self.load_bytes(address, i32::from(byte) + 8, 8);
        self.wide_field(low, high, shift & 127, bits)
    }

    fn store(&mut self, s: Slot, header: u8, byte: u16, count: u32) {
        // More than a word is never written; the interpreter ignores it too.
        if count > 8 {
            return;
        }
        self.if_valid(header, |l| {
            let value = l.slot(s);
            l.write(header, byte, count, value);
        });
    }

    /// Part of a window of `count` bytes.
    fn store_bits(&mut self, s: Slot, at: At, count: u32) {
        let (value, address) = (self.slot(s), self.header_address(at.header));
        let mask = cut(at.bits) << at.shift;
        let old = self.load_bytes(address, i32::from(at.byte), count);
        let (mask, others) = (self.constant(mask), self.constant(!mask));
        let old = self.b.ins().band(old, others);
        let value = self.b.ins().ishl_imm(value, i64::from(at.shift));
        let value = self.b.ins().band(value, mask);
        let value = self.b.ins().bor(old, value);
        self.store_bytes(address, i32::from(at.byte), count, value);
    }

    /// As in the interpreter: only the bytes that the field touches.
    fn store_wide(&mut self, s: Slot, at: At) {
        let unused = u32::from(at.shift) & !7;
        let (count, shift) = (16 - unused / 8, u32::from(at.shift) - unused);
        let mask = wide_ones(u32::from(at.bits)) << shift;
        let address = self.header_address(at.header);
        let value = self.wide(s);
        let value = self.b.ins().ishl_imm(value, i64::from(shift));
        let (low, high) = self.b.ins().isplit(value);
        let (first, rest) = (count.saturating_sub(8), count.min(8));
        let byte = i32::from(at.byte);
        for (word, mask, offset, count) in
            [(high, (mask >> 64) as u64, byte, first), (low, mask as u64, byte + first as i32, rest)]
        {
            if count == 0 {
                continue;
            }
            let old = self.load_bytes(address, offset, count);
            let (mask, others) = (self.constant(mask), self.constant(!mask));
            let old = self.b.ins().band(old, others);
            let word = self.b.ins().band(word, mask);
            let word = self.b.ins().bor(old, word);
            self.store_bytes(address, offset, count, word);
        }
    }

    /// Adds a header that is not valid. Its zeros are written when it is known what else is not.
    fn add_header(&mut self, header: u8) {
        let (bytes, home) = (self.program.headers[usize::from(header)], self.program.homes[usize::from(header)]);
        let base = self.constant(u64::from(home));
        self.place(header, base, Some(home));
        let later = (1..=64).contains(&bytes) && !self.shape.general;
        if !later || !self.shape.set_zeros(header, u64::MAX >> (64 - bytes)) {
            self.zero(header, 0, bytes);
        }
        self.grow(i64::from(bytes));
    }

    fn zero(&mut self, header: u8, first: u32, count: u32) {
        let (address, zero) = (self.header_address(header), self.constant(0));
        let (mut at, end) = (first, first + count);
        while at < end {
            let count = (end - at).min(8);
            self.store_bytes(address, at as i32, count, zero);
            at += count;
        }
    }

    /// Writes what is still to be written of a header. Before anything reads it, and not in code that only some
    /// packets come to.
    pub(super) fn flush_pending_stores(&mut self, header: u8) {
        if self.shape.given >> (header & 63) & 1 == 1 {
            self.shape.given &= !(1 << (header & 63));
            self.store_inputs(header);
        }
        let mut zeros = self.shape.zeros(header);
        self.shape.set_zeros(header, 0);
        while zeros != 0 {
            let first = zeros.trailing_zeros();
            let count = (!(zeros >> first)).trailing_zeros();
            self.zero(header, first, count);
            zeros &= !bytes_of(first, count);
        }
    }

    pub(super) fn flush_all_pending_stores(&mut self) {
        self.shape.unfinished().for_each(|h| self.flush_pending_stores(h));
    }

    /// The same if `count` bytes from `byte` on are concerned.
    fn flush_some_pending_stores(&mut self, header: u8, byte: u16, count: u32) {
        let given = self.shape.given >> (header & 63) & 1 == 1;
        if given || self.shape.zeros(header) & bytes_of(u32::from(byte), count) != 0 {
            self.flush_pending_stores(header);
        }
    }

    /// Writes `count` bytes of a valid header.
    pub(super) fn write(&mut self, header: u8, byte: u16, count: u32, value: Value) {
        if self.shape.given >> (header & 63) & 1 == 1 {
            self.flush_pending_stores(header);
        }
        let address = self.header_address(header);
        self.store_bytes(address, i32::from(byte), count, value);
        let zeros = self.shape.zeros(header) & !bytes_of(u32::from(byte), count);
        self.shape.set_zeros(header, zeros);
    }

    fn copy_header(&mut self, to: u8, from: u8) {
        let (bytes, home) = (self.program.headers[usize::from(from)], self.program.homes[usize::from(to)]);
        self.flush_pending_stores(from);
        self.flush_pending_stores(to);
        let before = self.shape;
        let valid = self.is_valid(from);
        let (then, otherwise, next) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.branch(valid, then, otherwise);
        self.b.switch_to_block(otherwise);
        self.invalidate(to);
        self.jump(next);
        self.b.switch_to_block(then);
        self.shape = before;
        let there = self.is_valid(to);
        let (old, home) = (self.base(to), self.constant(u64::from(home)));
        let base = self.b.ins().select(there, old, home);
        self.place(to, base, None);
        let from_address = self.header_address(from);
        let to_address = self.b.ins().iadd(self.buffer, base);
        let count = self.constant(u64::from(bytes));
        let arguments = [to_address, from_address, count];
        self.call(callbacks::copy as *const u8, &arguments, None);
        self.jump(next);
        self.b.switch_to_block(next);
        let valid = before.headers.of(from);
        self.shape.set(to, valid, self.home(to));
    }

    /// Reads which headers are valid, and the length that goes with them.
    pub(super) fn take_headers(&mut self) {
        let valid = self.field(self.packet, I64, offset_of!(Packet, valid));
        self.set_extra(Extra::Valid, valid);
        let length = self.field(self.packet, I32, offset_of!(Packet, register_length));
        self.set_extra(Extra::RegisterLength, length);
        let payload = self.field(self.packet, I32, offset_of!(Packet, payload));
        self.set_extra(Extra::Payload, payload);
    }

    /// Writes both back, if this function can change them. Places are always up to date.
    pub(super) fn give_headers(&mut self) {
        if self.moving == 0 {
            return;
        }
        let valid = self.get_extra(Extra::Valid);
        self.set_field(self.packet, I64, offset_of!(Packet, valid), valid);
        let length = self.get_extra(Extra::RegisterLength);
        let place = offset_of!(Packet, register_length);
        self.set_field(self.packet, I32, place, length);
    }
}

/// `count` bytes from `first` on, as bits, of a header of at most 64 bytes.
fn bytes_of(first: u32, count: u32) -> u64 {
    let all = 1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
    all.checked_shl(first).unwrap_or(0)
}
