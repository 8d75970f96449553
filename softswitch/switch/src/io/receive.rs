//! Receive ring (TPACKET_V2) of one interface: frames with their arrival times, read in place.
//!
//! V2 rather than V3: a V3 block is passed on when it is full or its timer expires, which adds milliseconds at low rates;
//! a V2 frame is visible as soon as the kernel has written it.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use narrows_packet_sockets::Mapping;

use super::checksum::Partial;
use super::clock::WallOffset;
use super::socket::PacketSocket;
use super::vnet::{VnetHeader, PACKET_VNET_HDR};

/// Ring slots are allocated by the kernel in blocks of this size.
const BLOCK: usize = 1 << 20;
const PAGE: usize = 4096;
const ALIGNMENT: usize = 16;
/// The kernel leaves room for a link-layer header of this length, and for the address behind the slot's header.
const MIN_HEADER: usize = 16;

fn align(size: usize) -> usize {
    size.div_ceil(ALIGNMENT) * ALIGNMENT
}

/// Bytes in front of the frame in a slot: `tp_mac` as the kernel computes it for Ethernet, rounded up.
fn slot_header() -> usize {
    let header = align(size_of::<libc::tpacket2_hdr>()) + size_of::<libc::sockaddr_ll>();
    align(align(header) + MIN_HEADER) + ALIGNMENT
}

/// Writes every page as it is, so that the kernel sees all of them alike. In a User-Mode Linux guest neighbours are one
/// mapping of the machine's then; it allows a process a limited number, and pages that were only read count apart.
fn touch(memory: &Mapping) {
    for offset in (0..memory.length()).step_by(PAGE) {
        // SAFETY: within the mapping, which may be written to, and aligned; whoever else writes there does so after this.
        unsafe {
            let byte = memory.start().add(offset);
            byte.write_volatile(byte.read_volatile());
        }
    }
}

/// A received frame, still in the ring.
#[derive(Debug)]
pub struct Frame<'r> {
    /// The frame as the kernel delivers it, as far as its slot holds it: without the outer VLAN tag if `vlan` holds one.
    pub bytes: &'r [u8],
    /// Length of the whole.
    pub length: usize,
    /// Outer VLAN tag (TPID, TCI) that the kernel moved out of the frame.
    pub vlan: Option<(u16, u16)>,
    /// The checksum that the sender's kernel left to its hardware; offsets are those of `bytes`.
    pub partial_checksum: Option<Partial>,
    /// Several packets in one, which the sender's kernel left to its hardware to take apart.
    pub super_packet: bool,
}

/// The ring, mapped; owns its socket.
#[derive(Debug)]
pub struct ReceiveRing {
    socket: PacketSocket,
    memory: Mapping,
    slot_size: usize,
    slots_per_block: usize,
    slots: usize,
    head: usize,
}

impl ReceiveRing {
    /// A ring of about `ring_bytes` for the first `held` bytes of each frame of `socket`'s interface; they come in once it listens.
    pub fn new(socket: PacketSocket, ring_bytes: usize, held: usize) -> io::Result<Self> {
        let slot_size = align(slot_header() + VnetHeader::BYTES + held);
        let blocks = ring_bytes.div_ceil(BLOCK).max(1);
        let slots_per_block = BLOCK / slot_size;
        let slots = blocks * slots_per_block;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        // In front of each frame is what the sender's kernel left to do: the frame's own headers say nothing of that.
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_size as u32,
            tp_frame_nr: slots as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::of(socket.fd(), blocks * BLOCK, 0)?;
        touch(&memory);
        socket.be_promiscuous()?;
        Ok(ReceiveRing { socket, memory, slot_size, slots_per_block, slots, head: 0 })
    }

    /// Lets frames come in. Takes no time.
    pub fn listen(&self) -> io::Result<()> {
        self.socket.receive_all()
    }

    /// The ring's socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    #[inline]
    fn slot(&self) -> *mut libc::tpacket2_hdr {
        let offset = self.head / self.slots_per_block * BLOCK + self.head % self.slots_per_block * self.slot_size;
        // SAFETY: `head` is below `slots`, so the offset lies within the mapping with room for a whole slot.
        unsafe { self.memory.start().add(offset).cast() }
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: tp_status is the first, aligned u32 of the slot; kernel and user space share it by atomic access only.
        unsafe { AtomicU32::from_ptr(ptr::addr_of_mut!((*self.slot()).tp_status)) }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }

    /// When the oldest frame was received, on the switch clock, and its length in bytes; `None` if the ring is empty.
    #[inline]
    pub fn head(&self, offset: WallOffset) -> Option<(u64, u32)> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the kernel has handed the slot over (acquired above) and writes it no more.
        let header = unsafe { &*self.slot() };
        Some((offset.to_switch(header.tp_sec, header.tp_nsec), header.tp_len))
    }

    /// Passes the oldest frame to `take`, then gives its slot back. `None` if the ring is empty.
    #[inline]
    pub fn take<R>(&mut self, take: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.slot();
        // SAFETY: the kernel has handed the slot over (acquired above) and writes it no more.
        let header = unsafe { &*slot };
        let start = usize::from(header.tp_mac).clamp(VnetHeader::BYTES, self.slot_size);
        let length = (header.tp_snaplen as usize).min(self.slot_size - start);
        // SAFETY: start + length is within the slot, by the two bounds above.
        let bytes = unsafe { slice::from_raw_parts(slot.cast::<u8>().add(start), length) };
        // SAFETY: `start` is at least VnetHeader::BYTES, and the slot begins that many bytes before or earlier.
        let left_to_do = VnetHeader::from(unsafe {
            slot.cast::<u8>().add(start - VnetHeader::BYTES).cast::<[u8; VnetHeader::BYTES]>().read()
        });
        let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
            (tpid, header.tp_vlan_tci)
        });
        let result = take(Frame {
            bytes,
            length: header.tp_len as usize,
            vlan,
            partial_checksum: left_to_do.checksum(),
            super_packet: left_to_do.is_several(),
        });
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = if self.head + 1 == self.slots { 0 } else { self.head + 1 };
        Some(result)
    }
}
