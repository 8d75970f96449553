// SPDX-License-Identifier: Apache-2.0
//! Action profiles: which numbers their members have, and what is in their groups.
//!
//! What a member does is an entry, by its number, of the tables that [`narrows_program::control::ProfileTable`] names.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers from 1 on, the least free one first, as BMv2 gives handles: a group's members are in their order.
#[derive(Debug, Clone, Default)]
struct Numbers {
    free: BTreeSet<u32>,
    used: u32,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.used += 1;
            self.used
        })
    }
}

/// The members of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Number of each, and the sum of the weights up to its own.
    pub ends: Vec<(u32, u64)>,
    /// What its controller said of it.
    pub max_size: u32,
    /// What it takes of the profile's size.
    pub takes: u64,
    /// What its controller wants to read back with it.
    pub note: (i32, i32),
}

impl Group {
    /// Of members with their weights, in the order in which hashes choose among them.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut end = 0;
        let ends = members.into_iter().map(|(number, weight)| {
            end += u64::from(weight);
            (number, end)
        });
        Self { ends: ends.collect(), ..Self::default() }
    }

    /// Number and weight of each member.
    pub fn members(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let before = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        self.ends.iter().zip(before).map(|((number, end), before)| (*number, (end - before) as u32))
    }
}

/// An action profile.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Numbers by the ids that controllers give.
    pub members: BTreeMap<u32, u32>,
    pub groups: BTreeMap<u32, u32>,
    member_numbers: Numbers,
    group_numbers: Numbers,
    /// All groups by their numbers, also those of sets of actions, which have no id.
    pub contents: BTreeMap<u32, Group>,
}

impl Profile {
    /// The number of the member of a group that a hash chooses: the remainder counts through them, a member as often as its weight.
    /// 0 if there are none.
    #[must_use]
    pub fn choose(&self, group: u32, hash: u64) -> u32 {
        let Some(Group { ends, .. }) = self.contents.get(&group) else {
            return 0;
        };
        let Some(&(_, all)) = ends.last() else {
            return 0;
        };
        let place = hash % all.max(1);
        ends.get(ends.partition_point(|(_, end)| *end <= place)).map_or(0, |(number, _)| *number)
    }

    /// A number for a new member.
    pub fn take_member(&mut self) -> u32 {
        self.member_numbers.take()
    }

    /// The member with this number is gone.
    pub fn give_member(&mut self, number: u32) {
        self.member_numbers.free.insert(number);
    }

    /// Adds a group; returns its number.
    pub fn add_group(&mut self, group: Group) -> u32 {
        let number = self.group_numbers.take();
        self.contents.insert(number, group);
        number
    }

    /// Removes a group by its number.
    pub fn remove_group(&mut self, number: u32) -> Option<Group> {
        let group = self.contents.remove(&number)?;
        self.group_numbers.free.insert(number);
        Some(group)
    }

    /// Groups of sets of actions that came with entries.
    pub fn sets(&self) -> impl Iterator<Item = u32> + '_ {
        let named: BTreeSet<u32> = self.groups.values().copied().collect();
        self.contents.keys().copied().filter(move |number| !named.contains(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_count_through_the_members_by_their_weights() {
        let mut profile = Profile::default();
        let group = profile.add_group(Group::new([(7, 1), (3, 3), (5, 2)]));
        let chosen: Vec<u32> = (0..7).map(|hash| profile.choose(group, hash)).collect();
        assert_eq!(chosen, [7, 3, 3, 3, 5, 5, 7]);
        assert_eq!(profile.choose(group, u64::MAX), profile.choose(group, u64::MAX % 6));
        let members: Vec<_> = profile.contents[&group].members().collect();
        assert_eq!(members, [(7, 1), (3, 3), (5, 2)]);
        let empty = profile.add_group(Group::new([]));
        assert_eq!((profile.choose(empty, 1), profile.choose(99, 1)), (0, 0));
    }

    #[test]
    fn the_least_free_number_is_taken() {
        let mut profile = Profile::default();
        assert_eq!([profile.take_member(), profile.take_member(), profile.take_member()], [1, 2, 3]);
        profile.give_member(2);
        profile.give_member(1);
        assert_eq!([profile.take_member(), profile.take_member(), profile.take_member()], [1, 2, 4]);
    }
}
