// SPDX-License-Identifier: Apache-2.0
//! The drop record: what the softswitch says of each packet that ends at a bottleneck's queue, and when.
//!
//! A report is of a packet that departed, so that a drop shows in the next one only, which may be seconds later or never come.
//! A record is a frame of its own in the stream of reports to a collector on the same machine; it never is on a wire. Deliberately
//! absent: where records come from and where they go.

mod fields;

pub use fields::FieldRecord;

/// Bytes of a record's frame.
pub const FRAME_BYTES: usize = ETHERNET_BYTES + 42;
const ETHERNET_BYTES: usize = 14;
/// "IEEE Std 802 - Local Experimental Ethertype".
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const VERSION: u8 = 1;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// Loss emulation, before the queue.
    LossEmulation = 1,
    /// Queue management, on arrival or at departure.
    Management = 2,
    /// The queue was full: the arriving packet, or one that waited and made room for it.
    #[default]
    Full = 3,
    /// A policer in front of the queue.
    Policer = 4,
    /// An acknowledgement that waited, and that a later one made redundant.
    AckFilter = 5,
    /// The ingress of a program that is not ours, whatever its reason.
    ProgramIngress = 6,
    /// The egress of such a program.
    ProgramEgress = 7,
}

impl Cause {
    /// The cause with this number; `None` if there is none.
    pub fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Cause::LossEmulation),
            2 => Some(Cause::Management),
            3 => Some(Cause::Full),
            4 => Some(Cause::Policer),
            5 => Some(Cause::AckFilter),
            6 => Some(Cause::ProgramIngress),
            7 => Some(Cause::ProgramEgress),
            _ => None,
        }
    }
}

/// A packet that was dropped. Flow, signature and bottleneck are those of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropRecord {
    pub cause: Cause,
    pub bottleneck: u8,
    pub flow: u16,
    pub signature: u32,
    /// Ethernet frame without preamble, gap and FCS, in bytes.
    pub packet_length: u16,
    /// When it was dropped, in ns of the switch's clock (48 bits).
    pub timestamp: u64,
    /// How long it had waited in the queue, in ns (48 bits).
    pub waited: u64,
    /// What waited in the queue just after the drop.
    pub depth_bytes: u32,
    pub depth_packets: u32,
}

impl DropRecord {
    /// The record as a frame; numbers wider than their field are cut to it.
    pub fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        let mut at = ETHERNET_BYTES - ETHERTYPE.len();
        let mut put = |value: u64, bytes: usize| {
            frame[at..at + bytes].copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
            at += bytes;
        };
        put(u64::from(u16::from_be_bytes(ETHERTYPE)), 2);
        put(u64::from(VERSION), 1);
        put(self.cause as u64, 1);
        put(u64::from(self.bottleneck), 2);
        put(u64::from(self.flow), 4);
        put(u64::from(self.signature), 4);
        put(u64::from(self.packet_length), 4);
        put(self.timestamp, 8);
        put(self.waited, 8);
        put(u64::from(self.depth_bytes), 4);
        put(u64::from(self.depth_packets), 6);
        frame
    }

    /// The record in a frame; `None` if there is none of this version.
    #[inline]
    pub fn decode(frame: &[u8]) -> Option<Self> {
        if frame.len() != FRAME_BYTES || frame[ETHERNET_BYTES - 2..ETHERNET_BYTES] != ETHERTYPE {
            return None;
        }
        let mut at = ETHERNET_BYTES;
        let mut take = |bytes: usize| {
            let value = frame[at..at + bytes].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            at += bytes;
            value
        };
        if take(1) != u64::from(VERSION) {
            return None;
        }
        Some(DropRecord {
            cause: Cause::of(take(1) as u8)?,
            bottleneck: take(2) as u8,
            flow: take(4) as u16,
            signature: take(4) as u32,
            packet_length: take(4) as u16,
            timestamp: take(8),
            waited: take(8),
            depth_bytes: take(4) as u32,
            depth_packets: take(6) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: DropRecord = DropRecord {
        cause: Cause::Management,
        bottleneck: 3,
        flow: 0x0506,
        signature: 0x0708_090a,
        packet_length: 1514,
        timestamp: 0x0b0c_0d0e_0f10,
        waited: 0x1112_1314_1516,
        depth_bytes: 0x1718_191a,
        depth_packets: 100,
    };

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(DropRecord::decode(&RECORD.encode()), Some(RECORD));
        let program = [Cause::ProgramIngress, Cause::ProgramEgress];
        for cause in program.into_iter().chain([Cause::LossEmulation, Cause::Full, Cause::Policer, Cause::AckFilter]) {
            let record = DropRecord { cause, ..RECORD };
            assert_eq!(DropRecord::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn any_other_frame_is_none() {
        let frame = RECORD.encode();
        for length in 0..FRAME_BYTES {
            assert_eq!(DropRecord::decode(&frame[..length]), None);
        }
        // Ethertype, version, cause.
        for at in [12, 13, 14, 15] {
            let mut other = frame;
            other[at] ^= 0x80;
            assert_eq!(DropRecord::decode(&other), None, "byte {at}");
        }
    }
}
