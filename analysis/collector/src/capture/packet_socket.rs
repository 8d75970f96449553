// SPDX-License-Identifier: Apache-2.0
//! The system calls of packet sockets that rings and transmitters share.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket of protocol 0: nothing is received before [`bind`], so no frame of another interface gets in.
///
/// # Errors
/// If the system refuses.
pub fn open() -> io::Result<OwnedFd> {
    // SAFETY: socket() passes no memory; the result is checked before it is owned.
    let descriptor =
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    check(descriptor)?;
    // SAFETY: the descriptor is new and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Number of an interface of the current network namespace.
///
/// # Errors
/// If there is none of that name.
pub fn interface_index(interface: &str) -> Result<libc::c_int, String> {
    let name = CString::new(interface)
        .map_err(|_| format!("interface name {interface:?} holds a zero byte"))?;
    // SAFETY: `name` is a terminated string that lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(format!(
            "no interface {interface:?} in this network namespace"
        ));
    }
    Ok(index as libc::c_int)
}

/// Binds a socket to an interface, to receive frames of `protocol` (0: none) and to send.
///
/// # Errors
/// If the system refuses.
pub fn bind(socket: &OwnedFd, index: libc::c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is a valid value of that plain structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    // SAFETY: the address lives through the call and its size is passed.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    check(result)
}

/// Sets an option of the plain type that the kernel expects for it.
///
/// # Errors
/// If the system refuses.
pub fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` lives through the call and its size is passed.
    let result = unsafe {
        let value: *const T = value;
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

/// Reads an option of the plain type that the kernel has for it.
///
/// # Errors
/// If the system refuses.
pub fn get_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`, a plain structure of that size.
    let result = unsafe {
        let value: *mut T = value;
        libc::getsockopt(socket.as_raw_fd(), level, name, value.cast(), &mut length)
    };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
