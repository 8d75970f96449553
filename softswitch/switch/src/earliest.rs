//! The earliest of many times, each of which changes again and again: a tournament tree.
//!
//! A change costs one comparison for each doubling of the number of times, whatever the values: no branch depends on them, as it
//! does in a heap, so nothing is mispredicted.
// SPDX-License-Identifier: Apache-2.0

/// A time, and below it the position it belongs to, so that of equal times the one at the lowest position comes first.
type Entry = u128;

const POSITION_BITS: u32 = 32;
/// Later than any time.
const NEVER: Entry = Entry::MAX;

/// Times by position, of which the earliest is known.
#[derive(Debug)]
pub struct Earliest {
    /// The parent of node n is n / 2, node 1 is the root, and the second half are the positions.
    nodes: Vec<Entry>,
    /// The root's: the earliest.
    first: Entry,
}

impl Default for Earliest {
    fn default() -> Self {
        Earliest { nodes: vec![NEVER; 2], first: NEVER }
    }
}

impl Earliest {
    /// Makes room for positions below `count`.
    pub fn reserve(&mut self, count: usize) {
        let leaves = count.next_power_of_two();
        let before = self.nodes.len() / 2;
        if leaves <= before {
            return;
        }
        let times = self.nodes.split_off(before);
        self.nodes = vec![NEVER; 2 * leaves];
        self.nodes[leaves..leaves + before].copy_from_slice(&times);
        for node in (1..leaves).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    /// Sets the time of a position that there is room for; `None`: it has none.
    #[inline]
    pub fn set(&mut self, position: usize, time: Option<u64>) {
        let mut node = self.nodes.len() / 2 + position;
        let mut earliest = time.map_or(NEVER, |time| Entry::from(time) << POSITION_BITS | position as Entry);
        if let Some(leaf) = self.nodes.get_mut(node) {
            *leaf = earliest;
        }
        while node > 1 {
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = earliest;
        }
        self.first = earliest;
    }

    /// The earliest time and its position; of equal ones the lowest position.
    #[inline]
    pub fn first(&self) -> Option<(u64, usize)> {
        (self.first != NEVER).then_some(parts(self.first))
    }

    /// The same, if the time is not later than `limit`.
    #[inline]
    pub fn until(&self, limit: u64) -> Option<(u64, usize)> {
        let latest = Entry::from(limit) << POSITION_BITS | Entry::from(u32::MAX);
        (self.first <= latest).then_some(parts(self.first))
    }

    /// The earliest time.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.first().map(|(time, _)| time)
    }
}

/// Time and position.
#[inline]
fn parts(entry: Entry) -> (u64, usize) {
    ((entry >> POSITION_BITS) as u64, entry as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_search(changes in prop::collection::vec((0usize..70, prop::option::of(prop_oneof![0u64..5, Just(u64::MAX)])), 1..200)) {
            let mut earliest = Earliest::default();
            let mut times: Vec<Option<u64>> = vec![];
            for (position, time) in changes {
                if position >= times.len() {
                    times.resize(position + 1, None);
                    earliest.reserve(times.len());
                }
                times[position] = time;
                earliest.set(position, time);
                let found = times.iter().enumerate().filter_map(|(position, time)| Some(((*time)?, position))).min();
                prop_assert_eq!(earliest.first(), found);
                for limit in [0, 2, 4, u64::MAX] {
                    prop_assert_eq!(earliest.until(limit), found.filter(|(time, _)| *time <= limit));
                }
            }
        }
    }
}
