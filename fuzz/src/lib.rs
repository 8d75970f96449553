// SPDX-License-Identifier: Apache-2.0
//! What targets share: a program as native code and interpreted, from the pipeline's tests, and cutting bytes into frames.
#![allow(dead_code)]

#[path = "../../softswitch/pipeline/tests/native/ahead.rs"]
pub mod ahead;
#[path = "../../softswitch/pipeline/tests/common/mod.rs"]
pub mod common;
#[path = "../../softswitch/pipeline/tests/native/traffic.rs"]
pub mod traffic;
#[path = "../../softswitch/pipeline/tests/native/twins.rs"]
pub mod twins;

use ahead::Ahead;
use narrows_pipeline::EgressMeta;

/// Cuts bytes into frames: each has `N` bytes of something else in front, then its length in one byte.
pub fn frames<const N: usize>(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; N], &[u8])> {
    std::iter::from_fn(move || {
        let (front, rest) = bytes.split_first_chunk::<N>()?;
        let (length, rest) = rest.split_first()?;
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        Some((front, frame))
    })
}

/// What a queue measured, what came between a packet and its announcement, and the port, from eight bytes.
#[must_use]
pub fn circumstances(bytes: [u8; 8]) -> (EgressMeta, Ahead, u16) {
    let word = u64::from_le_bytes(bytes);
    let ahead = match bytes[0] >> 4 {
        0..8 => Ahead::AsItComes,
        8 => Ahead::Nothing,
        9 => Ahead::OtherPort,
        10 => Ahead::OtherTime,
        11 => Ahead::OtherBytes,
        12 => Ahead::TableChange,
        13 => Ahead::Departure,
        _ => Ahead::Others(1 + bytes[0] % 6),
    };
    let half = (word >> 32) as u32;
    let meta = EgressMeta {
        port: u16::from(bytes[1]) + 256 * u16::from(bytes[0] % 2),
        priority: bytes[1] % 8,
        rid: u16::from(bytes[2] % 5),
        timestamp: word >> 16,
        enq_timestamp: half,
        deq_timedelta: half >> (bytes[2] % 32),
        enq_qdepth: half & 0x7_ffff,
        deq_qdepth: half >> 13,
        enq_depth_bytes: half,
        deq_depth_bytes: half.swap_bytes(),
        queue_delay: word >> (16 + bytes[2] % 48),
        epoch: u16::from(bytes[3]),
    };
    (meta, ahead, u16::from(bytes[0] % 4))
}
