// SPDX-License-Identifier: Apache-2.0
//! Instructions that compute on slots, of one word and of two.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use narrows_program::bits::{cut, wide_ones};
use narrows_program::field::Slot;
use narrows_program::op::{Cast, Compare, Op, Wide};

use super::super::callbacks;
use super::Lowering;

pub(super) fn unsigned(compare: Compare) -> IntCC {
    match compare {
        Compare::Eq => IntCC::Equal,
        Compare::Ne => IntCC::NotEqual,
        Compare::Lt => IntCC::UnsignedLessThan,
        Compare::Ge => IntCC::UnsignedGreaterThanOrEqual,
        Compare::Gt => IntCC::UnsignedGreaterThan,
        Compare::Le => IntCC::UnsignedLessThanOrEqual,
    }
}

fn signed(compare: Compare) -> IntCC {
    match compare {
        Compare::Eq => IntCC::Equal,
        Compare::Ne => IntCC::NotEqual,
        Compare::Lt => IntCC::SignedLessThan,
        Compare::Ge => IntCC::SignedGreaterThanOrEqual,
        Compare::Gt => IntCC::SignedGreaterThan,
        Compare::Le => IntCC::SignedLessThanOrEqual,
    }
}

impl Lowering<'_, '_> {
    /// Cuts a value to `bits` bits.
    pub(super) fn mask(&mut self, value: Value, bits: u8) -> Value {
        match cut(bits) {
            u64::MAX => value,
            mask => {
                let mask = self.constant(mask);
                self.b.ins().band(value, mask)
            }
        }
    }

    /// Two slots as one value of 128 bits.
    pub(super) fn wide(&mut self, slot: Slot) -> Value {
        let (low, high) = (self.slot(slot), self.slot(slot.wrapping_add(1)));
        self.b.ins().iconcat(low, high)
    }

    pub(super) fn set_wide(&mut self, slot: Slot, value: Value) {
        let (low, high) = self.b.ins().isplit(value);
        self.set(slot, low);
        self.set(slot.wrapping_add(1), high);
    }

    /// A constant of 128 bits.
    pub(super) fn wide_constant(&mut self, value: u128) -> Value {
        let (low, high) = (self.constant(value as u64), self.constant((value >> 64) as u64));
        self.b.ins().iconcat(low, high)
    }

    /// False if the instruction is of another kind.
    pub(super) fn arithmetic(&mut self, op: Op) -> bool {
        match op {
            Op::Move { d, s } => {
                let value = self.slot(s);
                self.set(d, value);
            }
            Op::MoveWide { d, s } => {
                let (low, high) = (self.slot(s), self.slot(s.wrapping_add(1)));
                self.set(d, low);
                self.set(d.wrapping_add(1), high);
            }
            Op::Add { d, a, b, bits } => self.binary(d, a, b, bits, |b, x, y| b.iadd(x, y)),
            Op::Sub { d, a, b, bits } => self.binary(d, a, b, bits, |b, x, y| b.isub(x, y)),
            Op::Mul { d, a, b, bits } => self.binary(d, a, b, bits, |b, x, y| b.imul(x, y)),
            Op::And { d, a, b } => self.binary(d, a, b, 64, |b, x, y| b.band(x, y)),
            Op::Or { d, a, b } => self.binary(d, a, b, 64, |b, x, y| b.bor(x, y)),
            Op::Xor { d, a, b } => self.binary(d, a, b, 64, |b, x, y| b.bxor(x, y)),
            Op::Not { d, s, bits } => {
                let value = self.slot(s);
                let value = self.b.ins().bnot(value);
                let value = self.mask(value, bits);
                self.set(d, value);
            }
            Op::Shl { d, a, b, bits } => self.shift(d, a, b, bits, true),
            Op::Shr { d, a, b } => self.shift(d, a, b, 64, false),
            Op::Div { d, a, b } => self.division(d, a, b, false),
            Op::Mod { d, a, b } => self.division(d, a, b, true),
            Op::SaturatingAdd { d, a, b, bits } => {
                let [a, b] = [a, b].map(|s| self.slot(s));
                let sum = self.b.ins().iadd(a, b);
                let most = self.constant(cut(bits));
                let wrapped = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a);
                let sum = self.b.ins().umin(sum, most);
                let sum = self.b.ins().select(wrapped, most, sum);
                self.set(d, sum);
            }
            Op::SaturatingSub { d, a, b } => {
                let [a, b] = [a, b].map(|s| self.slot(s));
                let difference = self.b.ins().isub(a, b);
                let below = self.b.ins().icmp(IntCC::UnsignedLessThan, a, b);
                let zero = self.constant(0);
                let value = self.b.ins().select(below, zero, difference);
                self.set(d, value);
            }
            Op::Concat { d, a, b, shift } => {
                let [a, b] = [a, b].map(|s| self.slot(s));
                let high = self.b.ins().ishl_imm(a, i64::from(shift & 63));
                let value = self.b.ins().bor(high, b);
                self.set(d, value);
            }
            Op::Mask { d, s, bits } => {
                let value = self.slot(s);
                let value = self.mask(value, bits);
                self.set(d, value);
            }
            Op::Compare { compare, d, a, b } => {
                let [a, b] = [a, b].map(|s| self.slot(s));
                let holds = self.b.ins().icmp(unsigned(compare), a, b);
                let holds = self.b.ins().uextend(I64, holds);
                self.set(d, holds);
            }
            Op::Widen { d, s } => {
                let value = self.slot(s);
                let zero = self.constant(0);
                self.set(d, value);
                self.set(d.wrapping_add(1), zero);
            }
            Op::WideArithmetic { op, d, a, b } => self.wide_arithmetic(op, d, a, b),
            Op::WideNot { d, s } => {
                let (low, high) = (self.slot(s), self.slot(s.wrapping_add(1)));
                let [low, high] = [low, high].map(|word| self.b.ins().bnot(word));
                self.set(d, low);
                self.set(d.wrapping_add(1), high);
            }
            Op::WideCast { cast, d, s, bits } => self.wide_cast(cast, d, s, bits),
            Op::WideCompare { compare, signed: is_signed, d, a, b } => {
                let [a, b] = [a, b].map(|s| self.wide(s));
                let condition = if is_signed { signed(compare) } else { unsigned(compare) };
                let holds = self.b.ins().icmp(condition, a, b);
                let holds = self.b.ins().uextend(I64, holds);
                self.set(d, holds);
            }
            _ => return false,
        }
        true
    }

    fn binary(
        &mut self,
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
        make: impl FnOnce(cranelift_frontend::FuncInstBuilder, Value, Value) -> Value,
    ) {
        let [a, b] = [a, b].map(|s| self.slot(s));
        let value = make(self.b.ins(), a, b);
        let value = self.mask(value, bits);
        self.set(d, value);
    }

    /// Shifts by 64 or more give 0.
    fn shift(&mut self, d: Slot, a: Slot, by: Slot, bits: u8, left: bool) {
        let [a, by] = [a, by].map(|s| self.slot(s));
        let shifted = if left { self.b.ins().ishl(a, by) } else { self.b.ins().ushr(a, by) };
        let cut = self.mask(shifted, bits);
        let small = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, by, 64);
        let zero = self.constant(0);
        let value = self.b.ins().select(small, cut, zero);
        self.set(d, value);
    }

    /// A division by 0 gives 0.
    fn division(&mut self, d: Slot, a: Slot, b: Slot, remainder: bool) {
        let [a, b] = [a, b].map(|s| self.slot(s));
        let (zero, one) = (self.constant(0), self.constant(1));
        let by_zero = self.b.ins().icmp_imm(IntCC::Equal, b, 0);
        let divisor = self.b.ins().select(by_zero, one, b);
        let value = match remainder {
            false => self.b.ins().udiv(a, divisor),
            true => self.b.ins().urem(a, divisor),
        };
        let value = self.b.ins().select(by_zero, zero, value);
        self.set(d, value);
    }

    fn wide_arithmetic(&mut self, op: Wide, d: Slot, a: Slot, b: Slot) {
        if matches!(op, Wide::Div | Wide::Mod) {
            let words = [a, a.wrapping_add(1), b, b.wrapping_add(1)];
            let room = self.room(32);
            for (i, slot) in words.into_iter().enumerate() {
                let word = self.slot(slot);
                self.b.ins().stack_store(word, room, 8 * i as i32);
            }
            let kind = self.constant(u64::from(op == Wide::Mod));
            let address = self.address_of(room);
            self.call(callbacks::divide as *const u8, &[kind, address], None);
            return self.take_wide(d, room);
        }
        let [x, y] = [a, b].map(|s| self.wide(s));
        let value = match op {
            Wide::Add => self.b.ins().iadd(x, y),
            Wide::Sub => self.b.ins().isub(x, y),
            Wide::Mul => self.b.ins().imul(x, y),
            Wide::And => self.b.ins().band(x, y),
            Wide::Or => self.b.ins().bor(x, y),
            Wide::Xor => self.b.ins().bxor(x, y),
            _ => return self.wide_shift(op, d, x, b),
        };
        self.set_wide(d, value);
    }

    /// Shifts by 128 or more give 0, or the sign.
    fn wide_shift(&mut self, op: Wide, d: Slot, x: Value, b: Slot) {
        let (low, high) = (self.slot(b), self.slot(b.wrapping_add(1)));
        let small = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, low, 128);
        let no_high = self.b.ins().icmp_imm(IntCC::Equal, high, 0);
        let small = self.b.ins().band(small, no_high);
        let most = self.constant(127);
        let by = self.b.ins().select(small, low, most);
        let shifted = match op {
            Wide::Shl => self.b.ins().ishl(x, by),
            Wide::ShrSigned => self.b.ins().sshr(x, by),
            _ => self.b.ins().ushr(x, by),
        };
        if op == Wide::ShrSigned {
            return self.set_wide(d, shifted);
        }
        let (low, high) = self.b.ins().isplit(shifted);
        let zero = self.constant(0);
        let [low, high] = [low, high].map(|word| self.b.ins().select(small, word, zero));
        self.set(d, low);
        self.set(d.wrapping_add(1), high);
    }

    fn wide_cast(&mut self, cast: Cast, d: Slot, s: Slot, bits: u8) {
        if cast == Cast::Truncate {
            let value = self.wide(s);
            let mask = self.wide_constant(wide_ones(u32::from(bits).clamp(1, 128)));
            let value = self.b.ins().band(value, mask);
            return self.set_wide(d, value);
        }
        let room = self.room(16);
        for (i, slot) in [s, s.wrapping_add(1)].into_iter().enumerate() {
            let word = self.slot(slot);
            self.b.ins().stack_store(word, room, 8 * i as i32);
        }
        let (kind, bits) = (self.constant(cast as u64), self.constant(u64::from(bits)));
        let address = self.address_of(room);
        self.call(callbacks::cast as *const u8, &[kind, address, bits], None);
        self.take_wide(d, room);
    }

    /// Sets two slots from the first two words of a place on the stack.
    pub(super) fn take_wide(&mut self, d: Slot, room: cranelift_codegen::ir::StackSlot) {
        let low = self.b.ins().stack_load(I64, room, 0);
        let high = self.b.ins().stack_load(I64, room, 8);
        self.set(d, low);
        self.set(d.wrapping_add(1), high);
    }

    /// `value >> shift`, cut to `bits`, of 128 bits given as two words, as two words.
    pub(super) fn wide_field(&mut self, low: Value, high: Value, shift: u32, bits: u32) -> (Value, Value) {
        let value = self.b.ins().iconcat(low, high);
        let value = if shift > 0 { self.b.ins().ushr_imm(value, i64::from(shift)) } else { value };
        let (mut low, mut high) = self.b.ins().isplit(value);
        if bits <= 64 {
            low = self.mask(low, bits as u8);
            high = self.constant(0);
        } else if bits < 128 {
            high = self.mask(high, (bits - 64) as u8);
        }
        (low, high)
    }
}
