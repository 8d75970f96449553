//! What is counted of each flow: by flow index, as in the cells of our own program.
// SPDX-License-Identifier: Apache-2.0
use super::five_tuple::FiveTuple;

/// Values of a flow index.
const INDICES: usize = 1 << 16;
const NO_OWNER: u32 = u32::MAX;

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of their Ethernet frames, without FCS.
    pub bytes: u64,
}

impl Count {
    /// One more packet.
    #[inline]
    pub fn add(&mut self, length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
    }

    /// Packets as a report has them.
    #[inline]
    pub fn wrapped(&self) -> u32 {
        self.packets as u32
    }
}

/// A flow index, the flow that was the first to have it, and what was counted of all that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Its bottleneck.
    pub bottleneck: u8,
    /// The index, a hash.
    pub index: u16,
    /// A second hash.
    pub signature: u32,
    /// The flow.
    pub tuple: FiveTuple,
    /// Offered to the queue.
    pub arrivals: Count,
    /// Left it.
    pub departures: Count,
    /// Lost before it by a program that says so (alias `narrows.drop_cause`).
    pub losses: Count,
    /// Dropped by the program on arrival.
    pub ingress_drops: Count,
    /// Dropped by the program at departure.
    pub egress_drops: Count,
}

/// All flows, in the order in which they were seen.
#[derive(Debug)]
pub(super) struct Flows {
    list: Vec<Flow>,
    position: Vec<u32>,
}

impl Flows {
    pub fn new() -> Self {
        Flows { list: Vec::new(), position: vec![NO_OWNER; INDICES] }
    }

    /// The flow index of a packet at a bottleneck, its signature, and whether another flow has that index.
    pub fn find(&mut self, tuple: &FiveTuple, bottleneck: u8) -> (&mut Flow, u32, bool) {
        let (index, signature) = tuple.hashes(bottleneck);
        let position = &mut self.position[usize::from(index)];
        if *position == NO_OWNER {
            *position = self.list.len() as u32;
            let count = Count::default();
            self.list.push(Flow {
                bottleneck,
                index,
                signature,
                tuple: *tuple,
                arrivals: count,
                departures: count,
                losses: count,
                ingress_drops: count,
                egress_drops: count,
            });
        }
        let flow = &mut self.list[*position as usize];
        let collides = flow.signature != signature;
        (flow, signature, collides)
    }

    /// A flow index that was found before.
    pub fn get(&mut self, index: u16) -> Option<&mut Flow> {
        self.list.get_mut(self.position[usize::from(index)] as usize)
    }

    pub fn list(&self) -> &[Flow] {
        &self.list
    }
}
