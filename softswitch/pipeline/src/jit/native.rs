// SPDX-License-Identifier: Apache-2.0
//! The boundary to generated code.
//!
//! Why it is sound:
//!
//! - Generated code touches the packet's buffer at `base + offset` only. A base is 0, the fixed place of a header that
//!   the program adds (always the one of a header that it never parses), or where a header was extracted after comparing with the packet's end. Behind each of them the
//!   buffer goes on for the header's length and [`crate::packet::TAIL`] bytes more, the longest window. Bases are
//!   the program's own: a packet that this program's ingress has not seen, or of another shape, is left to the
//!   interpreter (`Packet::owner`, checked in [`crate::Pipeline`]).
//! - Ingress is two functions: what the first one found out holds for the second one, because in between no table changes
//!   ([`describe`] forgets what was prepared), and a packet whose bytes may have been written to has lost its ticket.
//! - Registers and counters are compared with the array's size, once for as long as the index keeps its value; slots, tables and live words are constants checked
//!   against the program when the code is made.
//! - Handles come from the table that they are used in, and [`Descriptor`]s are renewed before generated code runs
//!   again after a table has changed.
//! - Generated code runs only during [`Native::prepare`], [`Native::ingress`], [`Native::egress`] and [`Native::deparse`], which hold
//!   exclusive references to all that it writes to. The functions it calls (`callbacks.rs`, `clmul.rs`) do not unwind.
//! - The code's memory is never written again and lives as long as [`Native`].
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use cranelift_jit::JITModule;

use super::context::{Address, Context, Descriptor};
use super::lower;
use crate::exec::Machine;
use crate::packet::Packet;
use crate::pipeline::EgressMeta;
use crate::program::Program;

type Entry = extern "C" fn(*mut Context);

/// A program's native code.
pub(crate) struct Native {
    module: ManuallyDrop<JITModule>,
    prepare: Entry,
    resume: Entry,
    egress: Entry,
    deparse: Entry,
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Native")
    }
}

// SAFETY: after `compile` the module is not touched before it is dropped, and the code it holds is constant.
unsafe impl Send for Native {}
// SAFETY: as above.
unsafe impl Sync for Native {}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: the functions are not called any more: they are reached through `self` only. The module is not used
        // again.
        unsafe { ManuallyDrop::take(&mut self.module).free_memory() }
    }
}

/// What ingress or egress decided.
pub(crate) struct Decisions {
    pub egress_spec: u16,
    pub group: u16,
    pub priority: u8,
    /// Session and field list.
    pub clone: Option<(u16, u16)>,
    /// Index of the digest.
    pub digest: Option<u16>,
}

/// How far egress has brought a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deparsed {
    No,
    /// Checksums are done, but the headers do not lie in a row.
    Scattered,
    Placed,
}

impl Native {
    /// Makes the code. Errors: why this program or this machine cannot have any.
    pub(crate) fn compile(program: &Program) -> Result<Self, String> {
        let compiled = lower::compile(program)?;
        let entry = |id| {
            let code = compiled.module.get_finalized_function(id);
            // SAFETY: the code was made for this signature (`lower::compile`).
            unsafe { std::mem::transmute::<*const u8, Entry>(code) }
        };
        Ok(Self {
            prepare: entry(compiled.prepare),
            resume: entry(compiled.resume),
            egress: entry(compiled.egress),
            deparse: entry(compiled.deparse),
            module: ManuallyDrop::new(compiled.module),
        })
    }

    /// Parser, checksum verification and ingress. The packet must be fresh or prepared, with the program's headroom.
    #[inline]
    pub(crate) fn ingress(
        &self,
        program: &Program,
        machine: &mut Machine,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) -> Decisions {
        if !machine.ahead.is_prepared(packet.owner, port, timestamp) {
            packet.forget();
            self.prepare(machine, packet, port, timestamp);
        }
        let prepared = machine.ahead.place(packet.owner);
        prepared.forget();
        machine.context.prepared = prepared.words.as_mut_ptr();
        packet.owner = program.id;
        run(self.resume, machine, packet);
        decisions(&machine.context)
    }

    /// Begins with ingress of a packet like those that it takes, and asks for the memory that it will use first.
    #[inline]
    pub(crate) fn prepare(
        &self,
        machine: &mut Machine,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) {
        packet.owner = machine.ahead.ticket(port, timestamp);
        let prepared = machine.ahead.place(packet.owner);
        machine.context.prepared = prepared.words.as_mut_ptr();
        (machine.context.port, machine.context.timestamp) = (u64::from(port), timestamp);
        run(self.prepare, machine, packet);
        let (row, bytes) = (machine.context.row, machine.context.row_bytes);
        if row != 0 {
            prefetch(row as *const u8, bytes as usize);
        }
    }

    /// Egress of a packet of this program, and what [`Native::deparse`] does if it is not cloned.
    #[inline]
    pub(crate) fn egress(
        &self,
        machine: &mut Machine,
        packet: &mut Packet,
        meta: &EgressMeta,
    ) -> (Decisions, Deparsed) {
        machine.context.meta = meta;
        run(self.egress, machine, packet);
        let deparsed = match (machine.context.deparsed, machine.context.contiguous) {
            (0, _) => Deparsed::No,
            (_, 0) => Deparsed::Scattered,
            _ => Deparsed::Placed,
        };
        (decisions(&machine.context), deparsed)
    }

    /// Checksums of a packet of this program, and where its output starts and ends. False: its headers do not lie in a row;
    /// only the checksums are done.
    #[inline]
    pub(crate) fn deparse(&self, machine: &mut Machine, packet: &mut Packet) -> bool {
        run(self.deparse, machine, packet);
        machine.context.contiguous != 0
    }
}

/// Calls generated code for a packet.
#[inline]
fn run(entry: Entry, machine: &mut Machine, packet: &mut Packet) {
    let context = &mut *machine.context;
    context.buffer = packet.buffer.as_mut_ptr();
    context.live = packet.live.as_mut_ptr();
    context.packet = packet;
    let context: *mut Context = context;
    let machine: *mut Machine = machine;
    // SAFETY: the context is the machine's own, and both are borrowed exclusively until the code returns.
    unsafe { (*context).machine = machine };
    entry(context);
}

#[inline]
fn decisions(context: &Context) -> Decisions {
    Decisions {
        egress_spec: context.egress_spec as u16,
        group: context.group as u16,
        priority: context.priority as u8,
        clone: (context.clone != 0).then_some((context.clone as u16, (context.clone >> 16) as u16)),
        digest: (context.digest != 0).then_some(context.digest as u16),
    }
}

/// Looks up all addresses again, after anything but native code has changed tables or cells.
#[cold]
pub(crate) fn describe(program: &Program, machine: &mut Machine) {
    machine.changed = false;
    machine.ahead.forget();
    machine.banks.clear();
    machine.banks.extend(machine.state.addresses().map(Address));
    machine.descriptors.clear();
    for (code, table) in program.tables.iter().zip(&mut machine.tables) {
        table.refresh(code);
        machine.descriptors.push(Descriptor {
            direct: table
                .direct()
                .map_or(std::ptr::null(), |(handles, ..)| handles.as_ptr()),
            word: table.direct().map_or(0, |(_, word, _)| 8 * word as u64),
            mask: table.direct().map_or(0, |(.., mask)| mask),
            by_magnitude: table
                .magnitudes()
                .map_or(std::ptr::null(), |m| m.handles.as_ptr()),
            fraction_bits: table.magnitudes().map_or(0, |m| u64::from(m.fraction_bits)),
            records: table.records().as_ptr(),
            state: table,
        });
    }
    let context = &mut *machine.context;
    context.frame = machine.frame.as_mut_ptr();
    context.program = program;
    context.descriptors = machine.descriptors.as_ptr();
    context.banks = machine.banks.as_ptr();
    machine.kept.resize(program.live.len(), 0);
    context.kept = machine.kept.as_mut_ptr();
}

// SAFETY: descriptors and addresses are only followed while their machine is borrowed exclusively, see `Native`.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Send for Address {}
// SAFETY: as above; what it says of a packet is renewed for each call.
unsafe impl Send for Context {}

/// Asks for the cache lines of `count` bytes that will be used soon.
#[inline(always)]
pub(crate) fn prefetch<T>(start: *const T, count: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let mut line = 0;
        while line < count {
            // SAFETY: a prefetch has no effect but on time, whatever the address.
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                    start.cast::<i8>().wrapping_add(line),
                );
            }
            line += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, count);
}
