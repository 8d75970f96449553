// SPDX-License-Identifier: Apache-2.0
//! What v1model calls fields, parser errors and algorithms.

use std::collections::HashMap;

use narrows_program::bits::ones;
use narrows_program::calculation::Algorithm;
use narrows_program::field::Place;
use narrows_program::intrinsics::{Intrinsic, Intrinsics};
use narrows_program::ParserErrors;

use super::Result;
use crate::error::LoadError;
use crate::layout::Layout;

pub(super) fn intrinsics(layout: &Layout) -> Result<Intrinsics> {
    let find = |name: &str| find(layout, name, 64);
    // What the switch takes from the program must not be cut on the way: it would go to another port, or be another flow's.
    let taken = |name: &str, bits: u32| self::find(layout, name, bits);
    Ok(Intrinsics {
        ingress_port: find("standard_metadata.ingress_port")?,
        egress_spec: taken("standard_metadata.egress_spec", 16)?,
        egress_port: find("standard_metadata.egress_port")?,
        packet_length: find("standard_metadata.packet_length")?,
        instance_type: find("standard_metadata.instance_type")?,
        parser_error: find("standard_metadata.parser_error")?,
        checksum_error: find("standard_metadata.checksum_error")?,
        ingress_timestamp: find("intrinsic_metadata.ingress_global_timestamp")?,
        egress_timestamp: find("intrinsic_metadata.egress_global_timestamp")?,
        mcast_grp: taken("intrinsic_metadata.mcast_grp", 16)?,
        egress_rid: find("intrinsic_metadata.egress_rid")?,
        priority: taken("intrinsic_metadata.priority", 8)?,
        qid: find("queueing_metadata.qid")?,
        enq_timestamp: find("queueing_metadata.enq_timestamp")?,
        enq_qdepth: find("queueing_metadata.enq_qdepth")?,
        deq_timedelta: find("queueing_metadata.deq_timedelta")?,
        deq_qdepth: find("queueing_metadata.deq_qdepth")?,
        enq_depth_bytes: find("narrows.enq_depth_bytes")?,
        deq_depth_bytes: find("narrows.deq_depth_bytes")?,
        queue_delay: find("narrows.queue_delay")?,
        epoch: find("narrows.epoch")?,
        flow: taken("narrows.flow", 32)?,
        signature: taken("narrows.signature", 32)?,
        bottleneck: taken("narrows.bottleneck", 8)?,
        drop_cause: taken("narrows.drop_cause", 8)?,
        excess: taken("narrows.excess", 8)?,
    })
}

/// The field of this name, of at most `bits` bits.
fn find(layout: &Layout, name: &str, bits: u32) -> Result<Intrinsic> {
    let Some(field) = layout.intrinsic(name) else {
        return Ok(Intrinsic::Absent);
    };
    if field.width > bits {
        let what = format!("a field of {} bits (up to {bits} are) as {name}", field.width);
        return Err(LoadError::unsupported(what, "field_aliases"));
    }
    match field.place {
        Place::Slot(slot) => Ok(Intrinsic::Slot { slot, mask: ones(field.width) }),
        Place::Header { header, bit } if (bit | field.width) % 8 == 0 => {
            let (byte, count) = ((bit / 8) as u16, (field.width / 8) as u8);
            Ok(Intrinsic::Header { header, byte, count })
        }
        _ => Err(LoadError::unsupported(format!("a field of this shape as {name}"), "field_aliases")),
    }
}

/// The codes that the program gives to the errors of the core library.
pub(super) fn parser_errors(errors: &HashMap<String, u64>) -> ParserErrors {
    let code = |name: &str, otherwise| errors.get(name).copied().unwrap_or(otherwise);
    ParserErrors {
        none: code("NoError", 0),
        packet_too_short: code("PacketTooShort", 1),
        timeout: code("ParserTimeout", 5),
        invalid_argument: code("ParserInvalidArgument", 6),
    }
}

/// An algorithm by its name in the JSON.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        // The custom CRCs start with the standard parameters, and P4Runtime cannot change them.
        "crc16" | "crc16_custom" => Algorithm::Crc16,
        "crc32" | "crc32_custom" => Algorithm::Crc32,
        "crcCCITT" => Algorithm::CrcCcitt,
        "csum16" | "cksum16" => Algorithm::Csum16,
        "identity" => Algorithm::Identity,
        "xor16" => Algorithm::Xor16,
        "xor32" => Algorithm::Xor32,
        _ => return None,
    })
}
