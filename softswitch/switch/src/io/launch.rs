//! Transmission in virtual time: frames go to the kernel ahead of their time, and its timers send them at the instant.
//!
//! The interface has an fq queueing discipline (see [`super::qdisc`]); each frame carries its launch time (SO_TXTIME). No wake-up
//! of this process belongs to a frame.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, IoSlice};

use narrows_pipeline::{Instance, Packet, PacketPool};

use super::coalescing::{join, Delivery};
use super::moderation::{Moderation, ModerationSettings};
use super::qdisc::set_fq;
use super::send::{send, SO_TXTIME};
use super::socket::PacketSocket;
use super::transmit_counters::TransmitCounters;
use super::vnet::PACKET_VNET_HDR;

/// Frames that are sent with one system call.
const BATCH: usize = 128;
/// Bytes of frames, with the kernel's own for each, that may wait in the kernel.
const SEND_BUFFER: libc::c_int = 1 << 30;

/// What is not held of frames.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A frame and when it is to be sent; 0 = at once.
type Pending = (u64, Delivery);

/// Frames on their way into one interface.
#[derive(Debug)]
pub struct Launcher {
    /// Sends at the launch time.
    timed: PacketSocket,
    /// Sends at once, past the queueing discipline.
    prompt: PacketSocket,
    /// Interrupts of the host's network card, where they are modelled.
    interrupts: Option<Moderation<Box<Packet>>>,
    /// The card joins segments.
    joins: bool,
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
        let timed = timed_socket(index)?;
        for socket in [&prompt, &timed] {
            socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        }
        Ok(Launcher {
            timed,
            prompt,
            interrupts: moderation.map(Moderation::new),
            joins: moderation.is_some_and(|moderation| moderation.joins),
            pending: Vec::new(),
            late: 0,
            counters: TransmitCounters::default(),
        })
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        self.counters
    }

    /// Frames that were handed to the kernel after their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Forgets pending errors of the sockets.
    pub fn clear_error(&self) {
        drop(self.timed.take_error());
        drop(self.prompt.take_error());
    }

    /// Adds a frame that is due at `exit_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, packet: Box<Packet>) {
        match &mut self.interrupts {
            Some(interrupts) => interrupts.take(exit_ns, packet, delivering(&mut self.pending, self.joins)),
            None => self.pending.push((exit_ns, Delivery::of(packet))),
        }
    }

    /// When the frames that the host's card holds are delivered, if no more come.
    pub fn held_until(&self) -> Option<u64> {
        self.interrupts.as_ref()?.due_ns()
    }

    /// Gives all frames that the host gets until `horizon_ns` to the kernel, at `now_ns`. What it has no room for stays for
    /// the next time.
    pub fn flush(&mut self, now_ns: u64, horizon_ns: u64, pool: &mut PacketPool) {
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.settle(horizon_ns, delivering(&mut self.pending, self.joins));
        }
        if self.pending.is_empty() {
            return;
        }
        for (exit_ns, delivery) in &mut self.pending {
            if *exit_ns <= now_ns {
                self.late += u64::from(*exit_ns != 0 && *exit_ns < now_ns && !is_copy(&delivery.first));
                *exit_ns = 0;
            }
        }
        let mut done = 0;
        while done < self.pending.len() {
            let prompt = self.pending[done].0 == 0;
            let rest = &self.pending[done..];
            let alike = rest.iter().take(BATCH).take_while(|(launch_ns, _)| (*launch_ns == 0) == prompt).count();
            let batch = &rest[..alike];
            let socket = if prompt { &self.prompt } else { &self.timed };
            match send_all(socket, batch) {
                Ok(sent) => {
                    for packet in batch[..sent].iter().flat_map(|(_, delivery)| delivery.packets()) {
                        self.counters.packets += 1;
                        self.counters.bytes += u64::from(packet.frame_length());
                    }
                    done += sent;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENOBUFS) => {
                        self.counters.drops += batch[0].1.packets().count() as u64;
                        done += 1;
                    }
                    _ => {
                        self.counters.errors += batch[0].1.packets().count() as u64;
                        done += 1;
                    }
                },
            }
        }
        for (_, delivery) in self.pending.drain(..done) {
            pool.give(delivery.first);
            delivery.rest.into_iter().for_each(|packet| pool.give(packet));
        }
    }
}

/// What takes frames that come with one interrupt, joined or not.
fn delivering(pending: &mut Vec<Pending>, joins: bool) -> impl FnMut(u64, &mut dyn Iterator<Item = Box<Packet>>) + '_ {
    move |at_ns, frames| {
        if joins {
            pending.extend(join(frames).into_iter().map(|delivery| (at_ns, delivery)));
        } else {
            pending.extend(frames.map(|frame| (at_ns, Delivery::of(frame))));
        }
    }
}

/// Sends a batch, each frame behind its header for the kernel; returns how many of it were sent.
fn send_all(socket: &PacketSocket, batch: &[Pending]) -> io::Result<usize> {
    let mut parts = Vec::with_capacity(3 * batch.len());
    let mut ends = Vec::with_capacity(batch.len());
    for (_, delivery) in batch {
        parts.push(IoSlice::new(delivery.header.bytes()));
        parts.extend(tail(&delivery.first, 0));
        parts.extend(delivery.rest.iter().flat_map(|packet| tail(packet, delivery.payload)));
        ends.push(parts.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let frames =
        batch.iter().zip(starts.zip(&ends)).map(|((launch_ns, _), (from, to))| (*launch_ns, &parts[from..*to]));
    send::<BATCH>(socket, frames)
}

/// A frame from one of the bytes on that are held of it.
fn tail(packet: &Packet, start: usize) -> impl Iterator<Item = IoSlice<'_>> {
    let missing = packet.frame_length() as usize - packet.bytes().len();
    let parts = [&packet.bytes()[start..], &ZEROS[..missing]];
    parts.into_iter().filter(|part| !part.is_empty()).map(IoSlice::new)
}

/// When telemetry arrives does not matter.
fn is_copy(packet: &Packet) -> bool {
    matches!(packet.instance(), Instance::EgressClone | Instance::IngressClone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_held_of_a_frame_is_sent_as_zeros() {
        let mut pool = PacketPool::default();
        let mut packet = pool.take_beginning(9_014, 192);
        packet.bytes_mut().fill(7);
        let sent = |packet: &Packet, start| tail(packet, start).flat_map(|part| part.to_vec()).collect::<Vec<u8>>();
        assert_eq!(sent(&packet, 0), [vec![7; 192], vec![0; 9_014 - 192]].concat());
        assert_eq!(sent(&packet, 66), [vec![7; 126], vec![0; 9_014 - 192]].concat());
        assert_eq!(sent(&packet, 192), vec![0; 9_014 - 192]);
        assert_eq!(sent(&pool.packet(&[7; 60]), 0), [7; 60]);
    }
}
