//! Packet sockets by which a guest's kernel takes frames ahead of their time, where it has no device for that: each frame
//! carries its launch time (SO_TXTIME), and an fq queueing discipline sends it then.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, IoSlice};

use super::super::coalescing::{Delivery, ZEROS};
use super::super::qdisc::set_fq;
use super::super::send::{send, SO_TXTIME};
use super::super::socket::PacketSocket;
use super::super::vnet::PACKET_VNET_HDR;

/// Frames that are sent with one system call.
const BATCH: usize = 128;
/// Bytes of frames, with the kernel's own for each, that may wait in the kernel.
const SEND_BUFFER: libc::c_int = 1 << 30;

/// The sockets of one interface.
#[derive(Debug)]
pub struct LaunchSockets {
    /// Sends at the launch time.
    timed: PacketSocket,
    /// Sends at once, past the queueing discipline.
    prompt: PacketSocket,
}

impl LaunchSockets {
    /// On interface `index`.
    pub fn open(index: libc::c_int) -> io::Result<Self> {
        set_fq(index)?;
        let (timed, prompt) = (PacketSocket::queued_sender(index)?, PacketSocket::sender(index)?);
        let clock = libc::sock_txtime { clockid: libc::CLOCK_MONOTONIC, flags: 0 };
        timed.set(libc::SOL_SOCKET, SO_TXTIME, &clock)?;
        for socket in [&prompt, &timed] {
            socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
            socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        }
        Ok(LaunchSockets { timed, prompt })
    }

    /// Forgets pending errors.
    pub fn clear_error(&self) {
        drop(self.timed.take_error());
        drop(self.prompt.take_error());
    }

    /// Gives frames to the kernel, each with its launch time (0: at once); returns how many at the beginning it took, at least
    /// one.
    pub fn send(&self, frames: &[(u64, Delivery)]) -> io::Result<usize> {
        let is_prompt = frames.first().is_some_and(|(launch_ns, _)| *launch_ns == 0);
        let socket = if is_prompt { &self.prompt } else { &self.timed };
        let alike = frames.iter().take(BATCH).take_while(|(launch_ns, _)| (*launch_ns == 0) == is_prompt);
        let mut parts = Vec::with_capacity(3 * BATCH);
        let mut ranges = Vec::with_capacity(BATCH);
        for (launch_ns, delivery) in alike {
            let start = parts.len();
            parts.push(IoSlice::new(delivery.header.bytes()));
            let pieces = delivery.pieces().flat_map(|(bytes, zeros)| [bytes, &ZEROS[..zeros]]);
            parts.extend(pieces.filter(|piece| !piece.is_empty()).map(IoSlice::new));
            ranges.push((*launch_ns, start..parts.len()));
        }
        send::<BATCH>(socket, ranges.into_iter().map(|(launch_ns, range)| (launch_ns, &parts[range])))
    }
}
