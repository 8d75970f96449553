// SPDX-License-Identifier: Apache-2.0
//! What is known of a packet where an instruction is translated. Code is made once for each state that control can come
//! with: behind the parser most validity and places of headers are constants then.

use super::validity::Known;
use crate::packet::MAX_HEADERS;

/// A place that is not known.
pub(super) const UNKNOWN: u16 = u16::MAX;

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
        }
    }

    /// The place of a header, if it is known: an invalid one is in the zeros at the buffer's start.
    pub(super) fn base(&self, header: u8) -> Option<u16> {
        match self.headers.of(header) {
            Some(false) => Some(0),
            Some(true) => {
                Some(self.bases[usize::from(header) % MAX_HEADERS]).filter(|&b| b != UNKNOWN)
            }
            None => None,
        }
    }

    /// Sets the validity of a header, as far as it is known, and where it lies if it is valid.
    pub(super) fn set(&mut self, header: u8, valid: Option<bool>, base: Option<u16>) {
        self.headers.set(header, valid);
        let base = base.filter(|_| valid == Some(true)).unwrap_or(UNKNOWN);
        self.bases[usize::from(header) % MAX_HEADERS] = base;
    }

    /// The same state as far as it can be said without places, and of the validity of headers only `headers`.
    pub(super) fn widened(&self, headers: Known) -> Self {
        Self {
            digest: self.digest,
            clone: self.clone,
            ..Self::new(headers)
        }
    }
}
