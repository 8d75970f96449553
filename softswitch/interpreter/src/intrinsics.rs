// SPDX-License-Identifier: Apache-2.0
//! Reading and writing the fields that the architecture shares with the program.

use narrows_program::intrinsics::Intrinsic;

use crate::frame::Frame;
use crate::packet::Packet;

/// Access to a field of the architecture. One that the program lacks, or whose header is invalid, reads as 0, and writing to
/// it does nothing.
pub trait Access {
    fn get(self, frame: &Frame, packet: &Packet) -> u64;
    fn set(self, frame: &mut Frame, packet: &mut Packet, value: u64);
}

impl Access for Intrinsic {
    #[inline(always)]
    fn get(self, frame: &Frame, packet: &Packet) -> u64 {
        match self {
            Intrinsic::Absent => 0,
            Intrinsic::Slot { slot, .. } => frame[usize::from(slot)],
            Intrinsic::Header { header, byte, count } => packet.read_bytes(header, byte, usize::from(count)) as u64,
        }
    }

    #[inline(always)]
    fn set(self, frame: &mut Frame, packet: &mut Packet, value: u64) {
        match self {
            Intrinsic::Absent => {}
            Intrinsic::Slot { slot, mask } => frame[usize::from(slot)] = value & mask,
            Intrinsic::Header { header, byte, count } => {
                packet.write_bytes(header, byte, value, usize::from(count));
            }
        }
    }
}
