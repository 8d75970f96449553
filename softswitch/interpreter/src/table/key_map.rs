// SPDX-License-Identifier: Apache-2.0
//! A hash map from packed keys to entry handles: open addressing, keys stored in place.

use narrows_program::key::Key;

/// No entry.
pub const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub struct KeyMap {
    /// Words of a key that are stored and compared.
    words: usize,
    /// Capacity - 1; the capacity is a power of two.
    mask: usize,
    keys: Vec<u64>,
    handles: Vec<u32>,
    length: usize,
}

impl KeyMap {
    pub fn new(words: usize) -> Self {
        Self::with_capacity(words, 8)
    }

    fn with_capacity(words: usize, capacity: usize) -> Self {
        Self { words, mask: capacity - 1, keys: vec![0; capacity * words], handles: vec![NONE; capacity], length: 0 }
    }

    #[inline(always)]
    fn hash(&self, key: &[u64]) -> usize {
        let mut hash = 0x243f_6a88_85a3_08d3u64;
        for &word in key {
            let product = u128::from(hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            hash = product as u64 ^ (product >> 64) as u64;
        }
        hash as usize
    }

    #[inline(always)]
    pub fn get(&self, key: &Key) -> u32 {
        let key = &key[..self.words];
        let mut at = self.hash(key) & self.mask;
        loop {
            let handle = self.handles[at];
            if handle == NONE || self.keys[at * self.words..][..self.words] == *key {
                return handle;
            }
            at = (at + 1) & self.mask;
        }
    }

    pub fn words(&self) -> usize {
        self.words
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// For keys of one word.
    #[inline(always)]
    pub fn get_word(&self, key: u64) -> u32 {
        let mut at = self.hash(&[key]) & self.mask;
        loop {
            let handle = self.handles[at];
            if handle == NONE || self.keys[at] == key {
                return handle;
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Replaces what was there.
    pub fn insert(&mut self, key: &Key, handle: u32) {
        if (self.length + 1) * 2 > self.handles.len() {
            let mut larger = Self::with_capacity(self.words, self.handles.len() * 2);
            for (at, &handle) in self.handles.iter().enumerate().filter(|(_, &h)| h != NONE) {
                larger.put(&self.keys[at * self.words..][..self.words], handle);
            }
            *self = larger;
        }
        self.put(&key[..self.words], handle);
    }

    fn put(&mut self, key: &[u64], handle: u32) {
        let mut at = self.hash(key) & self.mask;
        while self.handles[at] != NONE {
            if self.keys[at * self.words..][..self.words] == *key {
                self.handles[at] = handle;
                return;
            }
            at = (at + 1) & self.mask;
        }
        self.keys[at * self.words..][..self.words].copy_from_slice(key);
        self.handles[at] = handle;
        self.length += 1;
    }

    pub fn remove(&mut self, key: &Key) {
        let key = &key[..self.words];
        let mut hole = self.hash(key) & self.mask;
        while self.handles[hole] != NONE && self.keys[hole * self.words..][..self.words] != *key {
            hole = (hole + 1) & self.mask;
        }
        if self.handles[hole] == NONE {
            return;
        }
        self.length -= 1;
        // Entries behind the hole that were pushed past it move up, so that every probe still ends at a free place.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            if self.handles[at] == NONE {
                break;
            }
            let home = self.hash(&self.keys[at * self.words..][..self.words]) & self.mask;
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.keys.copy_within(at * self.words..(at + 1) * self.words, hole * self.words);
                self.handles[hole] = self.handles[at];
                hole = at;
            }
        }
        self.handles[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key(a: u64, b: u64) -> Key {
        let mut key = Key::default();
        (key[0], key[1]) = (a, b);
        key
    }

    #[test]
    fn behaves_like_a_hash_map() {
        let (mut ours, mut reference) = (KeyMap::new(2), HashMap::new());
        let mut state = 7u64;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let k = ((state >> 33) % 300, (state >> 50) % 3);
            if state >> 63 == 1 {
                ours.insert(&key(k.0, k.1), step);
                reference.insert(k, step);
            } else {
                ours.remove(&key(k.0, k.1));
                reference.remove(&k);
            }
            assert_eq!(ours.get(&key(k.0, k.1)), reference.get(&k).copied().unwrap_or(NONE));
        }
        for a in 0..300 {
            for b in 0..3 {
                assert_eq!(ours.get(&key(a, b)), reference.get(&(a, b)).copied().unwrap_or(NONE));
            }
        }
    }
}
