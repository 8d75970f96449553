//! Transmission in virtual time: frames go to the kernel ahead of their time, and its timers send them at the instant.
//!
//! The interface has an fq queueing discipline (see [`super::qdisc`]); each frame carries its launch time (SO_TXTIME). No wake-up
//! of this process belongs to a frame.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::mem;
use std::ptr;

use narrows_pipeline::{Instance, Packet, PacketPool};

use super::moderation::{Moderation, ModerationSettings};
use super::qdisc::set_fq;
use super::socket::PacketSocket;
use super::transmit::TransmitCounters;

/// Frames that are sent with one system call.
const BATCH: usize = 128;
/// Bytes of frames, with the kernel's own for each, that may wait in the kernel.
const SEND_BUFFER: libc::c_int = 1 << 30;
/// Room for one control message that holds a time.
const CONTROL_WORDS: usize = 4;

/// linux/sched clocks of sockets: struct sock_txtime's option and control message, absent from the libc crate on some targets.
const SO_TXTIME: libc::c_int = 61;
const SCM_TXTIME: libc::c_int = SO_TXTIME;

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
            let sent = if prompt { send(&self.prompt, batch) } else { send(&self.timed, batch) };
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

/// Sends the batch, at most [`BATCH`] frames; returns how many at its beginning were sent, at least one.
fn send(socket: &PacketSocket, batch: &mut [Pending]) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    let mut controls = [[0u64; CONTROL_WORDS]; BATCH];
    // SAFETY: all-zero is a valid mmsghdr: no name, no data, no control message.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let slots = vectors.iter_mut().zip(&mut controls).zip(&mut messages);
    for ((launch_ns, packet), ((vector, control), message)) in batch.iter_mut().zip(slots) {
        let bytes = packet.bytes_mut();
        *vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        if *launch_ns != 0 {
            attach_time(&mut message.msg_hdr, control, *launch_ns);
        }
    }
    let count = batch.len().min(BATCH) as libc::c_uint;
    // SAFETY: the first `count` messages point at one vector each, which points at a packet's bytes, and at a control message or
    // none; all live until the call returns, and the kernel only reads them.
    let sent = unsafe { libc::sendmmsg(socket.fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}

/// Adds the control message that holds a launch time.
#[inline]
fn attach_time(header: &mut libc::msghdr, control: &mut [u64; CONTROL_WORDS], launch_ns: u64) {
    const TIME: u32 = mem::size_of::<u64>() as u32;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE and CMSG_LEN compute sizes only.
    let (space, length) = unsafe { (libc::CMSG_SPACE(TIME) as usize, libc::CMSG_LEN(TIME) as usize) };
    header.msg_controllen = space;
    // SAFETY: the control buffer is aligned like a cmsghdr and has room for one that holds 8 bytes (24 of 32 bytes), so the first
    // header and its data lie within it.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = SCM_TXTIME;
        (*message).cmsg_len = length;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast::<u64>(), launch_ns);
    }
}
