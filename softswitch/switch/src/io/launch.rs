//! Transmission in virtual time: frames go to the kernel ahead of their time, and its timers send them at the instant.
//!
//! The interface has an fq queueing discipline (see [`super::qdisc`]); each frame carries its launch time (SO_TXTIME). No wake-up
//! of this process belongs to a frame.
// SPDX-License-Identifier: Apache-2.0
use std::io;

use narrows_pipeline::{Instance, Packet, PacketPool};

use super::moderation::{Moderation, ModerationSettings};
use super::qdisc::set_fq;
use super::send::{send, SO_TXTIME};
use super::socket::PacketSocket;
use super::transmit::TransmitCounters;

/// Frames that are sent with one system call.
const BATCH: usize = 128;
/// Bytes of frames, with the kernel's own for each, that may wait in the kernel.
const SEND_BUFFER: libc::c_int = 1 << 30;

/// A frame and when it is to be sent; 0 = at once.
type Pending = (u64, Box<Packet>);

/// Frames on their way into one interface.
#[derive(Debug)]
pub struct Launcher {
    /// Sends at the launch time.
    timed: PacketSocket,
    /// Sends at once, past the queueing discipline.
    prompt: PacketSocket,
    /// The host's network card, where its interrupts are modelled.
    card: Option<Moderation<Box<Packet>>>,
    pending: Vec<Pending>,
    late: u64,
    counters: TransmitCounters,
}

/// A socket on interface `index` whose frames carry launch times.
fn timed_socket(index: libc::c_int) -> io::Result<PacketSocket> {
    set_fq(index)?;
    let socket = PacketSocket::queued_sender(index)?;
    let clock = libc::sock_txtime { clockid: libc::CLOCK_MONOTONIC, flags: 0 };
    socket.set(libc::SOL_SOCKET, SO_TXTIME, &clock)?;
    socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
    Ok(socket)
}

impl Launcher {
    /// Sends on interface `index`, to a host whose card moderates its interrupts or not.
    pub fn new(index: libc::c_int, moderation: Option<ModerationSettings>) -> io::Result<Self> {
        let prompt = PacketSocket::sender(index)?;
        prompt.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
        let counters = TransmitCounters::default();
        let card = moderation.map(Moderation::new);
        Ok(Launcher { timed: timed_socket(index)?, prompt, card, pending: Vec::new(), late: 0, counters })
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        self.counters
    }

    /// Frames that were handed to the kernel after their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Opens the sockets again if the interface was made anew and has this index now.
    pub fn maintain(&mut self, index: libc::c_int) {
        if index != self.timed.index() {
            if let Ok(Launcher { timed, prompt, .. }) = Launcher::new(index, None) {
                (self.timed, self.prompt) = (timed, prompt);
            }
        }
    }

    /// Forgets pending errors of the sockets.
    pub fn clear_error(&self) {
        drop(self.timed.take_error());
        drop(self.prompt.take_error());
    }

    /// Adds a frame that is due at `exit_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, packet: Box<Packet>) {
        match &mut self.card {
            Some(card) => card.take(exit_ns, packet, &mut self.pending),
            None => self.pending.push((exit_ns, packet)),
        }
    }

    /// When the frames that the host's card holds are delivered, if no more come.
    pub fn held_until(&self) -> Option<u64> {
        self.card.as_ref()?.due_ns()
    }

    /// Gives all frames that the host gets until `horizon_ns` to the kernel, at `now_ns`. What it has no room for stays for
    /// the next time.
    pub fn flush(&mut self, now_ns: u64, horizon_ns: u64, pool: &mut PacketPool) {
        if let Some(card) = &mut self.card {
            card.settle(horizon_ns, &mut self.pending);
        }
        if self.pending.is_empty() {
            return;
        }
        for (exit_ns, packet) in &mut self.pending {
            if *exit_ns <= now_ns {
                self.late += u64::from(*exit_ns != 0 && *exit_ns < now_ns && !is_copy(packet));
                *exit_ns = 0;
            }
        }
        let mut done = 0;
        while done < self.pending.len() {
            let prompt = self.pending[done].0 == 0;
            let rest = &mut self.pending[done..];
            let alike = rest.iter().take(BATCH).take_while(|(launch_ns, _)| (*launch_ns == 0) == prompt).count();
            let batch = &mut rest[..alike];
            let socket = if prompt { &self.prompt } else { &self.timed };
            let frames = batch.iter_mut().map(|(launch_ns, packet)| (*launch_ns, packet.bytes_mut()));
            let sent = send::<BATCH>(socket, frames);
            match sent {
                Ok(sent) => {
                    for (_, packet) in &batch[..sent] {
                        self.counters.packets += 1;
                        self.counters.bytes += packet.bytes().len() as u64;
                    }
                    done += sent;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENOBUFS) => {
                        self.counters.drops += 1;
                        done += 1;
                    }
                    _ => {
                        self.counters.errors += 1;
                        done += 1;
                    }
                },
            }
        }
        for (_, packet) in self.pending.drain(..done) {
            pool.give(packet);
        }
    }
}

/// Telemetry may come when it likes.
fn is_copy(packet: &Packet) -> bool {
    matches!(packet.instance(), Instance::EgressClone | Instance::IngressClone)
}
