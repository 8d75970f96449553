// SPDX-License-Identifier: Apache-2.0
//! Packets that are not in use at the moment.

use narrows_interpreter::packet::{made_for, Packet as Inner};
use narrows_program::field::TAIL;
use narrows_program::Program;

use crate::packet::Packet;

/// Recycles packets so that nothing is allocated in steady state.
///
/// Buffers come in several sizes, so that a long queue of small packets does not occupy the memory of large ones.
// A packet is large and moves between queues: its box is what is pooled.
#[allow(clippy::vec_box)]
#[derive(Debug, Default)]
pub struct PacketPool {
    headroom: usize,
    /// The program whose packets these are.
    made_for: u16,
    /// By size.
    free: [Vec<Box<Packet>>; 3],
}

/// Bytes of a frame that buffers of each size hold at least; longer frames grow the largest ones.
const SIZES: [usize; 3] = [128, 256, 1600];

impl PacketPool {
    /// A pool for packets of `program`.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        Self { headroom: program.headroom, made_for: made_for(program), ..Self::default() }
    }

    /// A packet with room for a frame of `length` bytes (at most 60,000), whose content is arbitrary: fill all of
    /// [`Packet::bytes_mut`].
    #[inline]
    #[must_use]
    pub fn take(&mut self, length: usize) -> Box<Packet> {
        self.take_beginning(length, length)
    }

    /// The same for a frame of which only the first `held` bytes matter, as many as the program may parse at least
    /// ([`crate::Program::parsed_bytes`]): the packet has no room for the others.
    #[inline(always)]
    #[must_use]
    pub fn take_beginning(&mut self, length: usize, held: usize) -> Box<Packet> {
        let mut packet = self.blank(held.min(length));
        packet.0.set_frame(self.headroom, length, held);
        packet
    }

    /// A packet with a buffer for about `length` bytes, but without a frame: for [`crate::Pipeline::clone_ingress`] and
    /// [`crate::Pipeline::clone_egress`], which overwrite all of it.
    #[inline]
    #[must_use]
    pub fn blank(&mut self, length: usize) -> Box<Packet> {
        let size = usize::from(length > SIZES[0]) + usize::from(length > SIZES[1]);
        let free = &mut self.free[size];
        let packet = free.pop();
        // The next ones may have left the processor's caches since they were given back.
        if let [.., far, _, near] = &free[..] {
            far.prefetch();
            near.0.prefetch_room();
        }
        packet.unwrap_or_else(|| self.make(size))
    }

    #[cold]
    fn make(&self, size: usize) -> Box<Packet> {
        Box::new(Packet(Inner::new(self.headroom + SIZES[size] + TAIL, self.made_for)))
    }

    /// A packet that holds a copy of `frame`.
    #[must_use]
    pub fn packet(&mut self, frame: &[u8]) -> Box<Packet> {
        let mut packet = self.take(frame.len());
        packet.bytes_mut().copy_from_slice(frame);
        packet
    }

    /// Gives a packet back. One of another pool's program is not used again.
    #[inline]
    pub fn give(&mut self, packet: Box<Packet>) {
        if packet.0.made_for != self.made_for {
            return abandon(packet);
        }
        let room = packet.0.buffer.len().saturating_sub(self.headroom + TAIL);
        let size = usize::from(room >= SIZES[1]) + usize::from(room >= SIZES[2]);
        self.free[size].push(packet);
    }
}

/// A packet of a program that is not in use any more.
#[cold]
#[inline(never)]
fn abandon(packet: Box<Packet>) {
    drop(packet);
}
