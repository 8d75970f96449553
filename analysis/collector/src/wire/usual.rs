// SPDX-License-Identifier: Apache-2.0
//! The usual report, decoded at fixed offsets: plain Ethernet, IPv4 and UDP around a report of an IPv4 TCP packet with
//! timestamps. What is not exactly that is left to [`super::decode_any`], which this must agree with.

use super::encapsulation::ENCAPSULATION_BYTES;
use super::original::Original;
use super::report::{Report, REPORT_BYTES};
use super::Record;

/// Offset of the original packet.
const INNER: usize = ENCAPSULATION_BYTES + REPORT_BYTES;
/// Ethernet, IPv4 without options, TCP with two NOPs and timestamps.
const INNER_BYTES: usize = 14 + 20 + 32;
const HEAD_BYTES: usize = INNER + INNER_BYTES;
const ETHERTYPE: usize = 12;
const IP: usize = 14;
const UDP: usize = 34;
const INNER_IP: usize = INNER + 14;
const INNER_TCP: usize = INNER_IP + 20;

/// Bytes at fixed offsets: no bound is checked at run time.
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

    /// Whether the IPv4 header of 20 bytes at `at` has a right checksum; the sum does not depend on the byte order.
    #[inline(always)]
    fn checksum_holds(&self, at: usize) -> bool {
        let native = |at: usize| {
            let word = [self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]];
            u64::from(u32::from_ne_bytes(word))
        };
        let sum = native(at) + native(at + 4) + native(at + 8) + native(at + 12) + native(at + 16);
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }
}

/// Decodes a frame of the usual form; `None` says nothing about any other.
#[inline(always)]
pub fn decode(frame: &[u8], port: u16) -> Option<(Record, &[u8])> {
    let head = Head(frame.first_chunk::<HEAD_BYTES>()?);
    let total = usize::from(head.half(IP + 2));
    let length = usize::from(head.half(UDP + 4));
    // Version, header length, protocol, no fragment, no UDP checksum.
    let carried = head.half(ETHERTYPE) == 0x0800
        && head.0[IP] == 0x45
        && head.0[IP + 9] == 17
        && head.half(IP + 6) & 0x3fff == 0
        && head.half(UDP + 2) == port
        && head.half(UDP + 6) == 0
        && length + 20 == total
        && length >= HEAD_BYTES - UDP
        && IP + total <= frame.len();
    let tcp = head.half(INNER + ETHERTYPE) == 0x0800
        && head.0[INNER_IP] == 0x45
        && head.0[INNER_IP + 9] == 6
        && head.half(INNER_IP + 6) & 0x1fff == 0
        && head.0[INNER_TCP + 12] >> 4 == 8
        && head.word(INNER_TCP + 20) == 0x0101_080a;
    if !(carried && tcp && head.checksum_holds(IP)) {
        return None;
    }
    let report = Report::decode(head.0[ENCAPSULATION_BYTES..INNER].first_chunk()?);
    super::check(&report).ok()?;
    let inner_total = usize::from(head.half(INNER_IP + 2));
    if inner_total < 52 || 14 + inner_total > usize::from(report.packet_length) {
        return None;
    }
    let original = Original {
        tcp_seq: head.word(INNER_TCP + 4),
        tcp_ack: head.word(INNER_TCP + 8),
        tcp_tsval: head.word(INNER_TCP + 24),
        tcp_tsecr: head.word(INNER_TCP + 28),
        tcp_flags: head.half(INNER_TCP + 12) & 0x0fff,
        payload_length: (inner_total - 52) as u16,
        ip_version: 4,
        ecn: head.0[INNER_IP + 1] & 3,
        protocol: 6,
        malformed: false,
    };
    Some((Record { report, original }, &frame[INNER..UDP + length]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use super::*;
    use crate::generate::{frames, Scenario};
    use crate::wire::decode_any;

    #[test]
    fn the_usual_form_is_decoded_as_any_other_with_every_byte_changed() {
        let scenario = Scenario {
            reports: 40,
            flows: 8,
            mixed_headers: true,
            ..Scenario::default()
        };
        let (mut usual, mut other) = (0, 0);
        frames(&scenario, |_, frame| {
            let mut changed = frame.to_vec();
            for at in 0..frame.len() {
                for bit in 0..8 {
                    changed[at] ^= 1 << bit;
                    match decode(&changed, scenario.port) {
                        Some(found) => {
                            usual += 1;
                            assert_eq!(Ok(found), decode_any(&changed, scenario.port));
                        }
                        None => other += 1,
                    }
                    changed[at] ^= 1 << bit;
                }
            }
            for length in 0..frame.len() {
                if let Some(found) = decode(&frame[..length], scenario.port) {
                    assert_eq!(Ok(found), decode_any(&frame[..length], scenario.port));
                }
            }
            Ok(())
        })
        .unwrap();
        assert!(usual > 1000 && other > 1000, "{usual} {other}");
    }
}
