//! What the kernel says about an interface.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use narrows_packet_sockets::{check, owned};

// linux/sockios.h and linux/ethtool.h
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GTSO: u32 = 0x1e;

/// struct ethtool_value
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// What an ioctl says about an interface.
enum Query {
    Flags,
    Mtu,
    /// TCP segmentation offload.
    Tso,
}

fn query(name: &str, query: Query) -> io::Result<libc::c_int> {
    // SAFETY: passes no memory; what it opens is new.
    let fd = unsafe { owned(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)) }?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    let mut value = EthtoolValue { command: ETHTOOL_GTSO, data: 0 };
    let number = match query {
        Query::Flags => libc::SIOCGIFFLAGS,
        Query::Mtu => libc::SIOCGIFMTU,
        Query::Tso => {
            request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
            SIOCETHTOOL
        }
    };
    // SAFETY: `request` is a valid ifreq with a NUL-terminated name; the kernel fills the union member read below, or what it
    // points at, which is what that ioctl expects.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, &mut request) })?;
    Ok(match query {
        // SAFETY: the ioctl succeeded, so the member that belongs to it is initialized.
        Query::Flags => libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags }),
        // SAFETY: as above.
        Query::Mtu => unsafe { request.ifr_ifru.ifru_mtu },
        Query::Tso => value.data as libc::c_int,
    })
}

/// True if the interface is up, with or without a carrier.
pub fn is_up(name: &str) -> bool {
    query(name, Query::Flags).is_ok_and(|flags| flags & libc::IFF_UP != 0)
}

/// True if the interface is up and has a carrier.
pub fn link_is_up(name: &str) -> bool {
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    query(name, Query::Flags).is_ok_and(|flags| flags & running == running)
}

/// Largest packet the interface carries, without Ethernet header.
pub fn mtu(name: &str) -> io::Result<usize> {
    query(name, Query::Mtu).map(|mtu| mtu.max(0) as usize)
}

/// True if the interface takes several TCP segments as one frame (TCP segmentation offload).
pub fn takes_segments(name: &str) -> io::Result<bool> {
    query(name, Query::Tso).map(|value| value != 0)
}
