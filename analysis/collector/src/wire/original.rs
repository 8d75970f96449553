// SPDX-License-Identifier: Apache-2.0
//! The original packet's headers as far as a report carries them.

use std::net::IpAddr;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_DCCP: u8 = 33;
const PROTOCOL_SCTP: u8 = 132;
const PROTOCOL_UDP_LITE: u8 = 136;
const TCP_MINIMUM_BYTES: usize = 20;
/// UDP-Lite's header is as long (RFC 3828, 3.1).
const UDP_BYTES: usize = 8;
/// Where the length of DCCP's header is, in words of four bytes (RFC 4340, 5.1).
const DCCP_DATA_OFFSET: usize = 4;
/// The common header; chunks follow, data and acknowledgements alike (RFC 9260, 3).
const SCTP_BYTES: usize = 12;
const IPV6_BYTES: usize = 40;
/// Longest chain of IPv6 extension headers that is followed.
const MAX_EXTENSIONS: usize = 8;

/// FIN bit of `tcp_flags`.
pub const TCP_FIN: u16 = 0x01;
/// SYN bit of `tcp_flags`.
pub const TCP_SYN: u16 = 0x02;

/// What is stored about the original headers; a value that the report does not contain is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Original {
    pub tcp_seq: u32,
    pub tcp_ack: u32,
    pub tcp_tsval: u32,
    pub tcp_tsecr: u32,
    pub tcp_flags: u16,
    /// Bytes after the header of TCP, UDP, UDP-Lite or DCCP, or SCTP's common one, according to the IP length; for other
    /// protocols and in later fragments those after the IP headers. Never more than the frame has.
    pub payload_length: u16,
    /// 4, 6, or 0 if the packet is not IP.
    pub ip_version: u8,
    pub ecn: u8,
    /// Protocol after any IPv6 extension headers.
    pub protocol: u8,
    /// The IP length exceeds the frame, or a header contradicts itself.
    pub malformed: bool,
}

/// Where the layers of a packet start.
struct Layers<'a> {
    ip: &'a [u8],
    ip_version: u8,
    ecn: u8,
    protocol: u8,
    /// Bytes after the IP headers according to the IP length.
    transport_length: usize,
    /// Transport header bytes in the report; `None` in later fragments.
    transport: Option<&'a [u8]>,
    malformed: bool,
}

/// Bytes of a transport header other than TCP's.
#[inline]
fn header_bytes(protocol: u8, transport: &[u8]) -> usize {
    match protocol {
        PROTOCOL_UDP | PROTOCOL_UDP_LITE => UDP_BYTES,
        PROTOCOL_SCTP => SCTP_BYTES,
        PROTOCOL_DCCP => transport.get(DCCP_DATA_OFFSET).map_or(0, |words| 4 * usize::from(*words)),
        _ => 0,
    }
}

impl Original {
    /// Parses the bytes from the original Ethernet header on; `frame_length` is the whole packet's.
    #[inline(always)]
    pub fn parse(bytes: &[u8], frame_length: u16) -> Self {
        let Some(layers) = layers(bytes, usize::from(frame_length)) else {
            return Original::default();
        };
        let mut original = Original {
            ip_version: layers.ip_version,
            ecn: layers.ecn,
            protocol: layers.protocol,
            malformed: layers.malformed,
            ..Original::default()
        };
        let length = layers.transport_length;
        match (layers.protocol, layers.transport) {
            (PROTOCOL_TCP, Some(tcp)) => original.parse_tcp(tcp, length),
            (protocol, transport) => {
                let header = transport.map_or(0, |transport| header_bytes(protocol, transport));
                original.payload_length = length.saturating_sub(header) as u16;
            }
        }
        original
    }

    #[inline(always)]
    fn parse_tcp(&mut self, tcp: &[u8], length: usize) {
        let Some(fixed) = tcp.first_chunk::<TCP_MINIMUM_BYTES>() else {
            return;
        };
        self.tcp_seq = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        self.tcp_ack = u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        self.tcp_flags = u16::from_be_bytes([fixed[12], fixed[13]]) & 0x0fff;
        let header = usize::from(fixed[12] >> 4) * 4;
        if header < TCP_MINIMUM_BYTES || header > length {
            self.malformed = true;
            return;
        }
        self.payload_length = (length - header) as u16;
        let options = &tcp[TCP_MINIMUM_BYTES..header.min(tcp.len())];
        if let Some((value, echo)) = timestamps(options) {
            self.tcp_tsval = value;
            self.tcp_tsecr = echo;
        }
    }
}

/// TSval and TSecr of the timestamps option (RFC 7323), if it is complete.
#[inline(always)]
fn timestamps(mut options: &[u8]) -> Option<(u32, u32)> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [8, 10, a, b, c, d, e, f, g, h, ..] => {
                return Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
            }
            [0, ..] | [] => return None,
            [_, length, ..] if *length >= 2 => options = options.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
}

/// Finds the layers; `None` if the packet is not IP or its IP header is not complete.
#[inline(always)]
fn layers(bytes: &[u8], frame_length: usize) -> Option<Layers<'_>> {
    let mut start = 14;
    let mut ethertype = [*bytes.get(12)?, *bytes.get(13)?];
    for _ in 0..2 {
        if !matches!(ethertype, [0x81, 0x00] | [0x88, 0xa8]) {
            break;
        }
        ethertype = [*bytes.get(start + 2)?, *bytes.get(start + 3)?];
        start += 4;
    }
    let ip = bytes.get(start..)?;
    let available = frame_length.saturating_sub(start);
    match ethertype {
        [0x08, 0x00] => ipv4_layers(ip, available),
        [0x86, 0xdd] => ipv6_layers(ip, available),
        _ => None,
    }
}

#[inline(always)]
fn ipv4_layers(ip: &[u8], available: usize) -> Option<Layers<'_>> {
    let fixed = ip.first_chunk::<20>()?;
    let header = usize::from(fixed[0] & 0xf) * 4;
    if fixed[0] >> 4 != 4 || header < 20 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let malformed = total > available || total < header;
    let first_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff == 0;
    Some(Layers {
        ip,
        ip_version: 4,
        ecn: fixed[1] & 3,
        protocol: fixed[9],
        transport_length: total.min(available).saturating_sub(header),
        transport: first_fragment.then(|| ip.get(header..).unwrap_or_default()),
        malformed,
    })
}

fn ipv6_layers(ip: &[u8], available: usize) -> Option<Layers<'_>> {
    let fixed = ip.first_chunk::<IPV6_BYTES>()?;
    if fixed[0] >> 4 != 6 {
        return None;
    }
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let limit = available.saturating_sub(IPV6_BYTES);
    let mut layers = Layers {
        ip,
        ip_version: 6,
        ecn: (fixed[1] >> 4) & 3,
        protocol: fixed[6],
        transport_length: payload.min(limit),
        transport: None,
        malformed: payload > limit,
    };
    let mut rest = &ip[IPV6_BYTES..];
    let mut first_fragment = true;
    for _ in 0..MAX_EXTENSIONS {
        let length = match layers.protocol {
            // Hop-by-hop options, routing, destination options: length in 8 bytes beyond the first 8.
            0 | 43 | 60 => rest.get(1).map(|&units| (usize::from(units) + 1) * 8),
            44 => {
                first_fragment &= rest.get(2..4).is_some_and(|offset| offset[0] == 0 && offset[1] & 0xf8 == 0);
                Some(8)
            }
            // Authentication header: length in 4 bytes beyond the first 8.
            51 => rest.get(1).map(|&units| (usize::from(units) + 2) * 4),
            _ => {
                layers.transport = first_fragment.then_some(rest);
                return Some(layers);
            }
        };
        let (Some(length), Some(&next)) = (length, rest.first()) else {
            return Some(layers);
        };
        if length > layers.transport_length {
            layers.malformed = true;
            return Some(layers);
        }
        layers.protocol = next;
        layers.transport_length -= length;
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(layers)
}

/// Addresses, protocol and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveTuple {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
}

/// The 5-tuple of the original packet; `None` if it is not IP. Ports are 0 where the protocol has none.
pub fn five_tuple(bytes: &[u8]) -> Option<FiveTuple> {
    let layers = layers(bytes, usize::MAX)?;
    let (src, dst) = if layers.ip_version == 4 {
        let addresses = layers.ip.get(12..20)?;
        (
            IpAddr::from(<[u8; 4]>::try_from(&addresses[..4]).ok()?),
            IpAddr::from(<[u8; 4]>::try_from(&addresses[4..]).ok()?),
        )
    } else {
        let addresses = layers.ip.get(8..40)?;
        (
            IpAddr::from(<[u8; 16]>::try_from(&addresses[..16]).ok()?),
            IpAddr::from(<[u8; 16]>::try_from(&addresses[16..]).ok()?),
        )
    };
    // TCP, UDP, DCCP, SCTP and UDP-Lite start with the two ports.
    let has_ports = matches!(layers.protocol, 6 | 17 | 33 | 132 | 136);
    let ports = layers.transport.filter(|_| has_ports).and_then(|transport| transport.first_chunk::<4>());
    let (src_port, dst_port) =
        ports.map_or((0, 0), |p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])));
    Some(FiveTuple { src, dst, protocol: layers.protocol, src_port, dst_port })
}

#[cfg(test)]
#[path = "original_tests.rs"]
mod tests;
