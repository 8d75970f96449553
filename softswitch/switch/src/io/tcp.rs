//! A TCP segment in an Ethernet frame: where its headers are, and what joining segments changes in them.
// SPDX-License-Identifier: Apache-2.0
use std::ops::Range;

use super::checksum::{self, Partial};

/// Length of an Ethernet header.
pub const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
/// Of an IPv4 header without options, and of an IPv6 header without extensions.
const HEADER_BYTES: [usize; 2] = [20, 40];
/// Offset of the checksum in a TCP header.
pub const CHECKSUM: usize = 16;
const FLAGS: usize = 13;
pub const FIN: u8 = 0x01;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;
const CONGESTION_EXPERIENCED: u8 = 3;

/// Where the parts of a frame are that holds one TCP segment, in IP without options and nothing behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFrame {
    /// Of IPv6, not of IPv4.
    pub is_ipv6: bool,
    /// Offset of the TCP header.
    pub transport: usize,
    /// Offset of the payload.
    pub payload: usize,
}

fn number(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// What is summed beside addresses and a segment of that length: length and protocol (RFC 9293, section 3.1; RFC 8200, section
/// 8.1, whose other bytes are zeros).
fn pseudo_header(length: u16) -> [u8; 4] {
    let [high, low] = length.to_be_bytes();
    [high, low, 0, TCP]
}

impl TcpFrame {
    /// Finds the parts of a frame of `total` bytes whose headers are held; `None`: it is something else.
    pub fn parse(frame: &[u8], total: usize) -> Option<Self> {
        let is_ipv6 = match frame.get(ETHERNET - 2..ETHERNET)?.try_into().ok()? {
            IPV4 => false,
            IPV6 => true,
            _ => return None,
        };
        let transport = ETHERNET + HEADER_BYTES[usize::from(is_ipv6)];
        let offset = usize::from(*frame.get(transport + 12)? >> 4) * 4;
        let payload = transport + offset;
        let (first, protocol, counted_from) = if is_ipv6 { (0x60, 6, transport) } else { (0x45, 9, ETHERNET) };
        let version = if is_ipv6 { frame[ETHERNET] & 0xf0 } else { frame[ETHERNET] };
        let length = usize::from(number(frame, ETHERNET + if is_ipv6 { 4 } else { 2 }));
        // More fragments, or an offset.
        let is_fragment = !is_ipv6 && number(frame, ETHERNET + 6) & 0x3fff != 0;
        let is_whole = version == first && frame[ETHERNET + protocol] == TCP && !is_fragment;
        let fits = offset >= 20 && payload <= frame.len() && counted_from + length == total;
        (is_whole && fits).then_some(TcpFrame { is_ipv6, transport, payload })
    }

    /// Offset of the IP addresses, behind which TCP begins.
    fn addresses(&self) -> usize {
        self.transport - if self.is_ipv6 { 32 } else { 8 }
    }

    /// Where the addresses and ports are that tell the flow.
    pub fn flow(&self) -> Range<usize> {
        self.addresses()..self.transport + 4
    }

    /// The checksum that covers the segment.
    pub fn checksum(&self) -> Partial {
        Partial { start: self.transport, field: CHECKSUM }
    }

    /// Number of the first byte of payload.
    pub fn sequence(&self, frame: &[u8]) -> u32 {
        let at = self.transport + 4;
        u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
    }

    /// Sets that number.
    pub fn set_sequence(&self, frame: &mut [u8], sequence: u32) {
        let at = self.transport + 4;
        frame[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
    }

    /// Identification in the IPv4 header; an IPv6 header has none.
    pub fn identification(&self, frame: &[u8]) -> Option<u16> {
        (!self.is_ipv6).then(|| number(frame, ETHERNET + 4))
    }

    /// The flags, CWR to FIN.
    pub fn flags(&self, frame: &[u8]) -> u8 {
        frame[self.transport + FLAGS]
    }

    /// Whether the ECN field of the packet is CE: it was marked.
    pub fn is_marked(&self, frame: &[u8]) -> bool {
        let field = if self.is_ipv6 { frame[ETHERNET + 1] >> 4 } else { frame[ETHERNET + 1] };
        field & CONGESTION_EXPERIENCED == CONGESTION_EXPERIENCED
    }

    /// Sets the flags.
    pub fn set_flags(&self, frame: &mut [u8], flags: u8) {
        frame[self.transport + FLAGS] = flags;
    }

    /// Whether the checksums of the segment and of its IPv4 header are right, in a frame of `total` bytes that has zeros behind
    /// those that are held.
    pub fn is_intact(&self, frame: &[u8], total: usize) -> bool {
        let network = self.is_ipv6 || checksum::sum(&[&frame[ETHERNET..self.transport]]) == 0xffff;
        let length = (total - self.transport) as u16;
        let addresses = &frame[self.addresses()..self.transport];
        network && checksum::sum(&[addresses, &pseudo_header(length), &frame[self.transport..]]) == 0xffff
    }

    /// Says that the segment has `payload` bytes: completes the IP header, and leaves the segment's checksum.
    pub fn set_length(&self, frame: &mut [u8], payload: usize) {
        self.set_network_length(frame, payload);
        self.leave_checksum(frame, self.payload - self.transport + payload);
    }

    /// Completes the IP header of a segment of `payload` bytes, which may have options or extension headers.
    pub fn set_network_length(&self, frame: &mut [u8], payload: usize) {
        let (at, counted_from) = if self.is_ipv6 { (4, ETHERNET + HEADER_BYTES[1]) } else { (2, ETHERNET) };
        let counted = self.payload + payload - counted_from;
        frame[ETHERNET + at..ETHERNET + at + 2].copy_from_slice(&(counted as u16).to_be_bytes());
        self.complete_network(frame);
    }

    /// Writes the sum of the pseudo-header to where the checksum of the segment, `segment` bytes with its header, is to be
    /// completed.
    pub fn leave_checksum(&self, frame: &mut [u8], segment: usize) {
        let sum = checksum::sum(&[&frame[self.addresses()..self.transport], &pseudo_header(segment as u16)]);
        frame[self.transport + CHECKSUM..self.transport + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn complete_network(&self, frame: &mut [u8]) {
        if !self.is_ipv6 {
            let header = &mut frame[ETHERNET..self.transport];
            header[10..12].fill(0);
            checksum::complete(header, Partial { start: 0, field: 10 });
        }
    }

    /// The parts of the headers that all segments of one frame have in common: addresses, ports, what they acknowledge, options;
    /// not what [`TcpFrame::flags`] says.
    pub fn constant<'f>(&self, frame: &'f [u8]) -> [&'f [u8]; 7] {
        let of = |part: Range<usize>| &frame[part];
        let network = if self.is_ipv6 {
            [of(0..ETHERNET + 4), of(ETHERNET + 6..ETHERNET + 8)]
        } else {
            [of(0..ETHERNET + 2), of(ETHERNET + 6..ETHERNET + 10)]
        };
        let tcp = self.transport;
        [
            network[0],
            network[1],
            of(self.flow()),
            of(tcp + 8..tcp + FLAGS),
            of(tcp + 14..tcp + CHECKSUM),
            of(tcp + 18..tcp + 20),
            of(tcp + 20..self.payload),
        ]
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What tests choose of the headers.
    #[derive(Debug, Clone, Copy)]
    pub struct Header {
        pub is_ipv6: bool,
        pub sequence: u32,
        pub identification: u16,
        pub flags: u8,
    }

    /// A frame from port 1 to port 2, with a timestamps option.
    pub fn frame(header: Header, payload: &[u8]) -> Vec<u8> {
        let Header { is_ipv6, sequence, identification, flags } = header;
        let mut frame = vec![2; 12];
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, TCP, 64]);
            frame.extend([0xfd; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 0]);
            frame.extend(identification.to_be_bytes());
            frame.extend([0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend([0, 1, 0, 2]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
        let transport = frame.len() - 32;
        let parts = TcpFrame { is_ipv6, transport, payload: frame.len() };
        frame.extend(payload);
        parts.set_length(&mut frame, payload.len());
        checksum::complete(&mut frame, parts.checksum());
        frame
    }

    const HEADER: Header = Header { is_ipv6: false, sequence: 7, identification: 3, flags: ACK };

    #[test]
    fn parts_of_both_versions_are_found() {
        for (is_ipv6, transport) in [(false, 34), (true, 54)] {
            let frame = frame(Header { is_ipv6, ..HEADER }, b"payload");
            let parts = TcpFrame::parse(&frame, frame.len()).expect("TCP");
            assert_eq!(parts, TcpFrame { is_ipv6, transport, payload: transport + 32 });
            assert_eq!((parts.sequence(&frame), parts.flags(&frame)), (7, ACK));
            assert!(parts.is_intact(&frame, frame.len()));
        }
    }

    #[test]
    fn what_is_something_else_is_not_taken_for_tcp() {
        let good = frame(HEADER, b"payload");
        // EtherType, IP version, header length, protocol, fragments, length, TCP header's length.
        for (at, value) in
            [(12, 0), (14, 0x65), (14, 0x46), (23, 17), (20, 0x20), (21, 1), (17, 1), (46, 0x40), (46, 0xf0)]
        {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(TcpFrame::parse(&bad, bad.len()), None, "byte {at}");
        }
        assert!((0..good.len()).all(|length| TcpFrame::parse(&good[..length], length).is_none()));
        assert_eq!(TcpFrame::parse(&good, good.len() + 1), None);
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        for is_ipv6 in [false, true] {
            let good = frame(Header { is_ipv6, ..HEADER }, b"payload");
            let parts = TcpFrame::parse(&good, good.len()).expect("TCP");
            for at in parts.transport..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x40;
                assert!(!parts.is_intact(&bad, bad.len()), "byte {at}");
            }
        }
    }
}
