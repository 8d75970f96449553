//! The data-path thread: interfaces in, switch, interfaces out, commands between packets.
// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use narrows_pipeline::DigestRecord;
use tokio::sync::{oneshot, Semaphore};

use super::clock::{now_ns, WallOffset};
use super::port::Port;
use super::ports::Ports;
use super::priority::set_real_time;
use super::wait::Waiter;
use super::wakeups::Wakeups;
use crate::switch::Switch;

/// Frames taken from the rings before what is pending is sent and commands are looked at.
const BUDGET: usize = 256;
/// How often interfaces are looked after, and the longest sleep.
const MAINTENANCE_NS: u64 = 250_000_000;
/// A frame that arrived after the look at the clock waits for the next look; one that seems to come from further ahead than
/// this was stamped before the wall clock was set back.
const STAMP_AHEAD_NS: u64 = 10_000_000;
/// A data path that had something to do all this time leaves part of the sending to the helper.
const BUSY_NS: u64 = 1_000_000;
/// Commands that wait for the data path at most; whoever has another one waits until there is room.
const COMMANDS_WAITING: usize = 64;
/// Digest records on their way to the control thread; more are dropped and counted.
pub const DIGEST_CHANNEL: usize = 65_536;

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

/// Everything the data-path thread owns.
pub struct DataPath {
    /// Pipeline and queues.
    pub switch: Switch,
    ports: Ports,
    digests: tokio::sync::mpsc::Sender<DigestRecord>,
    digests_dropped: u64,
    /// Digest records on their way there; kept for its memory.
    records: Vec<DigestRecord>,
    /// Arrival time of the oldest frame of each port that has one; kept for its memory.
    heads: Vec<(u64, usize)>,
    stop: bool,
}

impl DataPath {
    /// Interfaces, in order of port number.
    pub fn ports(&mut self) -> &mut [Port] {
        &mut self.ports.list
    }

    /// Digest records that the control thread was too slow for.
    pub fn digests_dropped(&self) -> u64 {
        self.digests_dropped + self.switch.digests_lost()
    }
}

/// The data-path thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data path has stopped")
    }
}

impl std::error::Error for Gone {}

type Command = Box<dyn FnOnce(&mut DataPath) + Send>;

/// Sends commands to the data-path thread; each runs between two packets.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    room: Arc<Semaphore>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    fn post(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).map_err(|_| Gone)?;
        let one = 1u64.to_ne_bytes();
        // SAFETY: writes 8 readable bytes to an eventfd that `wake` keeps open. A full counter wakes as well.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        Ok(())
    }

    /// Runs `command` on the data path between two packets and waits for its result; before that, until few others wait.
    pub async fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut DataPath) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| Gone)?;
        let (reply, result) = oneshot::channel();
        self.post(Box::new(move |data_path| {
            let answer = command(data_path);
            drop(room);
            // The caller may have been cancelled meanwhile: the command ran all the same.
            let _ = reply.send(answer);
        }))?;
        result.await.map_err(|_| Gone)
    }

    /// How many more commands can be sent without waiting for room.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.room.available_permits()
    }

    /// Ends the data-path thread.
    pub fn stop(&self) {
        // An error means that it has ended.
        let _ = self.post(Box::new(|data_path| data_path.stop = true));
    }
}

/// A data path at work.
pub struct Running {
    /// The way to it.
    pub handle: Handle,
    /// Its thread.
    pub thread: JoinHandle<()>,
    /// Is closed as soon as the thread has ended, for whatever reason.
    pub ended: oneshot::Receiver<()>,
}

/// Starts the data path on a thread of its own. Digest records of the program go to `digests`.
pub fn spawn(
    switch: Switch,
    ports: Vec<Port>,
    settings: LoopSettings,
    digests: tokio::sync::mpsc::Sender<DigestRecord>,
) -> io::Result<Running> {
    // SAFETY: plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
    let (sender, receiver) = mpsc::channel();
    let ports = Ports::new(ports)?;
    let handle = Handle { commands: sender, room: Arc::new(Semaphore::new(COMMANDS_WAITING)), wake: Arc::clone(&wake) };
    let (alive, ended) = oneshot::channel::<()>();
    let data_path =
        DataPath { switch, ports, digests, digests_dropped: 0, records: vec![], heads: vec![], stop: false };
    let thread = thread::Builder::new().name("data-path".into()).spawn(move || {
        // Dropped when the thread ends, also by a panic.
        let _alive = alive;
        run(data_path, &receiver, &wake, settings);
    })?;
    Ok(Running { handle, thread, ended })
}

fn run(mut data_path: DataPath, commands: &Receiver<Command>, wake: &OwnedFd, settings: LoopSettings) {
    // Timers of this thread fire when they are due, not up to 50 us later.
    // SAFETY: PR_SET_TIMERSLACK takes an integer and touches nothing but this thread's slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
    let mut waiter = Waiter::default();
    let mut last_work = now_ns();
    let mut idle_at = last_work;
    let mut next_maintenance = last_work + MAINTENANCE_NS;
    let mut wakeups = Wakeups::new(settings.spin_ns, last_work);
    let mut real_time = settings.real_time && set_real_time(true);
    while !data_path.stop {
        let now = now_ns();
        let mut worked = data_path.forward(now);
        // One only: the next one has its turn after the packets that arrived meanwhile.
        if let Ok(command) = commands.try_recv() {
            command(&mut data_path);
            worked = true;
        }
        if worked {
            last_work = now;
            wakeups.worked(now);
        } else {
            idle_at = now;
        }
        if real_time != (settings.real_time && wakeups.urgent()) {
            real_time = !real_time;
            set_real_time(real_time);
        }
        data_path.ports.relieve(now > idle_at + BUSY_NS, now);
        if now >= next_maintenance {
            next_maintenance = now + MAINTENANCE_NS;
            data_path.ports.list.iter_mut().for_each(Port::maintain);
        }
        if worked {
            continue;
        }
        let due = data_path.switch.next_due().unwrap_or(u64::MAX).saturating_sub(wakeups.margin_ns());
        let now = now_ns();
        if data_path.ports.flush(now, due.saturating_sub(now), data_path.switch.pool()) {
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

impl DataPath {
    /// Takes what has arrived until `now`, in order of arrival over all interfaces, and lets happen what is due.
    /// Returns whether there was anything to do.
    fn forward(&mut self, now: u64) -> bool {
        let offset = WallOffset::measure(now);
        let due_before = self.switch.next_due().is_some_and(|due| due <= now);
        let mut heads = std::mem::take(&mut self.heads);
        let ports = self.ports.list.iter().enumerate();
        heads.extend(ports.filter_map(|(position, port)| Some((head_time(port, offset, now)?, position))));
        let mut budget = BUDGET;
        let mut horizon = now;
        while let Some((slot, &(time, position))) = heads.iter().enumerate().min_by_key(|(_, head)| **head) {
            if budget == 0 {
                horizon = self.switch.now_ns();
                break;
            }
            budget -= 1;
            // A step of the wall clock bends timestamps: what was taken now arrived between the last look and this one.
            let time = time.clamp(self.switch.now_ns().min(now), now);
            let port = &mut self.ports.list[position];
            let (number, packet) = (port.number, port.receive(self.switch.pool()));
            match head_time(port, offset, now) {
                Some(next) => heads[slot].0 = next,
                None => drop(heads.swap_remove(slot)),
            }
            if let Some(packet) = packet {
                self.switch.receive(number, time, packet, &mut self.ports);
            }
        }
        heads.clear();
        self.heads = heads;
        self.switch.advance(horizon, &mut self.ports);
        // Before the packets, so that nobody sees a packet whose digest is yet to come.
        self.pass_digests();
        self.ports.flush(now, 0, self.switch.pool());
        due_before || budget < BUDGET
    }

    fn pass_digests(&mut self) {
        self.switch.drain_digests(&mut self.records);
        for record in self.records.drain(..) {
            if self.digests.try_send(record).is_err() {
                self.digests_dropped += 1;
            }
        }
    }
}

/// Arrival time of a port's oldest frame, if it arrived before `now`.
#[inline]
fn head_time(port: &Port, offset: WallOffset, now: u64) -> Option<u64> {
    port.head_time(offset).filter(|time| *time <= now || *time > now + STAMP_AHEAD_NS)
}
