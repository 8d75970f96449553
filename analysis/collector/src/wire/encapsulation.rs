// SPDX-License-Identifier: Apache-2.0
//! The encapsulation of a report: Ethernet, optionally VLAN, IPv4 and UDP to the collector's port.

use std::fmt;
use std::net::SocketAddrV4;

/// Why a frame is not a usable report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reject {
    /// Not IPv4/UDP to the collector's port: other traffic, not an error.
    Other,
    /// To the collector's port, but not from the switch.
    Foreign,
    /// The frame or datagram ends before the report does.
    Short,
    /// Wrong IPv4 header checksum.
    Ipv4Checksum,
    /// A UDP checksum is present and wrong.
    UdpChecksum,
    /// An IP fragment.
    Fragment,
    /// Another layout version.
    Version,
    /// Bottleneck index out of range.
    Bottleneck,
    /// Sampling exponent out of range.
    SampleShift,
}

impl Reject {
    /// All reasons; the discriminant is the index.
    pub const ALL: [Reject; 9] = [
        Reject::Other,
        Reject::Foreign,
        Reject::Short,
        Reject::Ipv4Checksum,
        Reject::UdpChecksum,
        Reject::Fragment,
        Reject::Version,
        Reject::Bottleneck,
        Reject::SampleShift,
    ];

    /// Name in `collector.json`.
    pub fn name(self) -> &'static str {
        match self {
            Reject::Other => "other_traffic",
            Reject::Foreign => "foreign",
            Reject::Short => "short",
            Reject::Ipv4Checksum => "ipv4_checksum",
            Reject::UdpChecksum => "udp_checksum",
            Reject::Fragment => "fragment",
            Reject::Version => "version",
            Reject::Bottleneck => "bottleneck",
            Reject::SampleShift => "sample_shift",
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where reports come from and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// UDP destination port.
    pub port: u16,
    /// Address and UDP port of the switch, whose last [`SPREAD_BITS`] do not matter; `None`: reports of any sender are taken.
    pub switch: Option<SocketAddrV4>,
}

impl From<u16> for Path {
    /// Reports of any sender to a port.
    fn from(port: u16) -> Self {
        Path { port, switch: None }
    }
}

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// Ethernet, IPv4 without options and UDP: what a switch puts before the report.
pub const ENCAPSULATION_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;

/// How many last bits of a report's source port depend on its flow, so that a NIC spreads reports over its queues.
pub const SPREAD_BITS: u32 = 6;

const PROTOCOL_UDP: u8 = 17;

/// The UDP payload of a frame on its way along `path`.
///
/// # Errors
/// [`Reject::Other`] for any other traffic, the fault's name for a damaged report.
#[inline(always)]
pub fn payload(frame: &[u8], path: Path) -> Result<&[u8], Reject> {
    let Some(head) = frame.first_chunk::<ENCAPSULATION_BYTES>() else {
        return Err(Reject::Other);
    };
    let ip_start = if is_plain(head) { ETHERNET_BYTES } else { ipv4_start(frame)? };
    let ip = &frame[ip_start..];
    let Some(fixed) = ip.first_chunk::<IPV4_BYTES>() else {
        return Err(Reject::Other);
    };
    let header = usize::from(fixed[0] & 0xf) * 4;
    if fixed[0] >> 4 != 4 || header < IPV4_BYTES || fixed[9] != PROTOCOL_UDP {
        return Err(Reject::Other);
    }
    if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0 {
        return Err(Reject::Fragment);
    }
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let Some(udp_start) = ip.get(header..header + UDP_BYTES) else {
        return Err(Reject::Short);
    };
    if u16::from_be_bytes([udp_start[2], udp_start[3]]) != path.port {
        return Err(Reject::Other);
    }
    if let Some(switch) = path.switch {
        let source = u16::from_be_bytes([udp_start[0], udp_start[1]]);
        if fixed[12..16] != switch.ip().octets() || source >> SPREAD_BITS != switch.port() >> SPREAD_BITS {
            return Err(Reject::Foreign);
        }
    }
    if checksum(0, &ip[..header]) != 0xffff {
        return Err(Reject::Ipv4Checksum);
    }
    let length = usize::from(u16::from_be_bytes([udp_start[4], udp_start[5]]));
    if length < UDP_BYTES || header + length > total || header + length > ip.len() {
        return Err(Reject::Short);
    }
    let datagram = &ip[header..header + length];
    if (datagram[6] | datagram[7]) != 0 && !udp_checksum_holds(fixed, datagram) {
        return Err(Reject::UdpChecksum);
    }
    Ok(&datagram[UDP_BYTES..])
}

/// Whether the frame starts with Ethernet without tags and IPv4 without options.
#[inline(always)]
pub fn is_plain(frame: &[u8]) -> bool {
    matches!(frame.get(12..15), Some([0x08, 0x00, 0x45]))
}

/// Offset of the IPv4 header after up to two VLAN tags.
fn ipv4_start(frame: &[u8]) -> Result<usize, Reject> {
    let mut start = ETHERNET_BYTES;
    for _ in 0..=2 {
        match frame.get(start - 2..start) {
            Some([0x08, 0x00]) => return Ok(start),
            Some([0x81, 0x00] | [0x88, 0xa8]) => start += VLAN_BYTES,
            _ => return Err(Reject::Other),
        }
    }
    Err(Reject::Other)
}

fn udp_checksum_holds(ip: &[u8; IPV4_BYTES], datagram: &[u8]) -> bool {
    let pseudo = u32::from(PROTOCOL_UDP) + datagram.len() as u32;
    let addresses = u32::from(checksum(pseudo, &ip[12..20]));
    checksum(addresses, datagram) == 0xffff
}

/// The Internet checksum's sum of `bytes`, added to `start`: 0xffff if they include a correct checksum.
#[inline(always)]
pub fn checksum(start: u32, bytes: &[u8]) -> u16 {
    // Carries of 32-bit words are added at the end: the sum is the same modulo 0xffff.
    let mut sum = u64::from(start);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_be_bytes(last));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame to port 5500 with the given payload, tags, IP options and, if asked for, a UDP checksum.
    fn frame(payload: &[u8], tags: usize, options: usize, with_checksum: bool) -> Vec<u8> {
        let mut udp =
            [&[0x15, 0x7c, 0x15, 0x7c][..], &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload].concat();
        let mut ip = vec![0x45 + (options / 4) as u8, 0];
        ip.extend(((20 + options + udp.len()) as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        ip.extend(vec![1; options]);
        let sum = !checksum(0, &ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        if with_checksum {
            let pseudo = [&ip[12..20], &[0, 17], &(udp.len() as u16).to_be_bytes()].concat();
            let sum = !checksum(u32::from(checksum(0, &pseudo)), &udp);
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        let tags = [0x81, 0x00, 0x00, 0x05].repeat(tags);
        [&[0; 12][..], &tags, &[0x08, 0x00], &ip, &udp].concat()
    }

    #[test]
    fn payload_behind_tags_options_and_checksum() {
        for (tags, options, with_checksum) in [(0, 0, false), (1, 0, true), (2, 8, false), (0, 40, true)] {
            let bytes = frame(b"payload", tags, options, with_checksum);
            assert_eq!(payload(&bytes, 5500.into()), Ok(&b"payload"[..]), "{tags} {options}");
            assert_eq!(
                payload(&[&bytes[..], &[0; 9]].concat(), 5500.into()),
                Ok(&b"payload"[..]),
                "padding is cut off"
            );
            assert_eq!(payload(&bytes, 5501.into()), Err(Reject::Other));
        }
        assert_eq!(payload(&frame(b"payload", 3, 0, false), 5500.into()), Err(Reject::Other));
    }

    #[test]
    fn only_the_switch_is_heard_when_it_is_named() {
        for (tags, options) in [(0, 0), (2, 8)] {
            let bytes = frame(b"payload", tags, options, false);
            let from = |switch: &str| {
                let switch = Some(switch.parse().expect("an address"));
                payload(&bytes, Path { port: 5500, switch })
            };
            for ours in ["192.0.2.1:5500", "192.0.2.1:5440", "192.0.2.1:5503"] {
                assert_eq!(from(ours), Ok(&b"payload"[..]), "{ours}");
            }
            for other in ["192.0.2.3:5500", "193.0.2.1:5500", "192.0.2.1:5439", "192.0.2.1:5504"] {
                assert_eq!(from(other), Err(Reject::Foreign), "{other}");
            }
        }
    }

    #[test]
    fn damage_that_a_checksum_covers_is_seen() {
        let good = frame(b"payload", 0, 0, true);
        for position in 14..good.len() {
            let mut bytes = good.clone();
            bytes[position] ^= 0x10;
            assert!(payload(&bytes, 5500.into()).is_err(), "byte {position}");
        }
        let mut fragment = frame(b"payload", 0, 0, false);
        fragment[20] = 0x20;
        assert_eq!(payload(&fragment, 5500.into()), Err(Reject::Fragment));
        assert_eq!(payload(&good[..good.len() - 1], 5500.into()), Err(Reject::Short));
    }
}
