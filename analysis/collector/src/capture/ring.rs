// SPDX-License-Identifier: Apache-2.0
//! Frames from an interface through a TPACKET_V3 ring: the kernel fills blocks, and one wakeup passes on a whole block.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use narrows_packet_sockets::{be_promiscuous, bind, get, open, set, Mapping};

use super::interface_index;
use super::signals::{poll, Signals};

/// A frame in the ring, and when the kernel received it (nanoseconds since 1970).
pub struct Captured<'a> {
    pub frame: &'a [u8],
    pub time: u64,
}

const BLOCK_BYTES: usize = 1 << 20;
const FRAME_BYTES: usize = 2048;
/// A block that is not full is passed on after this time.
pub const RETIRE_MS: u32 = 50;
/// Captured bytes a frame: reports are shorter, and a frame that should have been truncated must not fill the ring.
const SNAPSHOT_BYTES: u32 = 512;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A block may be ready, or the time is over.
    Packets,
    /// The process was asked to stop.
    Stop,
    /// A reader waits for what was received until now.
    Demand,
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
        let ring = Ring::open_deaf(interface, mebibytes)?;
        ring.listen(interface)?;
        Ok(ring)
    }

    /// Opens `count` rings of `mebibytes` blocks each that share the frames of `interface`: each frame goes to one of
    /// them, in turn, or to another one while that one is full.
    ///
    /// # Errors
    /// Names the step that the system refused.
    pub fn open_shared(interface: &str, mebibytes: usize, count: usize) -> Result<Vec<Self>, String> {
        let mut rings: Vec<Ring> = Vec::with_capacity(count);
        for _ in 0..count {
            let ring = Ring::open_deaf(interface, mebibytes)?;
            join(&ring.socket, rings.first().map(|first| &first.socket))
                .map_err(|e| format!("interface {interface}: cannot share it among rings: {e}"))?;
            rings.push(ring);
        }
        // Only now: a ring that is not in the group yet would receive frames that others receive as well.
        for ring in &rings {
            ring.listen(interface)?;
        }
        Ok(rings)
    }

    /// A ring that receives no frames before [`Ring::listen`].
    fn open_deaf(interface: &str, mebibytes: usize) -> Result<Self, String> {
        let step = |what: &'static str| move |e: io::Error| format!("interface {interface}: cannot {what}: {e}");
        let index = interface_index(interface)?;
        let socket = open(0).map_err(step("open a packet socket (CAP_NET_RAW is needed)"))?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))
            .map_err(step("use TPACKET_V3"))?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32).map_err(step("ignore outgoing frames"))?;
        attach_filter(&socket, 0).map_err(step("wait with the first frame"))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: mebibytes as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (mebibytes * BLOCK_BYTES / FRAME_BYTES) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(step("allocate the ring"))?;
        let memory = Mapping::of(socket.as_raw_fd(), mebibytes * BLOCK_BYTES, 0).map_err(step("map the ring"))?;
        bind(&socket, index, libc::ETH_P_ALL as u16).map_err(step("bind"))?;
        be_promiscuous(&socket, index).map_err(step("set promiscuous mode"))?;
        Ok(Ring { socket, memory, blocks: mebibytes, next_block: 0, dropped: 0 })
    }

    fn listen(&self, interface: &str) -> Result<(), String> {
        attach_filter(&self.socket, SNAPSHOT_BYTES)
            .map_err(|e| format!("interface {interface}: cannot limit the captured length: {e}"))
    }

    /// Waits until a block is ready, `timeout_ms` passed or `stop` is raised.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub fn wait(&self, signals: Option<&Signals>, timeout_ms: i32) -> io::Result<Wake> {
        let (stop, demand) = signals.map_or((-1, -1), |one| (one.stop.as_raw_fd(), one.demand.as_raw_fd()));
        let [packets, stop, demand] = poll([self.socket.as_raw_fd(), stop, demand], timeout_ms)?;
        if packets & libc::POLLERR != 0 {
            // The interface went down; reading the error clears it, and frames come again once it is up.
            // SAFETY: any bytes are a valid integer.
            unsafe { get::<libc::c_int>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR) }?;
        }
        Ok(match (stop, demand) {
            (0, 0) => Wake::Packets,
            (0, _) => Wake::Demand,
            _ => Wake::Stop,
        })
    }

    /// Passes every frame of every ready block to `take`; false if no block was ready.
    pub fn drain(&mut self, mut take: impl FnMut(&Captured<'_>)) -> bool {
        let mut any = false;
        for _ in 0..self.blocks {
            if !self.drain_block(&mut take) {
                return any;
            }
            any = true;
        }
        any
    }

    /// Passes every frame of the next block to `take`; false if that block is not ready.
    pub fn drain_block(&mut self, take: &mut impl FnMut(&Captured<'_>)) -> bool {
        let Some(block) = self.block() else {
            return false;
        };
        block.frames(take);
        block.release();
        self.next_block = (self.next_block + 1) % self.blocks;
        true
    }

    /// The next block, if the kernel has released it.
    fn block(&self) -> Option<Block<'_>> {
        let offset = self.next_block * BLOCK_BYTES;
        if offset + BLOCK_BYTES > self.memory.length() {
            return None;
        }
        // SAFETY: the block lies within the mapping, which lives as long as `self`; blocks are page-aligned.
        let start = unsafe { self.memory.start().add(offset) };
        let block = Block { start, mapping: std::marker::PhantomData };
        (block.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(block)
    }

    /// Frames that did not fit into the ring since it was opened.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn dropped(&mut self) -> io::Result<u64> {
        // SAFETY: any bytes are a valid value of that plain structure.
        let statistics: libc::tpacket_stats_v3 =
            unsafe { get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) }?;
        // Reading resets the kernel's count.
        self.dropped += u64::from(statistics.tp_drops);
        Ok(self.dropped)
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

    fn frames(&self, take: &mut impl FnMut(&Captured<'_>)) {
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
                take(&Captured {
                    // SAFETY: within the block, ours until `release`; the kernel does not write it meanwhile.
                    frame: unsafe { std::slice::from_raw_parts(self.start.add(start), length) },
                    time: u64::from(frame.tp_sec) * 1_000_000_000 + u64::from(frame.tp_nsec),
                });
            }
            if frame.tp_next_offset == 0 {
                return;
            }
            offset += frame.tp_next_offset as usize;
        }
    }

    fn release(self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// Adds a socket to the group that `first` is in, or to a new one.
fn join(socket: &OwnedFd, first: Option<&OwnedFd>) -> io::Result<()> {
    // The group has a separate option for outgoing frames.
    let how = libc::PACKET_FANOUT_LB | libc::PACKET_FANOUT_FLAG_ROLLOVER | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    let option = match first {
        None => (how | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
        Some(first) => {
            // SAFETY: any bytes are a valid integer.
            let group: u32 = unsafe { get(first, libc::SOL_PACKET, libc::PACKET_FANOUT) }?;
            how << 16 | group & 0xffff
        }
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &option)
}

/// A filter that cuts every frame to `bytes`; with 0 no frame is received.
fn attach_filter(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: bytes }];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // `program` lives until the kernel has copied it in this call.
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}
