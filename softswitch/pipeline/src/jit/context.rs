// SPDX-License-Identifier: Apache-2.0
//! What generated code is given: it reads inputs and addresses here, and leaves its decisions.

use crate::exec::Machine;
use crate::packet::Packet;
use crate::pipeline::EgressMeta;
use crate::program::Program;
use crate::table::TableState;

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
    /// [`TableState::records`].
    pub records: *const u64,
    pub state: *const TableState,
}

/// The argument of generated functions.
#[repr(C)]
pub(super) struct Context {
    pub packet: *mut Packet,
    /// The packet's buffer.
    pub buffer: *mut u8,
    /// The packet's carried metadata.
    pub live: *mut u64,
    pub machine: *mut Machine,
    /// The machine's frame.
    pub frame: *mut u64,
    pub program: *const Program,
    pub descriptors: *const Descriptor,
    pub banks: *const Address,
    pub meta: *const EgressMeta,
    pub port: u64,
    pub timestamp: u64,
    /// Decisions: a clone is 1 << 32 | field list << 16 | session, a digest is 1 << 16 | index; 0 is none.
    pub clone: u64,
    pub digest: u64,
    pub egress_spec: u64,
    pub group: u64,
    pub priority: u64,
    /// Not 0: the output's headers lie in a row.
    pub contiguous: u64,
    /// Of a preview: the row of cells that the packet will use first (0: none, or not known), and its length.
    pub row: u64,
    pub row_bytes: u64,
}
