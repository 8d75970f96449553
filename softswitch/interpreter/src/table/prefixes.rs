// SPDX-License-Identifier: Apache-2.0
//! Longest-prefix matches in one field.

use narrows_program::bits::ones;

use super::key_map::NONE;

/// Prefixes of one field as the intervals they cut its range into, with an index by the position of the highest bit.
#[derive(Debug)]
pub struct Prefixes {
    /// First value of each interval, ascending, starting with 0.
    starts: Vec<u64>,
    handles: Vec<u32>,
    /// For values of n significant bits: the first and the last interval they can lie in.
    index: [(u32, u32); 65],
    magnitudes: Option<Magnitudes>,
}

impl Prefixes {
    /// From prefixes as (value, length, handle) in a field of `width` bits.
    pub fn new(mut prefixes: Vec<(u64, u32, u32)>, width: u32) -> Self {
        // Parents before children: a stack then holds the prefixes that are open.
        prefixes.sort_unstable();
        let mut result = Self { starts: vec![0], handles: vec![NONE], index: [(0, 0); 65], magnitudes: None };
        let mut open: Vec<(u64, u32)> = Vec::new();
        for (value, length, handle) in prefixes {
            result.close(&mut open, Some(value));
            result.begin(value, handle);
            open.push((value | ones(width - length), handle));
        }
        result.close(&mut open, None);
        result.finish(width);
        result
    }

    /// Makes what follows from the intervals.
    fn finish(&mut self, width: u32) {
        for bits in 0..=64u32 {
            let (first, last) = if bits == 0 { (0, 0) } else { (1 << (bits - 1), ones(bits)) };
            self.index[bits as usize] = (self.holding(first) as u32, self.holding(last) as u32);
        }
        self.magnitudes = Magnitudes::new(self, width);
    }

    /// The interval that a value lies in.
    fn holding(&self, value: u64) -> usize {
        self.starts.partition_point(|&start| start <= value) - 1
    }

    /// The prefix of `length` bits that `value` is was added or removed: what its values' handles are now, for each that they had.
    pub fn change(&mut self, (value, length): (u64, u32), width: u32, handle: impl Fn(u32) -> u32) {
        let last = value | ones(width - length);
        let from = self.split(value);
        let to = last.checked_add(1).map_or(self.starts.len(), |after| self.split(after));
        for known in &mut self.handles[from..to] {
            *known = handle(*known);
        }
        // Otherwise entries that come and go would leave ever more intervals.
        self.join(to);
        self.join(from);
        self.finish(width);
    }

    /// The interval that begins at `start`.
    fn split(&mut self, start: u64) -> usize {
        let at = self.holding(start);
        if self.starts[at] == start {
            return at;
        }
        self.starts.insert(at + 1, start);
        self.handles.insert(at + 1, self.handles[at]);
        at + 1
    }

    /// Makes one of an interval and the one before, if there is no difference.
    fn join(&mut self, at: usize) {
        if at > 0 && at < self.handles.len() && self.handles[at - 1] == self.handles[at] {
            self.starts.remove(at);
            self.handles.remove(at);
        }
    }

    pub fn magnitudes(&self) -> Option<&Magnitudes> {
        self.magnitudes.as_ref()
    }

    /// Ends the open prefixes that end before `next`.
    fn close(&mut self, open: &mut Vec<(u64, u32)>, next: Option<u64>) {
        while let Some(&(last, _)) = open.last() {
            if next.is_some_and(|v| v <= last) {
                return;
            }
            open.pop();
            if let Some(after) = last.checked_add(1) {
                self.begin(after, open.last().map_or(NONE, |o| o.1));
            }
        }
    }

    fn begin(&mut self, start: u64, handle: u32) {
        if self.starts.last() == Some(&start) {
            let last = self.handles.len() - 1;
            self.handles[last] = handle;
        } else {
            self.starts.push(start);
            self.handles.push(handle);
        }
    }

    #[inline(always)]
    pub fn find(&self, value: u64) -> u32 {
        let (first, last) = self.index[(64 - value.leading_zeros()) as usize];
        let (mut at, mut length) = (first as usize, (last - first + 1) as usize);
        while length > 1 {
            let half = length / 2;
            if self.starts[at + half] <= value {
                at += half;
            }
            length -= half;
        }
        self.handles[at]
    }
}

/// Most bits of a fraction.
const FRACTION_BITS: u32 = 6;

/// Handles by the position of a value's highest bit and the few bits behind it, where entries depend on those only: bins of a
/// logarithmic histogram are such prefixes.
#[derive(Debug)]
pub struct Magnitudes {
    pub handles: Vec<u32>,
    pub fraction_bits: u32,
}

impl Magnitudes {
    /// Where a value is: values below 2^(f + 1) have a place each, those above one for each upper f + 1 bits.
    fn index(value: u64, fraction_bits: u32) -> u64 {
        let highest = 63 - (value | 1 << fraction_bits).leading_zeros();
        let magnitude = highest - fraction_bits;
        (u64::from(magnitude) << fraction_bits) + (value >> magnitude)
    }

    /// For values of `width` bits, with the fewest bits that do; `None` if there are too many.
    fn new(prefixes: &Prefixes, width: u32) -> Option<Self> {
        // Starts that need so few bits have a place each.
        if prefixes.starts.len() as u64 > Self::index(ones(width), FRACTION_BITS) + 1 {
            return None;
        }
        let needed = |start: &u64| match *start {
            0 => 0,
            start => 63 - start.leading_zeros() - start.trailing_zeros(),
        };
        let fraction_bits = prefixes.starts.iter().map(needed).max().unwrap_or(0);
        if fraction_bits > FRACTION_BITS {
            return None;
        }
        let places = Self::index(ones(width), fraction_bits) + 1;
        let mut handles = vec![NONE; places as usize];
        for (position, &start) in prefixes.starts.iter().enumerate() {
            let from = Self::index(start, fraction_bits) as usize;
            handles[from..].fill(prefixes.handles[position]);
        }
        Some(Self { handles, fraction_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_are_what_a_search_finds() {
        let sets: [&[(u64, u32)]; 4] = [
            &[],
            &[(0, 0), (0x8000_0000, 1), (0x9000_0000, 4), (7, 32)],
            &[(0x4000, 19), (0x5000, 20), (0x5800, 21), (0x20, 28), (0, 31)],
            &[(0xffff_fff0, 28)],
        ];
        let mut found = 0;
        for set in sets {
            let prefixes = (1..).zip(set).map(|(handle, &(value, length))| (value, length, handle));
            let prefixes = Prefixes::new(prefixes.collect(), 32);
            let Some(magnitudes) = prefixes.magnitudes() else {
                continue;
            };
            found += 1;
            let near = |bit: u32| (0..80).map(move |i| ((1u64 << bit) + i).wrapping_sub(40) & ones(32));
            for value in (0..32).flat_map(near).chain((0..1 << 16).map(|i| i << 16 | i)) {
                let index = Magnitudes::index(value, magnitudes.fraction_bits);
                let handle = magnitudes.handles[index as usize];
                assert_eq!(handle, prefixes.find(value), "{value:#x}");
            }
        }
        assert_eq!(found, 3);
    }
}
