// SPDX-License-Identifier: Apache-2.0
//! Ways to find the entry that matches a key.

use std::collections::HashMap;

use narrows_program::bits::ones;
use narrows_program::key::{Key, Step};
use narrows_program::table::MAX_WORDS;

use super::key_map::{KeyMap, NONE};
use super::prefixes::Prefixes;

/// Exact keys of at most this many bits index an array.
pub const DIRECT_BITS: u32 = 12;
/// Up to this many prioritised entries are compared one by one.
const LINEAR_ENTRIES: usize = 8;

/// An entry as lookups see it.
#[derive(Debug, Clone)]
pub struct Rule {
    pub value: Key,
    pub mask: Key,
    /// The matching rule with the greatest rank wins; no two are equal.
    pub rank: u64,
    pub handle: u32,
    /// Range key fields.
    pub ranges: Vec<Interval>,
}

/// The range that part of a key must lie in.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub step: Step,
    pub low: u64,
    pub high: u64,
}

/// A rule of a key of one word.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    value: u64,
    mask: u64,
    handle: u32,
}

#[derive(Debug)]
pub enum Lookup {
    /// No entries, or no key.
    Empty,
    /// Indexed by the key.
    Direct(Vec<u32>),
    Exact(KeyMap),
    /// One prefix field of at most 64 bits.
    Prefixes(Box<Prefixes>),
    /// A few rules of one word, the best last.
    Words(Vec<Word>),
    /// Best first.
    Linear(Vec<Rule>),
    Tuples(Tuples),
}

impl Lookup {
    /// The handle of the entry that matches a key of one word, or [`NONE`].
    #[inline(always)]
    pub fn find_word(&self, key: u64) -> u32 {
        match self {
            Lookup::Direct(handles) => handles.get(key as usize).copied().unwrap_or(NONE),
            Lookup::Prefixes(prefixes) => prefixes.find(key),
            // No early exit: which rule matches is hard to predict, and they are few.
            Lookup::Words(words) => {
                words.iter().fold(
                    NONE,
                    |found, word| {
                        if (key ^ word.value) & word.mask == 0 {
                            word.handle
                        } else {
                            found
                        }
                    },
                )
            }
            Lookup::Exact(map) if map.words() == 1 => map.get_word(key),
            _ => {
                let mut whole = Key::default();
                whole[0] = key;
                self.find(&whole)
            }
        }
    }

    /// The handle of the entry that matches, or [`NONE`].
    pub fn find(&self, key: &Key) -> u32 {
        match self {
            Lookup::Empty => NONE,
            Lookup::Exact(map) => map.get(key),
            Lookup::Linear(rules) => rules.iter().find(|rule| rule.matches(key)).map_or(NONE, |rule| rule.handle),
            Lookup::Tuples(tuples) => tuples.find(key),
            Lookup::Direct(_) | Lookup::Prefixes(_) | Lookup::Words(_) => self.find_word(key[0]),
        }
    }

    /// Adds a prioritised rule to what [`Lookup::of_rules`] has made of many. False: another way may be better now, or there is no
    /// way but to make the lookup anew.
    pub fn insert(&mut self, rule: &Rule) -> bool {
        match self {
            Lookup::Tuples(tuples) if rule.ranges.is_empty() => tuples.insert(rule),
            Lookup::Linear(rules) if rules.len() > LINEAR_ENTRIES => {
                let at = rules.partition_point(|known| known.rank > rule.rank);
                rules.insert(at, rule.clone());
            }
            _ => return false,
        }
        true
    }

    /// Removes a rule, under the same conditions.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        match self {
            Lookup::Tuples(tuples) if tuples.rules > LINEAR_ENTRIES + 1 => tuples.remove(rule),
            Lookup::Linear(rules) if rules.len() > LINEAR_ENTRIES + 1 => {
                rules.retain(|known| known.handle != rule.handle)
            }
            _ => return false,
        }
        true
    }

    /// The best way to look up prioritised rules of keys of `words` words.
    pub fn of_rules(mut rules: Vec<Rule>, words: usize, bits: u32) -> Self {
        if rules.is_empty() {
            return Lookup::Empty;
        }
        rules.sort_by_key(|r| std::cmp::Reverse(r.rank));
        let ranges = rules.iter().any(|r| !r.ranges.is_empty());
        if words == 1 && bits <= DIRECT_BITS && !ranges {
            return Lookup::Direct(unfold(&rules, bits));
        }
        if rules.len() <= LINEAR_ENTRIES && words <= 1 && !ranges {
            let word = |r: &Rule| Word { value: r.value[0], mask: r.mask[0], handle: r.handle };
            return Lookup::Words(rules.iter().rev().map(word).collect());
        }
        if rules.len() <= LINEAR_ENTRIES || ranges {
            return Lookup::Linear(rules);
        }
        Lookup::Tuples(Tuples::new(&rules, words.max(1)))
    }
}

impl Rule {
    fn matches(&self, key: &Key) -> bool {
        (0..MAX_WORDS).fold(0, |differ, i| differ | (key[i] ^ self.value[i]) & self.mask[i]) == 0
            && self.ranges.iter().all(|r| (r.low..=r.high).contains(&r.step.unpack(key)))
    }
}

/// The best rule's handle for each value of a key of `bits` bits. `rules` are sorted, best first.
fn unfold(rules: &[Rule], bits: u32) -> Vec<u32> {
    let mut handles = vec![NONE; 1 << bits];
    for rule in rules.iter().rev() {
        let free = ones(bits) & !rule.mask[0];
        // All subsets of the bits that the rule leaves free.
        let mut part = free;
        loop {
            handles[((rule.value[0] & rule.mask[0]) | part) as usize] = rule.handle;
            if part == 0 {
                break;
            }
            part = (part - 1) & free;
        }
    }
    handles
}

/// Rules grouped by mask (tuple space search): one hash lookup a group, groups with the best rules first.
#[derive(Debug)]
pub struct Tuples {
    /// Words of a key.
    words: usize,
    rules: usize,
    groups: Vec<Group>,
    /// By handle.
    ranks: Vec<u64>,
}

#[derive(Debug)]
struct Group {
    mask: Key,
    /// No rule of the group is better; that one may have been removed.
    best: u64,
    /// The best rule of each value.
    map: KeyMap,
    /// The others, where several rules have one value.
    worse: HashMap<Key, Vec<u32>>,
}

impl Tuples {
    /// `rules` are sorted, best first.
    fn new(rules: &[Rule], words: usize) -> Self {
        let mut tuples = Self { words, rules: 0, groups: Vec::new(), ranks: Vec::new() };
        let mut index = HashMap::new();
        for rule in rules {
            let at = *index.entry(rule.mask).or_insert_with(|| tuples.open(rule));
            tuples.put(at, rule);
        }
        tuples
    }

    /// Adds a group for a rule; returns where it is.
    fn open(&mut self, rule: &Rule) -> usize {
        let map = KeyMap::new(self.words);
        self.groups.push(Group { mask: rule.mask, best: rule.rank, map, worse: HashMap::new() });
        self.groups.len() - 1
    }

    fn put(&mut self, at: usize, rule: &Rule) {
        let handle = rule.handle as usize;
        if self.ranks.len() <= handle {
            self.ranks.resize(handle + 1, 0);
        }
        self.ranks[handle] = rule.rank;
        self.rules += 1;
        let group = &mut self.groups[at];
        group.best = group.best.max(rule.rank);
        let known = group.map.get(&rule.value);
        if known == NONE || self.ranks[known as usize] < rule.rank {
            group.map.insert(&rule.value, rule.handle);
        }
        if known != NONE {
            let better = self.ranks[known as usize] > rule.rank;
            group.worse.entry(rule.value).or_default().push(if better { rule.handle } else { known });
        }
    }

    fn group_of(&self, rule: &Rule) -> Option<usize> {
        self.groups.iter().position(|group| group.mask == rule.mask)
    }

    fn insert(&mut self, rule: &Rule) {
        let mut at = self.group_of(rule).unwrap_or_else(|| self.open(rule));
        self.put(at, rule);
        while at > 0 && self.groups[at - 1].best < self.groups[at].best {
            self.groups.swap(at - 1, at);
            at -= 1;
        }
    }

    fn remove(&mut self, rule: &Rule) {
        let Some(at) = self.group_of(rule) else {
            return;
        };
        self.rules -= 1;
        let (group, ranks) = (&mut self.groups[at], &self.ranks);
        let was_best = group.map.get(&rule.value) == rule.handle;
        if let Some(worse) = group.worse.get_mut(&rule.value) {
            let rank = |position: &usize| ranks[worse[*position] as usize];
            let gone = match was_best {
                true => (0..worse.len()).max_by_key(rank),
                false => worse.iter().position(|handle| *handle == rule.handle),
            };
            let gone = gone.map(|position| worse.swap_remove(position));
            if worse.is_empty() {
                group.worse.remove(&rule.value);
            }
            if let Some(next) = gone.filter(|_| was_best) {
                group.map.insert(&rule.value, next);
            }
        } else {
            group.map.remove(&rule.value);
        }
        if group.map.is_empty() {
            self.groups.remove(at);
        }
    }

    #[inline(always)]
    fn find(&self, key: &Key) -> u32 {
        let (mut found, mut rank) = (NONE, 0);
        for group in &self.groups {
            if found != NONE && group.best < rank {
                break;
            }
            let mut masked = *key;
            for (word, mask) in masked.iter_mut().zip(&group.mask).take(group.map.words()) {
                *word &= mask;
            }
            let handle = group.map.get(&masked);
            if handle != NONE && (found == NONE || self.ranks[handle as usize] > rank) {
                found = handle;
                rank = self.ranks[handle as usize];
            }
        }
        found
    }
}
