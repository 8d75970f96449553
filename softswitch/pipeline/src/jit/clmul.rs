// SPDX-License-Identifier: Apache-2.0
//! CRC-32 of short inputs by carry-less multiplication.
//!
//! A CRC is the remainder of the message, seen as a polynomial, so every word contributes on its own: word times
//! x^(bits behind it), modulo the CRC's polynomial. The factors are constants; the products do not wait for each other,
//! unlike the steps of a table-driven CRC, and one reduction serves all of them. Words are in reflected order: bit i of
//! 64 stands for x^(63 - i).
#![allow(unsafe_code)]

use crate::hash::Algorithm;

/// Inputs up to this many bytes.
const LONGEST: usize = 128;
const POLYNOMIAL: u32 = 0xedb8_8320;

/// By the number of bytes from a word's first to the message's last: x^(8 n - 33) modulo the polynomial. A product of two
/// reflected words is one bit short of 128, which takes the 1; the CRC is of the message times x^32, and the word itself
/// stands 64 bits before its end.
static FACTORS: [u64; LONGEST + 1] = factors();
/// x^63: moves a word 64 bits on.
const NEXT_WORD: u64 = (power(63) as u64) << 32;
/// By byte and its value: the remainder of that byte times x^32, x^40, ...
static BYTES: [[u32; 256]; 4] = bytes();

/// x^n modulo the polynomial, reflected; n may be negative.
const fn power(n: i32) -> u32 {
    let mut value = 1 << 31;
    let mut i = 0;
    while i < n {
        value = times_x(value);
        i += 1;
    }
    while i > n {
        value = if value >> 31 == 1 {
            (value ^ POLYNOMIAL) << 1 | 1
        } else {
            value << 1
        };
        i -= 1;
    }
    value
}

const fn times_x(value: u32) -> u32 {
    if value & 1 == 1 {
        value >> 1 ^ POLYNOMIAL
    } else {
        value >> 1
    }
}

const fn factors() -> [u64; LONGEST + 1] {
    let mut factors = [0; LONGEST + 1];
    let mut n = 0;
    while n <= LONGEST {
        factors[n] = (power(8 * n as i32 - 33) as u64) << 32;
        n += 1;
    }
    factors
}

const fn bytes() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut k = 0;
    while k < 4 {
        let mut byte = 0;
        while byte < 256 {
            let mut value = byte as u32;
            let mut bit = 0;
            while bit < 8 * (k + 1) {
                value = times_x(value);
                bit += 1;
            }
            tables[k][byte] = value;
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// Whether this machine can and the input is short enough.
pub(super) fn usable(algorithm: Algorithm, bytes: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    let can = std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(not(target_arch = "x86_64"))]
    let can = false;
    can && algorithm == Algorithm::Crc32 && (1..=LONGEST as u32).contains(&bytes)
}

/// CRC-32 of `count` bytes at `words`, where zeros fill up the last word. Only where [`usable`] says so.
pub(super) extern "C" fn crc32(words: *const u64, count: u64) -> u64 {
    // SAFETY: the code passes a place on its stack with as many words; `usable` has found the instruction.
    unsafe {
        let words = std::slice::from_raw_parts(words, (count as usize).div_ceil(8));
        u64::from(sum(words, count as usize))
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "pclmulqdq", enable = "sse4.1")]
unsafe fn sum(words: &[u64], count: usize) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_extract_epi64, _mm_xor_si128,
    };
    let product = |a: u64, b: u64| -> __m128i {
        _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64))
    };
    // The CRC starts with all ones: that is the first 32 bits inverted.
    let mut initial = 0xffff_ffff;
    let mut total = _mm_cvtsi64_si128(0);
    for (i, &word) in words.iter().enumerate() {
        let factor = FACTORS[(count - 8 * i).min(LONGEST)];
        total = _mm_xor_si128(total, product(word ^ initial, factor));
        initial = 0;
    }
    // 96 bits are left, then 64, then 32.
    let high = product(_mm_extract_epi64::<0>(total) as u64, NEXT_WORD);
    let word = (_mm_extract_epi64::<1>(total) ^ _mm_extract_epi64::<1>(high)) as u64;
    let byte = |k: usize| BYTES[3 - k][(word >> (8 * k) & 0xff) as usize];
    !(byte(0) ^ byte(1) ^ byte(2) ^ byte(3) ^ (word >> 32) as u32)
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn sum(_: &[u64], _: usize) -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_tables_for_every_length() {
        let data: Vec<u8> = (0..LONGEST as u32)
            .map(|i| ((i * 89) ^ (i >> 3) ^ 0xa5) as u8)
            .collect();
        for count in 1..=LONGEST {
            if !usable(Algorithm::Crc32, count as u32) {
                return;
            }
            let mut words = vec![0u64; count.div_ceil(8)];
            for (i, &byte) in data[..count].iter().enumerate() {
                words[i / 8] |= u64::from(byte) << (8 * (i % 8));
            }
            let found = crc32(words.as_ptr(), count as u64);
            assert_eq!(
                found,
                Algorithm::Crc32.compute(&data[..count]),
                "{count} bytes"
            );
        }
    }
}
