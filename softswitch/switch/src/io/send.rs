//! Many frames in one system call, each at once or at its launch time.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, IoSlice};
use std::mem;
use std::ptr;

use narrows_packet_sockets::check;

use super::socket::PacketSocket;

// linux/socket.h: the option of a socket and its control message; absent from the libc crate on some targets.
pub const SO_TXTIME: libc::c_int = 61;
const SCM_TXTIME: libc::c_int = SO_TXTIME;
/// Room for one control message that holds a time.
const CONTROL_WORDS: usize = 4;

/// Sends at most `BATCH` frames, each in parts and with its launch time (0: at once); returns how many at the beginning were sent,
/// at least one.
#[inline]
pub fn send<'f, const BATCH: usize>(
    socket: &PacketSocket,
    frames: impl Iterator<Item = (u64, &'f [IoSlice<'f>])>,
) -> io::Result<usize> {
    let mut controls = [[0u64; CONTROL_WORDS]; BATCH];
    // SAFETY: all-zero is a valid mmsghdr: no name, no data, no control message.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let mut count = 0;
    for ((launch_ns, parts), (control, message)) in frames.zip(controls.iter_mut().zip(&mut messages)) {
        // An IoSlice is laid out as an iovec.
        message.msg_hdr.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_iovlen = parts.len() as _;
        if launch_ns != 0 {
            attach_time(&mut message.msg_hdr, control, launch_ns);
        }
        count += 1;
    }
    // SAFETY: the first `count` messages point at vectors, which point at a frame's bytes, and at a control message or none; all live
    // until the call returns, and the kernel only reads them.
    let sent = check(unsafe { libc::sendmmsg(socket.fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) })?;
    Ok(sent as usize)
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
