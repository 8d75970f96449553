// SPDX-License-Identifier: Apache-2.0
//! What targets share: a program as native code and interpreted, from the pipeline's tests, and cutting bytes into frames.
#![allow(dead_code)]

#[path = "../../softswitch/pipeline/tests/common/mod.rs"]
pub mod common;
#[path = "../../softswitch/pipeline/tests/native/preparation.rs"]
pub mod preparation;
#[path = "../../softswitch/pipeline/tests/native/traffic.rs"]
pub mod traffic;
#[path = "../../softswitch/pipeline/tests/native/twins.rs"]
pub mod twins;

use narrows_pipeline::EgressMeta;
use preparation::Preparation;

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
pub fn circumstances(bytes: [u8; 8]) -> (EgressMeta, Preparation, u16) {
    let word = u64::from_le_bytes(bytes);
    let preparation = match bytes[0] >> 4 {
        0..8 => Preparation::AsItComes,
        8 => Preparation::Nothing,
        9 => Preparation::OtherPort,
        10 => Preparation::OtherTime,
        11 => Preparation::OtherBytes,
        12 => Preparation::TableChange,
        13 => Preparation::Departure,
        _ => Preparation::Others(1 + bytes[0] % 6),
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
    (meta, preparation, u16::from(bytes[0] % 4))
}
