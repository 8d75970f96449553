// SPDX-License-Identifier: Apache-2.0
//! Reading and writing the headers of a packet where they lie.

use narrows_program::field::MAX_HEADERS;

use super::Packet;

impl Packet {
    pub fn is_valid(&self, header: u8) -> bool {
        self.valid >> (header & 63) & 1 == 1
    }

    #[inline(always)]
    fn bytes_at<const N: usize>(&self, header: u8, byte: u16) -> [u8; N] {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
        let mut bytes = [0; N];
        if let Some(found) = self.buffer.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        bytes
    }

    #[inline(always)]
    pub fn window1(&self, header: u8, byte: u16) -> u64 {
        u64::from(u8::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub fn window2(&self, header: u8, byte: u16) -> u64 {
        u64::from(u16::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub fn window4(&self, header: u8, byte: u16) -> u64 {
        u64::from(u32::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub fn window8(&self, header: u8, byte: u16) -> u64 {
        u64::from_be_bytes(self.bytes_at(header, byte))
    }

    #[inline(always)]
    pub fn window16(&self, header: u8, byte: u16) -> u128 {
        u128::from_be_bytes(self.bytes_at(header, byte))
    }

    /// Writes bytes of a header, unless it is invalid.
    #[inline(always)]
    pub fn write<const N: usize>(&mut self, header: u8, byte: u16, bytes: [u8; N]) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let Some(place) = self.buffer.get_mut(at..at + N) {
                place.copy_from_slice(&bytes);
            }
        }
    }

    /// Writes the low `count` bytes of a value.
    pub fn write_bytes(&mut self, header: u8, byte: u16, value: u64, count: usize) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let (Some(place), true) = (self.buffer.get_mut(at..at + count), count <= 8) {
                place.copy_from_slice(&value.to_be_bytes()[8 - count..]);
            }
        }
    }

    /// The `count` bytes (at most 16) of a window, right-aligned.
    pub fn read_bytes(&self, header: u8, byte: u16, count: usize) -> u128 {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
        let found = self.buffer.get(at..at + count).unwrap_or_default();
        found.iter().fold(0, |value, &b| value << 8 | u128::from(b))
    }

    /// Writes the low `count` bytes (at most 16) of a value.
    pub fn write_wide(&mut self, header: u8, byte: u16, value: u128, count: usize) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let (Some(place), true) = (self.buffer.get_mut(at..at + count), count <= 16) {
                place.copy_from_slice(&value.to_be_bytes()[16 - count..]);
            }
        }
    }

    #[inline(always)]
    pub fn place_header(&mut self, header: u8, base: u16) {
        self.valid |= 1 << (header & 63);
        self.base[usize::from(header) % MAX_HEADERS] = base;
    }

    pub fn invalidate_header(&mut self, header: u8) {
        self.valid &= !(1 << (header & 63));
        self.base[usize::from(header) % MAX_HEADERS] = 0;
    }

    pub fn zero_header(&mut self, header: u8, bytes: usize) {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]);
        if let Some(place) = self.buffer.get_mut(at..at + bytes) {
            place.fill(0);
        }
    }

    pub fn copy_header(&mut self, to: u8, from: u8, bytes: usize) {
        let [to, from] = [to, from].map(|h| usize::from(self.base[usize::from(h) % MAX_HEADERS]));
        if to.max(from) + bytes <= self.buffer.len() {
            self.buffer.copy_within(from..from + bytes, to);
        }
    }

    /// `bits` bits (at most 128) that lie `bit` bits behind the parsed headers; `None` if the packet ends before.
    pub fn look_ahead(&self, bit: u32, bits: u8) -> Option<u128> {
        let (bit, bits) = (bit as usize, usize::from(bits));
        let from = self.payload as usize + bit / 8;
        let skip = bit % 8;
        let count = (skip + bits).div_ceil(8);
        if from + count > self.end as usize {
            return None;
        }
        let bytes = self.buffer.get(from..from + count)?;
        let mut value = 0u128;
        for (i, &byte) in bytes.iter().enumerate() {
            let byte = if i == 0 { byte & (0xff >> skip) } else { byte };
            let keep = (8 * count - skip - bits) as u32;
            value = if i + 1 == count {
                value << (8 - keep) | u128::from(byte >> keep)
            } else {
                value << 8 | u128::from(byte)
            };
        }
        Some(value)
    }
}
