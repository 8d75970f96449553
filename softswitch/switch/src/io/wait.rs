//! Sleeping until there is something to do.
// SPDX-License-Identifier: Apache-2.0
use std::os::fd::{AsRawFd, OwnedFd};

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
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        self.entries.clear();
        self.entries.push(entry(wake.as_raw_fd()));
        self.entries.extend(ports.iter().map(|port| entry(port.fd())));
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let count = self.entries.len() as libc::nfds_t;
        // SAFETY: `entries` and `timeout` are valid for the call; no signal mask is given.
        let ready = unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, &timeout, std::ptr::null()) };
        if ready <= 0 {
            return ready == 0;
        }
        for (entry, port) in self.entries[1..].iter().zip(ports) {
            if entry.revents & libc::POLLERR != 0 {
                port.clear_error();
            }
        }
        if self.entries[0].revents != 0 {
            clear(wake);
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
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        self.entries.clear();
        self.entries.push(entry(wake.as_raw_fd()));
        self.entries.push(entry(timer.fd()));
        self.entries.extend(ports.iter().filter(|port| listens(port)).map(|port| entry(port.fd())));
        let count = self.entries.len() as libc::nfds_t;
        // SAFETY: `entries` is valid for the call.
        if unsafe { libc::poll(self.entries.as_mut_ptr(), count, -1) } <= 0 {
            return;
        }
        if self.entries[2..].iter().any(|entry| entry.revents & libc::POLLERR != 0) {
            ports.iter().for_each(Port::clear_error);
        }
        if self.entries[0].revents != 0 {
            clear(wake);
        }
    }
}

/// Makes an eventfd wait for the next event.
fn clear(wake: &OwnedFd) {
    let mut count = [0u8; 8];
    // SAFETY: reads at most 8 bytes into a buffer of 8.
    unsafe { libc::read(wake.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}
