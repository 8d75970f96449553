// SPDX-License-Identifier: Apache-2.0
//! SIGINT and SIGTERM as a readable descriptor, so that one `poll` waits for packets and for the end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use narrows_packet_sockets::owned;

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
            owned(libc::signalfd(
                -1,
                &set,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            ))?
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
        let mut entry = libc::pollfd {
            fd: self.descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `entry` is one live entry, and one is what is passed.
        match unsafe { libc::poll(&mut entry, 1, 0) } {
            0.. => Ok(entry.revents != 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }
}

impl AsRawFd for StopSignal {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
