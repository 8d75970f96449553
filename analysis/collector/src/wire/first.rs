// SPDX-License-Identifier: Apache-2.0
//! Version 1 of the report's layout, in older captures: it is rewritten as version 2.
//!
//! It had 32 bits of queue delay, which a switch cut to 2^32-1. It had no drops by queue management, no queue number and no
//! ECN field of the arrival; these are 0, which is right, as there was no queue management.

use super::report::{REPORT_BYTES, VERSION};

/// Its number.
pub const FIRST_VERSION: u8 = 1;
/// Bytes of its fixed header.
pub const FIRST_BYTES: usize = 48;

/// Where each field of version 1 is, from `flags` on, and where it is in version 2; adjacent fields together.
const MOVES: [(usize, usize, usize); 5] = [(1, 1, 27), (28, 42, 4), (32, 32, 8), (40, 48, 6), (46, 46, 2)];

/// The same report in today's layout.
pub fn renewed(first: &[u8; FIRST_BYTES]) -> [u8; REPORT_BYTES] {
    let mut bytes = [0; REPORT_BYTES];
    bytes[0] = VERSION;
    for (from, to, length) in MOVES {
        bytes[to..to + length].copy_from_slice(&first[from..from + length]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Report;

    #[test]
    fn every_field_of_version_1_is_found_again() {
        let mut bytes: [u8; FIRST_BYTES] = std::array::from_fn(|i| i as u8 + 1);
        bytes[0] = FIRST_VERSION;
        let expected = Report {
            version: VERSION,
            flags: 2,
            bottleneck: 3,
            sample_shift: 4,
            flow: 0x0506,
            packet_length: 0x0708,
            signature: 0x090a_0b0c,
            sequence: 0x0d0e_0f10,
            arrivals: 0x1112_1314,
            departures: 0x1516_1718,
            loss_drops: 0x191a_1b1c,
            aqm_drops: 0,
            enqueue_depth: 0x2122_2324,
            dequeue_depth: 0x2526_2728,
            queue_delay: 0x1d1e_1f20,
            epoch: 0x2f30,
            timestamp: 0x292a_2b2c_2d2e,
            queue: 0,
        };
        assert_eq!(Report::decode(&renewed(&bytes)), expected);
    }
}
