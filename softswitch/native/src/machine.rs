// SPDX-License-Identifier: Apache-2.0
//! A machine, and where generated code finds its parts.
//!
//! Addresses are taken when generated code runs for the first time after something else has changed tables or cells.
#![allow(unsafe_code)]

use std::ops::Deref;

use narrows_interpreter::cells::RegisterPlace;
use narrows_interpreter::machine::Machine;
use narrows_interpreter::packet::Packet;
use narrows_interpreter::stages::Decisions;
use narrows_program::Program;

use crate::context::{Address, Context, Descriptor, Entry};
use crate::lower::kept_words;
use crate::prepared::PreparedPackets;

/// An interpreter's machine that native code can run on.
#[derive(Debug)]
pub struct NativeMachine {
    machine: Machine,
    /// Addresses are to be taken again.
    pub(crate) changed: bool,
    /// One for each table.
    descriptors: Vec<Descriptor>,
    /// One for each bank of cells.
    banks: Vec<Address>,
    /// The argument of generated code.
    pub(crate) context: Box<Context>,
    pub(crate) prepared: PreparedPackets,
}

impl Deref for NativeMachine {
    type Target = Machine;

    #[inline]
    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl NativeMachine {
    /// See [`Machine::new`].
    #[must_use]
    pub fn new(program: &Program, seed: u64) -> Self {
        Self {
            machine: Machine::new(program, seed),
            changed: true,
            descriptors: Vec::new(),
            banks: Vec::new(),
            context: Box::default(),
            prepared: PreparedPackets::new(kept_words(program)),
        }
    }

    /// The machine, for callers that change tables or cells, or interpret.
    #[inline]
    pub fn change(&mut self) -> &mut Machine {
        self.changed = true;
        &mut self.machine
    }

    /// Writes a cell of a register, which code reads anew each time.
    #[inline(always)]
    pub fn put(&mut self, place: &RegisterPlace, index: u64, value: u64) {
        self.machine.cells.put(place, index, value);
    }

    /// Before a packet's ingress or egress, of programs that call operations of the architecture.
    pub fn begin_calls(&mut self, now_ns: u64) {
        self.machine.now_ns = now_ns;
        self.machine.outcome.again = None;
    }

    /// [`Machine::preserve_again`], which changes neither.
    pub fn preserve_again(&mut self, program: &Program, packet: &mut Packet, list: u16) {
        self.machine.preserve_again(program, packet, list);
    }

    /// [`Machine::keep_for_clones`], which changes neither.
    pub fn keep_for_clones(&mut self, program: &Program, packet: &Packet, list: u16) {
        self.machine.keep_for_clones(program, packet, list);
    }

    /// [`Machine::clone_ingress`], which changes neither.
    pub fn clone_ingress(
        &mut self,
        program: &Program,
        packet: &Packet,
        copy: &mut Packet,
        original: &[u8],
        limit: usize,
    ) {
        self.machine.clone_ingress(program, packet, copy, original, limit);
    }

    /// Where memory of a row lies in a bank, to be fetched; nowhere before the first packet.
    #[inline]
    #[must_use]
    pub fn row(&self, bank: usize, offset: usize) -> Option<*const u8> {
        let start = self.banks.get(bank)?;
        Some(start.0.cast::<u8>().wrapping_add(offset))
    }

    /// Takes the addresses again if they may have changed.
    #[inline]
    pub(crate) fn renew(&mut self, program: &Program) {
        if self.changed {
            self.describe(program);
        }
    }

    /// Looks up all addresses.
    #[cold]
    fn describe(&mut self, program: &Program) {
        let machine = &mut self.machine;
        self.changed = false;
        self.prepared.forget();
        self.banks.clear();
        self.banks.extend(machine.cells.addresses().map(Address));
        self.descriptors.clear();
        for (code, table) in program.tables.iter().zip(&mut machine.tables) {
            table.refresh(code);
            self.descriptors.push(Descriptor {
                direct: table.direct().map_or(std::ptr::null(), |(handles, ..)| handles.as_ptr()),
                word: table.direct().map_or(0, |(_, word, _)| 8 * word as u64),
                mask: table.direct().map_or(0, |(.., mask)| mask),
                by_magnitude: table.magnitudes().map_or(std::ptr::null(), |m| m.handles.as_ptr()),
                fraction_bits: table.magnitudes().map_or(0, |m| u64::from(m.fraction_bits)),
                records: table.records().as_ptr(),
                state: table,
            });
        }
        let context = &mut *self.context;
        context.frame = machine.frame.as_mut_ptr();
        context.program = program;
        context.descriptors = self.descriptors.as_ptr();
        context.banks = self.banks.as_ptr();
        machine.kept.resize(program.live.len(), 0);
        context.kept = machine.kept.as_mut_ptr();
    }

    /// Calls generated code for a packet.
    #[inline]
    pub(crate) fn run(&mut self, entry: Entry, packet: &mut Packet) {
        let context = &mut *self.context;
        context.buffer = packet.buffer.as_mut_ptr();
        context.live = packet.live.as_mut_ptr();
        context.packet = packet;
        context.machine = &mut self.machine;
        entry(context);
    }

    #[inline]
    pub(crate) fn decisions(&self) -> Decisions {
        let context = &*self.context;
        Decisions {
            egress_spec: context.egress_spec as u16,
            group: context.group as u16,
            priority: context.priority as u8,
            clone: (context.clone != 0).then_some((context.clone as u16, (context.clone >> 16) as u16)),
            digest: (context.digest != 0).then_some(context.digest as u16),
        }
    }
}

// SAFETY: descriptors and addresses are only followed while their machine is borrowed exclusively, see `Native`.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Send for Address {}
// SAFETY: as above; what it says of a packet is renewed for each call.
unsafe impl Send for Context {}
