// SPDX-License-Identifier: Apache-2.0
//! A part of a file in memory without copying it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// Mapped bytes of a file, from a page boundary on.
pub struct Window {
    start: *mut libc::c_void,
    length: usize,
}

impl Window {
    /// Maps `length` bytes from `offset` on (a multiple of the page size) and brings them into memory, so that a file
    /// that is shorter than thought shows as an error here.
    ///
    /// # Errors
    /// If the system refuses, or the file ends before `offset + length`.
    pub fn map(file: &File, offset: u64, length: usize) -> io::Result<Self> {
        // SAFETY: a new private read-only mapping at an address of the kernel's choice; the result is checked.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let window = Window { start, length };
        // SAFETY: the range is exactly the mapping just made; the advice changes no contents.
        let result = unsafe { libc::madvise(start, length, libc::MADV_POPULATE_READ) };
        if result < 0 {
            let error = io::Error::last_os_error();
            // Kernels before 5.14 do not know the advice: pages then come in one by one.
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error);
            }
        }
        Ok(window)
    }

    /// The mapped bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable, `length` bytes long and lives as long as `self`. A capture file is finished
        // before it is read: nobody writes it meanwhile.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped; no slice of it outlives `self`.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
