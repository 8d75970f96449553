//! A timer on the switch clock to poll for. Unlike a timeout, which the kernel may stretch by a part of its length, it is exact.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use narrows_packet_sockets::owned;

/// A timerfd of CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: passes no memory; what it opens is new.
        unsafe { owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags)) }.map(Timer)
    }

    /// Becomes readable at `due_ns` (at once if that has passed), or never. It stays so until it is set again.
    pub fn set(&self, due_ns: Option<u64>) {
        // SAFETY: all-zero is a valid itimerspec: the timer is off.
        let mut value: libc::itimerspec = unsafe { mem::zeroed() };
        if let Some(due_ns) = due_ns {
            // Zero would mean off.
            let due_ns = due_ns.max(1);
            value.it_value.tv_sec = (due_ns / 1_000_000_000) as libc::time_t;
            value.it_value.tv_nsec = (due_ns % 1_000_000_000) as libc::c_long;
        }
        // SAFETY: `value` is a valid itimerspec for the call to read; the old value is not asked for. It cannot fail: the
        // descriptor is a timer's and the value is in range.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &value, ptr::null_mut()) };
    }

    /// The file descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::now_ns;
    use super::*;

    fn is_readable(timer: &Timer, timeout_ms: libc::c_int) -> bool {
        let mut entry = libc::pollfd { fd: timer.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut entry, 1, timeout_ms) == 1 }
    }

    #[test]
    fn fires_when_it_is_due_and_not_before() {
        let timer = Timer::new().expect("a timer");
        assert!(!is_readable(&timer, 0));
        let due = now_ns() + 20_000_000;
        timer.set(Some(due));
        assert!(is_readable(&timer, 10_000));
        assert!(now_ns() >= due);
        timer.set(None);
        assert!(!is_readable(&timer, 0));
        timer.set(Some(0));
        assert!(is_readable(&timer, 0));
    }
}
