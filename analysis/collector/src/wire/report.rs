// SPDX-License-Identifier: Apache-2.0
//! The layout of the telemetry report: the one place in Rust that knows it.
//!
//! The header definition in the compiled P4 program is the truth; `tests/layout.rs` compares [`FIELDS`] with it.

/// Layout version; the earlier one is in `first.rs`.
pub const VERSION: u8 = 2;

/// This switch set CE on the packet.
pub const FLAG_CE_MARKED: u8 = 0x01;
/// Another flow owns this flow index: arrivals, departures and loss_drops are shared.
pub const FLAG_COLLISION: u8 = 0x02;
/// Neither IPv4 nor IPv6.
pub const FLAG_NOT_IP: u8 = 0x04;
/// The lowest bit of the ECN field with which the packet arrived.
pub const FLAG_ECN_SHIFT: u32 = 3;

/// One field of the report: name, offset from the report's first bit and width, both in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub width: usize,
}

macro_rules! report_layout {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $width:literal;)*) => {
        /// A decoded report; units are those of the target profile.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report { $($(#[$doc])* pub $name: $type,)* }

        #[allow(non_camel_case_types)]
        enum Index { $($name,)* count }

        const WIDTHS: [usize; Index::count as usize] = [$($width,)*];

        /// Every field in wire order.
        pub const FIELDS: [Field; Index::count as usize] = [
            $(Field { name: stringify!($name), offset: offset(Index::$name as usize), width: $width },)*
        ];

        impl Report {
            /// Reads the fixed header, without a check of any field.
            #[inline(always)]
            pub fn decode(bytes: &[u8; REPORT_BYTES]) -> Self {
                Report { $($name: big_endian::<{ $width / 8 }>(bytes, offset(Index::$name as usize) / 8) as $type,)* }
            }

            /// Writes the fixed header; a value wider than its field is cut to the field.
            pub fn encode(&self) -> [u8; REPORT_BYTES] {
                let mut bytes = [0; REPORT_BYTES];
                $({
                    let start = offset(Index::$name as usize) / 8;
                    let value = (u64::from(self.$name)).to_be_bytes();
                    bytes[start..start + $width / 8].copy_from_slice(&value[8 - $width / 8..]);
                })*
                bytes
            }
        }
    };
}

report_layout! {
    /// Layout version, [`VERSION`].
    version: u8 = 8;
    /// `FLAG_*` bits.
    flags: u8 = 8;
    /// Bottleneck index, 0..63.
    bottleneck: u8 = 8;
    /// k: one report in each row of 2^k departures of this bottleneck.
    sample_shift: u8 = 8;
    /// Flow index: hash of bottleneck and 5-tuple.
    flow: u16 = 16;
    /// Ethernet frame length in bytes, without preamble, gap and FCS, before truncation.
    packet_length: u16 = 16;
    /// Second, independent hash of bottleneck and 5-tuple.
    signature: u32 = 32;
    /// Departures of this bottleneck so far.
    sequence: u32 = 32;
    /// Packets of this flow offered to the queue up to and including this one.
    arrivals: u32 = 32;
    /// Packets of this flow that left the queue up to and including this one.
    departures: u32 = 32;
    /// Packets of this flow dropped by loss emulation before this one arrived.
    loss_drops: u32 = 32;
    /// Packets of this flow dropped by queue management so far.
    aqm_drops: u32 = 32;
    /// Queue depth this packet found, in depth units.
    enqueue_depth: u32 = 32;
    /// Queue depth this packet left behind, in depth units.
    dequeue_depth: u32 = 32;
    /// Egress time - ingress time, in time units.
    queue_delay: u64 = 48;
    /// Generation of the queue's settings when this packet was enqueued.
    epoch: u16 = 16;
    /// Egress time, in time units.
    timestamp: u64 = 48;
    /// Which of the bottleneck's queues this packet left.
    queue: u16 = 16;
}

impl Report {
    /// Which row of 2^sample_shift departures of its bottleneck it is of, from 0: the next report's is greater by 1.
    #[inline]
    pub fn row(&self) -> u32 {
        self.sequence.wrapping_sub(1) >> self.sample_shift
    }
}

/// Bytes of the fixed header.
pub const REPORT_BYTES: usize = offset(Index::count as usize) / 8;

const fn offset(index: usize) -> usize {
    let mut bits = 0;
    let mut field = 0;
    while field < index {
        bits += WIDTHS[field];
        field += 1;
    }
    bits
}

#[inline]
fn big_endian<const N: usize>(bytes: &[u8; REPORT_BYTES], start: usize) -> u64 {
    // Not by a copy: a copy of which the compiler does not see how long it is takes a call.
    bytes[start..start + N].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_lands_in_its_field() {
        let bytes: [u8; REPORT_BYTES] = std::array::from_fn(|i| i as u8 + 1);
        let report = Report::decode(&bytes);
        assert_eq!((report.version, report.flags, report.bottleneck, report.sample_shift), (1, 2, 3, 4));
        assert_eq!((report.flow, report.packet_length), (0x0506, 0x0708));
        assert_eq!((report.signature, report.sequence), (0x090a_0b0c, 0x0d0e_0f10));
        assert_eq!((report.arrivals, report.departures, report.loss_drops), (0x1112_1314, 0x1516_1718, 0x191a_1b1c));
        assert_eq!(
            (report.aqm_drops, report.enqueue_depth, report.dequeue_depth),
            (0x1d1e_1f20, 0x2122_2324, 0x2526_2728)
        );
        assert_eq!((report.queue_delay, report.epoch), (0x292a_2b2c_2d2e, 0x2f30));
        assert_eq!((report.timestamp, report.queue), (0x3132_3334_3536, 0x3738));
        assert_eq!(report.encode(), bytes);
    }
}
