// SPDX-License-Identifier: Apache-2.0
//! The boundary to generated code.
//!
//! Why it is sound:
//!
//! - Generated code touches the packet's buffer at `base + offset` only. A base is 0, the fixed place of a header that
//!   the program adds (always the one of a header that it never parses), or where a header was extracted after comparing with the packet's end. Behind each of them the
//!   buffer continues for the header's length and [`TAIL`](narrows_program::field::TAIL) bytes more, the longest window. Bases are
//!   the program's own: whoever calls leaves a packet that this program's ingress has not seen, or of another shape, to the
//!   interpreter.
//! - Ingress is two functions: what the first one found out holds for the second one, because in between no table changes
//!   ([`NativeMachine::describe`] forgets what was prepared), and a packet whose bytes may have been written to is no longer
//!   known as prepared.
//! - Registers and counters are compared with the array's size, once for as long as the index keeps its value; slots, tables and live words are constants checked
//!   against the program when the code is made.
//! - Handles come from the table that they are used in, and [`Descriptor`]s are renewed before generated code runs
//!   again after a table may have changed ([`NativeMachine::change`]).
//! - Generated code runs only during [`Native::prepare`], [`Native::resume`], [`Native::ingress`], [`Native::egress`] and
//!   [`Native::deparse`], which hold exclusive references to all that it writes to. The functions it calls (`callbacks.rs`, `clmul.rs`) do not unwind.
//! - The code's memory is never written again and lives as long as [`Native`].
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use cranelift_jit::JITModule;
use narrows_interpreter::packet::{Instance, Packet};
use narrows_interpreter::prefetch::prefetch;
use narrows_interpreter::stages::{Decisions, EgressMeta};
use narrows_program::Program;

use crate::context::Entry;
use crate::lower::{self, Egress};
use crate::machine::NativeMachine;

/// A program's native code.
pub struct Native {
    module: ManuallyDrop<JITModule>,
    prepare: Entry,
    resume: Entry,
    egress: Egress<Entry>,
    deparse: Entry,
    limited: usize,
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

/// How far egress has brought a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deparsed {
    No,
    /// Checksums are done, but the headers do not lie in a row.
    Scattered,
    Placed,
}

impl Native {
    /// Makes the code.
    ///
    /// # Errors
    /// Why this program or this machine cannot have any.
    pub fn compile(program: &Program) -> Result<Self, String> {
        let compiled = lower::compile(program)?;
        let entry = |id| {
            let code = compiled.module.get_finalized_function(id);
            // SAFETY: the code was made for this signature (`lower::compile`).
            unsafe { std::mem::transmute::<*const u8, Entry>(code) }
        };
        Ok(Self {
            prepare: entry(compiled.prepare),
            resume: entry(compiled.resume),
            egress: Egress { packets: entry(compiled.egress.packets), copies: entry(compiled.egress.copies) },
            deparse: entry(compiled.deparse),
            limited: compiled.limited,
            module: ManuallyDrop::new(compiled.module),
        })
    }

    /// Places in the program that are translated for all packets alike, and run slower for it, because code for each kind of packet
    /// would have been too much.
    #[must_use]
    pub fn limited(&self) -> usize {
        self.limited
    }

    /// Parser, checksum verification and ingress.
    ///
    /// # Safety
    /// The code, the machine and the packet's pool are made for `program`, which neither changes nor moves while they live. The
    /// packet is fresh or prepared, and starts behind the program's headroom.
    #[inline]
    pub unsafe fn ingress(
        &self,
        program: &Program,
        machine: &mut NativeMachine,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) -> Decisions {
        machine.renew(program);
        packet.forget();
        self.begin(machine, packet, port, timestamp);
        self.go_on(program, machine, packet)
    }

    /// The same for a packet that was prepared for this port and time, if that is still valid; else `None`.
    ///
    /// # Safety
    /// The code and the machine are made for `program`, which neither changes nor moves while they live.
    #[inline(always)]
    pub unsafe fn resume(
        &self,
        program: &Program,
        machine: &mut NativeMachine,
        packet: &mut Packet,
        port: u16,
        timestamp: u64,
    ) -> Option<Decisions> {
        let holds = !machine.changed && machine.prepared.is_prepared(packet.owner, port, timestamp);
        holds.then(|| self.go_on(program, machine, packet))
    }

    /// What is left of ingress.
    #[inline(always)]
    fn go_on(&self, program: &Program, machine: &mut NativeMachine, packet: &mut Packet) -> Decisions {
        if packet.live.len() != program.live.len() {
            packet.live.resize(program.live.len(), 0);
        }
        let prepared = machine.prepared.place(packet.owner);
        prepared.forget();
        machine.context.prepared = prepared.words.as_mut_ptr();
        packet.owner = program.id;
        machine.run(self.resume, packet);
        machine.decisions()
    }

    /// Begins with ingress of a packet like those that it takes, and asks for the memory that it will use first. Nothing if
    /// tables or cells have just changed.
    ///
    /// # Safety
    /// As for [`Native::ingress`], and the packet is fresh.
    #[inline]
    pub unsafe fn prepare(&self, machine: &mut NativeMachine, packet: &mut Packet, port: u16, timestamp: u64) {
        if !machine.changed {
            self.begin(machine, packet, port, timestamp);
        }
    }

    #[inline]
    fn begin(&self, machine: &mut NativeMachine, packet: &mut Packet, port: u16, timestamp: u64) {
        packet.owner = machine.prepared.add(port, timestamp);
        let prepared = machine.prepared.place(packet.owner);
        machine.context.prepared = prepared.words.as_mut_ptr();
        (machine.context.port, machine.context.timestamp) = (u64::from(port), timestamp);
        machine.run(self.prepare, packet);
        let (row, bytes) = (machine.context.row, machine.context.row_bytes);
        if row != 0 {
            prefetch(row as *const u8, bytes as usize);
        }
    }

    /// Egress, and what [`Native::deparse`] does if the packet is not cloned.
    ///
    /// # Safety
    /// As for [`Native::ingress`], but ingress of this program has seen the packet or made it its clone.
    #[inline]
    pub unsafe fn egress(
        &self,
        program: &Program,
        machine: &mut NativeMachine,
        packet: &mut Packet,
        meta: &EgressMeta,
    ) -> (Decisions, Deparsed) {
        machine.renew(program);
        machine.context.meta = meta;
        let entry = match packet.instance {
            Instance::EgressClone => self.egress.copies,
            _ => self.egress.packets,
        };
        machine.run(entry, packet);
        let deparsed = match (machine.context.deparsed, machine.context.contiguous) {
            (0, _) => Deparsed::No,
            (_, 0) => Deparsed::Scattered,
            _ => Deparsed::Placed,
        };
        (machine.decisions(), deparsed)
    }

    /// Checksums, and where the output starts and ends. False: its headers do not lie in a row; only the checksums are done.
    ///
    /// # Safety
    /// As for [`Native::egress`].
    #[inline]
    pub unsafe fn deparse(&self, program: &Program, machine: &mut NativeMachine, packet: &mut Packet) -> bool {
        machine.renew(program);
        machine.run(self.deparse, packet);
        machine.context.contiguous != 0
    }
}
