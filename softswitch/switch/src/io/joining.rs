//! One frame for several TCP segments of a flow that follow one another, as Linux's GRO makes and a card or a kernel cuts it.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Packet;

use super::tcp::{TcpFrame, ACK, CWR, ECE, FIN, PSH};
use super::vnet::VnetHeader;

/// Longest IP packet.
const MAX_PACKET: usize = 0xffff;
/// Feedback of congestion, which joined segments have in common: with the flag before them (AE), which is among the constant
/// parts, they are the counter of accurate ECN (draft-ietf-tcpm-accurate-ecn, 2.2).
const FEEDBACK: u8 = CWR | ECE;
/// Flags of the last segment, which the joined one has too.
const LAST: u8 = PSH | FIN;

/// What joined segments are so far.
#[derive(Debug)]
pub struct Joined {
    /// Where the parts of each are.
    pub parts: TcpFrame,
    /// Payload of the first segment; none has more.
    segment: usize,
    /// Payload of all.
    total: usize,
    next_sequence: u32,
    /// Flags of the last segment.
    flags: u8,
}

impl Joined {
    /// One that begins with this segment; `None`: nothing can follow it. Marked segments stay apart: the receiver's kernel does
    /// not know of how many a frame from a packet socket consists, and would count one mark.
    pub fn beginning(packet: &Packet, parts: TcpFrame) -> Option<Self> {
        let frame = packet.bytes();
        let segment = payload_of(packet, &parts);
        let next_sequence = parts.sequence(frame).wrapping_add(segment as u32);
        let flags = parts.flags(frame);
        let can_go_on = segment > 0 && flags & !FEEDBACK == ACK && !parts.is_marked(frame);
        can_go_on.then_some(Joined { parts, segment, total: segment, next_sequence, flags })
    }

    /// True if `frame` is of the same flow as `first`.
    pub fn is_flow_of(&self, first: &[u8], frame: &[u8], parts: &TcpFrame) -> bool {
        parts.is_ipv6 == self.parts.is_ipv6 && frame[parts.flow()] == first[self.parts.flow()]
    }

    /// True if `packet` goes on where the others end, and differs from them in nothing that would be lost. Whether it is intact is
    /// for the caller to know.
    pub fn goes_on(&self, first: &[u8], packet: &Packet, parts: &TcpFrame) -> bool {
        let frame = packet.bytes();
        let payload = payload_of(packet, parts);
        *parts == self.parts
            && self.is_open()
            && parts.flags(frame) & !LAST == self.flags
            && (1..=self.segment).contains(&payload)
            && self.parts.payload + self.total + payload <= MAX_PACKET
            && parts.sequence(frame) == self.next_sequence
            && parts.constant(frame) == self.parts.constant(first)
    }

    /// Adds that packet.
    pub fn extend(&mut self, packet: &Packet) {
        let payload = payload_of(packet, &self.parts);
        self.flags = self.parts.flags(packet.bytes());
        self.total += payload;
        self.next_sequence = self.next_sequence.wrapping_add(payload as u32);
    }

    /// Whether others can follow: behind a short segment or one with PSH or FIN there are none.
    pub fn is_open(&self) -> bool {
        self.flags & LAST == 0 && self.total % self.segment == 0
    }

    /// Makes the headers of the first segment those of all, and says so to the kernel.
    pub fn finish(self, first: &mut [u8]) -> VnetHeader {
        let parts = self.parts;
        parts.set_flags(first, self.flags);
        parts.set_length(first, self.total);
        VnetHeader::joined(parts.is_ipv6, parts.payload, self.segment, parts.checksum())
    }
}

/// Bytes of a segment's payload.
fn payload_of(packet: &Packet, parts: &TcpFrame) -> usize {
    packet.frame_length() as usize - parts.payload
}
