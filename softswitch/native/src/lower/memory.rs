// SPDX-License-Identifier: Apache-2.0
//! Loads, stores and calls.

use std::mem::offset_of;

use cranelift_codegen::ir::types::{I16, I32, I64, I8};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Endianness, InstBuilder, MemFlags, Signature, StackSlot, StackSlotData, StackSlotKind, Type,
    Value,
};

use super::super::context::Context;
use super::Lowering;

/// The packet's bytes. No two of these kinds of memory overlap, which lets loads move past stores of another kind.
fn bytes() -> MemFlags {
    let mut flags = MemFlags::new().with_notrap().with_endianness(Endianness::Little);
    flags.set_alias_region(Some(AliasRegion::Heap));
    flags
}

/// The context and the packet's description.
fn description() -> MemFlags {
    let mut flags = MemFlags::trusted();
    flags.set_alias_region(Some(AliasRegion::Vmctx));
    flags
}

/// Registers and counters.
pub(super) fn cells() -> MemFlags {
    let mut flags = MemFlags::trusted();
    flags.set_alias_region(Some(AliasRegion::Table));
    flags
}

/// The code's own stack.
pub(super) fn stack() -> MemFlags {
    MemFlags::trusted()
}

/// What does not change while the code runs: tables.
pub(super) fn entries() -> MemFlags {
    MemFlags::trusted().with_readonly()
}

/// What the code is given, at addresses that are good from its first instruction on, and does not write to before the
/// last use of what was there: these loads move to where their value is used, so that a path does not pay for what only
/// another one needs.
pub(super) fn inputs() -> MemFlags {
    MemFlags::trusted().with_readonly().with_can_move()
}

impl Lowering<'_, '_> {
    /// A word of the context.
    pub(super) fn context_word(&mut self, offset: usize) -> Value {
        self.b.ins().load(I64, inputs(), self.context, offset as i32)
    }

    pub(super) fn set_context_word(&mut self, offset: usize, value: Value) {
        self.b.ins().store(description(), value, self.context, offset as i32);
    }

    /// A field of the packet or of another description, as a word.
    pub(super) fn field(&mut self, of: Value, kind: Type, offset: usize) -> Value {
        self.load_word(kind, description(), of, offset as i32)
    }

    /// The same for a field that does not change while the code uses it. Loaded and extended in two steps, because Cranelift moves
    /// or eliminates plain loads only, and needs no mask after an explicit extension.
    pub(super) fn input(&mut self, of: Value, kind: Type, offset: usize) -> Value {
        let value = self.b.ins().load(kind, inputs(), of, offset as i32);
        if kind == I64 {
            value
        } else {
            self.b.ins().uextend(I64, value)
        }
    }

    /// Bytes of the packet as the machine reads them, the lowest first.
    pub(super) fn load_as_it_is(&mut self, kind: Type, address: Value, offset: i32) -> Value {
        self.load_word(kind, bytes(), address, offset)
    }

    /// Loads a word or less as a word.
    pub(super) fn load_word(&mut self, kind: Type, flags: MemFlags, address: Value, offset: i32) -> Value {
        match kind {
            I8 => self.b.ins().uload8(I64, flags, address, offset),
            I16 => self.b.ins().uload16(I64, flags, address, offset),
            I32 => self.b.ins().uload32(flags, address, offset),
            _ => self.b.ins().load(I64, flags, address, offset),
        }
    }

    pub(super) fn set_field(&mut self, of: Value, kind: Type, offset: usize, value: Value) {
        let value = if kind == I64 { value } else { self.b.ins().ireduce(kind, value) };
        self.b.ins().store(description(), value, of, offset as i32);
    }

    /// A slot of the frame in memory, which the interpreter and what comes after generated code read.
    pub(super) fn spill(&mut self, slot: u16) {
        let value = self.slot(slot);
        let frame = self.context_word(offset_of!(Context, frame));
        self.b.ins().store(description(), value, frame, i32::from(slot) * 8);
    }

    pub(super) fn unspill(&mut self, slot: u16) {
        let frame = self.context_word(offset_of!(Context, frame));
        let value = self.b.ins().load(I64, description(), frame, i32::from(slot) * 8);
        self.set(slot, value);
    }

    /// `count` bytes (1 to 8) of the packet, read big-endian.
    pub(super) fn load_bytes(&mut self, address: Value, offset: i32, count: u32) -> Value {
        let mut value = None;
        for (kind, at, size) in chunks(count) {
            let loaded = if kind == I8 {
                self.load_word(I8, bytes(), address, offset + at)
            } else {
                let loaded = self.b.ins().load(kind, bytes(), address, offset + at);
                let loaded = self.b.ins().bswap(loaded);
                if kind == I64 {
                    loaded
                } else {
                    self.b.ins().uextend(I64, loaded)
                }
            };
            value = Some(match value {
                None => loaded,
                Some(before) => {
                    let shifted = self.b.ins().ishl_imm(before, i64::from(size) * 8);
                    self.b.ins().bor(shifted, loaded)
                }
            });
        }
        value.unwrap_or(address)
    }

    /// Writes the low `count` bytes (1 to 8) of a value.
    pub(super) fn store_bytes(&mut self, address: Value, offset: i32, count: u32, value: Value) {
        for (kind, at, size) in chunks(count) {
            let behind = i64::from(count) - i64::from(at) - i64::from(size);
            let part = if behind > 0 { self.b.ins().ushr_imm(value, behind * 8) } else { value };
            let part = if kind == I64 { part } else { self.b.ins().ireduce(kind, part) };
            let part = if size > 1 { self.b.ins().bswap(part) } else { part };
            self.b.ins().store(bytes(), part, address, offset + at);
        }
    }

    /// Room on the stack.
    pub(super) fn room(&mut self, bytes: u32) -> StackSlot {
        self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3))
    }

    pub(super) fn address_of(&mut self, room: StackSlot) -> Value {
        self.b.ins().stack_addr(I64, room, 0)
    }

    /// Calls a function of `native::callbacks`, which takes words and returns `result`.
    pub(super) fn call(&mut self, function: *const u8, arguments: &[Value], result: Option<Type>) -> Value {
        let mut signature = Signature::new(self.b.func.signature.call_conv);
        for &argument in arguments {
            let kind = self.b.func.dfg.value_type(argument);
            signature.params.push(AbiParam::new(kind));
        }
        signature.returns.extend(result.map(AbiParam::new));
        let signature = self.b.import_signature(signature);
        let address = self.constant(function as usize as u64);
        let call = self.b.ins().call_indirect(signature, address, arguments);
        self.b.inst_results(call).first().copied().unwrap_or(address)
    }
}

/// Type, offset and size of the accesses that make up `count` bytes.
fn chunks(count: u32) -> Vec<(Type, i32, u32)> {
    let mut at = 0;
    let mut all = Vec::new();
    for (kind, size) in [(I64, 8), (I32, 4), (I16, 2), (I8, 1)] {
        while count - at >= size {
            all.push((kind, at as i32, size));
            at += size;
        }
    }
    all
}
