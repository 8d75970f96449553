// SPDX-License-Identifier: Apache-2.0
//! Sends frames from an interface, many with one system call.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_packet_sockets::{bind, open, set};

use super::interface_index;

/// The most frames that one call sends.
pub const BURST: usize = 64;

/// A socket that sends whole frames.
pub struct Transmitter {
    socket: OwnedFd,
}

impl Transmitter {
    /// Opens it on `interface` of the current network namespace. It bypasses the interface's queueing discipline.
    ///
    /// # Errors
    /// Names the step that the system refused.
    pub fn open(interface: &str) -> Result<Self, String> {
        let step = |what: &'static str| move |e: io::Error| format!("interface {interface}: cannot {what}: {e}");
        let index = interface_index(interface)?;
        let socket = open(0).map_err(step("open a packet socket (CAP_NET_RAW is needed)"))?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(step("pass the queueing discipline by"))?;
        bind(&socket, index, 0).map_err(step("bind"))?;
        Ok(Transmitter { socket })
    }

    /// Sends up to [`BURST`] of these frames; returns how many the interface accepted.
    ///
    /// # Errors
    /// If the interface accepts none for another reason than a full queue.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BURST);
        // SAFETY: all-zero is a valid value of these plain structures: no address, no buffers, no control data.
        let (mut vectors, mut messages): ([libc::iovec; BURST], [libc::mmsghdr; BURST]) =
            unsafe { (zeroed(), zeroed()) };
        for ((frame, vector), message) in frames.iter().zip(&mut vectors).zip(&mut messages) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` messages name one live vector each, which names a live frame; none is written.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, 0) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => Ok(0),
            _ => Err(error),
        }
    }
}
