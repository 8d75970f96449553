//! The data-path thread: interfaces in, switch, interfaces out, commands between packets. How it waits is up to its loop:
//! [`super::real_time`] or [`super::virtual_time`].
// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::Arc;

use narrows_pipeline::DigestRecord;
use tokio::sync::{mpsc, oneshot, Semaphore};

use super::clock::WallOffset;
use super::hold::{Hold, HoldError};
use super::port::Port;
use super::ports::Ports;
use crate::switch::Switch;

/// Most commands that wait for the data path; the next caller waits until there is room.
const COMMANDS_WAITING: usize = 64;
/// Digest records on their way to the control thread; more are dropped and counted.
const DIGEST_CHANNEL: usize = 65_536;

/// Packet-ins on their way there.
const PACKET_IN_CHANNEL: usize = 4_096;

/// A packet that was sent to a controller's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketIn {
    /// The program that has sent it.
    pub program: u64,
    /// As it left the program.
    pub frame: Vec<u8>,
}

/// What goes from a device to its controllers, by way of the control thread: one end for each, bounded.
pub struct ToControl {
    digests: mpsc::Sender<DigestRecord>,
    packet_ins: mpsc::Sender<PacketIn>,
}

/// The other ends.
pub struct FromDataPath {
    /// Records of the program's digests.
    pub digests: mpsc::Receiver<DigestRecord>,
    /// Packets that were sent to the controller's port.
    pub packet_ins: mpsc::Receiver<PacketIn>,
}

/// The way from a device to the control thread.
pub fn control_channels() -> (ToControl, FromDataPath) {
    let (digests, received_digests) = mpsc::channel(DIGEST_CHANNEL);
    let (packet_ins, received_packet_ins) = mpsc::channel(PACKET_IN_CHANNEL);
    let received = FromDataPath { digests: received_digests, packet_ins: received_packet_ins };
    (ToControl { digests, packet_ins }, received)
}

/// Everything the data-path thread owns.
pub struct DataPath {
    /// Pipeline and queues.
    pub switch: Switch,
    pub(super) ports: Ports,
    /// By device.
    to_control: Vec<ToControl>,
    digests_dropped: u64,
    packet_ins_dropped: u64,
    /// A command has sent a packet, of which something may leave at once.
    pub(super) sent_by_command: bool,
    /// Digest records on their way there; kept for its memory.
    records: Vec<DigestRecord>,
    /// Arrival time of the oldest frame of each port that has one; kept for its memory.
    heads: Vec<(u64, usize)>,
    pub(super) hold: Hold,
    stop: bool,
}

impl DataPath {
    /// What is for controllers goes to `to_control`, which has each device of the switch.
    pub(super) fn new(switch: Switch, ports: Ports, to_control: Vec<ToControl>, hold: Hold) -> Self {
        DataPath {
            switch,
            ports,
            to_control,
            digests_dropped: 0,
            packet_ins_dropped: 0,
            sent_by_command: false,
            records: vec![],
            heads: vec![],
            hold,
            stop: false,
        }
    }

    /// Sends a packet into the program by the controller's port. It begins with a header of `preceding` bytes.
    pub fn packet_out(&mut self, port: u16, frame: &[u8], preceding: usize) {
        self.switch.receive_from_controller(port, (frame, preceding), &mut self.ports);
        self.pass_to_control();
        self.sent_by_command = true;
    }

    /// Stops the loop once every event until `at_ns` has been processed; `None`: lets it continue. The returned
    /// receiver gets the switch's time when it does. Errors: that is past, or the loop does not do it.
    pub fn hold(&mut self, at_ns: Option<u64>) -> Result<oneshot::Receiver<u64>, HoldError> {
        let now_ns = self.switch.now_ns();
        self.hold.ask(at_ns, now_ns)
    }

    /// Interfaces, in order of port number.
    pub fn ports(&mut self) -> &mut [Port] {
        &mut self.ports.list
    }

    /// Digest records that the control thread was too slow for.
    pub fn digests_dropped(&self) -> u64 {
        self.digests_dropped + self.switch.digests_lost()
    }

    /// Packet-ins that the control thread was too slow for.
    pub fn packet_ins_dropped(&self) -> u64 {
        self.packet_ins_dropped + self.ports.packet_ins_dropped
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

pub(super) type Command = Box<dyn FnOnce(&mut DataPath) + Send>;

/// Sends commands to the data-path thread; each runs between two packets.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    pub(super) room: Arc<Semaphore>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// `wake` ends the thread's sleep.
    pub(super) fn new(commands: Sender<Command>, wake: Arc<OwnedFd>) -> Self {
        Handle { commands, room: Arc::new(Semaphore::new(COMMANDS_WAITING)), wake }
    }

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
        let (reply, result) = oneshot::channel();
        self.send(move |data_path| {
            // The caller may have been cancelled by now; the command ran nevertheless.
            let _ = reply.send(command(data_path));
        })
        .await?;
        result.await.map_err(|_| Gone)
    }

    /// The same without a wait for the result. It runs before all that is called or sent later.
    pub async fn send(&self, command: impl FnOnce(&mut DataPath) + Send + 'static) -> Result<(), Gone> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| Gone)?;
        self.post(Box::new(move |data_path| {
            command(data_path);
            drop(room);
        }))
    }

    /// Ends the data-path thread.
    pub fn stop(&self) {
        // An error means that it has ended.
        let _ = self.post(Box::new(|data_path| data_path.stop = true));
    }
}

impl DataPath {
    /// Whether the loop is to end: something has asked for it, or an assertion of the program does not hold.
    pub(super) fn stopped(&self) -> bool {
        let failed = self.switch.failed_assertion();
        if let Some(failed) = &failed {
            eprintln!("narrows-softswitch: {failed}");
        }
        self.stop || failed.is_some()
    }

    /// Runs a command if one has come in; returns whether there was one. The next one has its turn after the packets that
    /// arrived meanwhile.
    pub(super) fn run_one_command(&mut self, commands: &Receiver<Command>) -> bool {
        let command = commands.try_recv();
        command.map(|command| command(self)).is_ok()
    }

    /// Stops at every hold until `now`, after all that arrived and was due until then, and runs commands. Returns how
    /// many frames were taken, if it did.
    pub(super) fn stand_still(&mut self, now: u64, offset: WallOffset, commands: &Receiver<Command>) -> Option<usize> {
        let mut taken = None;
        while let Some(at_ns) = self.hold.due().filter(|at_ns| *at_ns <= now) {
            *taken.get_or_insert(0) += self.take_in(at_ns, offset, usize::MAX);
            self.switch.advance(at_ns, &mut self.ports);
            self.pass_to_control();
            // The holder may want the reports of what has left until now.
            self.ports.record();
            self.hold.reached();
            while self.hold.stands() && !self.stop {
                match commands.recv() {
                    Ok(command) => command(self),
                    Err(_) => self.stop = true,
                }
            }
        }
        taken
    }

    /// Passes at most `budget` of the frames that have arrived until `now` to the switch, in order of arrival over all
    /// interfaces, and with each what was due before. Returns how many were taken.
    pub(super) fn take_in(&mut self, now: u64, offset: WallOffset, budget: usize) -> usize {
        let mut heads = std::mem::take(&mut self.heads);
        let ports = self.ports.list.iter_mut().enumerate();
        heads.extend(ports.filter_map(|(position, port)| Some((head_time(port, offset, now)?, position))));
        let mut taken = 0;
        while let Some((slot, &(time, position))) = heads.iter().enumerate().min_by_key(|(_, head)| **head) {
            if taken == budget {
                break;
            }
            taken += 1;
            // A step of the wall clock bends timestamps: what was taken now arrived between the last look and this one.
            let time = time.clamp(self.switch.now_ns().min(now), now);
            let port = &mut self.ports.list[position];
            let (number, packet) = (port.number, port.receive(offset, now, self.switch.pool_of(port.number)));
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
        taken
    }

    /// Hands the programs' digests, and what they have sent to their controllers' ports, to the control thread.
    pub(super) fn pass_to_control(&mut self) {
        for (device, to_control) in self.to_control.iter().enumerate() {
            self.switch.drain_digests(device, &mut self.records);
            for record in self.records.drain(..) {
                if to_control.digests.try_send(record).is_err() {
                    self.digests_dropped += 1;
                }
            }
        }
        for (port, frame) in self.ports.packet_ins.drain(..) {
            let device = self.switch.device_of(port);
            let program = self.switch.unit(device).map_or(0, |unit| unit.pipeline.program().id);
            let packet_in = PacketIn { program, frame };
            let passed = self.to_control.get(device).map(|to_control| to_control.packet_ins.try_send(packet_in));
            if !matches!(passed, Some(Ok(()))) {
                self.packet_ins_dropped += 1;
            }
        }
    }
}

/// Arrival time of a port's oldest frame, if it has arrived by `now`.
#[inline]
fn head_time(port: &mut Port, offset: WallOffset, now: u64) -> Option<u64> {
    port.arrival(offset, now).filter(|time| *time <= now)
}
