// SPDX-License-Identifier: Apache-2.0
//! Retransmitted payload bytes as the bottleneck sees them: bytes below the highest sequence number that has passed.

use crate::wire::original::TCP_SYN;
use crate::wire::Original;

const PROTOCOL_TCP: u8 = 6;
/// A step ahead that is believed at once; farther ones only when the next segment continues them.
const MAX_STEP: u32 = 1 << 24;

/// Highest sequence number of one TCP flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpProgress {
    /// One more than the highest sequence number passed.
    highest: Option<u32>,
    suspect: Option<u32>,
}

impl TcpProgress {
    /// Takes a segment; answers how many of its payload bytes had passed before.
    #[inline]
    pub fn take(&mut self, original: &Original) -> u16 {
        if original.protocol != PROTOCOL_TCP {
            return 0;
        }
        let syn = original.tcp_flags & TCP_SYN != 0;
        if original.payload_length == 0 && !syn {
            return 0;
        }
        let end = original
            .tcp_seq
            .wrapping_add(u32::from(original.payload_length))
            .wrapping_add(u32::from(syn));
        let Some(highest) = self.highest else {
            self.highest = Some(end);
            return 0;
        };
        let ahead = end.wrapping_sub(highest);
        if (ahead as i32) <= 0 {
            self.suspect = None;
            if syn {
                // The 5-tuple begins a new connection (or repeats its SYN, which carries no payload to count).
                self.highest = Some(end);
                return 0;
            }
            return original.payload_length;
        }
        if ahead > MAX_STEP && !syn && !self.confirms(end) {
            self.suspect = Some(end);
            return 0;
        }
        self.suspect = None;
        self.highest = Some(end);
        // Payload in front of the old mark has passed before.
        (u32::from(original.payload_length).saturating_sub(ahead)) as u16
    }

    fn confirms(&self, end: u32) -> bool {
        self.suspect
            .is_some_and(|suspect| end.wrapping_sub(suspect) <= MAX_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, payload: u16) -> Original {
        Original {
            protocol: 6,
            tcp_flags: 0x10,
            tcp_seq: sequence,
            payload_length: payload,
            ..Original::default()
        }
    }

    fn run(segments: &[(u32, u16)]) -> Vec<u16> {
        let mut progress = TcpProgress::default();
        segments
            .iter()
            .map(|&(sequence, payload)| progress.take(&segment(sequence, payload)))
            .collect()
    }

    #[test]
    fn only_bytes_below_the_mark_are_retransmitted() {
        assert_eq!(
            run(&[(0, 100), (100, 100), (50, 100), (150, 100), (200, 10)]),
            [0, 0, 100, 50, 10]
        );
    }

    #[test]
    fn the_mark_follows_across_the_wrap() {
        assert_eq!(
            run(&[(u32::MAX - 49, 100), (50, 100), (u32::MAX - 49, 100)]),
            [0, 0, 100]
        );
    }

    #[test]
    fn one_damaged_number_does_not_move_the_mark() {
        assert_eq!(
            run(&[(0, 100), (1 << 30, 100), (100, 100), (200, 100)]),
            [0, 0, 0, 0]
        );
        assert_eq!(
            run(&[
                (0, 100),
                (1 << 30, 100),
                ((1 << 30) + 100, 100),
                (1 << 30, 50)
            ]),
            [0, 0, 0, 50]
        );
    }
}
