// SPDX-License-Identifier: Apache-2.0
//! Mapped memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

/// A mapping; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives only a pointer; its user is responsible for what is done to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `fd` from `offset` on, shared with the kernel.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of(fd: RawFd, length: usize, offset: libc::off_t) -> io::Result<Self> {
        let kind = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(length, libc::PROT_READ | libc::PROT_WRITE, kind, fd, offset)
    }

    /// Zeroed memory of the process, on pages of its own.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::map(length, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0)
    }

    /// The first `length` bytes of a file, to be read in order.
    ///
    /// # Errors
    /// If the system refuses: the file is a pipe, for example.
    pub fn of_file(file: &File, length: usize) -> io::Result<Self> {
        let (protection, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let mapping = Self::map(length, protection, kind, file.as_raw_fd(), 0)?;
        // SAFETY: the mapping made above. This is only advice, so the result does not matter.
        unsafe { libc::madvise(mapping.start.cast(), length, libc::MADV_SEQUENTIAL) };
        Ok(mapping)
    }

    fn map(
        length: usize,
        protection: libc::c_int,
        kind: libc::c_int,
        fd: RawFd,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, kind, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), length })
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
