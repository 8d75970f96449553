// SPDX-License-Identifier: Apache-2.0
//! Packet sockets, and options of any socket.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The result of a system call, in which a negative number means an error.
///
/// # Errors
/// The system call's.
#[inline]
pub fn check<T: Default + PartialOrd>(result: T) -> io::Result<T> {
    if result < T::default() {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The descriptor that a system call opened.
///
/// # Errors
/// The system call's.
///
/// # Safety
/// A number that is not negative is an open descriptor, and nothing else owns it.
pub unsafe fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A packet socket of protocol 0: nothing is received before [`bind`], so there are no frames of other interfaces. `flags` are
/// those of its descriptor.
///
/// # Errors
/// If the system refuses.
pub fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
    // SAFETY: passes no memory; the descriptor is new.
    unsafe { owned(libc::socket(libc::AF_PACKET, kind, 0)) }
}

/// Index of the interface of this name in the current network namespace.
///
/// # Errors
/// If there is no such interface.
pub fn interface_index(name: &str) -> io::Result<libc::c_int> {
    let name = CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `name` is a terminated string that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index as libc::c_int),
    }
}

/// Binds a socket to an interface, to receive frames of `protocol` (0: none) and to send.
///
/// # Errors
/// If the system refuses.
pub fn bind(socket: &OwnedFd, index: libc::c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_ll of the length given and lives through the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// Has the interface also receive frames for other addresses, as long as the socket is open.
///
/// # Errors
/// If the system refuses.
pub fn be_promiscuous(socket: &OwnedFd, index: libc::c_int) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = libc::PACKET_ADD_MEMBERSHIP;
    set(socket, libc::SOL_PACKET, option, &membership)
}

/// Sets an option of the plain type that the kernel expects for it.
///
/// # Errors
/// If the system refuses.
pub fn set<T: Copy>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let from = (&raw const *value).cast();
    // SAFETY: `from` points at `length` readable bytes; the kernel compares the length with the option's.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, from, length) })?;
    Ok(())
}

/// Reads an option of the plain type that the kernel has for it.
///
/// # Errors
/// If the system refuses; EOPNOTSUPP if the kernel's type is shorter.
///
/// # Safety
/// Any bytes are a valid `T`.
pub unsafe fn get<T: Copy>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    // SAFETY: as the caller promises.
    let mut value: T = unsafe { zeroed() };
    let size = size_of::<T>() as libc::socklen_t;
    let mut length = size;
    let to = (&raw mut value).cast();
    // SAFETY: `to` has room for `length` bytes, any of which are valid, as the caller promises.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, to, &mut length) })?;
    if length == size {
        Ok(value)
    } else {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn options_are_read_as_they_were_set() {
        let socket = OwnedFd::from(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        // SAFETY: any bytes are a valid integer.
        let read = || unsafe { get::<i32>(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY) };
        set(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &5_i32).expect("allowed");
        assert_eq!(read().expect("has one"), 5);
        // SAFETY: any bytes are a valid integer.
        let longer = unsafe { get::<u64>(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY) };
        let error = longer.expect_err("it has four bytes").raw_os_error();
        assert_eq!(error, Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn interfaces_are_found_by_name() {
        assert!(interface_index("lo").expect("every namespace has it") > 0);
        let error = |name| interface_index(name).expect_err("no such").raw_os_error();
        assert_eq!(error("no-such-one"), Some(libc::ENODEV));
        assert_eq!(error("l\0"), Some(libc::EINVAL));
    }
}
