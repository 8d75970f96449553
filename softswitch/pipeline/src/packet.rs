// SPDX-License-Identifier: Apache-2.0
//! A packet as users of a pipeline see it.

use narrows_interpreter::packet::{Instance, Note, Packet as Inner};

/// A packet between ingress and egress: its bytes, where its headers are, and the metadata that egress still reads.
///
/// Only pipelines look inside: native code relies on what they left there.
#[derive(Debug, Clone)]
#[repr(transparent)]
pub struct Packet(pub(crate) Inner);

impl Packet {
    /// The frame: what was received, until [`crate::Pipeline::deparse`] has run, then what is to be sent. Of a packet from
    /// [`crate::PacketPool::take_beginning`] these are the bytes that are stored.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The frame's bytes, to be filled by a receiver after [`crate::PacketPool::take`].
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    /// Length of [`Packet::bytes`] including the bytes of the frame that are not stored.
    #[inline]
    #[must_use]
    pub fn frame_length(&self) -> u32 {
        self.0.frame_length()
    }

    /// What queues account of the frame, in bytes. Before [`crate::Pipeline::ingress`] this is what was received; between ingress
    /// and egress it is the length as it came out of ingress, which queues account: v1model's `packet_length` without
    /// headers that only carry the fields of the traffic manager (those with an alias `narrows.*`).
    #[inline]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.0.length
    }

    /// The value of the field with alias `narrows.flow` at the end of ingress; 0 if the program has none.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> u32 {
        self.0.flow
    }

    /// What was kept with this packet last; nothing takes it away.
    #[inline]
    #[must_use]
    pub fn note(&self) -> &Note {
        &self.0.note
    }

    /// Keeps a note with this packet, whose flow is [`Packet::flow`] from now on.
    #[inline]
    pub fn set_note(&mut self, note: Note) {
        self.0.flow = u32::from(note.flow);
        self.0.note = note;
    }

    /// How this packet came to be.
    #[inline]
    #[must_use]
    pub fn instance(&self) -> Instance {
        self.0.instance
    }

    /// Clones between the packet that came in and this one.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u8 {
        self.0.generation
    }

    /// Says that the packet will be processed soon: its description is prefetched.
    #[inline]
    pub fn prefetch(&self) {
        self.0.prefetch();
    }

    /// Says that the packet will be sent soon: what will be sent is prefetched. Its description should be there.
    #[inline]
    pub fn prefetch_bytes(&self) {
        self.0.prefetch_bytes();
    }
}
