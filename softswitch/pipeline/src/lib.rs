// SPDX-License-Identifier: Apache-2.0
//! Executes compiled P4 programs (BMv2 JSON for v1model) on packets.
//!
//! [`Program::load`] compiles the JSON that `p4c-bm2-ss` writes, or refuses it by naming what is not supported.
//! [`Pipeline`] is a program with its state: table entries, counters, registers. The traffic manager that owns both
//! ends of a queue drives it:
//!
//! 1. [`PacketPool::take`] a packet, fill [`Packet::bytes_mut`], call [`Pipeline::ingress`];
//! 2. if [`IngressVerdict::clone`] is set, [`Pipeline::clone_ingress`] makes the copy;
//! 3. queue the packet as [`IngressVerdict::forward`] says;
//! 4. at its departure call [`Pipeline::egress`] with what the queue measured;
//! 5. if [`EgressVerdict::clone`] is set, [`Pipeline::clone_egress`] makes the copy, to be queued at its session's port;
//! 6. if [`EgressVerdict::transmit`] is set, [`Pipeline::deparse`] yields the bytes to send;
//! 7. [`PacketPool::give`] the packet back.
//!
//! Steps 2, 5 and 6 come directly after 1 and 4, before the pipeline sees another packet.
//!
//! This is the boundary that a switch uses, and the only place that chooses between native code and the interpreter. What a
//! packet looks like inside is hidden here, because native code relies on it. Deliberately absent: ports, queues, clocks,
//! P4Runtime, and any knowledge of the JSON or of instructions.

// Allowed in `pipeline.rs` only: calls of native code, for packets that this crate made.
#![deny(unsafe_code)]

mod adopt;
mod control;
mod packet;
mod pipeline;
mod pool;
mod profiles;
mod program;

pub use narrows_frontend::LoadError;
pub use narrows_interpreter::cells::RegisterPlace;
pub use narrows_interpreter::hash::{crc32, internet_checksum};
pub use narrows_interpreter::meters::Cell as MeterCell;
pub use narrows_interpreter::packet::{Instance, Note};
pub use narrows_interpreter::prefetch::prefetch_value as prefetch;
pub use narrows_interpreter::stages::EgressMeta;
pub use narrows_interpreter::table::KeptEntry;
pub use narrows_interpreter::{ControlError, Random};
pub use narrows_program::bits;
pub use narrows_program::control::{
    ActionCall, ActionInfo, ActionSet, CounterId, CounterInfo, CounterValue, DigestInfo, DigestRecord, EntriesPart,
    Entry, EntryState, GroupConfig, KeyInfo, KeyMatch, MatchKind, MeterConfig, MeterId, MeterInfo, ProfileInfo,
    RegisterId, RegisterInfo, TableId, TableInfo, Target, ValueSetInfo,
};
pub use narrows_program::field::MAX_HEADERS;
pub use packet::Packet;
pub use pipeline::{EgressVerdict, Forward, IngressVerdict, PacketIdentity, Pipeline};
pub use pool::PacketPool;
pub use program::Program;
