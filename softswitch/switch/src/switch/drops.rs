//! Records of packets that end at a bottleneck's queue.
// SPDX-License-Identifier: Apache-2.0
use narrows_drop_records::{Cause, DropRecord};
use narrows_pipeline::Packet;

use super::{Output, Switch};

/// Where and when a packet was dropped.
pub(super) struct Dropped {
    pub cause: Cause,
    pub at_ns: u64,
    /// When it came into the queue.
    pub enqueued_ns: u64,
    /// Port and priority of the queue; `None` if it never got that far.
    pub queue: Option<(u16, u8)>,
}

impl Switch {
    /// Tells `output` of a packet that was dropped, if it is of a bottleneck. Copies are not.
    #[cold]
    pub(super) fn record_drop(&self, packet: &Packet, dropped: Dropped, output: &mut impl Output) {
        let of = self.unit.as_ref().filter(|_| packet.generation() == 0);
        let Some(identity) = of.and_then(|unit| unit.pipeline.identity(packet)) else {
            return;
        };
        let Dropped { cause, at_ns, enqueued_ns, queue } = dropped;
        let (depth_bytes, depth_packets) = queue.map_or((0, 0), |(port, priority)| self.tm.depth(port, priority));
        output.dropped(&DropRecord {
            cause,
            bottleneck: identity.bottleneck,
            flow: identity.flow as u16,
            signature: identity.signature,
            packet_length: packet.length().try_into().unwrap_or(u16::MAX),
            timestamp: at_ns,
            waited: at_ns.saturating_sub(enqueued_ns),
            depth_bytes: depth_bytes.try_into().unwrap_or(u32::MAX),
            depth_packets: depth_packets.try_into().unwrap_or(u32::MAX),
        });
    }

    /// The same of one that the program's ingress has dropped, if that was for the bottleneck's sake.
    #[cold]
    pub(super) fn record_drop_at_ingress(&self, packet: &Packet, at_ns: u64, output: &mut impl Output) {
        let identity = self.unit.as_ref().and_then(|unit| unit.pipeline.identity(packet));
        if let Some(cause) = identity.and_then(|identity| Cause::of(identity.drop_cause)) {
            self.record_drop(packet, Dropped { cause, at_ns, enqueued_ns: at_ns, queue: None }, output);
        }
    }
}
