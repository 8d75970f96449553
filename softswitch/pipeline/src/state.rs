// SPDX-License-Identifier: Apache-2.0
//! Register arrays.

/// A register array: cells of 32 bits where they suffice, so that large arrays stay in the caches.
#[derive(Debug, Clone)]
pub(crate) enum Registers {
    Small(Vec<u32>),
    Large(Vec<u64>),
}

impl Registers {
    pub(crate) fn new(size: usize, width: u32) -> Self {
        if width <= 32 {
            Registers::Small(vec![0; size])
        } else {
            Registers::Large(vec![0; size])
        }
    }

    /// The cell's value; `None` beyond the array.
    #[inline(always)]
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        match self {
            Registers::Small(cells) => cells.get(index as usize).map(|&v| u64::from(v)),
            Registers::Large(cells) => cells.get(index as usize).copied(),
        }
    }

    /// Does nothing beyond the array.
    #[inline(always)]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        match self {
            Registers::Small(cells) => {
                if let Some(cell) = cells.get_mut(index as usize) {
                    *cell = value as u32;
                }
            }
            Registers::Large(cells) => {
                if let Some(cell) = cells.get_mut(index as usize) {
                    *cell = value;
                }
            }
        }
    }
}
