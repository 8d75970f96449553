//! AF_PACKET sockets.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use narrows_packet_sockets::{self as sockets, get};

// linux/if_packet.h; absent from the libc crate on some targets.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// Bytes of frames, with the kernel's own for each, that may be on their way.
const SEND_BUFFER: libc::c_int = 32 << 20;

/// An AF_PACKET socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    index: libc::c_int,
}

impl PacketSocket {
    /// A socket that sends on interface `index`, past its queueing discipline, and receives nothing.
    pub fn sender(index: libc::c_int) -> io::Result<Self> {
        let socket = Self::queued_sender(index)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        Ok(socket)
    }

    /// A socket that sends on interface `index` through its queueing discipline and receives nothing.
    pub fn queued_sender(index: libc::c_int) -> io::Result<Self> {
        let socket = Self::open(index)?;
        sockets::bind(&socket.fd, index, 0)?;
        Ok(socket)
    }

    /// A socket on interface `index` that will receive every frame once [`PacketSocket::receive_all`] is called.
    pub fn receiver(index: libc::c_int) -> io::Result<Self> {
        let socket = Self::open(index)?;
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        Ok(socket)
    }

    fn open(index: libc::c_int) -> io::Result<Self> {
        Ok(PacketSocket { fd: sockets::open(libc::SOCK_NONBLOCK)?, index })
    }

    /// Starts reception of all protocols.
    pub fn receive_all(&self) -> io::Result<()> {
        sockets::bind(&self.fd, self.index, libc::ETH_P_ALL as u16)
    }

    /// Has the interface receive what is addressed to others, too.
    pub fn be_promiscuous(&self) -> io::Result<()> {
        sockets::be_promiscuous(&self.fd, self.index)
    }

    /// Has the socket take bursts that the receiver does not take at once.
    pub fn enlarge_buffer(&self) {
        // Allowed to root only; without it the system's default applies and more may be dropped.
        let _ = self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    }

    /// Sets a socket option to a plain C value.
    pub fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        sockets::set(&self.fd, level, option, value)
    }

    /// Takes the pending error of the socket, if any (ENETDOWN after the interface went down).
    pub fn take_error(&self) -> Option<io::Error> {
        // SAFETY: any bytes are a valid integer.
        let error = unsafe { get::<libc::c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR) }.ok()?;
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// Frames that found the receive ring full since the last call.
    pub fn take_ring_drops(&self) -> u64 {
        // SAFETY: any bytes are a valid value of that plain structure.
        let stats = unsafe { get::<libc::tpacket_stats>(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
        stats.map_or(0, |stats| u64::from(stats.tp_drops))
    }

    /// Interface index at the time the socket was opened.
    pub fn index(&self) -> libc::c_int {
        self.index
    }

    /// The file descriptor, for poll and mmap.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
