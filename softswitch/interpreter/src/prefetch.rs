// SPDX-License-Identifier: Apache-2.0
//! Prefetches memory that will be used soon.
#![allow(unsafe_code)]

/// Asks for the cache lines of a value.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    prefetch(std::ptr::from_ref(value), std::mem::size_of::<T>());
}

/// Asks for the cache lines of `count` bytes that will be used soon.
#[inline(always)]
pub fn prefetch<T>(start: *const T, count: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let mut line = 0;
        while line < count {
            // SAFETY: a prefetch affects only timing, whatever the address.
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                    start.cast::<i8>().wrapping_add(line),
                );
            }
            line += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, count);
}
