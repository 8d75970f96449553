// SPDX-License-Identifier: Apache-2.0
//! The 5-tuple of each (bottleneck, flow index, signature).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;

use crate::wire::original::{five_tuple, FiveTuple};
use crate::wire::{Record, Report};

/// The most keys that are kept: bounds memory if a sender uses ever new addresses.
pub const MAX_KEYS: usize = 1 << 20;

const CACHE_SLOTS: usize = 1 << 12;

/// Identity of a flow in the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    pub bottleneck: u8,
    pub flow: u16,
    pub signature: u32,
}

impl FlowId {
    /// The identity of a report's flow.
    #[inline]
    pub fn of(report: &Report) -> Self {
        FlowId { bottleneck: report.bottleneck, flow: report.flow, signature: report.signature }
    }

    /// All three numbers in one, never 0xffff_ffff_ffff_ffff.
    #[inline]
    pub fn packed(self) -> u64 {
        u64::from(self.bottleneck) << 48 | u64::from(self.flow) << 32 | u64::from(self.signature)
    }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    /// `None`: not IP, or the headers were cut off.
    pub tuple: Option<FiveTuple>,
    pub ip_version: u8,
    pub first_timestamp: u64,
}

/// Every flow seen, with the 5-tuple of its first report.
pub struct FlowKeys {
    keys: HashMap<FlowId, FlowKey>,
    /// The flow last seen in each slot, packed: for most reports `keys` need not be searched.
    observed: Vec<u64>,
    /// Reports of flows beyond the most that are kept.
    pub overflow: u64,
    /// Receives each new flow.
    announce: Option<Sender<(FlowId, FlowKey)>>,
}

impl Default for FlowKeys {
    fn default() -> Self {
        FlowKeys { keys: HashMap::new(), observed: vec![u64::MAX; CACHE_SLOTS], overflow: 0, announce: None }
    }
}

impl FlowKeys {
    /// No flow yet; `announce` receives each new one.
    pub fn announced(announce: Option<Sender<(FlowId, FlowKey)>>) -> Self {
        FlowKeys { announce, ..FlowKeys::default() }
    }

    /// Records the flow of a report whose original headers start at `inner`.
    #[inline]
    pub fn observe(&mut self, record: &Record, inner: &[u8]) {
        let id = FlowId::of(&record.report);
        if replaced(&mut self.observed, id) {
            self.insert(id, record, inner);
        }
    }

    fn insert(&mut self, id: FlowId, record: &Record, inner: &[u8]) {
        if self.keys.contains_key(&id) {
            return;
        }
        if self.keys.len() >= MAX_KEYS {
            self.overflow += 1;
            return;
        }
        let key = FlowKey {
            tuple: five_tuple(inner),
            ip_version: record.original.ip_version,
            first_timestamp: record.report.timestamp,
        };
        self.keys.insert(id, key);
        // The receiver may have ended.
        let _ = self.announce.as_ref().map(|announce| announce.send((id, key)));
    }

    /// Adds the flows of another intake; of flows that both have, the key of the earlier report stays.
    pub fn merge(&mut self, other: FlowKeys) {
        self.overflow += other.overflow;
        for (id, key) in other.keys {
            let room = self.keys.len() < MAX_KEYS;
            match self.keys.entry(id) {
                Entry::Occupied(mut mine) => {
                    let earlier = mine.get().first_timestamp <= key.first_timestamp;
                    if !earlier {
                        mine.insert(key);
                    }
                }
                Entry::Vacant(free) if room => {
                    free.insert(key);
                }
                Entry::Vacant(_) => self.overflow += 1,
            }
        }
    }

    /// The keys of the given flows, where known, in the order of bottleneck, flow, signature.
    pub fn of_flows(&self, flows: impl Iterator<Item = FlowId>) -> Vec<(FlowId, FlowKey)> {
        let known = flows.filter_map(|id| self.keys.get(&id).map(|key| (id, *key)));
        let mut keys: Vec<_> = known.collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys
    }
}

/// Flows with a report that was passed on in sequence, so that their key is not from a damaged report alone.
pub struct ConfirmedFlows {
    flows: HashSet<FlowId>,
    /// The flow last seen in each slot, packed.
    seen: Vec<u64>,
}

impl Default for ConfirmedFlows {
    fn default() -> Self {
        ConfirmedFlows { flows: HashSet::new(), seen: vec![u64::MAX; CACHE_SLOTS] }
    }
}

impl ConfirmedFlows {
    /// Records the flow of a report that was passed on.
    #[inline]
    pub fn add(&mut self, id: FlowId) {
        if replaced(&mut self.seen, id) && self.flows.len() < MAX_KEYS {
            self.flows.insert(id);
        }
    }

    /// All of them, in any order.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.flows.iter().copied()
    }
}

/// Puts `id` into its cache slot; false if it was there already.
#[inline]
fn replaced(cache: &mut [u64], id: FlowId) -> bool {
    let slot = (usize::from(id.flow) ^ usize::from(id.bottleneck) << 5) % CACHE_SLOTS;
    std::mem::replace(&mut cache[slot], id.packed()) != id.packed()
}
