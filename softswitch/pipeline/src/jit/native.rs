// SPDX-License-Identifier: Apache-2.0
//! The boundary to generated code.
//!
//! Why it is sound:
//!
//! - Generated code touches the packet's buffer at `base + offset` only. A base is 0, the fixed place of a header that
//!   the program adds, or where a header was extracted after comparing with the packet's end. Behind each of them the
//!   buffer goes on for the header's length and [`crate::packet::TAIL`] bytes more, the longest window. Bases are
//!   the program's own: a packet that this program's ingress has not seen, or of another shape, is left to the
//!   interpreter (`Packet::owner`, checked in [`crate::Pipeline`]).
//! - Registers and counters are compared with the array's size; slots, tables and live words are constants checked
//!   against the program when the code is made.
//! - Handles come from the table that they are used in, and [`Descriptor`]s are renewed before generated code runs
//!   again after a table has changed.
//! - Generated code runs only during [`Native::preview`], [`Native::ingress`], [`Native::egress`] and [`Native::deparse`], which hold
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
    preview: Entry,
    ingress: Entry,
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
            preview: entry(compiled.preview),
            ingress: entry(compiled.ingress),
            egress: entry(compiled.egress),
            deparse: entry(compiled.deparse),
            module: ManuallyDrop::new(compiled.module),
        })
    }

    /// Parser, checksum verification and ingress. The packet must be fresh, with the program's headroom.
    #[inline]
    pub(crate) fn ingress(
        &self,
        program: &Program,
        machine: &mut Machine,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) -> Decisions {
        let mut context = context(program, machine, packet, std::ptr::null());
        (context.port, context.timestamp) = (u64::from(port), timestamp);
        (self.ingress)(&mut context);
        decisions(&context)
    }

    /// Asks for the memory that ingress will use first for a packet like those that it takes.
    #[inline]
    pub(crate) fn preview(
        &self,
        program: &Program,
        machine: &mut Machine,
        packet: &mut Packet,
        port: u16,
    ) {
        let mut context = context(program, machine, packet, std::ptr::null());
        context.port = u64::from(port);
        (self.preview)(&mut context);
        if context.row != 0 {
            prefetch(context.row as *const u8, context.row_bytes as usize);
        }
    }

    /// Egress of a packet of this program.
    #[inline]
    pub(crate) fn egress(
        &self,
        program: &Program,
        machine: &mut Machine,
        packet: &mut Packet,
        meta: &EgressMeta,
    ) -> Decisions {
        let mut context = context(program, machine, packet, meta);
        (self.egress)(&mut context);
        decisions(&context)
    }

    /// Checksums of a packet of this program, and where its output starts and ends. False: its headers do not lie in a row;
    /// only the checksums are done.
    #[inline]
    pub(crate) fn deparse(
        &self,
        program: &Program,
        machine: &mut Machine,
        packet: &mut Packet,
    ) -> bool {
        let mut context = context(program, machine, packet, std::ptr::null());
        (self.deparse)(&mut context);
        context.contiguous != 0
    }
}

#[inline]
fn context(
    program: &Program,
    machine: &mut Machine,
    packet: &mut Packet,
    meta: *const EgressMeta,
) -> Context {
    Context {
        buffer: packet.buffer.as_mut_ptr(),
        live: packet.live.as_mut_ptr(),
        packet,
        frame: machine.frame.as_mut_ptr(),
        descriptors: machine.descriptors.as_ptr(),
        banks: machine.banks.as_ptr(),
        machine,
        program,
        meta,
        port: 0,
        timestamp: 0,
        clone: 0,
        digest: 0,
        egress_spec: 0,
        group: 0,
        priority: 0,
        contiguous: 0,
        row: 0,
        row_bytes: 0,
    }
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
            records: table.records().as_ptr(),
            state: table,
        });
    }
}

// SAFETY: descriptors and addresses are only followed while their machine is borrowed exclusively, see `Native`.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Send for Address {}

/// Asks for the cache lines of `count` bytes that will be used soon.
#[inline(always)]
pub(crate) fn prefetch<T>(start: *const T, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..count).step_by(64) {
        // SAFETY: a prefetch has no effect but on time, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                start.cast::<i8>().wrapping_add(line),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, count);
}
