//! AF_PACKET sockets: the only place that talks to the kernel about them.
// SPDX-License-Identifier: Apache-2.0
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

// linux/if_packet.h; absent from the libc crate on some targets.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// An AF_PACKET socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    index: libc::c_int,
}

/// Index of the interface with this name in the process's network namespace.
pub fn interface_index(name: &str) -> io::Result<libc::c_int> {
    let name = CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index as libc::c_int),
    }
}

/// What an ioctl says about an interface.
enum Query {
    Flags,
    Mtu,
}

fn query(name: &str, query: Query) -> io::Result<libc::c_int> {
    // SAFETY: plain system call; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    let number = match query {
        Query::Flags => libc::SIOCGIFFLAGS,
        Query::Mtu => libc::SIOCGIFMTU,
    };
    // SAFETY: `request` is a valid ifreq with a NUL-terminated name; the kernel fills the union member read below.
    if unsafe { libc::ioctl(fd.as_raw_fd(), number as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match query {
        // SAFETY: the ioctl succeeded, so the member that belongs to it is initialized.
        Query::Flags => libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags }),
        // SAFETY: as above.
        Query::Mtu => unsafe { request.ifr_ifru.ifru_mtu },
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
        socket.bind(0)?;
        Ok(socket)
    }

    /// A socket on interface `index` that will receive every frame once [`PacketSocket::receive_all`] is called.
    pub fn receiver(index: libc::c_int) -> io::Result<Self> {
        let socket = Self::open(index)?;
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        Ok(socket)
    }

    fn open(index: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and is owned by nobody else.
        Ok(PacketSocket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, index })
    }

    /// Starts reception of all protocols.
    pub fn receive_all(&self) -> io::Result<()> {
        self.bind((libc::ETH_P_ALL as u16).to_be())
    }

    /// Has the interface receive what is addressed to others, too.
    pub fn be_promiscuous(&self) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    fn bind(&self, protocol_be: u16) -> io::Result<()> {
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol_be;
        address.sll_ifindex = self.index;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a sockaddr_ll of the length given.
        let result = unsafe { libc::bind(self.fd(), std::ptr::from_ref(&address).cast(), length) };
        check(result)
    }

    /// Sets a socket option to a plain C value.
    pub fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let length = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: `value` points at `length` readable bytes; the kernel checks the length against the option.
        check(unsafe { libc::setsockopt(self.fd(), level, option, std::ptr::from_ref(value).cast(), length) })
    }

    /// Takes the pending error of the socket, if any (ENETDOWN after the interface went down).
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        let target = std::ptr::from_mut(&mut error).cast();
        // SAFETY: `target` has room for the `length` bytes of a C int.
        unsafe { libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, target, &mut length) };
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// Frames that found the receive ring full since the last call.
    pub fn take_ring_drops(&self) -> u64 {
        // SAFETY: all-zero is a valid tpacket_stats.
        let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&stats) as libc::socklen_t;
        let target = std::ptr::from_mut(&mut stats).cast();
        // SAFETY: `target` has room for `length` bytes.
        let result =
            unsafe { libc::getsockopt(self.fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, target, &mut length) };
        if result == 0 {
            u64::from(stats.tp_drops)
        } else {
            0
        }
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

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
