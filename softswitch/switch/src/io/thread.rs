//! The data path's thread: which loop moves its frames.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use narrows_packet_sockets::owned;
use tokio::sync::oneshot;

use super::dataplane::{Command, DataPath, Handle, ToControl};
use super::hold::Hold;
use super::port::Port;
use super::ports::Ports;
use super::real_time::{self, LoopSettings};
use super::timer::Timer;
use super::virtual_time::{self, VirtualSettings};
use crate::switch::Switch;

/// Which loop moves the frames.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// In real time.
    RealTime(LoopSettings),
    /// In virtual time: on a clock that does not move while anything runs.
    VirtualTime(VirtualSettings),
}

/// A data path at work.
pub struct Running {
    /// The way to it.
    pub handle: Handle,
    /// Its thread.
    pub thread: JoinHandle<()>,
    /// Is closed as soon as the thread has ended, for any reason.
    pub ended: oneshot::Receiver<()>,
}

/// Starts the data path on a thread of its own. What is for controllers goes to `to_control`, which has each device of the switch.
pub fn spawn(switch: Switch, ports: Vec<Port>, pace: Pace, to_control: Vec<ToControl>) -> io::Result<Running> {
    // SAFETY: passes no memory; what it opens is new.
    let wake = Arc::new(unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?);
    let timer = Timer::new()?;
    let (sender, receiver) = mpsc::channel();
    let ports = Ports::new(ports, matches!(pace, Pace::RealTime(_)))?;
    let handle = Handle::new(sender, Arc::clone(&wake));
    let (alive, ended) = oneshot::channel::<()>();
    let hold = Hold::new(matches!(pace, Pace::VirtualTime(_)));
    let data_path = DataPath::new(switch, ports, to_control, hold);
    let thread = thread::Builder::new().name("data-path".into()).spawn(move || {
        // Dropped when the thread ends, also by a panic.
        let _alive = alive;
        run(data_path, &receiver, &wake, &timer, pace);
    })?;
    Ok(Running { handle, thread, ended })
}

fn run(data_path: DataPath, commands: &Receiver<Command>, wake: &OwnedFd, timer: &Timer, pace: Pace) {
    // Timers of this thread fire when they are due, not up to 50 us later.
    // SAFETY: PR_SET_TIMERSLACK takes an integer and touches nothing but this thread's slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
    match pace {
        Pace::RealTime(settings) => real_time::run(data_path, commands, wake, settings),
        Pace::VirtualTime(settings) => virtual_time::run(data_path, commands, wake, timer, settings),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::clock::now_ns;
    use super::super::dataplane::control_channels;
    use super::*;

    #[test]
    fn commands_do_not_wait_for_the_end_of_a_long_window() {
        let (to_control, _from) = control_channels();
        let window = Duration::from_secs(5);
        let settings = VirtualSettings { window_ns: window.as_nanos() as u64 };
        let running =
            spawn(Switch::new(&[], 1), vec![], Pace::VirtualTime(settings), vec![to_control]).expect("threads");
        let handle = running.handle.clone();
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        let begun = Instant::now();
        alone.block_on(async {
            // Something is due within the window, so that the loop sleeps until its end.
            let due = now_ns() + 4_000_000_000;
            handle.call(move |data_path| data_path.hold(Some(due)).is_ok()).await.expect("runs");
            for _ in 0..200 {
                assert_eq!(handle.call(|_| true).await, Ok(true));
            }
        });
        assert!(begun.elapsed() < window / 2, "{:?}", begun.elapsed());
        handle.stop();
        running.thread.join().expect("ends");
    }

    #[test]
    fn commands_are_bounded() {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (to_control, _from) = control_channels();
        let running = spawn(Switch::new(&[], 1), vec![], Pace::RealTime(settings), vec![to_control]).expect("threads");
        let handle = running.handle.clone();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        alone.block_on(async {
            let mut calls = vec![];
            let first = handle.clone();
            calls.push(tokio::spawn(async move { first.call(move |_| gate.recv().is_ok()).await }));
            for _ in 0..500 {
                let handle = handle.clone();
                calls.push(tokio::spawn(async move { handle.call(|_| true).await }));
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            // It is held up: few commands wait for it, the callers for room.
            assert_eq!(handle.room.available_permits(), 0);
            go.send(()).expect("the data path waits");
            for call in calls {
                assert_eq!(call.await.expect("no panic"), Ok(true));
            }
        });
        handle.stop();
        running.thread.join().expect("ends");
    }
}
