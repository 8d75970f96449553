// SPDX-License-Identifier: Apache-2.0
//! Masks.

/// The lowest `bits` bits set.
#[inline(always)]
#[must_use]
pub fn ones(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// The mask of the lowest `bits` bits, 1 to 64.
#[inline(always)]
#[must_use]
pub fn cut(bits: u8) -> u64 {
    u64::MAX >> (64u8.wrapping_sub(bits) & 63)
}

/// The lowest `bits` bits of 128 set.
#[inline]
#[must_use]
pub fn wide_ones(bits: u32) -> u128 {
    match bits {
        0 => 0,
        1..=127 => (1 << bits) - 1,
        _ => u128::MAX,
    }
}

/// The mask of a prefix of `length` bits in a field of `width` bits.
#[inline]
#[must_use]
pub fn prefix_mask(width: u32, length: u32) -> u128 {
    let width = width.min(128);
    wide_ones(width) & !wide_ones(width - length.min(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_reach_from_no_bit_to_all() {
        assert_eq!((cut(1), cut(64)), (1, u64::MAX));
        assert_eq!((ones(0), ones(64)), (0, u64::MAX));
        assert_eq!((wide_ones(0), wide_ones(128)), (0, u128::MAX));
        assert_eq!((prefix_mask(32, 8), prefix_mask(8, 8), prefix_mask(8, 9)), (0xff00_0000, 0xff, 0xff));
    }
}
