// SPDX-License-Identifier: Apache-2.0
//! Decodes the frames of one source. Their encapsulation is examined once, and recognised afterwards.

use super::encapsulation::{self, Path, ENCAPSULATION_BYTES};
use super::{decode_payload, Record, Reject};

/// First byte that is compared: the end of the source address, then everything up to the report.
const HEAD_START: usize = ENCAPSULATION_BYTES - HEAD_BYTES;
const HEAD_BYTES: usize = 32;
/// How many kinds of frames are remembered, by length.
const KNOWN: usize = 8;
const UDP_CHECKSUM: usize = ENCAPSULATION_BYTES - 2;

/// A frame whose headers were found correct. Only they and the length decide where its payload is.
#[derive(Clone, Copy)]
struct Known {
    head: [u8; HEAD_BYTES],
    length: usize,
    payload_end: usize,
}

/// Decoder of the reports along one path.
pub struct Decoder {
    path: Path,
    known: [Known; KNOWN],
    other_version: Option<u8>,
}

impl Decoder {
    /// A decoder without any frame yet.
    pub fn new(path: impl Into<Path>) -> Self {
        let none = Known { head: [0; HEAD_BYTES], length: usize::MAX, payload_end: 0 };
        Decoder { path: path.into(), known: [none; KNOWN], other_version: None }
    }

    /// Decodes the report in `frame`; also returns the original packet's bytes, which [`crate::flow_keys`] reads.
    ///
    /// # Errors
    /// Why the frame is not a usable report.
    #[inline(always)]
    pub fn decode<'a>(&mut self, frame: &'a [u8]) -> Result<(Record, &'a [u8]), Reject> {
        let known = &self.known[frame.len() % KNOWN];
        let payload = match frame.get(HEAD_START..ENCAPSULATION_BYTES) {
            Some(head) if head == known.head && frame.len() == known.length => {
                &frame[ENCAPSULATION_BYTES..known.payload_end]
            }
            _ => self.examine(frame)?,
        };
        let decoded = decode_payload(payload);
        if decoded.as_ref().is_err_and(|&reason| reason == Reject::Version) {
            self.other_version = self.other_version.or(payload.first().copied());
        }
        decoded
    }

    /// The version of the first frame that was rejected for it.
    pub fn other_version(&self) -> Option<u8> {
        self.other_version
    }

    #[inline(never)]
    fn examine<'a>(&mut self, frame: &'a [u8]) -> Result<&'a [u8], Reject> {
        let payload = encapsulation::payload(frame, self.path)?;
        let head = frame[..ENCAPSULATION_BYTES].last_chunk::<HEAD_BYTES>();
        if let (Some(head), true) = (head, plain(frame)) {
            self.known[frame.len() % KNOWN] =
                Known { head: *head, length: frame.len(), payload_end: ENCAPSULATION_BYTES + payload.len() };
        }
        Ok(payload)
    }
}

/// Whether an accepted frame's payload starts after the usual headers and is not covered by a checksum.
fn plain(frame: &[u8]) -> bool {
    encapsulation::is_plain(frame) && frame[UDP_CHECKSUM..ENCAPSULATION_BYTES] == [0, 0]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use super::*;
    use crate::generate::{frames, Scenario};
    use crate::wire::decode;

    #[test]
    fn a_frame_is_decoded_the_same_whatever_came_before_with_every_bit_changed() {
        let scenario = Scenario { reports: 40, flows: 8, mixed_headers: true, ..Scenario::default() };
        let mut decoder = Decoder::new(scenario.port);
        let mut remembered = 0;
        frames(&scenario, |_, frame| {
            let mut changed = frame.to_vec();
            for at in 0..frame.len() {
                for bit in 0..8 {
                    assert_eq!(decoder.decode(frame), decode(frame, scenario.port));
                    remembered += u32::from(decoder.known[frame.len() % KNOWN].length == frame.len());
                    changed[at] ^= 1 << bit;
                    assert_eq!(decoder.decode(&changed), decode(&changed, scenario.port));
                    changed[at] ^= 1 << bit;
                }
            }
            for length in 0..frame.len() {
                let part = &frame[..length];
                assert_eq!(decoder.decode(frame), decode(frame, scenario.port));
                assert_eq!(decoder.decode(part), decode(part, scenario.port));
            }
            Ok(())
        })
        .unwrap();
        assert!(remembered > 1000, "{remembered}");
    }

    #[test]
    fn a_checksum_is_looked_at_each_time() {
        let mut sample = Vec::new();
        frames(&Scenario::default(), |_, frame| {
            sample = frame.to_vec();
            Ok(())
        })
        .unwrap();
        let datagram = &sample[34..];
        let length = datagram.len() as u32;
        let pseudo = u32::from(encapsulation::checksum(17 + length, &sample[26..34]));
        let sum = !encapsulation::checksum(pseudo, datagram);
        sample[UDP_CHECKSUM..ENCAPSULATION_BYTES].copy_from_slice(&sum.to_be_bytes());
        let mut decoder = Decoder::new(Scenario::default().port);
        assert!(decoder.decode(&sample).is_ok());
        sample[ENCAPSULATION_BYTES + 20] ^= 1;
        assert_eq!(decoder.decode(&sample), Err(Reject::UdpChecksum));
    }
}
