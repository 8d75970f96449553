// SPDX-License-Identifier: Apache-2.0
//! SIGINT and SIGTERM as a readable descriptor, so that one `poll` waits for packets and for the end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use narrows_packet_sockets::{check, owned};

/// Waits until one of some descriptors is readable, `timeout_ms` passed or a signal came; answers what `poll` says of each.
/// A negative one is passed over.
///
/// # Errors
/// If the system refuses to wait.
pub(super) fn poll<const N: usize>(descriptors: [RawFd; N], timeout_ms: i32) -> io::Result<[libc::c_short; N]> {
    let mut entries = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: `entries` is live for the call and its length is passed.
    match check(unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, timeout_ms) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(entries.map(|entry| entry.revents)),
    }
}

/// Becomes readable when the process is asked to stop.
pub struct StopSignal {
    descriptor: OwnedFd,
}

impl StopSignal {
    /// Blocks the two signals for this thread and every thread started later, and collects them here.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn install() -> io::Result<Self> {
        // SAFETY: `set` is a plain value that sigemptyset initialises before use; all pointers are to live locals;
        // what signalfd opens is new.
        let descriptor = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::sigaddset(&mut set, libc::SIGTERM);
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            owned(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
        };
        Ok(StopSignal { descriptor })
    }
}

impl StopSignal {
    /// Whether the process was asked to stop.
    ///
    /// # Errors
    /// If the system refuses to tell.
    pub fn is_raised(&self) -> io::Result<bool> {
        Ok(poll([self.as_raw_fd()], 0)? != [0])
    }
}

impl AsRawFd for StopSignal {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
