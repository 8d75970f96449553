// SPDX-License-Identifier: Apache-2.0
//! CRC-32 of short inputs by carry-less multiplication.
//!
//! A CRC is the remainder of the message, seen as a polynomial, so every word contributes on its own: word times
//! x^(bits behind it), modulo the CRC's polynomial. The factors are constants; the products do not wait for each other,
//! unlike the steps of a table-driven CRC, and one reduction serves all of them. Words are in reflected order: bit i of
//! 64 is the coefficient of x^(63 - i).
#![allow(unsafe_code)]

use narrows_program::calculation::Algorithm;

/// Inputs up to this many bytes.
const LONGEST: usize = 128;
const POLYNOMIAL: u32 = 0xedb8_8320;

/// By the number of bytes from a word's first to the message's last: x^(8 n - 33) modulo the polynomial. A product of two
/// reflected words is one bit short of 128, which takes the 1; the CRC is of the message times x^32, and the word itself
/// stands 64 bits before its end.
static FACTORS: [u64; LONGEST + 1] = factors();
/// x^63: moves a word 64 bits on.
const NEXT_WORD: u64 = (power(63) as u64) << 32;
/// The polynomial with its highest term, and the quotient of x^64 by it, both reflected: what is left of 64 bits is found
/// by two multiplications (Barrett's reduction).
const WHOLE_POLYNOMIAL: u64 = (POLYNOMIAL as u64) << 1 | 1;
const QUOTIENT: u64 = quotient();

/// x^n modulo the polynomial, reflected; n may be negative.
const fn power(n: i32) -> u32 {
    let mut value = 1 << 31;
    let mut i = 0;
    while i < n {
        value = times_x(value);
        i += 1;
    }
    while i > n {
        value = if value >> 31 == 1 { (value ^ POLYNOMIAL) << 1 | 1 } else { value << 1 };
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

/// Long division of x^64 by the polynomial, 33 bits, the highest power in bit 0.
const fn quotient() -> u64 {
    let (mut rest, mut quotient, mut power) = (0u64, 0u64, 0);
    // One coefficient after the other, from x^64 to x^0; rest holds the last 33, in the usual order of bits.
    let divisor = (POLYNOMIAL.reverse_bits() as u64) | 1 << 32;
    while power <= 64 {
        rest = rest << 1 | (power == 0) as u64;
        let takes = rest >> 32 & 1;
        if takes == 1 {
            rest ^= divisor;
        }
        if power >= 32 {
            quotient |= takes << (power - 32);
        }
        power += 1;
    }
    quotient
}

/// Whether this machine can and the input is short enough.
pub(super) fn usable(algorithm: Algorithm, bytes: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    let can = std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(not(target_arch = "x86_64"))]
    let can = false;
    can && algorithm == Algorithm::Crc32 && (1..=LONGEST as u32).contains(&bytes)
}

/// The function for `bytes` bytes, and its first argument. The function takes the address of the words, zeros filling up
/// the last one, and returns their CRC; up to [`IN_REGISTERS`] words it takes themselves, and that many arguments always. Only
/// where [`usable`] says so.
pub(super) fn function(bytes: u32) -> (*const u8, *const u64) {
    let count = (bytes as usize).clamp(1, LONGEST);
    (machine::crc32(count.div_ceil(8)), &raw const FACTORS[count])
}

/// Words that fit in registers beside the factor's address.
pub(super) const IN_REGISTERS: usize = 5;

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_extract_epi32, _mm_loadl_epi64, _mm_slli_epi64,
        _mm_srli_epi64, _mm_srli_si128, _mm_xor_si128,
    };

    use super::{IN_REGISTERS, NEXT_WORD, QUOTIENT, WHOLE_POLYNOMIAL};

    type Crc = unsafe extern "C" fn(*const u64, *const u64) -> u64;
    type Few = unsafe extern "C" fn(*const u64, u64, u64, u64, u64, u64) -> u64;

    /// A function for each number of words: loops and lengths are fixed when it is made.
    pub(super) fn crc32(words: usize) -> *const u8 {
        const FEW: [Few; IN_REGISTERS] = [few::<1>, few::<2>, few::<3>, few::<4>, few::<5>];
        const ALL: [Crc; 16] = [
            of::<1>, of::<2>, of::<3>, of::<4>, of::<5>, of::<6>, of::<7>, of::<8>, of::<9>, of::<10>, of::<11>,
            of::<12>, of::<13>, of::<14>, of::<15>, of::<16>,
        ];
        match FEW.get(words - 1) {
            Some(few) => *few as *const u8,
            None => ALL[(words - 1) % ALL.len()] as *const u8,
        }
    }

    /// `factor` is that of the first word; those of the next ones lie eight before.
    #[target_feature(enable = "pclmulqdq", enable = "sse4.1")]
    unsafe extern "C" fn few<const WORDS: usize>(factor: *const u64, a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
        // Not an array, which would be put together in memory.
        let word = |i: usize| -> u64 {
            match i {
                0 => a,
                1 => b,
                2 => c,
                3 => d,
                _ => e,
            }
        };
        // SAFETY: see `crc`.
        unsafe { crc::<WORDS>(factor, |i| _mm_cvtsi64_si128(word(i) as i64)) }
    }

    #[target_feature(enable = "pclmulqdq", enable = "sse4.1")]
    unsafe extern "C" fn of<const WORDS: usize>(factor: *const u64, words: *const u64) -> u64 {
        let word = |i: usize| -> __m128i {
            // SAFETY: the code passes a place on its stack with as many words.
            unsafe { _mm_loadl_epi64(words.add(i).cast()) }
        };
        // SAFETY: see `crc`.
        unsafe { crc::<WORDS>(factor, word) }
    }

    /// # Safety
    /// `factor` is that of a number of bytes that take that many words.
    #[inline]
    #[target_feature(enable = "pclmulqdq", enable = "sse4.1")]
    unsafe fn crc<const WORDS: usize>(factor: *const u64, word: impl Fn(usize) -> __m128i) -> u64 {
        let factor = |i: usize| -> __m128i {
            // SAFETY: behind the factor of `count` bytes, more than 8 * i, come at least that many others.
            unsafe { _mm_loadl_epi64(factor.sub(8 * i).cast()) }
        };
        // The CRC starts with all ones: that is the first 32 bits inverted.
        let first = _mm_xor_si128(word(0), _mm_cvtsi64_si128(0xffff_ffff));
        let mut total = _mm_clmulepi64_si128::<0>(first, factor(0));
        for i in 1..WORDS {
            total = _mm_xor_si128(total, _mm_clmulepi64_si128::<0>(word(i), factor(i)));
        }
        // 96 bits are left, then 64, then 32.
        let next = _mm_cvtsi64_si128(NEXT_WORD as i64);
        let high = _mm_clmulepi64_si128::<0>(total, next);
        let rest = _mm_srli_si128::<8>(_mm_xor_si128(total, high));
        // Of both factors the lower 32 bits only: shifts cut off the others.
        let [quotient, polynomial] = [QUOTIENT, WHOLE_POLYNOMIAL].map(|value| _mm_cvtsi64_si128(value as i64));
        let times = _mm_clmulepi64_si128::<0>(_mm_slli_epi64::<32>(rest), quotient);
        let times = _mm_clmulepi64_si128::<0>(_mm_srli_epi64::<32>(times), polynomial);
        let remainder = _mm_extract_epi32::<1>(_mm_xor_si128(rest, times));
        u64::from(!(remainder as u32))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod machine {
    pub(super) fn crc32(_: usize) -> *const u8 {
        std::ptr::null()
    }
}

#[cfg(test)]
mod tests {
    use narrows_interpreter::hash::compute;

    use super::*;

    #[test]
    fn equals_the_tables_for_every_length() {
        let data: Vec<u8> = (0..LONGEST as u32).map(|i| ((i * 89) ^ (i >> 3) ^ 0xa5) as u8).collect();
        for count in 1..=LONGEST {
            if !usable(Algorithm::Crc32, count as u32) {
                return;
            }
            let mut words = vec![0u64; count.div_ceil(8)];
            for (i, &byte) in data[..count].iter().enumerate() {
                words[i / 8] |= u64::from(byte) << (8 * (i % 8));
            }
            let (function, factor) = function(count as u32);
            // SAFETY: `usable`, and the words of `count` bytes as its comment says.
            let found = unsafe {
                if words.len() <= IN_REGISTERS {
                    words.resize(IN_REGISTERS, u64::MAX);
                    let function: unsafe extern "C" fn(*const u64, u64, u64, u64, u64, u64) -> u64 =
                        std::mem::transmute(function);
                    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|i| words[i]);
                    function(factor, a, b, c, d, e)
                } else {
                    let function: unsafe extern "C" fn(*const u64, *const u64) -> u64 = std::mem::transmute(function);
                    function(factor, words.as_ptr())
                }
            };
            assert_eq!(found, compute(Algorithm::Crc32, &data[..count]), "{count} bytes");
        }
    }
}
