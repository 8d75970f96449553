//! A telemetry report as a frame (docs/report-format.md): what `p4src/common/report.p4` makes.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::internet_checksum;

/// Bytes before the original packet: Ethernet 14, IPv4 20, UDP 8, report 56.
pub(super) const ENCAPSULATION_BYTES: usize = 98;
const VERSION: u8 = 2;
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
/// The last bits of the source port are those of the flow index.
const PORT_BITS_OF_FLOW: u16 = 0x3f;

/// This switch set CE on the packet.
pub(super) const CE_MARKED: u8 = 0x01;
/// Another flow owns the flow index.
pub(super) const COLLISION: u8 = 0x02;
/// Neither IPv4 nor IPv6.
pub(super) const NOT_IP: u8 = 0x04;
/// Where the ECN field is with which the packet arrived.
pub(super) const ECN_SHIFT: u32 = 3;

/// Where reports go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// Port of the switch.
    pub port: u16,
    /// Ethernet addresses.
    pub source_mac: [u8; 6],
    /// As `source_mac`.
    pub destination_mac: [u8; 6],
    /// IPv4 addresses.
    pub source_address: [u8; 4],
    /// As `source_address`.
    pub destination_address: [u8; 4],
    /// UDP ports.
    pub source_port: u16,
    /// As `source_port`.
    pub destination_port: u16,
    /// Longest report, in bytes with its encapsulation.
    pub length: u16,
}

/// The fields of a report that are not constant.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub flags: u8,
    pub bottleneck: u8,
    pub sample_shift: u8,
    pub flow: u16,
    pub packet_length: u16,
    pub signature: u32,
    pub sequence: u32,
    pub arrivals: u32,
    pub departures: u32,
    pub loss_drops: u32,
    pub aqm_drops: u32,
    pub enqueue_depth: u32,
    pub dequeue_depth: u32,
    pub queue_delay: u64,
    pub epoch: u16,
    pub timestamp: u64,
    pub queue: u16,
}

impl Report {
    /// The report to a collector, with the beginning of a packet as it leaves; `held` is what there is of it, `length` its length.
    pub fn encode(&self, to: &Collector, held: &[u8], length: usize, frame: &mut Vec<u8>) {
        let original = length.min(usize::from(to.length) - ENCAPSULATION_BYTES).min(held.len());
        let whole = (ENCAPSULATION_BYTES + original - ETHERNET_BYTES) as u16;
        frame.clear();
        frame.extend_from_slice(&to.destination_mac);
        frame.extend_from_slice(&to.source_mac);
        frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
        frame.extend_from_slice(&whole.to_be_bytes());
        // Not to be fragmented; 64 hops, UDP, and the checksum to come.
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend_from_slice(&to.source_address);
        frame.extend_from_slice(&to.destination_address);
        let checksum = internet_checksum(&frame[ETHERNET_BYTES..]);
        frame[ETHERNET_BYTES + 10..][..2].copy_from_slice(&checksum.to_be_bytes());
        let source_port = to.source_port & !PORT_BITS_OF_FLOW | self.flow & PORT_BITS_OF_FLOW;
        frame.extend_from_slice(&source_port.to_be_bytes());
        frame.extend_from_slice(&to.destination_port.to_be_bytes());
        frame.extend_from_slice(&(whole - IPV4_BYTES as u16).to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        self.encode_fields(frame);
        frame.extend_from_slice(&held[..original]);
    }

    fn encode_fields(&self, frame: &mut Vec<u8>) {
        let mut put = |value: u64, bytes: usize| frame.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
        for byte in [VERSION, self.flags, self.bottleneck, self.sample_shift] {
            put(byte.into(), 1);
        }
        put(self.flow.into(), 2);
        put(self.packet_length.into(), 2);
        for word in [self.signature, self.sequence, self.arrivals, self.departures, self.loss_drops, self.aqm_drops] {
            put(word.into(), 4);
        }
        put(self.enqueue_depth.into(), 4);
        put(self.dequeue_depth.into(), 4);
        put(self.queue_delay, 6);
        put(self.epoch.into(), 2);
        put(self.timestamp, 6);
        put(self.queue.into(), 2);
    }
}
