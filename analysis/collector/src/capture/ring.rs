// SPDX-License-Identifier: Apache-2.0
//! Frames from an interface through a TPACKET_V3 ring: the kernel fills blocks, one wakeup hands over a whole block.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::signals::StopSignal;

const BLOCK_BYTES: usize = 1 << 20;
const FRAME_BYTES: usize = 2048;
/// A block that is not full is handed over after this time.
pub const RETIRE_MS: u32 = 50;
/// Captured bytes a frame: reports are shorter, a frame that should have been truncated must not fill the ring.
const SNAPSHOT_BYTES: u32 = 512;

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A block may be ready, or the time is over.
    Packets,
    /// The process was asked to stop.
    Stop,
}

/// A receive ring bound to one interface.
pub struct Ring {
    socket: OwnedFd,
    memory: Mapping,
    blocks: usize,
    next_block: usize,
    dropped: u64,
}

impl Ring {
    /// Opens a ring of `mebibytes` blocks of 1 MiB on `interface` of the current network namespace.
    ///
    /// # Errors
    /// Names the step that the system refused.
    pub fn open(interface: &str, mebibytes: usize) -> Result<Self, String> {
        let step = |what: &'static str| {
            move |e: io::Error| format!("interface {interface}: cannot {what}: {e}")
        };
        let index = interface_index(interface)?;
        // Protocol 0: nothing is received before the bind below, so no frame of another interface gets in.
        // SAFETY: socket() passes no memory; the result is checked before it is owned.
        let descriptor =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if descriptor < 0 {
            return Err(step("open a packet socket (CAP_NET_RAW is needed)")(
                io::Error::last_os_error(),
            ));
        }
        // SAFETY: the descriptor is new and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )
        .map_err(step("use TPACKET_V3"))?;
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &1_i32,
        )
        .map_err(step("ignore outgoing frames"))?;
        attach_snapshot_filter(&socket).map_err(step("limit the captured length"))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: mebibytes as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (mebibytes * BLOCK_BYTES / FRAME_BYTES) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(step("allocate the ring"))?;
        let memory =
            Mapping::new(&socket, mebibytes * BLOCK_BYTES).map_err(step("map the ring"))?;
        bind(&socket, index).map_err(step("bind"))?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            &promiscuous,
        )
        .map_err(step("set promiscuous mode"))?;
        Ok(Ring {
            socket,
            memory,
            blocks: mebibytes,
            next_block: 0,
            dropped: 0,
        })
    }

    /// Waits until a block is ready, `timeout_ms` passed or `stop` is raised.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub fn wait(&self, stop: &StopSignal, timeout_ms: i32) -> io::Result<Wake> {
        let entry = |descriptor| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = [entry(self.socket.as_raw_fd()), entry(stop.as_raw_fd())];
        // SAFETY: `entries` is live for the call and its length is passed.
        let ready = unsafe {
            libc::poll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                timeout_ms,
            )
        };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(Wake::Packets)
            } else {
                Err(error)
            };
        }
        if entries[0].revents & libc::POLLERR != 0 {
            // The interface went down; reading the error clears it, and frames come again once it is up.
            let mut error: libc::c_int = 0;
            get_option(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
        }
        Ok(if entries[1].revents != 0 {
            Wake::Stop
        } else {
            Wake::Packets
        })
    }

    /// Hands every frame of every ready block to `take`, with its original length.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        for _ in 0..self.blocks {
            let Some(block) = self.memory.block(self.next_block) else {
                return;
            };
            block.frames(&mut take);
            block.release();
            self.next_block = (self.next_block + 1) % self.blocks;
        }
    }

    /// Frames that the kernel had no room for since the ring was opened.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn dropped(&mut self) -> io::Result<u64> {
        // SAFETY: an all-zero tpacket_stats_v3 is a valid value of that plain structure.
        let mut statistics: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        get_option(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            &mut statistics,
        )?;
        // Reading resets the kernel's count.
        self.dropped += u64::from(statistics.tp_drops);
        Ok(self.dropped)
    }
}

/// The mapped ring.
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; moving it to another thread moves the only user.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(socket: &OwnedFd, length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            start: start.cast(),
            length,
        })
    }

    /// Block `index` if the kernel has handed it over.
    fn block(&self, index: usize) -> Option<Block<'_>> {
        let offset = index * BLOCK_BYTES;
        if offset + BLOCK_BYTES > self.length {
            return None;
        }
        // SAFETY: the block lies within the mapping, which lives as long as `self`; blocks are page-aligned.
        let block = Block {
            start: unsafe { self.start.add(offset) },
            mapping: std::marker::PhantomData,
        };
        (block.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(block)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// A block that user space owns until [`Block::release`].
struct Block<'a> {
    start: *mut u8,
    mapping: std::marker::PhantomData<&'a Mapping>,
}

impl Block<'_> {
    fn header(&self) -> *mut libc::tpacket_hdr_v1 {
        let descriptor: *mut libc::tpacket_block_desc = self.start.cast();
        // SAFETY: `start` is the aligned start of a block, which begins with its descriptor.
        unsafe { &raw mut (*descriptor).hdr.bh1 }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status word is aligned, lives as long as the mapping, and kernel and user change it atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).block_status) }
    }

    fn frames(&self, take: &mut impl FnMut(&[u8])) {
        // SAFETY: the block is ours (status USER was loaded with Acquire), so its header is not written meanwhile.
        let (count, mut offset) = unsafe {
            let header = self.header();
            ((*header).num_pkts, (*header).offset_to_first_pkt as usize)
        };
        for _ in 0..count {
            if offset + size_of::<libc::tpacket3_hdr>() > BLOCK_BYTES {
                return;
            }
            // SAFETY: checked to lie within the block; the kernel aligns frame headers.
            let frame = unsafe { ptr::read(self.start.add(offset).cast::<libc::tpacket3_hdr>()) };
            let start = offset + usize::from(frame.tp_mac);
            let length = frame.tp_snaplen as usize;
            if start + length <= BLOCK_BYTES {
                // SAFETY: within the block, which stays ours until `release`; the kernel does not write it meanwhile.
                take(unsafe { std::slice::from_raw_parts(self.start.add(start), length) });
            }
            if frame.tp_next_offset == 0 {
                return;
            }
            offset += frame.tp_next_offset as usize;
        }
    }

    fn release(self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

fn interface_index(interface: &str) -> Result<libc::c_int, String> {
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

fn bind(socket: &OwnedFd, index: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is a valid value of that plain structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
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

/// A filter that accepts every frame and cuts it to [`SNAPSHOT_BYTES`].
fn attach_snapshot_filter(socket: &OwnedFd) -> io::Result<()> {
    let mut program = [libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: SNAPSHOT_BYTES,
    }];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // `program` lives until the kernel has copied it in this call.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn set_option<T>(
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

fn get_option<T>(
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
