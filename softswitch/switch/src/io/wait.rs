//! Sleeping until there is something to do.
// SPDX-License-Identifier: Apache-2.0
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, timespec};

use super::port::Port;
use super::timer::Timer;

/// What is polled; kept for its memory.
#[derive(Debug, Default)]
pub struct Waiter {
    entries: Vec<libc::pollfd>,
}

impl Waiter {
    /// Sleeps until a frame arrives, `wake` is written to or `timeout_ns` have passed. Returns whether the last ended it.
    pub fn wait(&mut self, ports: &[Port], wake: &OwnedFd, timeout_ns: u64) -> bool {
        let timeout = timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let ready = self.sleep(wake, ports.iter().map(Port::fd), Some(&timeout));
        if ready <= 0 {
            return ready == 0;
        }
        for (entry, port) in self.entries[1..].iter().zip(ports) {
            if entry.revents & libc::POLLERR != 0 {
                port.clear_error();
            }
        }
        false
    }

    /// Sleeps until a frame arrives on one of the ports that `listens` chooses, `wake` is written to, or it is `due_ns` on the
    /// switch clock.
    pub fn wait_exactly(
        &mut self,
        ports: &[Port],
        wake: &OwnedFd,
        timer: &Timer,
        due_ns: Option<u64>,
        listens: impl Fn(&Port) -> bool,
    ) {
        timer.set(due_ns);
        let listening = ports.iter().filter(|port| listens(port)).map(Port::fd);
        let ready = self.sleep(wake, iter::once(timer.fd()).chain(listening), None);
        if ready > 0 && self.entries[2..].iter().any(|entry| entry.revents & libc::POLLERR != 0) {
            ports.iter().for_each(Port::clear_error);
        }
    }

    /// Sleeps until `wake`, the first entry, or one of `others` is ready, or the time is over; returns what the kernel does.
    fn sleep(&mut self, wake: &OwnedFd, others: impl Iterator<Item = RawFd>, timeout: Option<&timespec>) -> c_int {
        let all = iter::once(wake.as_raw_fd()).chain(others);
        self.entries.clear();
        self.entries.extend(all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }));
        let count = self.entries.len() as libc::nfds_t;
        let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `entries` and `timeout`, if there is one, are valid for the call; no signal mask is given.
        let ready = unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, timeout, ptr::null()) };
        if ready > 0 && self.entries[0].revents != 0 {
            let mut events = [0u8; 8];
            // SAFETY: reads at most 8 bytes into a buffer of 8. The eventfd waits for the next event then.
            unsafe { libc::read(wake.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) };
        }
        ready
    }
}
