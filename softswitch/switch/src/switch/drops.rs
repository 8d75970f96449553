//! Records of packets that end at a bottleneck's queue.
// SPDX-License-Identifier: Apache-2.0
use narrows_drop_records::{Cause, DropRecord};
use narrows_pipeline::Packet;

use super::{Output, Switch};
use crate::telemetry::Owner;

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
    /// Whose a packet is that is of a bottleneck; copies are not. `port`: of the queue that it was offered to.
    fn owner(&self, packet: &Packet, port: Option<u16>) -> Option<Owner> {
        if packet.generation() > 0 {
            return None;
        }
        if self.is_observed() {
            return self.telemetry()?.owner(port?, packet);
        }
        let identity = self.devices.unit.as_ref()?.pipeline.identity(packet)?;
        let (bottleneck, flow, signature) = (identity.bottleneck, identity.flow as u16, identity.signature);
        Some(Owner { bottleneck, flow, signature })
    }

    /// Why egress drops a packet: one that says whose packets are is ours, and drops to manage its queue.
    #[cold]
    pub(super) fn cause_at_egress(&self, packet: &Packet) -> Cause {
        let is_ours = self.devices.unit.as_ref().is_some_and(|unit| unit.pipeline.identity(packet).is_some());
        if is_ours {
            Cause::Management
        } else {
            Cause::ProgramEgress
        }
    }

    /// Tells `output` of a packet that was dropped, if it is of a bottleneck.
    #[cold]
    pub(super) fn record_drop(&self, packet: &Packet, dropped: Dropped, output: &mut impl Output) {
        if let Some(owner) = self.owner(packet, dropped.queue.map(|(port, _)| port)) {
            self.record_drop_of(owner, packet, dropped, output);
        }
    }

    fn record_drop_of(&self, owner: Owner, packet: &Packet, dropped: Dropped, output: &mut impl Output) {
        let Dropped { cause, at_ns, enqueued_ns, queue } = dropped;
        let (depth_bytes, depth_packets) = queue.map_or((0, 0), |(port, priority)| self.tm.depth(port, priority));
        output.dropped(&DropRecord {
            cause,
            bottleneck: owner.bottleneck,
            flow: owner.flow,
            signature: owner.signature,
            packet_length: packet.length().try_into().unwrap_or(u16::MAX),
            timestamp: at_ns,
            waited: at_ns.saturating_sub(enqueued_ns),
            depth_bytes: depth_bytes.try_into().unwrap_or(u32::MAX),
            depth_packets: depth_packets.try_into().unwrap_or(u32::MAX),
        });
    }

    /// The same of one that the program's ingress has dropped, which came in by `port`, if that was for the bottleneck's sake. The
    /// program says so, or it is a bottleneck for all that comes in there.
    #[cold]
    pub(super) fn record_drop_at_ingress(&mut self, packet: &Packet, port: u16, at_ns: u64, output: &mut impl Output) {
        let identity = self.devices.unit.as_ref().and_then(|unit| unit.pipeline.identity(packet));
        let named = identity.and_then(|identity| Cause::of(identity.drop_cause));
        let of_bottleneck = match self.is_observed() {
            true => self.note_early_drop(port, named, packet),
            false => named.and_then(|cause| Some((cause, self.owner(packet, None)?))),
        };
        if let Some((cause, owner)) = of_bottleneck {
            self.record_drop_of(owner, packet, Dropped { cause, at_ns, enqueued_ns: at_ns, queue: None }, output);
        }
    }
}
