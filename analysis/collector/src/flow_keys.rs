// SPDX-License-Identifier: Apache-2.0
//! Which 5-tuple stands behind a (bottleneck, flow index, signature).

use std::collections::HashMap;

use crate::wire::original::{five_tuple, FiveTuple};
use crate::wire::{Record, Report};

/// Keys kept at most: bounds memory when someone sprays addresses.
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
    /// The identity that a report states.
    #[inline]
    pub fn of(report: &Report) -> Self {
        FlowId {
            bottleneck: report.bottleneck,
            flow: report.flow,
            signature: report.signature,
        }
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

struct Entry {
    key: FlowKey,
    /// A report of the flow was passed on, so the key does not stem from a damaged one alone.
    confirmed: bool,
}

/// Every flow seen, with the 5-tuple of its first report.
pub struct FlowKeys {
    keys: HashMap<FlowId, Entry>,
    /// The flow last seen in each slot, packed: most reports need no look into `keys`.
    observed: Vec<u64>,
    /// The same for [`FlowKeys::confirm`].
    confirmed: Vec<u64>,
    /// Reports of flows for which there was no room.
    pub overflow: u64,
}

impl Default for FlowKeys {
    fn default() -> Self {
        FlowKeys {
            keys: HashMap::new(),
            observed: vec![u64::MAX; CACHE_SLOTS],
            confirmed: vec![u64::MAX; CACHE_SLOTS],
            overflow: 0,
        }
    }
}

impl FlowKeys {
    /// Notes the flow of a report whose original headers start at `inner`.
    #[inline]
    pub fn observe(&mut self, record: &Record, inner: &[u8]) {
        let id = FlowId::of(&record.report);
        if replaced(&mut self.observed, id) {
            self.insert(id, record, inner);
        }
    }

    /// Notes that a report of the flow was passed on in sequence.
    #[inline]
    pub fn confirm(&mut self, id: FlowId) {
        if replaced(&mut self.confirmed, id) {
            if let Some(entry) = self.keys.get_mut(&id) {
                entry.confirmed = true;
            }
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
        self.keys.insert(
            id,
            Entry {
                key,
                confirmed: false,
            },
        );
    }

    /// The keys of the given flows as far as they are known, in the order of bottleneck, flow, signature.
    pub fn of_flows(&self, flows: impl Iterator<Item = FlowId>) -> Vec<(FlowId, FlowKey)> {
        let known = flows.filter_map(|id| self.keys.get(&id).map(|entry| (id, entry.key)));
        let mut keys: Vec<_> = known.collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys
    }

    /// The confirmed keys, in the order of bottleneck, flow, signature.
    pub fn sorted(&self) -> Vec<(FlowId, FlowKey)> {
        let confirmed = self.keys.iter().filter(|(_, entry)| entry.confirmed);
        let mut keys: Vec<_> = confirmed.map(|(id, entry)| (*id, entry.key)).collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys
    }
}

/// Puts `id` into its cache slot; false if it was there already.
#[inline]
fn replaced(cache: &mut [u64], id: FlowId) -> bool {
    let slot = (usize::from(id.flow) ^ usize::from(id.bottleneck) << 5) % CACHE_SLOTS;
    std::mem::replace(&mut cache[slot], id.packed()) != id.packed()
}
