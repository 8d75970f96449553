//! A frame as a kernel hands it over, with what it leaves to a network card.
// SPDX-License-Identifier: Apache-2.0
use super::checksum::Partial;

/// A received frame, still in the ring, or a segment cut out of one.
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
    /// Several packets in one, which the sender's kernel left to its hardware to take apart, and this end does not.
    pub super_packet: bool,
}
