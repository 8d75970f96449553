// SPDX-License-Identifier: Apache-2.0
//! The fields that the architecture shares with the program.

use crate::error::LoadError;
use crate::exec::Frame;
use crate::layout::{Layout, Place, Slot};
use crate::packet::Packet;

/// A field that the architecture reads or writes, if the program has it: metadata, or a field of a header, which
/// exists only while the header is valid.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intrinsic {
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
    fn find(layout: &Layout, name: &str) -> Result<Self, LoadError> {
        let Some(field) = layout.intrinsic(name) else {
            return Ok(Intrinsic::Absent);
        };
        match field.place {
            Place::Slot(slot) if field.width <= 64 => Ok(Intrinsic::Slot {
                slot,
                mask: crate::compile::ones(field.width),
            }),
            Place::Header { header, bit } if field.width <= 64 && (bit | field.width) % 8 == 0 => {
                let (byte, count) = ((bit / 8) as u16, (field.width / 8) as u8);
                Ok(Intrinsic::Header {
                    header,
                    byte,
                    count,
                })
            }
            _ => Err(LoadError::unsupported(
                format!("a field of this shape as {name}"),
                "field_aliases",
            )),
        }
    }

    /// Its slot if it is metadata.
    pub(crate) fn slot(self) -> Option<Slot> {
        match self {
            Intrinsic::Slot { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// Its header if it lies in one.
    pub(crate) fn header(self) -> Option<u8> {
        match self {
            Intrinsic::Header { header, .. } => Some(header),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn get(self, frame: &Frame, packet: &Packet) -> u64 {
        match self {
            Intrinsic::Absent => 0,
            Intrinsic::Slot { slot, .. } => frame[usize::from(slot)],
            Intrinsic::Header {
                header,
                byte,
                count,
            } => packet.read_bytes(header, byte, usize::from(count)) as u64,
        }
    }

    #[inline(always)]
    pub(crate) fn set(self, frame: &mut Frame, packet: &mut Packet, value: u64) {
        match self {
            Intrinsic::Absent => {}
            Intrinsic::Slot { slot, mask } => frame[usize::from(slot)] = value & mask,
            Intrinsic::Header {
                header,
                byte,
                count,
            } => {
                packet.write_bytes(header, byte, value, usize::from(count));
            }
        }
    }
}

/// The fields of v1model's standard metadata, and Narrows' own.
#[derive(Debug)]
pub(crate) struct Intrinsics {
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
    pub epoch: Intrinsic,
    pub flow: Intrinsic,
}

impl Intrinsics {
    pub(crate) fn of(layout: &Layout) -> Result<Self, LoadError> {
        let find = |name: &str| Intrinsic::find(layout, name);
        Ok(Self {
            ingress_port: find("standard_metadata.ingress_port")?,
            egress_spec: find("standard_metadata.egress_spec")?,
            egress_port: find("standard_metadata.egress_port")?,
            packet_length: find("standard_metadata.packet_length")?,
            instance_type: find("standard_metadata.instance_type")?,
            parser_error: find("standard_metadata.parser_error")?,
            checksum_error: find("standard_metadata.checksum_error")?,
            ingress_timestamp: find("intrinsic_metadata.ingress_global_timestamp")?,
            egress_timestamp: find("intrinsic_metadata.egress_global_timestamp")?,
            mcast_grp: find("intrinsic_metadata.mcast_grp")?,
            egress_rid: find("intrinsic_metadata.egress_rid")?,
            priority: find("intrinsic_metadata.priority")?,
            qid: find("queueing_metadata.qid")?,
            enq_timestamp: find("queueing_metadata.enq_timestamp")?,
            enq_qdepth: find("queueing_metadata.enq_qdepth")?,
            deq_timedelta: find("queueing_metadata.deq_timedelta")?,
            deq_qdepth: find("queueing_metadata.deq_qdepth")?,
            enq_depth_bytes: find("narrows.enq_depth_bytes")?,
            deq_depth_bytes: find("narrows.deq_depth_bytes")?,
            epoch: find("narrows.epoch")?,
            flow: find("narrows.flow")?,
        })
    }

    /// Headers that hold fields of the traffic manager's: they are metadata that never leaves as bytes, so lengths that
    /// queues account leave them out.
    pub(crate) fn manager_headers(&self) -> u64 {
        let fields = [
            self.enq_depth_bytes,
            self.deq_depth_bytes,
            self.epoch,
            self.flow,
        ];
        fields.iter().fold(0, |set, f| match f {
            Intrinsic::Header { header, .. } => set | 1 << header,
            _ => set,
        })
    }

    /// What [`crate::Pipeline::ingress`] reads after the program has run.
    pub(crate) fn left_by_ingress(&self) -> impl Iterator<Item = Slot> {
        let read = [
            self.egress_spec,
            self.mcast_grp,
            self.priority,
            self.flow,
            self.ingress_port,
        ];
        read.into_iter().filter_map(Intrinsic::slot)
    }

    /// What [`crate::Pipeline::egress`] writes before the program runs.
    pub(crate) fn set_at_egress(&self) -> Vec<Slot> {
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
            self.epoch,
        ]
        .iter()
        .filter_map(|f| f.slot())
        .collect()
    }
}
