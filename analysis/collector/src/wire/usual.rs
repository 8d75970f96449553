// SPDX-License-Identifier: Apache-2.0
//! The usual original packet, read at fixed offsets: IPv4 and TCP with timestamps. All others are left to
//! [`Original::parse`], with which this must agree.

use super::original::Original;

/// Ethernet, IPv4 without options, TCP with two NOPs and timestamps.
const HEAD_BYTES: usize = 14 + 20 + 32;
const ETHERTYPE: usize = 12;
const IP: usize = 14;
const TCP: usize = IP + 20;
const HEADERS: u16 = 52;

/// Bytes at fixed offsets, without bounds checks at run time.
struct Head<'a>(&'a [u8; HEAD_BYTES]);

impl Head<'_> {
    #[inline(always)]
    fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

/// Parses a packet of the usual form; `None` for any other.
#[inline(always)]
pub fn parse(bytes: &[u8], frame_length: u16) -> Option<Original> {
    let head = Head(bytes.first_chunk::<HEAD_BYTES>()?);
    let total = head.half(IP + 2);
    // All bits that must be clear, together: a branch for each would cost more.
    let wrong = u32::from(head.half(ETHERTYPE) ^ 0x0800)
        | u32::from(head.0[IP] ^ 0x45)
        | u32::from(head.0[IP + 9] ^ 6)
        | u32::from(head.half(IP + 6) & 0x1fff)
        | u32::from((head.0[TCP + 12] >> 4) ^ 8)
        | (head.word(TCP + 20) ^ 0x0101_080a);
    let fits = (total >= HEADERS) & (14 + u32::from(total) <= u32::from(frame_length));
    if wrong != 0 || !fits {
        return None;
    }
    Some(Original {
        tcp_seq: head.word(TCP + 4),
        tcp_ack: head.word(TCP + 8),
        tcp_tsval: head.word(TCP + 24),
        tcp_tsecr: head.word(TCP + 28),
        tcp_flags: head.half(TCP + 12) & 0x0fff,
        payload_length: total - HEADERS,
        ip_version: 4,
        ecn: head.0[IP + 1] & 3,
        protocol: 6,
        malformed: false,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use super::*;
    use crate::generate::{frames, Scenario};
    use crate::wire::decode;

    #[test]
    fn the_usual_form_is_parsed_as_any_other_with_every_bit_changed() {
        let scenario = Scenario { reports: 40, flows: 8, mixed_headers: true, ..Scenario::default() };
        let (mut usual, mut other) = (0, 0);
        let mut compare = |bytes: &[u8], length: u16| match parse(bytes, length) {
            Some(found) => {
                usual += 1;
                assert_eq!(found, Original::parse(bytes, length));
            }
            None => other += 1,
        };
        frames(&scenario, |_, frame| {
            let (record, inner) = decode(frame, scenario.port).unwrap();
            let length = record.report.packet_length;
            let mut changed = inner.to_vec();
            for at in 0..inner.len() {
                for bit in 0..8 {
                    changed[at] ^= 1 << bit;
                    compare(&changed, length);
                    changed[at] ^= 1 << bit;
                }
                compare(&inner[..at], length);
            }
            for shorter in 0..length {
                compare(inner, shorter);
            }
            Ok(())
        })
        .unwrap();
        assert!(usual > 1000 && other > 1000, "{usual} {other}");
    }
}
