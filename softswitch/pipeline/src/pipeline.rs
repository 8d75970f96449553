// SPDX-License-Identifier: Apache-2.0
//! A program with its state, applied to packets.

use std::sync::Arc;

use crate::control::{CounterId, CounterValue, DigestRecord, Entry, KeyMatch, RegisterId, TableId};
use crate::error::ControlError;
use crate::packet::Packet;
use crate::program::Program;

/// Where a packet goes after ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    Drop,
    /// To the queue of this port and this priority (v1model's `standard_metadata.priority`, 0..7).
    Unicast { port: u16, priority: u8 },
    /// To every member of the group: one [`Clone`] of the packet each, with its replica id in [`EgressMeta::rid`].
    Multicast { group: u16, priority: u8 },
}

/// What ingress decided. An ignored verdict leaks a decision of the program.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressVerdict {
    pub forward: Forward,
    /// Clone session (0..32767) of an ingress-to-egress clone.
    pub clone: Option<u16>,
}

/// What the queue measured, for one packet that leaves it. Units as v1model says or as the target's profile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressMeta {
    pub port: u16,
    /// Priority of the queue it left.
    pub priority: u8,
    /// Replica id of a multicast copy, else 0.
    pub rid: u16,
    /// `egress_global_timestamp`, 48 bits.
    pub timestamp: u64,
    pub enq_timestamp: u32,
    pub deq_timedelta: u32,
    /// In packets, 19 bits, saturated by the caller.
    pub enq_qdepth: u32,
    pub deq_qdepth: u32,
    /// `narrows.enq_depth_bytes`
    pub enq_depth_bytes: u32,
    /// `narrows.deq_depth_bytes`
    pub deq_depth_bytes: u32,
    /// `narrows.epoch`
    pub epoch: u16,
}

/// What egress decided.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressVerdict {
    /// False: dropped. True: send what [`Pipeline::deparse`] yields.
    pub transmit: bool,
    /// Clone session (0..32767) of an egress-to-egress clone, also of a packet that egress dropped.
    pub clone: Option<u16>,
}

/// A program and its state. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Pipeline {
    program: Arc<Program>,
}

impl Pipeline {
    /// A pipeline with empty tables. `seed` is the seed of the program's random numbers.
    #[must_use]
    pub fn new(program: Arc<Program>, seed: u64) -> Self {
        let _ = seed;
        Self { program }
    }

    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Parser, checksum verification and ingress control. `timestamp` is `ingress_global_timestamp` (48 bits).
    pub fn ingress(&mut self, packet: &mut Packet, port: u16, timestamp: u64) -> IngressVerdict {
        todo!("{packet:?}{port}{timestamp}")
    }

    /// Egress control.
    pub fn egress(&mut self, packet: &mut Packet, meta: &EgressMeta) -> EgressVerdict {
        todo!("{packet:?}{meta:?}")
    }

    /// Makes `copy` the ingress-to-egress clone of the packet that [`Pipeline::ingress`] has just seen: its original
    /// bytes, parsed again, metadata reset but for the preserved field list. Ready for [`Pipeline::egress`].
    pub fn clone_ingress(&mut self, packet: &Packet, copy: &mut Packet) {
        todo!("{packet:?}{copy:?}")
    }

    /// Makes `copy` the egress-to-egress clone of the packet that [`Pipeline::egress`] has just seen: headers as after
    /// egress and not yet deparsed, metadata reset but for the preserved field list. Ready for [`Pipeline::egress`].
    ///
    /// At most `limit` bytes of the packet are copied (the session's `packet_length_bytes`; `usize::MAX` for all).
    pub fn clone_egress(&mut self, packet: &Packet, copy: &mut Packet, limit: usize) {
        todo!("{packet:?}{copy:?}{limit}")
    }

    /// Updates checksums and puts the packet together. Returns what [`Packet::bytes`] is from now on.
    pub fn deparse<'p>(&mut self, packet: &'p mut Packet) -> &'p [u8] {
        packet.bytes()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Unknown action, key or parameters that do not fit, duplicate, table full, constant entries.
    pub fn table_insert(&mut self, table: TableId, entry: &Entry) -> Result<(), ControlError> {
        todo!("{table:?}{entry:?}")
    }

    /// Replaces the action of the entry with this key and priority; its direct counter stays.
    ///
    /// # Errors
    /// As for insertion; no such entry.
    pub fn table_modify(&mut self, table: TableId, entry: &Entry) -> Result<(), ControlError> {
        todo!("{table:?}{entry:?}")
    }

    /// Removes the entry with this key and priority.
    ///
    /// # Errors
    /// No such entry; constant entries.
    pub fn table_delete(&mut self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<(), ControlError> {
        todo!("{table:?}{key:?}{priority}")
    }

    /// All entries of a table with their direct counters (zero if it has none).
    ///
    /// # Errors
    /// A table id of another program.
    pub fn table_entries(&self, table: TableId) -> Result<Vec<(Entry, CounterValue)>, ControlError> {
        todo!("{table:?}")
    }

    /// The default action.
    ///
    /// # Errors
    /// A table id of another program.
    pub fn table_default(&self, table: TableId) -> Result<crate::ActionCall, ControlError> {
        todo!("{table:?}")
    }

    /// Sets the default action, or the program's own again with `None`.
    ///
    /// # Errors
    /// Unknown action, parameters that do not fit, constant default action.
    pub fn table_set_default(
        &mut self,
        table: TableId,
        action: Option<&crate::ActionCall>,
    ) -> Result<(), ControlError> {
        todo!("{table:?}{action:?}")
    }

    /// Sets the direct counter of an entry.
    ///
    /// # Errors
    /// No such entry; no direct counter.
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        todo!("{table:?}{key:?}{priority}{value:?}")
    }

    /// Reads a cell of an indirect counter.
    ///
    /// # Errors
    /// Index out of range; a direct counter.
    pub fn counter_read(&self, counter: CounterId, index: u64) -> Result<CounterValue, ControlError> {
        todo!("{counter:?}{index}")
    }

    /// Writes a cell of an indirect counter.
    ///
    /// # Errors
    /// Index out of range; a direct counter.
    pub fn counter_write(&mut self, counter: CounterId, index: u64, value: CounterValue) -> Result<(), ControlError> {
        todo!("{counter:?}{index}{value:?}")
    }

    /// Reads a register cell.
    ///
    /// # Errors
    /// Index out of range.
    pub fn register_read(&self, register: RegisterId, index: u64) -> Result<u128, ControlError> {
        todo!("{register:?}{index}")
    }

    /// Writes a register cell.
    ///
    /// # Errors
    /// Index out of range; value too wide.
    pub fn register_write(&mut self, register: RegisterId, index: u64, value: u128) -> Result<(), ControlError> {
        todo!("{register:?}{index}{value}")
    }

    /// Moves the digest records gathered since the last call to `records`.
    pub fn drain_digests(&mut self, records: &mut Vec<DigestRecord>) {
        todo!("{records:?}")
    }

    /// Digest records thrown away because nobody drained them (65,536 are kept).
    #[must_use]
    pub fn digests_lost(&self) -> u64 {
        todo!()
    }

    /// Back to the state after loading: tables, counters, registers, digests, random numbers.
    pub fn reset(&mut self) {
        todo!()
    }
}
