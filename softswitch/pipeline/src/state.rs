// SPDX-License-Identifier: Apache-2.0
//! Cells of registers and counters.
//!
//! Arrays of the same size are mostly indexed by the same thing, such as a flow. They share a bank: row i holds cell i of
//! each of them, so that a packet of a flow touches one or two cache lines instead of one for each array.

use std::collections::HashMap;

use crate::control::{CounterInfo, CounterValue, RegisterInfo};

/// Words of 64 bits in a cache line.
const LINE: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; LINE]);

/// Where the cells of an array are.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    bank: usize,
    /// Word in the row.
    word: usize,
    /// Registers of up to 32 bits take half a word.
    half: bool,
    shift: u32,
    mask: u64,
}

/// The same for native code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub bank: usize,
    pub rows: u64,
    /// Words of a row.
    pub stride: usize,
    /// First byte in the row.
    pub byte: usize,
    /// Half a word, else a whole one.
    pub half: bool,
}

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
        self.lines
            .get_mut(at / LINE)
            .map(|line| &mut line.0[at % LINE])
    }

    fn read(&self, row: u64, word: usize) -> Option<u64> {
        if row >= self.rows {
            return None;
        }
        let at = row as usize * self.stride + word;
        self.lines.get(at / LINE).map(|line| line.0[at % LINE])
    }
}

/// All registers and indirect counters of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    banks: Vec<Bank>,
    registers: Vec<Column>,
    counters: Vec<Column>,
}

impl State {
    /// All cells 0.
    pub(crate) fn new(registers: &[RegisterInfo], counters: &[CounterInfo]) -> Self {
        let mut state = Self::layout(registers, counters);
        for bank in &mut state.banks {
            bank.lines = vec![Line::default(); (bank.rows as usize * bank.stride).div_ceil(LINE)];
        }
        state
    }

    /// Where the cells will be, without room for them.
    pub(crate) fn layout(registers: &[RegisterInfo], counters: &[CounterInfo]) -> Self {
        let mut state = State::default();
        let mut by_size: HashMap<usize, usize> = HashMap::new();
        let mut bank_of = |state: &mut State, size: usize| {
            *by_size.entry(size).or_insert_with(|| {
                state.banks.push(Bank {
                    rows: size as u64,
                    ..Bank::default()
                });
                state.banks.len() - 1
            })
        };
        // Counters first: what is left of a row are half words.
        for counter in counters {
            let bank = bank_of(&mut state, counter.size);
            let word = state.banks[bank].stride;
            state.banks[bank].stride += 2;
            state.counters.push(Column {
                bank,
                word,
                half: false,
                shift: 0,
                mask: u64::MAX,
            });
        }
        // For each bank, the word whose upper half is free.
        let mut half_free: HashMap<usize, usize> = HashMap::new();
        for register in registers {
            let bank = bank_of(&mut state, register.size);
            let mask = crate::compile::ones(register.width);
            let small = register.width <= 32;
            let column = match half_free.remove(&bank).filter(|_| small) {
                Some(word) => Column {
                    bank,
                    word,
                    half: true,
                    shift: 32,
                    mask,
                },
                None => {
                    let word = state.banks[bank].stride;
                    state.banks[bank].stride += 1;
                    if small {
                        half_free.insert(bank, word);
                    }
                    Column {
                        bank,
                        word,
                        half: small,
                        shift: 0,
                        mask,
                    }
                }
            };
            state.registers.push(column);
        }
        for bank in &mut state.banks {
            bank.stride = match bank.stride {
                0..=LINE => bank.stride.next_power_of_two(),
                more => more.next_multiple_of(LINE),
            };
        }
        state
    }

    /// The addresses of all banks.
    pub(crate) fn addresses(&mut self) -> impl Iterator<Item = *mut u64> + '_ {
        let banks = self.banks.iter_mut();
        banks.map(|bank| bank.lines.as_mut_ptr().cast())
    }

    pub(crate) fn register_place(&self, register: u16) -> Option<Place> {
        self.place(*self.registers.get(usize::from(register))?)
    }

    pub(crate) fn counter_place(&self, counter: u16) -> Option<Place> {
        self.place(*self.counters.get(usize::from(counter))?)
    }

    fn place(&self, column: Column) -> Option<Place> {
        let bank = self.banks.get(column.bank)?;
        Some(Place {
            bank: column.bank,
            rows: bank.rows,
            stride: bank.stride,
            byte: 8 * column.word + column.shift as usize / 8,
            half: column.half,
        })
    }

    /// The cell's value; `None` beyond the array.
    pub(crate) fn register(&self, register: usize, index: u64) -> Option<u64> {
        let column = self.registers.get(register)?;
        let word = self.banks.get(column.bank)?.read(index, column.word)?;
        Some(word >> column.shift & column.mask)
    }

    /// Replaces the cell's value by what `change` makes of it, and returns that; `None` beyond the array.
    #[inline(always)]
    pub(crate) fn change(
        &mut self,
        register: u16,
        index: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Option<u64> {
        let column = self.registers.get(usize::from(register))?;
        let word = self.banks.get_mut(column.bank)?.word(index, column.word)?;
        let value = change(*word >> column.shift & column.mask) & column.mask;
        *word = *word & !(column.mask << column.shift) | value << column.shift;
        Some(value)
    }

    /// Counts a packet; does nothing beyond the array.
    #[inline(always)]
    pub(crate) fn count(&mut self, counter: u16, index: u64, bytes: u32) {
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
    pub(crate) fn counter(&self, counter: usize, index: u64) -> Option<CounterValue> {
        let column = self.counters.get(counter)?;
        let bank = self.banks.get(column.bank)?;
        Some(CounterValue {
            packets: bank.read(index, column.word)?,
            bytes: bank.read(index, column.word + 1)?,
        })
    }

    /// Sets a counter's cell.
    pub(crate) fn set_counter(
        &mut self,
        counter: usize,
        index: u64,
        value: CounterValue,
    ) -> Option<()> {
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
    use crate::control::{CounterId, RegisterId};

    #[test]
    fn cells_of_one_bank_do_not_touch_each_other() {
        let widths = [32, 8, 64, 16, 33, 1];
        let register = |(i, &width): (usize, &u32)| RegisterInfo {
            id: RegisterId(i as u32),
            name: String::new(),
            size: 5,
            width,
        };
        let registers: Vec<RegisterInfo> = widths.iter().enumerate().map(register).collect();
        let counter = |i| CounterInfo {
            id: CounterId(i),
            name: String::new(),
            size: 5,
            table: None,
        };
        let mut state = State::new(&registers, &[counter(0), counter(1)]);
        assert_eq!(state.banks.len(), 1);
        let value = |r: usize, i: u64| {
            (i + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(r as u32)
        };
        for i in 0..5 {
            for r in 0..widths.len() {
                assert!(state.change(r as u16, i, |_| value(r, i)).is_some());
            }
            state.count(1, i, 100 + i as u32);
            assert!(state
                .set_counter(
                    0,
                    i,
                    CounterValue {
                        packets: i,
                        bytes: u64::MAX
                    }
                )
                .is_some());
        }
        for i in 0..5 {
            for (r, width) in widths.iter().enumerate() {
                assert_eq!(
                    state.register(r, i),
                    Some(value(r, i) & crate::compile::ones(*width))
                );
            }
            assert_eq!(
                state.counter(1, i),
                Some(CounterValue {
                    packets: 1,
                    bytes: 100 + i
                })
            );
            assert_eq!(
                state.counter(0, i),
                Some(CounterValue {
                    packets: i,
                    bytes: u64::MAX
                })
            );
        }
        assert_eq!((state.register(0, 5), state.counter(0, 5)), (None, None));
        assert_eq!(state.change(0, 5, |v| v + 1), None);
    }
}
