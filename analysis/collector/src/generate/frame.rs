// SPDX-License-Identifier: Apache-2.0
//! Report frames: encapsulation, report and the original packet's headers.

use crate::wire::encapsulation::{checksum, ENCAPSULATION_BYTES};
use crate::wire::report::{Report, REPORT_BYTES};

/// The most bytes of a report frame: the switch's default.
pub const REPORT_FRAME_BYTES: usize = 184;
const ORIGINAL_BYTES: usize = REPORT_FRAME_BYTES - ENCAPSULATION_BYTES - REPORT_BYTES;

/// The form of a flow's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameOptions {
    pub ipv6: bool,
    pub vlan_tags: u8,
    pub udp: bool,
}

/// Header fields of one original packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    pub flow: u16,
    pub bottleneck: u8,
    pub payload: u16,
    pub sequence: u32,
    pub flags: u8,
    pub timestamp: u32,
}

impl FrameOptions {
    /// Bytes of the whole original frame before the payload.
    pub fn header_bytes(&self) -> u16 {
        let ip = if self.ipv6 { 40 } else { 20 };
        let transport = if self.udp { 8 } else { 32 };
        14 + 4 * u16::from(self.vlan_tags) + ip + transport
    }

    /// Appends the original packet's first bytes, as many as a report carries; the payload is zero.
    fn original(&self, packet: &Packet, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1]);
        for tag in 0..self.vlan_tags {
            let ethertype: u16 = if tag + 1 < self.vlan_tags { 0x88a8 } else { 0x8100 };
            out.extend_from_slice(&ethertype.to_be_bytes());
            out.extend_from_slice(&(100 + u16::from(tag)).to_be_bytes());
        }
        let transport: u16 = if self.udp { 8 } else { 32 };
        let protocol = if self.udp { 17 } else { 6 };
        let ends = [packet.bottleneck, (packet.flow >> 8) as u8, packet.flow as u8];
        if self.ipv6 {
            out.extend_from_slice(&[0x86, 0xdd, 0x60, 0x20, 0, 0]);
            out.extend_from_slice(&(transport + packet.payload).to_be_bytes());
            out.extend_from_slice(&[protocol, 64]);
            for side in [1, 2] {
                out.extend_from_slice(&[0xfd, side, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                out.extend_from_slice(&ends);
            }
        } else {
            out.extend_from_slice(&[0x08, 0x00, 0x45, 0x02]);
            out.extend_from_slice(&(20 + transport + packet.payload).to_be_bytes());
            out.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0, 10]);
            out.extend_from_slice(&ends);
            out.push(11);
            out.extend_from_slice(&ends);
        }
        out.extend_from_slice(&40_000_u16.wrapping_add(packet.flow).to_be_bytes());
        out.extend_from_slice(&5201_u16.to_be_bytes());
        if self.udp {
            out.extend_from_slice(&(8 + packet.payload).to_be_bytes());
            out.extend_from_slice(&[0, 0]);
        } else {
            out.extend_from_slice(&packet.sequence.to_be_bytes());
            out.extend_from_slice(&1_u32.to_be_bytes());
            out.extend_from_slice(&[0x80, packet.flags, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10]);
            out.extend_from_slice(&packet.timestamp.to_be_bytes());
            out.extend_from_slice(&7_u32.to_be_bytes());
        }
        let carried = usize::from(self.header_bytes() + packet.payload).min(ORIGINAL_BYTES);
        out.resize(start + carried, 0);
    }

    /// Replaces `out` with the report frame.
    pub fn encode(&self, report: &Report, packet: &Packet, port: u16, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&[2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1, 0x08, 0x00]);
        out.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        out.extend_from_slice(&5500_u16.to_be_bytes());
        out.extend_from_slice(&port.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0]);
        out.extend_from_slice(&report.encode());
        self.original(packet, out);
        let length = (out.len() - 14) as u16;
        out[16..18].copy_from_slice(&length.to_be_bytes());
        out[38..40].copy_from_slice(&(length - 20).to_be_bytes());
        let sum = !checksum(0, &out[14..34]);
        out[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}
