// SPDX-License-Identifier: Apache-2.0
//! Mapped memory.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

/// A mapping; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out a pointer only; whoever uses it answers for what is done to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `fd` from `offset` on, shared with the kernel.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of(fd: RawFd, length: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::map(length, libc::MAP_SHARED, fd, offset)
    }

    /// Zeroed memory of the process, on pages of its own.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(length: usize, kind: libc::c_int, fd: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = kind | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, kind, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            start: start.cast(),
            length,
        })
    }

    /// First byte.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes mapped.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped; nothing borrows from it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
