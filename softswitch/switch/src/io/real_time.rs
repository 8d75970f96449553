//! The data path in real time: packets as soon as they arrive, departures as close to their time as a machine allows.
// SPDX-License-Identifier: Apache-2.0
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;

use super::clock::{now_ns, WallOffset};
use super::dataplane::{Command, DataPath};
use super::priority::set_real_time;
use super::wait::Waiter;
use super::wakeups::Wakeups;

/// Frames taken from the rings before what is pending is sent and commands are looked at.
const BUDGET: usize = 256;
/// How often interfaces are looked after, and the longest sleep.
const MAINTENANCE_NS: u64 = 250_000_000;
/// The same while an interface is being opened again.
const OPENING_NS: u64 = 10_000_000;
/// A data path that had something to do all this time leaves part of the sending to the helper.
const BUSY_AFTER_NS: u64 = 1_000_000;

/// How the loop waits.
#[derive(Debug, Clone, Copy)]
pub struct LoopSettings {
    /// Keep polling this long after the last packet before sleeping.
    pub busy_poll_ns: u64,
    /// Wake up at most this long before something is due and spin until then.
    pub spin_ns: u64,
    /// Run before all other threads while there is not much to do.
    pub real_time: bool,
}

/// Runs until it has to stop.
pub(super) fn run(mut data_path: DataPath, commands: &Receiver<Command>, wake: &OwnedFd, settings: LoopSettings) {
    let mut waiter = Waiter::default();
    let mut last_work = now_ns();
    let mut idle_at = last_work;
    let mut next_maintenance = last_work + MAINTENANCE_NS;
    let mut wakeups = Wakeups::new(settings.spin_ns, last_work);
    let mut real_time = settings.real_time && set_real_time(true);
    while !data_path.stopped() {
        let now = now_ns();
        let mut worked = forward(&mut data_path, now);
        worked |= data_path.run_one_command(commands);
        if worked {
            last_work = now;
            wakeups.worked(now);
        } else {
            idle_at = now;
        }
        if real_time != (settings.real_time && wakeups.prompt()) {
            real_time = !real_time;
            set_real_time(real_time);
        }
        data_path.ports.send_by_helper(now > idle_at + BUSY_AFTER_NS, now);
        if now >= next_maintenance {
            next_maintenance = now + if data_path.ports.maintain() { OPENING_NS } else { MAINTENANCE_NS };
        }
        if worked {
            continue;
        }
        let due = data_path.switch.next_due().unwrap_or(u64::MAX).saturating_sub(wakeups.margin_ns());
        let now = now_ns();
        if data_path.ports.flush(now, due.saturating_sub(now), &mut data_path.switch) {
            continue;
        }
        let asleep_until = due.min(next_maintenance).min(data_path.ports.due(now).unwrap_or(u64::MAX));
        if asleep_until > now && now >= last_work + settings.busy_poll_ns {
            let by_timer = waiter.wait(&data_path.ports.list, wake, asleep_until - now);
            idle_at = now_ns();
            wakeups.slept(now, idle_at, by_timer.then_some(asleep_until));
        } else {
            wakeups.spins(now);
        }
    }
}

/// Takes what has arrived until `now` and processes what is due. Returns whether there was anything to do.
fn forward(data_path: &mut DataPath, now: u64) -> bool {
    data_path.ports.set_now(now);
    let due_before = data_path.switch.next_due().is_some_and(|due| due <= now);
    let taken = data_path.take_in(now, WallOffset::between_readings(), BUDGET);
    let horizon = if taken < BUDGET { now } else { data_path.switch.now_ns() };
    data_path.switch.advance(horizon, &mut data_path.ports);
    // Before the packets, so that no packet is seen before its digest.
    data_path.pass_to_control();
    data_path.ports.flush(now, 0, &mut data_path.switch);
    due_before || taken > 0
}
