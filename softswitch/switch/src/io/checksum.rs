//! Completes transport checksums that a sender's kernel left to its (virtual) hardware.
// SPDX-License-Identifier: Apache-2.0

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Ones' complement sum of 16-bit big-endian words.
fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(2);
    let total: u64 = chunks.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    total + chunks.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Offset, length and protocol of the transport segment, and the sum of its pseudo-header without the length.
fn transport(frame: &[u8]) -> Option<(usize, usize, u8, u64)> {
    let word = |at: usize| frame.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let mut at = 12;
    while matches!(word(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    match word(at)? {
        0x0800 => {
            let header = usize::from(frame.get(ip)? & 0x0f) * 4;
            let length = usize::from(word(ip + 2)?).checked_sub(header)?;
            let fragment = word(ip + 6)? & 0x3fff;
            (fragment == 0).then_some(())?;
            Some((ip + header, length, *frame.get(ip + 9)?, sum(frame.get(ip + 12..ip + 20)?)))
        }
        0x86dd => Some((ip + 40, usize::from(word(ip + 4)?), *frame.get(ip + 6)?, sum(frame.get(ip + 8..ip + 40)?))),
        _ => None,
    }
}

/// Computes the TCP or UDP checksum of an Ethernet frame anew. False: the frame has none that could be computed.
pub fn complete(frame: &mut [u8]) -> bool {
    let Some((start, length, protocol, addresses)) = transport(frame) else {
        return false;
    };
    let field = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return false,
    };
    let Some(segment) = frame.get_mut(start..start + length).filter(|segment| segment.len() >= field + 2) else {
        return false;
    };
    segment[field..field + 2].fill(0);
    let checksum = !fold(addresses + u64::from(protocol) + length as u64 + sum(segment));
    // In UDP, 0 would mean that there is no checksum.
    let checksum = if protocol == UDP && checksum == 0 { 0xffff } else { checksum };
    segment[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram from RFC 1071-style hand calculation: 10.0.0.1:1 -> 10.0.0.2:2, payload "hi".
    fn frame(tags: &[u8]) -> Vec<u8> {
        let mut frame = vec![0u8; 12];
        frame.extend(tags);
        frame.extend([0x08, 0x00]);
        frame.extend([0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0, 10, 0xde, 0xad, b'h', b'i']);
        frame
    }

    #[test]
    fn udp_over_ipv4_with_and_without_tag() {
        // 0a00+0001+0a00+0002 + 0011 + 000a + 0001+0002+000a+6869 = 7c94; complement 836b.
        for tags in [&[][..], &[0x81, 0, 0, 5]] {
            let mut frame = frame(tags);
            assert!(complete(&mut frame));
            let end = frame.len();
            assert_eq!(frame[end - 4..end - 2], [0x83, 0x6b]);
        }
    }

    #[test]
    fn refuses_what_it_cannot_compute() {
        let whole = frame(&[]);
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(!complete(&mut cut), "{length} bytes");
            assert_eq!(cut, whole[..length]);
        }
        let mut fragment = whole;
        fragment[14 + 6] |= 0x20;
        assert!(!complete(&mut fragment));
    }
}
