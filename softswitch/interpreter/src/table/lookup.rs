// SPDX-License-Identifier: Apache-2.0
//! Ways to find the entry that matches a key.

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
    groups: Vec<Group>,
    /// By handle.
    ranks: Vec<u64>,
}

#[derive(Debug)]
struct Group {
    mask: Key,
    best: u64,
    map: KeyMap,
}

impl Tuples {
    /// `rules` are sorted, best first.
    fn new(rules: &[Rule], words: usize) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut index = std::collections::HashMap::new();
        let last = rules.iter().map(|r| r.handle).max().unwrap_or(0);
        let mut ranks = vec![0; last as usize + 1];
        for rule in rules {
            let at = *index.entry(rule.mask).or_insert_with(|| {
                groups.push(Group { mask: rule.mask, best: rule.rank, map: KeyMap::new(words) });
                groups.len() - 1
            });
            ranks[rule.handle as usize] = rule.rank;
            if groups[at].map.get(&rule.value) == NONE {
                groups[at].map.insert(&rule.value, rule.handle);
            }
        }
        Self { groups, ranks }
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
