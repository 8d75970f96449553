//! One port of the switch on a Linux interface.
// SPDX-License-Identifier: Apache-2.0
use std::io;

use narrows_pipeline::{Packet, PacketPool};

use super::checksum::{self, Partial};
use super::clock::WallOffset;
use super::receive::{Frame, ReceiveRing};
use super::socket::{interface_index, is_up, mtu, PacketSocket};
use super::transmit::Transmitter;
use super::xdp::XdpSender;
use super::MAX_FRAME;

/// Counters of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames that found the receive ring full.
    pub rx_ring_drops: u64,
    /// Frames that were too long, or several packets in one.
    pub rx_errors: u64,
    /// Frames whose transport checksum was completed.
    pub rx_partial_checksums: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames dropped because the interface stayed full.
    pub tx_drops: u64,
    /// Frames refused by the interface.
    pub tx_errors: u64,
}

/// Attempts to open an AF_XDP socket again. The old one may be in use for a moment; where it cannot work, trying costs time.
const EXPRESS_ATTEMPTS: u32 = 8;

/// A port: receive ring, transmitter, counters.
#[derive(Debug)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Interface name.
    pub name: String,
    ring: ReceiveRing,
    ring_bytes: usize,
    frame_limit: usize,
    transmitter: Transmitter,
    /// How often to try yet to send by AF_XDP after that has stopped working.
    express_attempts: u32,
    received: PortCounters,
}

/// Opens the interface's ring, with slots for the frames of its MTU (and a VLAN tag).
fn open_ring(name: &str, ring_bytes: usize) -> io::Result<(ReceiveRing, usize)> {
    let frame_limit = (mtu(name)? + 14 + 4).min(MAX_FRAME);
    let socket = PacketSocket::receiver(interface_index(name)?)?;
    Ok((ReceiveRing::new(socket, ring_bytes, frame_limit)?, frame_limit))
}

impl Port {
    /// Opens the interface. `ring_bytes` is about the size of its receive ring; `express` allows AF_XDP for sending.
    pub fn open(number: u16, name: &str, ring_bytes: usize, express: bool) -> io::Result<Self> {
        let (ring, frame_limit) = open_ring(name, ring_bytes)?;
        let index = interface_index(name)?;
        let express_attempts = if express { EXPRESS_ATTEMPTS } else { 0 };
        let mut port = Port {
            number,
            name: name.to_owned(),
            ring,
            ring_bytes,
            frame_limit,
            transmitter: Transmitter::new(PacketSocket::sender(index)?),
            express_attempts,
            received: PortCounters::default(),
        };
        port.open_express(index);
        Ok(port)
    }

    /// File descriptor that becomes readable when a frame arrives.
    pub fn fd(&self) -> libc::c_int {
        self.ring.socket().fd()
    }

    /// What is to be sent.
    #[inline]
    pub fn transmitter(&mut self) -> &mut Transmitter {
        &mut self.transmitter
    }

    /// Arrival time of the oldest received frame, on the switch clock.
    #[inline]
    pub fn head_time(&self, offset: WallOffset) -> Option<u64> {
        self.ring.head_time(offset)
    }

    /// Takes the oldest received frame into a packet of `pool`. `None`: the frame was discarded and counted, or there is none.
    #[inline]
    pub fn receive(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let received = &mut self.received;
        self.ring.take(|frame| take_frame(&frame, received, pool))?
    }

    /// Counters so far, the kernel's included.
    pub fn counters(&mut self) -> PortCounters {
        self.received.rx_ring_drops += self.ring.socket().take_ring_drops();
        let sent = self.transmitter.counters();
        PortCounters {
            tx_packets: sent.packets,
            tx_bytes: sent.bytes,
            tx_drops: sent.drops,
            tx_errors: sent.errors,
            ..self.received
        }
    }

    /// Forgets that the interface went down: it works again by itself when it comes up.
    pub fn clear_error(&self) {
        drop(self.ring.socket().take_error());
        drop(self.transmitter.socket().take_error());
    }

    /// Opens the interface again if it was made anew under the same name or its MTU has grown beyond the ring's slots.
    /// Does nothing while the interface does not exist. An interface that only went down needs nothing but its AF_XDP socket.
    pub fn maintain(&mut self) {
        self.clear_error();
        let Ok(index) = interface_index(&self.name) else {
            return;
        };
        let outgrown = mtu(&self.name).is_ok_and(|mtu| (mtu + 18).min(MAX_FRAME) > self.frame_limit);
        if index != self.ring.socket().index() || outgrown {
            self.received.rx_ring_drops += self.ring.socket().take_ring_drops();
            if let Ok((ring, frame_limit)) = open_ring(&self.name, self.ring_bytes) {
                self.ring = ring;
                self.frame_limit = frame_limit;
            }
        }
        if index != self.transmitter.socket().index() {
            if let Ok(socket) = PacketSocket::sender(index) {
                self.transmitter.replace_socket(socket);
            }
        }
        self.open_express(index);
    }

    /// Opens the AF_XDP socket, unless there is one or it was tried often enough. Without one (frames longer than a page, a
    /// kernel that has none, a queue that belongs to somebody else) AF_PACKET does.
    fn open_express(&mut self, index: libc::c_int) {
        if self.transmitter.express_limit().is_some_and(|limit| limit >= self.frame_limit) {
            if self.express_attempts > 0 {
                self.express_attempts = EXPRESS_ATTEMPTS;
            }
        } else if self.express_attempts > 0 && is_up(&self.name) {
            self.express_attempts -= 1;
            self.transmitter.replace_express(XdpSender::open(index, self.frame_limit).ok());
        }
    }
}

fn take_frame(frame: &Frame<'_>, counters: &mut PortCounters, pool: &mut PacketPool) -> Option<Box<Packet>> {
    let tag = if frame.vlan.is_some() { 4 } else { 0 };
    let length = frame.bytes.len() + tag;
    if frame.truncated || frame.super_packet || length > MAX_FRAME || frame.bytes.len() < 14 {
        counters.rx_errors += 1;
        return None;
    }
    counters.rx_packets += 1;
    counters.rx_bytes += length as u64;
    let mut packet = pool.take(length);
    let bytes = packet.bytes_mut();
    match frame.vlan {
        None => bytes.copy_from_slice(frame.bytes),
        Some((tpid, tci)) => {
            let (addresses, rest) = frame.bytes.split_at(12);
            bytes[..12].copy_from_slice(addresses);
            bytes[12..14].copy_from_slice(&tpid.to_be_bytes());
            bytes[14..16].copy_from_slice(&tci.to_be_bytes());
            bytes[16..].copy_from_slice(rest);
        }
    }
    if let Some(partial) = frame.partial_checksum {
        counters.rx_partial_checksums += 1;
        // The kernel's offsets are those of the frame without the tag. One outside the frame: nobody could complete it.
        checksum::complete(bytes, Partial { start: partial.start + tag, ..partial });
    }
    Some(packet)
}
