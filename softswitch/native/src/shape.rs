// SPDX-License-Identifier: Apache-2.0
//! What is known of a packet where an instruction is translated. Code is made once for each state that control can come
//! with: behind the parser most validity and places of headers are constants then.

use narrows_program::field::{Slot, MAX_HEADERS};

use super::validity::Known;

/// A place that is not known.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// Slots that can be known to lie within an array.
const INDICES: usize = 4;

/// Headers that can be unfinished.
const UNFINISHED: usize = 6;

/// A state, also the name of a variant of an instruction's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub headers: Known,
    /// Where each valid header lies, and where the rest of the packet starts.
    bases: [u16; MAX_HEADERS],
    pub payload: u16,
    /// The digest and the field list of the clone that were asked for: always known.
    pub digest: Option<u16>,
    pub clone: Option<u16>,
    /// Bytes of valid headers that are still to be zeroed, as bits: what the program writes anyway is written once.
    zeros: [Option<(u8, u64)>; UNFINISHED],
    /// Bit h: what the architecture gives to fields of header h is still to be written.
    pub given: u64,
    /// Slots whose value is below a number of rows.
    indices: [Option<(Slot, u64)>; INDICES],
    /// This is the variant for all packets that no other is made for: what follows is the same for all of them.
    pub general: bool,
}

impl Shape {
    /// Nothing is known of places.
    pub(super) fn new(headers: Known) -> Self {
        Self {
            headers,
            bases: [UNKNOWN; MAX_HEADERS],
            payload: UNKNOWN,
            digest: None,
            clone: None,
            zeros: [None; UNFINISHED],
            given: 0,
            indices: [None; INDICES],
            general: false,
        }
    }

    /// The slot's value is below `rows`.
    pub(super) fn is_inside(&self, slot: Slot, rows: u64) -> bool {
        let mut indices = self.indices.iter().flatten();
        indices.any(|&(index, most)| index == slot && most <= rows)
    }

    pub(super) fn set_inside(&mut self, slot: Slot, rows: u64) {
        self.forget_index(slot);
        if let Some(free) = self.indices.iter_mut().find(|i| i.is_none()) {
            *free = Some((slot, rows));
        }
    }

    /// The slot has another value.
    pub(super) fn forget_index(&mut self, slot: Slot) {
        let mut others = self.indices.into_iter().flatten().filter(|i| i.0 != slot);
        self.indices = std::array::from_fn(|_| others.next());
    }

    /// Bytes of a header that are still to be zeroed, as bits.
    pub(super) fn zeros(&self, header: u8) -> u64 {
        let mut zeros = self.zeros.iter().flatten();
        zeros.find(|z| z.0 == header).map_or(0, |z| z.1)
    }

    /// Headers with bytes that are still to be written.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = u8> {
        let given = self.given;
        let given = (0..64).filter(move |header| given >> header & 1 == 1);
        self.zeros.into_iter().flatten().map(|z| z.0).chain(given)
    }

    /// False if there is no room to remember it.
    pub(super) fn set_zeros(&mut self, header: u8, zeros: u64) -> bool {
        let others = self.zeros.into_iter().flatten().filter(|z| z.0 != header);
        let this = Some((header, zeros)).filter(|_| zeros != 0);
        let mut all = others.chain(this);
        self.zeros = std::array::from_fn(|_| all.next());
        all.next().is_none()
    }

    /// The place of a header, if it is known: an invalid one is in the zeros at the buffer's start.
    pub(super) fn base(&self, header: u8) -> Option<u16> {
        match self.headers.of(header) {
            Some(false) => Some(0),
            Some(true) => Some(self.bases[usize::from(header) % MAX_HEADERS]).filter(|&b| b != UNKNOWN),
            None => None,
        }
    }

    /// Sets the validity of a header, as far as it is known, and where it lies if it is valid.
    pub(super) fn set(&mut self, header: u8, valid: Option<bool>, base: Option<u16>) {
        self.headers.set(header, valid);
        let base = base.filter(|_| valid == Some(true)).unwrap_or(UNKNOWN);
        self.set_zeros(header, 0);
        self.given &= !(1 << (header & 63));
        self.bases[usize::from(header) % MAX_HEADERS] = base;
    }

    /// The same state as far as it can be said without places, and of the validity of headers only `headers`.
    pub(super) fn widened(&self, headers: Known) -> Self {
        Self { digest: self.digest, clone: self.clone, ..Self::new(headers) }
    }
}
