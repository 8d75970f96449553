//! Which flow a frame belongs to, read from its bytes: what `p4src/common/parser.p4` and `flow_identity.p4` make of it.
// SPDX-License-Identifier: Apache-2.0
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_pipeline::crc32;

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with the two ports.
const PROTOCOLS_WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Bytes of bottleneck and 5-tuple.
const HASHED_BYTES: usize = 38;

/// The value of an ECN field that says congestion experienced (RFC 3168).
const CE: u8 = 3;

/// Addresses, protocol and ports of a frame, IPv4 addresses in the low 32 bits; of one that is not IP all are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FiveTuple {
    is_ip: bool,
    is_ipv6: bool,
    source: u128,
    destination: u128,
    protocol: u8,
    ports: (u16, u16),
    ecn: u8,
}

fn bytes_at<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at + N)?.try_into().ok()
}

fn word_at(frame: &[u8], at: usize) -> Option<u16> {
    bytes_at(frame, at).map(u16::from_be_bytes)
}

/// The Ethertype behind at most two VLAN tags, and where what it names begins.
fn network_layer(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHERNET_BYTES;
    let mut kind = word_at(frame, at - 2)?;
    if kind == VLAN || kind == QINQ {
        kind = word_at(frame, at + 2)?;
        at += VLAN_BYTES;
        if kind == VLAN {
            kind = word_at(frame, at + 2)?;
            at += VLAN_BYTES;
        }
    }
    Some((kind, at))
}

impl FiveTuple {
    /// The flow of a frame, of which at least the headers are held. What ends within a header does not have it.
    pub fn of(frame: &[u8]) -> Self {
        let found = match network_layer(frame) {
            Some((IPV4, at)) => Self::of_ipv4(frame, at),
            Some((IPV6, at)) => Self::of_ipv6(frame, at),
            _ => None,
        };
        found.unwrap_or_default()
    }

    fn of_ipv4(frame: &[u8], at: usize) -> Option<Self> {
        let header: [u8; IPV4_BYTES] = bytes_at(frame, at)?;
        let (protocol, fragment) = (header[9], u16::from_be_bytes([header[6], header[7]]) & 0x3fff);
        // Behind options, and in fragments, ports are not certain to be ports.
        let has_ports = header[0] & 0x0f == 5 && fragment == 0;
        let [source, destination] = [12, 16].map(|at| bytes_at(&header, at).map_or(0, u32::from_be_bytes));
        Some(FiveTuple {
            is_ip: true,
            is_ipv6: false,
            source: source.into(),
            destination: destination.into(),
            protocol,
            ports: if has_ports { ports_at(frame, at + IPV4_BYTES, protocol) } else { (0, 0) },
            ecn: header[1] & 3,
        })
    }

    fn of_ipv6(frame: &[u8], at: usize) -> Option<Self> {
        let header: [u8; IPV6_BYTES] = bytes_at(frame, at)?;
        let [source, destination] = [8, 24].map(|at| bytes_at(&header, at).map_or(0, u128::from_be_bytes));
        Some(FiveTuple {
            is_ip: true,
            is_ipv6: true,
            source,
            destination,
            protocol: header[6],
            ports: ports_at(frame, at + IPV6_BYTES, header[6]),
            ecn: header[1] >> 4 & 3,
        })
    }

    /// Neither IPv4 nor IPv6.
    pub fn is_other(&self) -> bool {
        !self.is_ip
    }

    /// The ECN field; 0 where there is none.
    pub fn ecn(&self) -> u8 {
        self.ecn
    }

    /// The frame says that it met congestion.
    pub fn is_marked(&self) -> bool {
        self.ecn == CE
    }

    /// Its flow index and its signature at a bottleneck: two CRCs that differ by the order of what they are of
    /// (`p4src/v1model/primitives.p4`).
    pub fn hashes(&self, bottleneck: u8) -> (u16, u32) {
        let mut bytes = [0; HASHED_BYTES];
        bytes[0] = bottleneck;
        bytes[1..17].copy_from_slice(&self.source.to_be_bytes());
        bytes[17..33].copy_from_slice(&self.destination.to_be_bytes());
        bytes[33] = self.protocol;
        bytes[34..36].copy_from_slice(&self.ports.0.to_be_bytes());
        bytes[36..38].copy_from_slice(&self.ports.1.to_be_bytes());
        let index = crc32(&bytes) as u16;
        bytes[0..2].copy_from_slice(&self.ports.1.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.ports.0.to_be_bytes());
        bytes[4] = self.protocol;
        bytes[5..21].copy_from_slice(&self.destination.to_be_bytes());
        bytes[21..37].copy_from_slice(&self.source.to_be_bytes());
        bytes[37] = bottleneck;
        // 0 says that an index has no owner.
        (index, 1 + crc32(&bytes) % u32::MAX)
    }

    /// Source and destination; `None` of a frame that is not IP.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let address = |value: u128| match self.is_ipv6 {
            true => IpAddr::V6(Ipv6Addr::from(value)),
            false => IpAddr::V4(Ipv4Addr::from(value as u32)),
        };
        self.is_ip.then(|| (address(self.source), address(self.destination)))
    }

    /// The protocol above IP, and source and destination ports; 0 where there are none.
    pub fn transport(&self) -> (u8, u16, u16) {
        (self.protocol, self.ports.0, self.ports.1)
    }
}

fn ports_at(frame: &[u8], at: usize, protocol: u8) -> (u16, u16) {
    let found = word_at(frame, at).zip(word_at(frame, at + 2));
    found.filter(|_| PROTOCOLS_WITH_PORTS.contains(&protocol)).unwrap_or_default()
}
