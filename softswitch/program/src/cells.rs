// SPDX-License-Identifier: Apache-2.0
//! Where the cells of registers and counters are.
//!
//! Arrays of the same size are mostly indexed by the same thing, such as a flow. They share a bank: row i holds cell i of
//! each of them, so that a packet of a flow touches one or two cache lines instead of one for each array.

use std::collections::HashMap;

use crate::bits::ones;
use crate::control::{CounterInfo, RegisterInfo};

/// Words of 64 bits in a cache line.
pub const LINE: usize = 8;

/// Where the cells of an array are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Column {
    pub bank: usize,
    /// Word in the row.
    pub word: usize,
    /// Registers of up to 32 bits take half a word.
    pub half: bool,
    pub shift: u32,
    pub mask: u64,
}

/// Rows of cells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bank {
    pub rows: u64,
    /// Words of a row: a power of two, or whole lines.
    pub stride: usize,
}

/// Where a row's cell is, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct CellPlace {
    pub bank: usize,
    pub rows: u64,
    /// Words of a row.
    pub stride: usize,
    /// First byte in the row.
    pub byte: usize,
    /// Half a word, else a whole one.
    pub half: bool,
}

/// The numbers that instructions have for the words of a register, the lowest first.
#[must_use]
pub fn words_of(registers: &[RegisterInfo], register: usize) -> Vec<u16> {
    let above = |register: &RegisterInfo| register.width.div_ceil(64).saturating_sub(1) as usize;
    let first = registers.len() + registers[..register].iter().map(above).sum::<usize>();
    let own = registers.get(register).map_or(0, above);
    std::iter::once(register).chain(first..first + own).map(|number| number as u16).collect()
}

/// All registers and indirect counters of a program.
#[derive(Debug, Clone, Default)]
pub struct CellLayout {
    pub banks: Vec<Bank>,
    /// See [`words_of`].
    pub registers: Vec<Column>,
    pub counters: Vec<Column>,
}

impl CellLayout {
    #[must_use]
    pub fn new(registers: &[RegisterInfo], counters: &[CounterInfo]) -> Self {
        let mut layout = Self::default();
        let mut by_size: HashMap<usize, usize> = HashMap::new();
        let mut bank_of = |layout: &mut Self, size: usize| {
            *by_size.entry(size).or_insert_with(|| {
                layout.banks.push(Bank { rows: size as u64, ..Bank::default() });
                layout.banks.len() - 1
            })
        };
        // Counters first: what is left of a row are half words.
        for counter in counters {
            let bank = bank_of(&mut layout, counter.size);
            let word = layout.banks[bank].stride;
            layout.banks[bank].stride += 2;
            layout.counters.push(Column { bank, word, half: false, shift: 0, mask: u64::MAX });
        }
        // For each bank, the word whose upper half is free.
        let mut half_free: HashMap<usize, usize> = HashMap::new();
        // A register of several words has those above the lowest behind all others.
        let above = registers.iter().flat_map(|register| {
            let rest = register.width.saturating_sub(64);
            (0..rest.div_ceil(64)).map(move |word| (register.size, (rest - 64 * word).min(64)))
        });
        let lowest = registers.iter().map(|register| (register.size, register.width.min(64)));
        for (size, width) in lowest.chain(above) {
            let bank = bank_of(&mut layout, size);
            let mask = ones(width);
            let small = width <= 32;
            let column = match half_free.remove(&bank).filter(|_| small) {
                Some(word) => Column { bank, word, half: true, shift: 32, mask },
                None => {
                    let word = layout.banks[bank].stride;
                    layout.banks[bank].stride += 1;
                    if small {
                        half_free.insert(bank, word);
                    }
                    Column { bank, word, half: small, shift: 0, mask }
                }
            };
            layout.registers.push(column);
        }
        for bank in &mut layout.banks {
            bank.stride = match bank.stride {
                0..=LINE => bank.stride.next_power_of_two(),
                more => more.next_multiple_of(LINE),
            };
        }
        layout
    }

    #[must_use]
    pub fn register(&self, register: u16) -> Option<CellPlace> {
        self.place(*self.registers.get(usize::from(register))?)
    }

    #[must_use]
    pub fn counter(&self, counter: u16) -> Option<CellPlace> {
        self.place(*self.counters.get(usize::from(counter))?)
    }

    fn place(&self, column: Column) -> Option<CellPlace> {
        let bank = self.banks.get(column.bank)?;
        Some(CellPlace {
            bank: column.bank,
            rows: bank.rows,
            stride: bank.stride,
            byte: 8 * column.word + column.shift as usize / 8,
            half: column.half,
        })
    }

    /// Bank, and bytes of a row, of the longest arrays.
    #[must_use]
    pub fn longest_rows(&self) -> Option<(usize, usize)> {
        let columns = self.registers.iter().chain(&self.counters);
        let places = columns.filter_map(|&column| self.place(column));
        let longest = places.max_by_key(|p| p.rows)?;
        Some((longest.bank, 8 * longest.stride))
    }
}
