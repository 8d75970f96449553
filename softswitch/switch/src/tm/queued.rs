//! A packet in a queue.
// SPDX-License-Identifier: Apache-2.0
/// A packet that waits, and what it found on arrival, as telemetry will carry it. As small as can be: a long queue has left the
/// processor's caches.
pub(super) struct Queued<P> {
    pub packet: P,
    pub enqueue_ns: u64,
    pub length: u32,
    pub depth_bytes: u32,
    pub depth_packets: u32,
    pub epoch: u16,
    pub rid: u16,
}

/// v1model's queue depth fields are 19 bits wide.
#[inline]
pub(super) fn telemetry_qdepth(packets: u64) -> u32 {
    packets.min((1 << 19) - 1) as u32
}
