// SPDX-License-Identifier: Apache-2.0
//! Instructions on registers, counters, random numbers, and those that leave decisions.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};

use super::super::callbacks;
use super::super::context::Context;
use super::memory::{cells, inputs};
use super::{Extra, Lowering};
use crate::exec::{cut, PARSER_STATES};
use crate::layout::Slot;
use crate::op::Op;
use crate::packet::Packet;
use crate::state::Place;

impl Lowering<'_, '_> {
    /// False if the instruction is of another kind.
    pub(super) fn state(&mut self, op: Op) -> bool {
        match op {
            Op::RegisterRead {
                d,
                register,
                index,
                bits,
            } => self.register(register, index, |l, cell, kind| {
                let value = l.load_cell(cell, kind);
                let value = l.cut_cell(value, register, bits);
                l.set(d, value);
            }),
            Op::RegisterWrite { register, index, s } => {
                self.register(register, index, |l, cell, kind| {
                    let value = l.slot(s);
                    let value = l.cut_cell(value, register, 64);
                    l.store_cell(cell, kind, value);
                })
            }
            Op::RegisterAdd {
                d,
                register,
                index,
                s,
                bits,
            } => self.register_add(d, register, index, s, bits),
            Op::Count { counter, index } => self.count(counter, index),
            Op::Random { d, low, high, bits } => {
                let [low, high, old] = [low, high, d].map(|s| self.slot(s));
                let mask = self.constant(cut(bits));
                let arguments = [self.context, low, high, old, mask];
                let value = self.call(callbacks::random as *const u8, &arguments, Some(I64));
                self.set(d, value);
            }
            Op::Hash {
                d,
                calculation,
                base,
                size,
                bits,
            } => {
                let sum = self.calculation(calculation);
                let most = self.program.calculations[usize::from(calculation)]
                    .algorithm
                    .most();
                self.reduce(d, sum, most, base, size, bits);
            }
            Op::Checksum { d, calculation } => {
                let sum = self.calculation(calculation);
                self.set(d, sum);
            }
            Op::ChecksumError => {
                let one = self.constant(1);
                self.set_extra(Extra::ChecksumError, one);
            }
            Op::Digest { list } => self.shape.digest = Some(list),
            Op::Clone { session, list } => {
                let session = self.slot(session);
                let session = self.mask(session, 16);
                self.set_extra(Extra::Session, session);
                self.shape.clone = Some(list);
            }
            Op::Truncate { length } => {
                let length = self.slot(length);
                let old = self.field(self.packet, I32, offset_of!(Packet, truncated));
                let least = self.b.ins().umin(length, old);
                self.set_field(self.packet, I32, offset_of!(Packet, truncated), least);
            }
            Op::LoopGuard => self.guard_loops(PARSER_STATES),
            _ => return false,
        }
        true
    }

    /// `sum % size + base`, cut; `sum` is at most `most`.
    fn reduce(&mut self, d: Slot, sum: Value, most: u64, base: Slot, size: Slot, bits: u8) {
        let rest = match self.constants.get(&size).map(|size| (*size).max(1)) {
            Some(size) if size.is_power_of_two() => {
                let mask = self.constant(size - 1);
                self.b.ins().band(sum, mask)
            }
            Some(size) if most / 2 < size => {
                // At most once too large: a subtraction is much faster than a division.
                let size = self.constant(size);
                let less = self.b.ins().isub(sum, size);
                let over = self
                    .b
                    .ins()
                    .icmp(IntCC::UnsignedGreaterThanOrEqual, sum, size);
                self.b.ins().select(over, less, sum)
            }
            Some(size) => {
                let size = self.constant(size);
                self.b.ins().urem(sum, size)
            }
            None => {
                let (size, one) = (self.slot(size), self.constant(1));
                let size = self.b.ins().umax(size, one);
                self.b.ins().urem(sum, size)
            }
        };
        let base = self.slot(base);
        let value = self.b.ins().iadd(rest, base);
        let value = self.mask(value, bits);
        self.set(d, value);
    }

    /// The address of word `word` in row `index` of a bank, and whether the row exists.
    pub(super) fn row(&mut self, place: Place, index: Value) -> (Value, Value) {
        let banks = self.context_word(offset_of!(Context, banks));
        let bank = self
            .b
            .ins()
            .load(I64, inputs(), banks, 8 * place.bank as i32);
        let rows = self.constant(place.rows);
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, index, rows);
        let offset = self.b.ins().imul_imm(index, 8 * place.stride as i64);
        let row = self.b.ins().iadd(bank, offset);
        (self.b.ins().iadd_imm(row, place.byte as i64), inside)
    }

    /// Runs `body` with the address of a register's cell if the index is within the array.
    fn register(&mut self, register: u16, index: Slot, body: impl FnOnce(&mut Self, Value, Type)) {
        let Some(place) = self.program.places.register_place(register) else {
            return;
        };
        let index = self.slot(index);
        let (cell, inside) = self.row(place, index);
        let kind = if place.half { I32 } else { I64 };
        self.when(inside, |l| body(l, cell, kind));
    }

    fn load_cell(&mut self, cell: Value, kind: Type) -> Value {
        let value = self.b.ins().load(kind, cells(), cell, 0);
        if kind == I64 {
            value
        } else {
            self.b.ins().uextend(I64, value)
        }
    }

    fn store_cell(&mut self, cell: Value, kind: Type, value: Value) {
        let value = if kind == I64 {
            value
        } else {
            self.b.ins().ireduce(kind, value)
        };
        self.b.ins().store(cells(), value, cell, 0);
    }

    /// Cuts a value to `bits` and to the width of a register's cells.
    fn cut_cell(&mut self, value: Value, register: u16, bits: u8) -> Value {
        let width = self.program.registers[usize::from(register)].width;
        self.mask(value, (width as u8).min(if bits == 0 { 64 } else { bits }))
    }

    fn register_add(&mut self, d: Slot, register: u16, index: Slot, s: Slot, bits: u8) {
        let Some(place) = self.program.places.register_place(register) else {
            return;
        };
        let [index, increment, old] = [index, s, d].map(|slot| self.slot(slot));
        let (cell, inside) = self.row(place, index);
        let kind = if place.half { I32 } else { I64 };
        let (then, otherwise, next) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.branch(inside, then, otherwise);
        self.b.switch_to_block(then);
        let value = self.load_cell(cell, kind);
        let sum = self.b.ins().iadd(value, increment);
        let sum = self.cut_cell(sum, register, bits);
        self.store_cell(cell, kind, sum);
        self.set(d, sum);
        self.jump(next);
        self.b.switch_to_block(otherwise);
        self.cold();
        let sum = self.b.ins().iadd(old, increment);
        let sum = self.mask(sum, bits);
        self.set(d, sum);
        self.jump(next);
        self.b.switch_to_block(next);
    }

    fn count(&mut self, counter: u16, index: Slot) {
        let Some(place) = self.program.places.counter_place(counter) else {
            return;
        };
        let index = self.slot(index);
        let (cell, inside) = self.row(place, index);
        self.when(inside, |l| {
            let packets = l.b.ins().load(I64, cells(), cell, 0);
            let packets = l.b.ins().iadd_imm(packets, 1);
            l.b.ins().store(cells(), packets, cell, 0);
            let length = l.input(l.packet, I32, offset_of!(Packet, ingress_length));
            let bytes = l.b.ins().load(I64, cells(), cell, 8);
            let bytes = l.b.ins().iadd(bytes, length);
            l.b.ins().store(cells(), bytes, cell, 8);
        });
    }
}
