//! Memory for a batch job: kept, and in large pages.
// SPDX-License-Identifier: Apache-2.0

#[cfg(target_env = "gnu")]
use narrows_switch::heap;

/// Memory at the end of the heap that large pages are asked for. What is not used is not taken.
const BYTES: usize = 256 << 20;

/// Asks for large pages for what is allocated from now on: packets and flows are many small pieces, used in turn, and the processor finds
/// the addresses of some thousand pages only without looking them up in memory. Several replays at once have heaps of their own
/// instead: in one they would wait for each other, and write to the same cache lines.
#[cfg(target_env = "gnu")]
pub fn prepare(replays: usize) {
    heap::keep();
    if replays > 1 {
        return;
    }
    heap::share();
    // What is allocated and given back stays the end of the heap, from which all that follows is taken.
    let end = Vec::<u8>::with_capacity(BYTES - (1 << 16));
    const PAGE: usize = 1 << 21;
    let first = (end.as_ptr() as usize).next_multiple_of(PAGE);
    let last = (end.as_ptr() as usize + end.capacity()) / PAGE * PAGE;
    // SAFETY: whole pages within memory that was just allocated and holds nothing. Only advice: what comes back makes no
    // difference.
    unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_HUGEPAGE) };
}

/// Other allocators are not changed.
#[cfg(not(target_env = "gnu"))]
pub fn prepare(_: usize) {}
