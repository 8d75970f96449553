//! The heap of a process that holds many packets.
// SPDX-License-Identifier: Apache-2.0
use std::io;

/// How much the heap grows at a time when its pages are to lie together.
#[cfg(target_env = "gnu")]
const STEP: libc::c_int = 16 << 20;

/// All that is allocated from now on comes from the heap, and stays there when it is given back.
///
/// Before there are other threads. Other allocators than glibc's are not changed.
pub fn keep() {
    // SAFETY: only parameters of the allocator. A refusal changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Threads that come later have no heaps of their own.
pub fn share() {
    // SAFETY: only a parameter of the allocator. A refusal changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// The same for all threads, and the heap's pages are taken many at once and in turn, so that the kernel finds neighbours for
/// them. In a User-Mode Linux guest they are one mapping of the machine's, of which it allows a process only a limited number.
pub fn keep_together() -> io::Result<()> {
    keep();
    share();
    // SAFETY: only a parameter of the allocator. A refusal changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TOP_PAD, STEP);
    }
    // SAFETY: pages are taken when they are mapped, not when they are first used; nothing else changes.
    match unsafe { libc::mlockall(libc::MCL_FUTURE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
