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

use super::clock::WallOffset;
use super::frame::Frame;
use super::segmentation::Segmenter;
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

/// The ring's memory, and the slot that is next.
#[derive(Debug)]
struct Slots {
    memory: Mapping,
    slot_size: usize,
    slots_per_block: usize,
    slots: usize,
    head: usize,
}

impl Slots {
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

    /// The slot's header, if the kernel has handed it over.
    #[inline]
    fn header(&self) -> Option<&libc::tpacket2_hdr> {
        let is_ours = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        // SAFETY: the kernel has handed the slot over (acquired above) and writes it no more.
        is_ours.then(|| unsafe { &*self.slot() })
    }

    /// The frame in the slot, and what the sender's kernel left to do.
    #[inline]
    fn frame(&self, header: &libc::tpacket2_hdr) -> (VnetHeader, Frame<'_>) {
        let slot = self.slot().cast::<u8>();
        let start = usize::from(header.tp_mac).clamp(VnetHeader::BYTES, self.slot_size);
        let length = (header.tp_snaplen as usize).min(self.slot_size - start);
        // SAFETY: start + length is within the slot, by the two bounds above; it is ours, as there is a header of it.
        let bytes = unsafe { slice::from_raw_parts(slot.add(start), length) };
        // SAFETY: `start` is at least VnetHeader::BYTES, and the slot begins that many bytes before or earlier.
        let left_to_do =
            VnetHeader::from(unsafe { slot.add(start - VnetHeader::BYTES).cast::<[u8; VnetHeader::BYTES]>().read() });
        let vlan = (header.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let tpid =
                if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
            (tpid, header.tp_vlan_tci)
        });
        let frame = Frame {
            bytes,
            length: header.tp_len as usize,
            vlan,
            partial_checksum: left_to_do.checksum(),
            super_packet: left_to_do.is_several(),
        };
        (left_to_do, frame)
    }

    /// Gives the slot back to the kernel.
    #[inline]
    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = if self.head + 1 == self.slots { 0 } else { self.head + 1 };
    }
}

/// The ring, mapped; owns its socket.
#[derive(Debug)]
pub struct ReceiveRing {
    socket: PacketSocket,
    slots: Slots,
    /// Cuts frames of several segments, if that is left to this end.
    segmenter: Option<Segmenter>,
}

impl ReceiveRing {
    /// A ring of about `ring_bytes` for the first `held` bytes of each frame of `socket`'s interface; they come in once it listens.
    /// With `tso`, TCP segments that come as one frame are frames of their own.
    pub fn new(socket: PacketSocket, ring_bytes: usize, held: usize, tso: bool) -> io::Result<Self> {
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
        let slots = Slots { memory, slot_size, slots_per_block, slots, head: 0 };
        Ok(ReceiveRing { socket, slots, segmenter: tso.then(Segmenter::default) })
    }

    /// Lets frames come in. Takes no time.
    pub fn listen(&self) -> io::Result<()> {
        self.socket.receive_all()
    }

    /// The ring's socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// When the oldest frame was received, on the switch clock, and its length in bytes; `None` if the ring is empty.
    #[inline]
    pub fn head(&mut self, offset: WallOffset) -> Option<(u64, u32)> {
        let header = self.slots.header()?;
        let segment = match &mut self.segmenter {
            Some(segmenter) => segmenter.next_length(self.slots.frame(header)),
            None => None,
        };
        let received_ns = offset.to_switch(header.tp_sec, header.tp_nsec);
        Some((received_ns, segment.unwrap_or(header.tp_len)))
    }

    /// Passes the oldest frame, which [`ReceiveRing::head`] has told of, to `take`, then gives its slot back. `None` if the ring is
    /// empty.
    #[inline]
    pub fn take<R>(&mut self, take: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let (_, frame) = self.slots.frame(self.slots.header()?);
        let (result, is_last) = match &mut self.segmenter {
            Some(segmenter) => segmenter.take(frame, take),
            None => (take(frame), true),
        };
        if is_last {
            self.slots.release();
        }
        Some(result)
    }
}
