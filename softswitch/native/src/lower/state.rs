// SPDX-License-Identifier: Apache-2.0
//! Instructions on registers, counters, random numbers, and those that leave decisions.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use narrows_interpreter::packet::Packet;
use narrows_interpreter::run::PARSER_STATES;
use narrows_program::bits::cut;
use narrows_program::cells::CellPlace;
use narrows_program::field::Slot;
use narrows_program::op::Op;

use super::super::callbacks;
use super::super::context::Context;
use super::memory::{cells, inputs};
use super::{Extra, Lowering};

impl Lowering<'_, '_> {
    /// False if the instruction is of another kind.
    pub(super) fn state(&mut self, op: Op) -> bool {
        match op {
            Op::RegisterRead { d, register, index, bits } => self.register(
                register,
                index,
                |l, cell| {
                    let value = l.load_cell(cell);
                    let value = l.cut_cell(value, register, bits);
                    l.set(d, value);
                },
                |_| {},
            ),
            Op::RegisterWrite { register, index, s } => self.register(
                register,
                index,
                |l, cell| {
                    let value = l.slot(s);
                    let value = l.cut_cell(value, register, 64);
                    l.store_cell(cell, value);
                },
                |_| {},
            ),
            Op::RegisterAdd { d, register, index, s, bits } => self.register_add(d, register, index, s, bits),
            Op::Count { counter, index } => self.count(counter, index),
            Op::Random { d, low, high, bits } => {
                let [low, high, old] = [low, high, d].map(|s| self.slot(s));
                let mask = self.constant(cut(bits));
                let arguments = [self.context, low, high, old, mask];
                let value = self.call(callbacks::random as *const u8, &arguments, Some(I64));
                self.set(d, value);
            }
            Op::Hash { d, calculation, base, size, bits } => {
                let sum = self.calculation(calculation);
                let most = self.program.calculations[usize::from(calculation)].algorithm.most();
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
            Op::Extern { call, object, d, s } => {
                let [value, old] = [s, d].map(|slot| self.slot(slot));
                let [call, object] = [call as u64, u64::from(object)].map(|number| self.constant(number));
                let arguments = [self.context, call, object, value, old];
                let result = self.call(callbacks::call as *const u8, &arguments, Some(I64));
                self.set(d, result);
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
                let over = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, sum, size);
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

    /// The address of a cell in row `index`.
    pub(super) fn cell(&mut self, place: CellPlace, index: Value) -> Value {
        let banks = self.context_word(offset_of!(Context, banks));
        let bank = self.b.ins().load(I64, inputs(), banks, 8 * place.bank as i32);
        let offset = self.b.ins().imul_imm(index, 8 * place.stride as i64);
        self.b.ins().iadd(bank, offset)
    }

    /// Runs `body` with the address of the row that a slot names, if there is such a row. If not, the packet continues in the
    /// general variant: so what follows has no doubt about the row, nor another test and address of it.
    fn row(
        &mut self,
        place: CellPlace,
        slot: Slot,
        body: impl FnOnce(&mut Self, Value),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let index = self.slot(slot);
        if !self.shape.is_inside(slot, place.rows) {
            let rows = self.constant(place.rows);
            let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, index, rows);
            let [then, outside] = self.fork(inside);
            self.b.switch_to_block(outside);
            self.cold();
            let before = self.shape;
            otherwise(self);
            self.shape.general = true;
            self.go(self.at + 1);
            self.shape = before;
            self.b.switch_to_block(then);
            self.shape.set_inside(slot, place.rows);
        }
        let row = self.cell(place, index);
        body(self, row);
    }

    /// Runs `body` with the address of a register's cell if the index is within the array.
    fn register(
        &mut self,
        register: u16,
        index: Slot,
        body: impl FnOnce(&mut Self, Cell),
        otherwise: impl FnOnce(&mut Self),
    ) {
        if let Some(place) = self.program.cells.register(register) {
            let kind = if place.half { I32 } else { I64 };
            let of_row = |row| Cell { row, byte: place.byte as i32, kind };
            self.row(place, index, |l, row| body(l, of_row(row)), otherwise);
        }
    }

    fn load_cell(&mut self, cell: Cell) -> Value {
        self.load_word(cell.kind, cells(), cell.row, cell.byte)
    }

    fn store_cell(&mut self, cell: Cell, value: Value) {
        let value = if cell.kind == I64 { value } else { self.b.ins().ireduce(cell.kind, value) };
        self.b.ins().store(cells(), value, cell.row, cell.byte);
    }

    /// Cuts a value to `bits` and to the width of a register's cells.
    fn cut_cell(&mut self, value: Value, register: u16, bits: u8) -> Value {
        let width = self.program.cells.registers[usize::from(register)].mask.count_ones();
        self.mask(value, (width as u8).min(if bits == 0 { 64 } else { bits }))
    }

    fn register_add(&mut self, d: Slot, register: u16, index: Slot, s: Slot, bits: u8) {
        self.register(
            register,
            index,
            |l, cell| {
                let (value, increment) = (l.load_cell(cell), l.slot(s));
                let sum = l.b.ins().iadd(value, increment);
                let sum = l.cut_cell(sum, register, bits);
                l.store_cell(cell, sum);
                l.set(d, sum);
            },
            |l| {
                let [old, increment] = [d, s].map(|slot| l.slot(slot));
                let sum = l.b.ins().iadd(old, increment);
                let sum = l.mask(sum, bits);
                l.set(d, sum);
            },
        );
    }

    fn count(&mut self, counter: u16, index: Slot) {
        let Some(place) = self.program.cells.counter(counter) else {
            return;
        };
        let byte = place.byte as i32;
        let count = |l: &mut Self, row| {
            let packets = l.b.ins().load(I64, cells(), row, byte);
            let packets = l.b.ins().iadd_imm(packets, 1);
            l.b.ins().store(cells(), packets, row, byte);
            let length = l.input(l.packet, I32, offset_of!(Packet, ingress_length));
            let bytes = l.b.ins().load(I64, cells(), row, byte + 8);
            let bytes = l.b.ins().iadd(bytes, length);
            l.b.ins().store(cells(), bytes, row, byte + 8);
        };
        self.row(place, index, count, |_| {});
    }
}

/// Where a register's cell is.
#[derive(Clone, Copy)]
struct Cell {
    row: Value,
    byte: i32,
    kind: Type,
}
