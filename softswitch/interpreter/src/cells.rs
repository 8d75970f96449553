// SPDX-License-Identifier: Apache-2.0
//! The cells of registers and counters, where the program's layout has them.

use narrows_program::cells::{CellLayout, Column, LINE};
use narrows_program::control::CounterValue;

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; LINE]);

#[derive(Debug, Clone, Default)]
struct Bank {
    lines: Vec<Line>,
    rows: u64,
    /// Words of a row: a power of two, or whole lines.
    stride: usize,
}

impl Bank {
    #[inline(always)]
    fn word(&mut self, row: u64, word: usize) -> Option<&mut u64> {
        if row >= self.rows {
            return None;
        }
        let at = row as usize * self.stride + word;
        self.lines.get_mut(at / LINE).map(|line| &mut line.0[at % LINE])
    }

    fn read(&self, row: u64, word: usize) -> Option<u64> {
        if row >= self.rows {
            return None;
        }
        let at = row as usize * self.stride + word;
        self.lines.get(at / LINE).map(|line| line.0[at % LINE])
    }
}

/// A register's cells, as [`Cells::place`] found them: for code that writes them once a packet.
#[derive(Debug, Clone, Copy)]
pub struct RegisterPlace {
    bank: usize,
    rows: u64,
    stride: usize,
    word: usize,
    shift: u32,
    mask: u64,
}

impl RegisterPlace {
    /// Length of the array.
    pub fn cells(&self) -> u64 {
        self.rows
    }
}

/// All registers and indirect counters of a program.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    banks: Vec<Bank>,
    registers: Vec<Column>,
    counters: Vec<Column>,
}

impl Cells {
    /// All cells 0.
    pub fn new(layout: &CellLayout) -> Self {
        let bank = |bank: &narrows_program::cells::Bank| Bank {
            lines: vec![Line::default(); (bank.rows as usize * bank.stride).div_ceil(LINE)],
            rows: bank.rows,
            stride: bank.stride,
        };
        Self {
            banks: layout.banks.iter().map(bank).collect(),
            registers: layout.registers.clone(),
            counters: layout.counters.clone(),
        }
    }

    /// The addresses of all banks.
    pub fn addresses(&mut self) -> impl Iterator<Item = *mut u64> + '_ {
        let banks = self.banks.iter_mut();
        banks.map(|bank| bank.lines.as_mut_ptr().cast())
    }

    /// The cell's value; `None` beyond the array.
    pub fn register(&self, register: usize, index: u64) -> Option<u64> {
        let column = self.registers.get(register)?;
        let word = self.banks.get(column.bank)?.read(index, column.word)?;
        Some(word >> column.shift & column.mask)
    }

    /// Where a register's cells are, which does not change.
    pub fn place(&self, register: usize) -> Option<RegisterPlace> {
        let Column { bank, word, shift, mask, .. } = *self.registers.get(register)?;
        let Bank { rows, stride, .. } = self.banks.get(bank)?;
        Some(RegisterPlace { bank, rows: *rows, stride: *stride, word, shift, mask })
    }

    /// Writes a cell, cut to its width; nothing beyond the array.
    #[inline(always)]
    pub fn put(&mut self, place: &RegisterPlace, index: u64, value: u64) {
        let RegisterPlace { bank, rows, stride, word, shift, mask } = *place;
        let at = index as usize * stride + word;
        let line = self.banks.get_mut(bank).and_then(|bank| bank.lines.get_mut(at / LINE));
        if let (true, Some(line)) = (index < rows, line) {
            let cell = &mut line.0[at % LINE];
            *cell = *cell & !(mask << shift) | (value & mask) << shift;
        }
    }

    /// Replaces the cell's value by what `change` makes of it, and returns that; `None` beyond the array.
    #[inline(always)]
    pub fn change(&mut self, register: u16, index: u64, change: impl FnOnce(u64) -> u64) -> Option<u64> {
        let column = self.registers.get(usize::from(register))?;
        let word = self.banks.get_mut(column.bank)?.word(index, column.word)?;
        let value = change(*word >> column.shift & column.mask) & column.mask;
        *word = *word & !(column.mask << column.shift) | value << column.shift;
        Some(value)
    }

    /// Counts a packet; does nothing beyond the array.
    #[inline(always)]
    pub fn count(&mut self, counter: u16, index: u64, bytes: u32) {
        let Some(column) = self.counters.get(usize::from(counter)) else {
            return;
        };
        let Some(bank) = self.banks.get_mut(column.bank) else {
            return;
        };
        // Counters take pairs of words, so a cell lies in one line.
        if let Some(packets) = bank.word(index, column.word) {
            *packets = packets.wrapping_add(1);
        }
        if let Some(total) = bank.word(index, column.word + 1) {
            *total = total.wrapping_add(u64::from(bytes));
        }
    }

    /// A counter's cell; `None` beyond the array.
    pub fn counter(&self, counter: usize, index: u64) -> Option<CounterValue> {
        let column = self.counters.get(counter)?;
        let bank = self.banks.get(column.bank)?;
        Some(CounterValue { packets: bank.read(index, column.word)?, bytes: bank.read(index, column.word + 1)? })
    }

    /// Sets a counter's cell.
    pub fn set_counter(&mut self, counter: usize, index: u64, value: CounterValue) -> Option<()> {
        let column = self.counters.get(counter)?;
        let bank = self.banks.get_mut(column.bank)?;
        *bank.word(index, column.word)? = value.packets;
        *bank.word(index, column.word + 1)? = value.bytes;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_program::control::{CounterId, CounterInfo, RegisterId, RegisterInfo};

    #[test]
    fn cells_of_one_bank_do_not_touch_each_other() {
        let widths = [32, 8, 64, 16, 33, 1];
        let register =
            |(i, &width): (usize, &u32)| RegisterInfo { id: RegisterId(i as u32), name: String::new(), size: 5, width };
        let registers: Vec<RegisterInfo> = widths.iter().enumerate().map(register).collect();
        let counter = |i| CounterInfo { id: CounterId(i), name: String::new(), size: 5, table: None };
        let layout = CellLayout::new(&registers, &[counter(0), counter(1)]);
        let mut cells = Cells::new(&layout);
        assert_eq!(cells.banks.len(), 1);
        let value = |r: usize, i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(r as u32);
        for i in 0..5 {
            for r in 0..widths.len() {
                assert!(cells.change(r as u16, i, |_| value(r, i)).is_some());
            }
            cells.count(1, i, 100 + i as u32);
            assert!(cells.set_counter(0, i, CounterValue { packets: i, bytes: u64::MAX }).is_some());
        }
        for i in 0..5 {
            for (r, width) in widths.iter().enumerate() {
                assert_eq!(cells.register(r, i), Some(value(r, i) & narrows_program::bits::ones(*width)));
            }
            assert_eq!(cells.counter(1, i), Some(CounterValue { packets: 1, bytes: 100 + i }));
            assert_eq!(cells.counter(0, i), Some(CounterValue { packets: i, bytes: u64::MAX }));
        }
        for r in 0..widths.len() {
            let place = cells.place(r).expect("a register");
            (0..6).for_each(|i| cells.put(&place, i, value(r, i + 9)));
            (0..5).for_each(|i| assert_eq!(cells.register(r, i), Some(value(r, i + 9) & place.mask)));
        }
        assert!(cells.place(widths.len()).is_none());
        assert_eq!((cells.register(0, 5), cells.counter(0, 5)), (None, None));
        assert_eq!(cells.change(0, 5, |v| v + 1), None);
    }
}
