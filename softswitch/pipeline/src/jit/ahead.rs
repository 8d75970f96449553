// SPDX-License-Identifier: Apache-2.0
//! Packets whose ingress has begun before they came in.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::packet::{FOREIGN, PREPARED};

/// Packets that can be prepared at a time.
const PLACES: usize = 4;
/// Bits of a ticket that count packets; those above tell machines apart.
const COUNT_BITS: u32 = 40;
const MACHINE_BITS: u32 = 22;

/// No ticket: native code never sees packets with this owner.
const NONE: u64 = FOREIGN;

/// A prepared packet.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The packet's [`crate::Packet::owner`]; [`NONE`]: there is none.
    pub ticket: u64,
    pub port: u16,
    pub timestamp: u64,
    /// Where it stopped, and what is kept for the rest.
    pub stop: u64,
    pub words: Vec<u64>,
}

/// The last packets that were prepared.
#[derive(Debug)]
pub(crate) struct Ahead {
    next: u64,
    places: [Prepared; PLACES],
}

impl Prepared {
    /// It was used, or holds no more.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.ticket = NONE;
    }
}

impl Ahead {
    pub(crate) fn new() -> Self {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let machine = MACHINES.fetch_add(1, Ordering::Relaxed) & ((1 << MACHINE_BITS) - 1);
        Self {
            next: PREPARED | machine << COUNT_BITS,
            places: std::array::from_fn(|_| Prepared {
                ticket: NONE,
                port: 0,
                timestamp: 0,
                stop: 0,
                words: Vec::new(),
            }),
        }
    }

    /// What was prepared holds no more.
    pub(crate) fn forget(&mut self) {
        self.places.iter_mut().for_each(Prepared::forget);
    }

    /// Room for one more packet, with a ticket that no other packet has.
    #[inline]
    pub(crate) fn place(&mut self, words: usize) -> &mut Prepared {
        // What counts packets never reaches the bits above in practice; if it did, tickets would still differ for long.
        self.next =
            self.next & !((1 << COUNT_BITS) - 1) | (self.next + 1) & ((1 << COUNT_BITS) - 1);
        let place = &mut self.places[self.next as usize % PLACES];
        if place.words.len() != words {
            place.words.resize(words, 0);
        }
        place.ticket = self.next;
        place
    }

    /// The packet with this ticket, if it is still known and was prepared for this.
    #[inline]
    pub(crate) fn find(&mut self, ticket: u64, port: u16, timestamp: u64) -> Option<&mut Prepared> {
        let place = &mut self.places[ticket as usize % PLACES];
        let is_it = place.ticket == ticket && place.port == port && place.timestamp == timestamp;
        is_it.then_some(place)
    }
}
