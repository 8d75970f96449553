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

// Allowed in `jit/native.rs` only, which says why it is sound.
#![deny(unsafe_code)]

mod compile;
mod control;
mod error;
mod exec;
mod expr;
mod hash;
mod intrinsics;
mod jit;
mod json;
mod layout;
mod live;
mod op;
mod optimise;
mod packet;
mod pipeline;
mod pool;
mod program;
mod random;
mod state;
mod table;

pub use control::{
    ActionCall, ActionInfo, CounterId, CounterInfo, CounterValue, DigestInfo, DigestRecord,
    EntriesPart, Entry, KeyInfo, KeyMatch, MatchKind, RegisterId, RegisterInfo, TableId, TableInfo,
};
pub use error::{ControlError, LoadError};
pub use jit::prefetch_value as prefetch;
pub use packet::{Instance, Packet, MAX_HEADERS};
pub use pipeline::{EgressMeta, EgressVerdict, Forward, IngressVerdict, Pipeline};
pub use pool::PacketPool;
pub use program::Program;
