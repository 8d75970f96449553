// SPDX-License-Identifier: Apache-2.0
//! Frames, what queues measure, and a configuration for the Narrows program.

use narrows_pipeline::{ActionCall, EgressMeta, Entry, KeyMatch};
use proptest::prelude::*;

use super::twins::Twins;

/// What a queue measured.
pub fn metadata() -> impl Strategy<Value = EgressMeta> {
    let depths = (any::<u32>(), 0u32..50_000, any::<u32>(), 0u32..1 << 19, 0u32..1 << 19);
    (0u16..512, 0u8..8, any::<u64>(), depths, 0u16..3).prop_map(
        |(port, priority, timestamp, (deq_timedelta, enq_depth_bytes, deq_depth_bytes, enq, deq), epoch)| EgressMeta {
            port,
            priority,
            rid: port % 5,
            timestamp: timestamp & 0xffff_ffff_ffff,
            enq_timestamp: timestamp as u32,
            deq_timedelta: deq_timedelta >> (deq % 32),
            enq_qdepth: enq,
            deq_qdepth: deq,
            enq_depth_bytes,
            deq_depth_bytes,
            queue_delay: timestamp >> (16 + deq % 48),
            epoch,
        },
    )
}

/// A frame that the Narrows program understands more or less of, cut somewhere.
pub fn traffic() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::sample::select(vec![vec![], vec![0x8100u16], vec![0x88a8, 0x8100], vec![0x9999]]);
    let protocol = prop::sample::select(vec![6u8, 17, 33, 132, 136, 1, 47]);
    let first = prop::sample::select(vec![0x45u8, 0x46, 0x4f]);
    let parts =
        (tags, any::<bool>(), protocol, first, any::<u8>(), prop::sample::select(vec![0u16, 0x4000, 0x2000, 1]));
    (parts, 0u8..4, prop::collection::vec(any::<u8>(), 120), 0usize..200).prop_map(
        |((tags, ipv6, protocol, first, tos, fragment), flow, noise, length)| {
            let mut frame = vec![2, 0, 0, 0, 0, flow % 2, 2, 0, 0, 0, 0, 1];
            for tag in tags {
                frame.extend(tag.to_be_bytes());
                frame.extend([0, 7]);
            }
            if ipv6 {
                frame.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, 100, protocol, 64]);
                frame.extend([0xfd; 31]);
                frame.push(flow);
            } else {
                frame.extend([0x08, 0x00, first, tos, 0, 100, 0, 0]);
                frame.extend(fragment.to_be_bytes());
                frame.extend([64, protocol, noise[0], noise[1] & 1, 10, 0, 0, 1, 10, 0, 0, flow]);
            }
            frame.extend([0x13, 0x88, 0x14, flow]);
            frame.extend(&noise);
            frame.truncate(length.max(1));
            frame
        },
    )
}

/// Bottlenecks 0 to 2 between ports of the same numbers and 100 more, a wire, reports, loss, delay bins.
pub fn configure(twins: &mut Twins) {
    let entry = |key: Vec<KeyMatch>, priority, action: &str, params: Vec<u128>| Entry {
        key,
        priority,
        action: ActionCall { action: action.to_owned(), params },
    };
    let any = KeyMatch::Ternary { value: 0, mask: 0 };
    for port in 0..3u128 {
        let mut key = vec![any; 6];
        key[0] = KeyMatch::Ternary { value: port, mask: 0x1ff };
        let action = "NarrowsIngress.cross_connect.bottleneck";
        twins.insert(".cross_connect", &entry(key, 1, action, vec![port, port + 100, port]));
        let exact = vec![KeyMatch::Exact(port)];
        let (mask, session) = (if port == 2 { 3 } else { 0 }, 7 * u128::from(port != 1));
        // One marks by bytes, one by packets; one samples.
        let settings = vec![if port == 0 { 20_000 } else { 20 }, port & 1, 0x89ab_cdef, mask, port, 9, session];
        twins.insert(".settings.bottleneck", &entry(exact.clone(), 0, "NarrowsEgress.settings.observe", settings));
        let to = vec![0x0a, 0x0b, 0x0a00_0001, 0x0a00_0002, 4000, 5500, 120 + port];
        twins.insert(".collector", &entry(exact.clone(), 0, "NarrowsEgress.report.encapsulate", to));
        if port == 2 {
            twins.insert(".loss", &entry(exact, 0, "NarrowsIngress.bottleneck.set_loss", vec![1 << 30]));
        }
    }
    let mut key = vec![any; 6];
    key[4] = KeyMatch::Ternary { value: 1, mask: 1 };
    key[5] = KeyMatch::Ternary { value: u128::from_be_bytes([0xfd; 16]) << 8 | 1, mask: u128::MAX };
    twins.insert(".cross_connect", &entry(key, 5, "NarrowsIngress.cross_connect.wire", vec![300]));
    for octave in 2..32u32 {
        let key = KeyMatch::Lpm { value: 1 << octave, prefix_len: 32 - octave };
        twins.insert(".delay_bins", &entry(vec![key], 0, "NarrowsEgress.bottleneck.set_bin", vec![u128::from(octave)]));
    }
}
