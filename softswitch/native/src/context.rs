// SPDX-License-Identifier: Apache-2.0
//! What generated code is given: it reads inputs and addresses here, and leaves its decisions.

use std::ptr::{null, null_mut};

use narrows_interpreter::machine::Machine;
use narrows_interpreter::packet::Packet;
use narrows_interpreter::stages::EgressMeta;
use narrows_interpreter::table::TableState;
use narrows_program::Program;

/// The first word of a bank.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(pub *mut u64);

/// Where generated code finds a table's entries.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// Handles by key value for tables with [`TableState::direct`]; else null.
    pub direct: *const u32,
    /// The key's place among the words of all key fields, in bytes, and its mask.
    pub word: u64,
    pub mask: u64,
    /// Handles by magnitude for tables with [`TableState::magnitudes`]; else null. And bits of a magnitude's fraction.
    pub by_magnitude: *const u32,
    pub fraction_bits: u64,
    /// [`TableState::records`].
    pub records: *const u64,
    pub state: *const TableState,
}

/// A generated function.
pub(crate) type Entry = extern "C" fn(*mut Context);

/// The argument of generated functions. What is the same for all packets is renewed with the descriptors only.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context {
    pub(super) packet: *mut Packet,
    /// The packet's buffer.
    pub(super) buffer: *mut u8,
    /// The packet's carried metadata.
    pub(super) live: *mut u64,
    pub(super) machine: *mut Machine,
    /// The machine's frame.
    pub(super) frame: *mut u64,
    pub(super) program: *const Program,
    pub(super) descriptors: *const Descriptor,
    pub(super) banks: *const Address,
    /// What a clone keeps of the metadata that its packet carried.
    pub(super) kept: *mut u64,
    /// What is kept of a prepared packet.
    pub(super) prepared: *mut u64,
    /// The row of cells that a prepared packet will use first (0: none, or not known), and its length.
    pub(super) row: u64,
    pub(super) row_bytes: u64,
    pub(super) meta: *const EgressMeta,
    pub(super) port: u64,
    pub(super) timestamp: u64,
    /// Decisions: a clone is 1 << 32 | field list << 16 | session, a digest is 1 << 16 | index; 0 is none.
    pub(super) clone: u64,
    pub(super) digest: u64,
    pub(super) egress_spec: u64,
    pub(super) group: u64,
    pub(super) priority: u64,
    /// Not 0: egress has gone on to put the packet together.
    pub(super) deparsed: u64,
    /// Not 0: the output's headers lie in a row.
    pub(super) contiguous: u64,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            packet: null_mut(),
            buffer: null_mut(),
            live: null_mut(),
            machine: null_mut(),
            frame: null_mut(),
            program: null(),
            descriptors: null(),
            banks: null(),
            kept: null_mut(),
            prepared: null_mut(),
            row: 0,
            row_bytes: 0,
            meta: null(),
            port: 0,
            timestamp: 0,
            clone: 0,
            digest: 0,
            egress_spec: 0,
            group: 0,
            priority: 0,
            deparsed: 0,
            contiguous: 0,
        }
    }
}
