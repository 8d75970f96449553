//! The data path in virtual time, where a clock moves only while everything sleeps: what costs is waking up.
//!
//! The thread wakes up once in a window, takes what has arrived in it, works everything out at its exact time, and gives frames
//! to the kernel ahead of their time. That changes nothing as long as every port holds its frames for a window or more (see
//! [`super::lookahead`]). Without a window it wakes up for every frame and every departure.
// SPDX-License-Identifier: Apache-2.0
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;

use super::clock::{now_ns, sleep_until, WallOffset};
use super::dataplane::{Command, DataPath};
use super::lookahead::{Lookahead, Wait};
use super::port::Port;
use super::timer::Timer;
use super::wait::Waiter;

/// A longer window ends early for a command: a request may be hundreds of commands in turn, and its deadline is shorter
/// than that many windows. In a shorter one the thread sleeps without listening, which takes fewer system calls.
const LONG_WINDOW_NS: u64 = 10_000_000;
/// How often interfaces are looked after.
const MAINTENANCE_NS: u64 = 1_000_000_000;

/// How far ahead the loop looks.
#[derive(Debug, Clone, Copy)]
pub struct VirtualSettings {
    /// The window: at most the shortest delay of a port; 0 = none.
    pub window_ns: u64,
}

/// Runs until it has to stop.
pub(super) fn run(
    mut data_path: DataPath,
    commands: &Receiver<Command>,
    wake: &OwnedFd,
    timer: &Timer,
    settings: VirtualSettings,
) {
    let lookahead = Lookahead::new(settings.window_ns);
    let mut waiter = Waiter::default();
    let mut now = now_ns();
    // What the clock says: later than `now` where other processes took the time of a window's end.
    let mut clock = now;
    let mut offset = WallOffset::between_readings();
    let mut next_maintenance = now + MAINTENANCE_NS;
    loop {
        let held = data_path.stand_still(now, offset, commands);
        if held.is_some() {
            clock = now_ns();
        }
        let taken = held.unwrap_or(0) + data_path.take_in(now, offset, usize::MAX);
        data_path.switch.advance(now, &mut data_path.ports);
        let horizon = lookahead.horizon_ns(now);
        data_path.switch.release(horizon, &mut data_path.ports);
        data_path.pass_to_control();
        data_path.ports.launch(clock, horizon, &mut data_path.switch);
        // Nothing has to wait: the clock does not move.
        while data_path.run_one_command(commands) {}
        if data_path.stopped() {
            return;
        }
        if std::mem::take(&mut data_path.sent_by_command) {
            continue;
        }
        if now >= next_maintenance {
            next_maintenance = now + MAINTENANCE_NS;
            offset = WallOffset::between_readings();
            data_path.ports.maintain();
        }
        let underway = data_path.ports.next_arrival(offset, now);
        let exit = data_path.switch.next_exit().into_iter().chain(data_path.ports.held_until()).min();
        let (inside, hold) = (data_path.switch.next_inside(), data_path.hold.due());
        (now, clock) = match lookahead.next(now, taken > 0, underway, inside, exit, hold) {
            Wait::Until(due) if settings.window_ns < LONG_WINDOW_NS => {
                sleep_until(due);
                (due, now_ns())
            }
            Wait::Until(due) => {
                waiter.wait_exactly(&[], wake, timer, Some(due), |_| false);
                let clock = now_ns();
                (clock.min(due), clock)
            }
            Wait::FrameOr(due) => {
                // Reports wait for more of them only while more may come.
                data_path.ports.record();
                waiter.wait_exactly(&data_path.ports.list, wake, timer, due, Port::is_quiet);
                let now = now_ns();
                (now, now)
            }
        };
    }
}
