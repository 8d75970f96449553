// SPDX-License-Identifier: Apache-2.0
//! Signals as readable descriptors, so that one `poll` waits for packets, for the end, and for requests to flush.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use narrows_packet_sockets::{check, owned};

/// Waits until one of these descriptors is readable, `timeout_ms` have passed or a signal has come; returns what `poll` says
/// about each. Negative ones are ignored.
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

/// Becomes readable when a signal comes, and stays so until it is cleared.
pub struct Signal {
    descriptor: OwnedFd,
}

/// What the process can be asked to do while it receives.
pub struct Signals {
    /// To end.
    pub stop: Signal,
    /// To show what was received until now.
    pub demand: Signal,
}

impl Signals {
    /// Collects SIGINT and SIGTERM, and SIGUSR1.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn install() -> io::Result<Self> {
        let stop = Signal::collect(&[libc::SIGINT, libc::SIGTERM])?;
        Ok(Signals { stop, demand: Signal::collect(&[libc::SIGUSR1])? })
    }
}

impl Signal {
    /// Blocks some signals for this thread and every thread started later, and collects them here.
    fn collect(signals: &[libc::c_int]) -> io::Result<Self> {
        // SAFETY: `set` is a plain value that sigemptyset initialises before use; all pointers are to live locals;
        // what signalfd opens is new.
        let descriptor = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            owned(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
        };
        Ok(Signal { descriptor })
    }

    /// Whether one has come.
    ///
    /// # Errors
    /// If the system refuses to tell.
    pub fn is_raised(&self) -> io::Result<bool> {
        Ok(poll([self.as_raw_fd()], 0)? != [0])
    }

    /// Whether one had come; clears it.
    ///
    /// # Errors
    /// If the system refuses to tell.
    pub fn take(&self) -> io::Result<bool> {
        if !self.is_raised()? {
            return Ok(false);
        }
        let mut info = [0_u8; std::mem::size_of::<libc::signalfd_siginfo>()];
        // SAFETY: as many writable bytes as are passed.
        check(unsafe { libc::read(self.as_raw_fd(), info.as_mut_ptr().cast(), info.len()) })?;
        Ok(true)
    }
}

impl AsRawFd for Signal {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
