//! AF_XDP sockets for sending: frames are written to memory shared with the kernel, one system call sends all of them.
//!
//! Copy mode, so any interface will do. The memory has a fixed number of places; what they hold is one entry each of a ring
//! that this side produces and the kernel consumes. A second ring brings the places back.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use narrows_packet_sockets::{check, get, owned, set, Mapping};

/// Frames that can be on their way into one interface.
pub const PLACES: u32 = 1024;
/// Places are of half a page, or of a page for frames longer than that; the kernel allows no longer ones.
pub const PLACE_BYTES: [usize; 2] = [2048, 4096];
/// The kernel asks for a ring of places for reception, too.
const FILL: u32 = 64;
/// So that a burst is not refused for want of memory while the receiver holds what was sent before.
const SEND_BUFFER: libc::c_int = 32 << 20;

/// How an attempt to send ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Nothing is left.
    All,
    /// There is more to send.
    Part,
    /// The interface takes no more at present.
    Blocked,
    /// The interface is down or gone.
    Failed,
}

/// What may be used by several threads: the socket, and how far the kernel is.
#[derive(Debug)]
pub struct Outlet {
    fd: OwnedFd,
    ring: Ring,
    refused: AtomicU64,
    refused_bytes: AtomicU64,
    failure: AtomicI32,
    /// Set when the outlet is handed to another thread for sending, cleared by that thread.
    pub delegated: AtomicBool,
}

/// The producer's side of an outlet: belongs to one thread.
#[derive(Debug)]
pub struct XdpSender {
    outlet: Arc<Outlet>,
    completions: Ring,
    frames: Mapping,
    place_bytes: usize,
    /// Last used first: that one is in the cache.
    free: Vec<u32>,
    produced: u32,
    published: u32,
}

/// Producer and consumer counters and the entries of a ring that the kernel shares.
#[derive(Debug)]
struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
}

impl Ring {
    /// Maps a ring of `count` entries of `T`.
    fn map<T>(fd: &OwnedFd, at: &libc::xdp_ring_offset, count: u32, offset: libc::off_t) -> io::Result<Self> {
        let length = at.desc as usize + count as usize * size_of::<T>();
        let memory = Mapping::of(fd.as_raw_fd(), length, offset)?;
        let ring =
            Ring { memory, producer: at.producer as usize, consumer: at.consumer as usize, entries: at.desc as usize };
        let counters = ring.producer.max(ring.consumer) + size_of::<AtomicU32>();
        if counters > length || (ring.producer | ring.consumer) % 4 != 0 || ring.entries % align_of::<T>() != 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(ring)
    }

    #[inline]
    fn counter(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that an aligned u32 lies there within the mapping; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset).cast()) }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.counter(self.producer)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.consumer)
    }

    /// Where the entry with this running number is, in a ring of `T` with `count` entries (a power of two) as mapped.
    #[inline]
    fn entry<T>(&self, number: u32, count: u32) -> *mut T {
        let index = (number & (count - 1)) as usize;
        debug_assert!(self.entries + (index + 1) * size_of::<T>() <= self.memory.length());
        // SAFETY: `map` mapped `count` entries of `T` behind `entries`, and the index is below `count`.
        unsafe { self.memory.start().add(self.entries).cast::<T>().add(index) }
    }
}

impl XdpSender {
    /// Opens the first transmit queue of interface `index` for frames of up to `frame_bytes`.
    ///
    /// Errors: EMSGSIZE for frames longer than a page, EBUSY if another socket has that queue, and what the kernel says when it has
    /// no AF_XDP or does not permit it.
    pub fn open(index: libc::c_int, frame_bytes: usize) -> io::Result<Self> {
        let place_bytes = PLACE_BYTES.into_iter().find(|place| frame_bytes <= *place);
        let place_bytes = place_bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
        // SAFETY: passes no memory; what it opens is new.
        let fd = unsafe { owned(libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0)) }?;
        let frames = Mapping::anonymous(PLACES as usize * place_bytes)?;
        // SAFETY: all-zero is a valid value of that plain structure.
        let mut registration: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        registration.addr = frames.start() as u64;
        registration.len = frames.length() as u64;
        registration.chunk_size = place_bytes as u32;
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &FILL)?;
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &PLACES)?;
        set(&fd, libc::SOL_XDP, libc::XDP_TX_RING, &PLACES)?;
        // Allowed to root only; without it the system's default applies.
        let _ = set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        // Kernels before 5.4 have another, shorter layout.
        // SAFETY: any bytes are a valid value of that plain structure.
        let offsets: libc::xdp_mmap_offsets = unsafe { get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
        let ring = Ring::map::<libc::xdp_desc>(&fd, &offsets.tx, PLACES, libc::XDP_PGOFF_TX_RING)?;
        let place = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let completions = Ring::map::<u64>(&fd, &offsets.cr, PLACES, place)?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: index as u32,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a sockaddr_xdp of the length given.
        check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
        let outlet = Arc::new(Outlet {
            fd,
            ring,
            refused: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
            failure: AtomicI32::new(0),
            delegated: AtomicBool::new(false),
        });
        let free = (0..PLACES).collect();
        Ok(XdpSender { outlet, completions, frames, place_bytes, free, produced: 0, published: 0 })
    }

    /// The side that sends.
    #[inline]
    pub fn outlet(&self) -> &Arc<Outlet> {
        &self.outlet
    }

    /// Longest frame.
    pub fn frame_limit(&self) -> usize {
        self.place_bytes
    }

    /// Writes a frame for sending. False: no place is free, or the frame is too long.
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if frame.len() > self.place_bytes {
            return false;
        }
        let Some(place) = self.free.pop() else {
            return false;
        };
        let address = place as usize * self.place_bytes;
        // SAFETY: a free place lies within the mapping, has room for the frame, and is used by nothing else: the kernel has
        // given it back or never had it.
        let target = unsafe { slice::from_raw_parts_mut(self.frames.start().add(address), frame.len()) };
        target.copy_from_slice(frame);
        let entry = self.outlet.entry(self.produced);
        // SAFETY: the entry is within the ring; there are as many entries as places, so the kernel has consumed what this one
        // held before and does not look at it until it is published.
        unsafe {
            (*entry).addr = address as u64;
            (*entry).options = 0;
        }
        self.outlet.length(self.produced).store(frame.len() as u32, Ordering::Relaxed);
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// True if no place is free.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Frames written since the last [`XdpSender::publish`].
    #[inline]
    pub fn unpublished(&self) -> u32 {
        self.produced.wrapping_sub(self.published)
    }

    /// Shows the kernel what was written.
    #[inline]
    pub fn publish(&mut self) {
        self.published = self.produced;
        self.outlet.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Takes back the places whose frames have been sent.
    #[inline]
    pub fn reclaim(&mut self) {
        let end = self.completions.producer().load(Ordering::Acquire);
        let start = self.completions.consumer().load(Ordering::Relaxed);
        let count = end.wrapping_sub(start).min(PLACES);
        for number in 0..count {
            // SAFETY: the kernel has produced this entry (acquired above) and writes it no more until it is released below.
            let address = unsafe { self.completions.entry::<u64>(start.wrapping_add(number), PLACES).read() };
            let place = (address as usize / self.place_bytes) as u32;
            if place < PLACES && self.free.len() < PLACES as usize {
                self.free.push(place);
            }
        }
        self.completions.consumer().store(start.wrapping_add(count), Ordering::Release);
    }
}

impl Outlet {
    /// Frames that were published and not sent yet.
    #[inline]
    pub fn pending(&self) -> u32 {
        let consumed = self.ring.consumer().load(Ordering::Acquire);
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(consumed)
    }

    /// Sends what was published, as far as the interface takes it, with at most `calls` system calls. Never waits for the
    /// interface.
    pub fn send(&self, calls: u32) -> Sent {
        if self.failed() {
            return Sent::Failed;
        }
        for _ in 0..calls {
            let before = self.ring.consumer().load(Ordering::Acquire);
            if self.ring.producer().load(Ordering::Acquire) == before {
                return Sent::All;
            }
            // SAFETY: no data and no address are passed.
            let result = unsafe {
                libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            let error = if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 };
            match error {
                0 | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR => {
                    if self.ring.consumer().load(Ordering::Acquire) == before {
                        return Sent::Blocked;
                    }
                }
                libc::EBUSY => self.count_refused(before),
                _ => {
                    self.failure.store(error, Ordering::Release);
                    return Sent::Failed;
                }
            }
        }
        Sent::Part
    }

    /// The kernel stopped behind a frame that the interface threw away.
    fn count_refused(&self, before: u32) {
        let after = self.ring.consumer().load(Ordering::Acquire);
        let number = if after == before { before } else { after.wrapping_sub(1) };
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_bytes.fetch_add(self.bytes(number), Ordering::Relaxed);
    }

    #[inline]
    fn entry(&self, number: u32) -> *mut libc::xdp_desc {
        self.ring.entry(number, PLACES)
    }

    /// Length of the frame with this running number: of a later one if its entry has been used again.
    #[inline]
    fn length(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the entry is an aligned xdp_desc within the ring; this side accesses its length by this atomic only, and the kernel
        // does not write it.
        unsafe { AtomicU32::from_ptr(std::ptr::addr_of_mut!((*self.entry(number)).len)) }
    }

    fn bytes(&self, number: u32) -> u64 {
        u64::from(self.length(number).load(Ordering::Relaxed))
    }

    /// Frames and bytes that the interface threw away.
    pub fn refused(&self) -> (u64, u64) {
        (self.refused.load(Ordering::Relaxed), self.refused_bytes.load(Ordering::Relaxed))
    }

    /// True once the interface was down or gone: nothing is sent any more.
    #[inline]
    pub fn failed(&self) -> bool {
        self.failure.load(Ordering::Acquire) != 0
    }

    /// Frames and bytes that were published and not sent yet.
    pub fn waiting(&self) -> (u64, u64) {
        let (start, count) = (self.ring.consumer().load(Ordering::Acquire), self.pending().min(PLACES));
        let bytes = (0..count).map(|number| self.bytes(start.wrapping_add(number))).sum();
        (u64::from(count), bytes)
    }
}
