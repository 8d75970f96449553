// SPDX-License-Identifier: Apache-2.0
//! Packets whose ingress has begun before they came in.

use std::sync::atomic::{AtomicU64, Ordering};

use narrows_interpreter::packet::PREPARED;

/// Packets that can be prepared at a time.
const PLACES: usize = 4;
/// Bits of an id that count packets: more than a year of them. Those above distinguish machines.
const COUNT_BITS: u32 = 48;
const MACHINE_BITS: u32 = 14;

/// No id: native code never sees packets with this owner.
const NONE: u64 = u64::MAX;

/// A prepared packet.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The packet's `owner`; [`NONE`]: there is none.
    id: u64,
    port: u16,
    timestamp: u64,
    /// What generated code keeps for the rest of ingress.
    pub words: Vec<u64>,
}

/// The last packets that were prepared.
#[derive(Debug)]
pub(crate) struct PreparedPackets {
    next: u64,
    places: [Prepared; PLACES],
}

impl PreparedPackets {
    /// `words` are kept of a packet.
    pub(crate) fn new(words: usize) -> Self {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let machine = MACHINES.fetch_add(1, Ordering::Relaxed) & ((1 << MACHINE_BITS) - 1);
        Self {
            next: PREPARED | machine << COUNT_BITS,
            places: std::array::from_fn(|_| Prepared { id: NONE, port: 0, timestamp: 0, words: vec![0; words] }),
        }
    }

    /// What was prepared holds no more.
    pub(crate) fn forget(&mut self) {
        self.places.iter_mut().for_each(|p| p.id = NONE);
    }

    /// Takes up a packet; its id is one that no other packet has.
    #[inline]
    pub(crate) fn add(&mut self, port: u16, timestamp: u64) -> u64 {
        self.next += 1;
        let id = self.next;
        let place = self.place(id);
        (place.id, place.port, place.timestamp) = (id, port, timestamp);
        id
    }

    /// Whether the packet with this id is still known and was prepared for this.
    #[inline]
    pub(crate) fn is_prepared(&self, id: u64, port: u16, timestamp: u64) -> bool {
        let place = &self.places[id as usize % PLACES];
        place.id == id && place.port == port && place.timestamp == timestamp
    }

    /// The place of an id.
    #[inline]
    pub(crate) fn place(&mut self, id: u64) -> &mut Prepared {
        &mut self.places[id as usize % PLACES]
    }
}

impl Prepared {
    /// It was used.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.id = NONE;
    }
}
