// SPDX-License-Identifier: Apache-2.0
//! The fields that the architecture shares with the program.

use crate::field::Slot;

/// A field that the architecture reads or writes, if the program has it: metadata, or a field of a header, which
/// exists only while the header is valid.
#[derive(Debug, Clone, Copy)]
pub enum Intrinsic {
    Absent,
    Slot {
        slot: Slot,
        mask: u64,
    },
    /// Whole bytes, at most 8.
    Header {
        header: u8,
        byte: u16,
        count: u8,
    },
}

impl Intrinsic {
    /// Its slot if it is metadata.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Intrinsic::Slot { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// Its header if it lies in one.
    pub fn header(self) -> Option<u8> {
        match self {
            Intrinsic::Header { header, .. } => Some(header),
            _ => None,
        }
    }
}

/// The fields of v1model's standard metadata, and Narrows' own.
#[derive(Debug)]
pub struct Intrinsics {
    pub ingress_port: Intrinsic,
    pub egress_spec: Intrinsic,
    pub egress_port: Intrinsic,
    pub packet_length: Intrinsic,
    pub instance_type: Intrinsic,
    pub parser_error: Intrinsic,
    pub checksum_error: Intrinsic,
    pub ingress_timestamp: Intrinsic,
    pub egress_timestamp: Intrinsic,
    pub mcast_grp: Intrinsic,
    pub egress_rid: Intrinsic,
    pub priority: Intrinsic,
    pub qid: Intrinsic,
    pub enq_timestamp: Intrinsic,
    pub enq_qdepth: Intrinsic,
    pub deq_timedelta: Intrinsic,
    pub deq_qdepth: Intrinsic,
    pub enq_depth_bytes: Intrinsic,
    pub deq_depth_bytes: Intrinsic,
    pub queue_delay: Intrinsic,
    pub epoch: Intrinsic,
    pub flow: Intrinsic,
    pub signature: Intrinsic,
    pub bottleneck: Intrinsic,
    pub drop_cause: Intrinsic,
    pub excess: Intrinsic,
}

impl Intrinsics {
    /// Headers that hold fields of the traffic manager's: they are metadata that never leaves as bytes, so lengths that
    /// queues account leave them out.
    pub fn manager_headers(&self) -> u64 {
        let fields = [
            self.enq_depth_bytes,
            self.deq_depth_bytes,
            self.queue_delay,
            self.epoch,
            self.flow,
            self.signature,
            self.bottleneck,
            self.drop_cause,
            self.excess,
        ];
        fields.iter().fold(0, |set, f| match f {
            Intrinsic::Header { header, .. } => set | 1 << header,
            _ => set,
        })
    }

    /// True if the program has a field of the traffic manager's, wherever it is.
    pub fn any_of_manager(&self) -> bool {
        let fields = [self.enq_depth_bytes, self.deq_depth_bytes, self.queue_delay, self.epoch, self.flow];
        fields.iter().any(|field| !matches!(field, Intrinsic::Absent))
    }

    /// What an ingress reads after the program has run.
    pub fn left_by_ingress(&self) -> impl Iterator<Item = Slot> {
        let read = [self.egress_spec, self.mcast_grp, self.priority, self.flow, self.ingress_port];
        read.into_iter().filter_map(Intrinsic::slot)
    }

    /// What an ingress writes.
    pub fn set_at_ingress(&self) -> impl Iterator<Item = Slot> {
        let set =
            [self.ingress_port, self.packet_length, self.ingress_timestamp, self.parser_error, self.checksum_error];
        set.into_iter().filter_map(Intrinsic::slot)
    }

    /// What an egress writes before the program runs.
    pub fn set_at_egress(&self) -> Vec<Slot> {
        [
            self.egress_spec,
            self.egress_port,
            self.packet_length,
            self.instance_type,
            self.egress_timestamp,
            self.egress_rid,
            self.qid,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.enq_depth_bytes,
            self.deq_depth_bytes,
            self.queue_delay,
            self.epoch,
        ]
        .iter()
        .filter_map(|f| f.slot())
        .collect()
    }
}
