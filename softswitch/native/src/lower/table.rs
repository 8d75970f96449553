// SPDX-License-Identifier: Apache-2.0
//! Tables: keys, lookups, and the way to the action.

use std::mem::{offset_of, size_of};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use narrows_interpreter::table::{DIRECT_BITS, NONE};
use narrows_program::bits::wide_ones;
use narrows_program::control::MatchKind;
use narrows_program::table::{KeyPart, Source, TableCode};

use super::super::callbacks;
use super::super::context::{Context, Descriptor};
use super::memory::{entries, inputs, stack};
use super::rules::constant_rules;
use super::Lowering;

impl Lowering<'_, '_> {
    /// Applies a table. Control continues in the code of an action.
    pub(super) fn table(&mut self, index: usize) {
        let code = &self.program.tables[index];
        if let Some(rules) = constant_rules(code) {
            return self.compare_entries(index, &rules);
        }
        let descriptor = self.context_word(offset_of!(Context, descriptors));
        let descriptor = self.b.ins().iadd_imm(descriptor, (size_of::<Descriptor>() * index) as i64);
        let handle = self.find(code, descriptor);
        let stride = 8 * code.record_words() as i64;
        if code.info.notes_hits() {
            let hit = self.b.ins().icmp_imm(IntCC::NotEqual, handle, i64::from(NONE));
            self.when(hit, |l| {
                let table = l.constant(index as u64);
                l.call(callbacks::note_hit as *const u8, &[l.context, table, handle], None);
            });
        }
        // The default action's record comes first, and NONE + 1 is 0.
        let number = self.b.ins().iadd_imm(handle, 1);
        let number = self.b.ins().uextend(I64, number);
        let offset = self.b.ins().imul_imm(number, stride);
        let records = self.b.ins().load(I64, entries(), descriptor, offset_of!(Descriptor, records) as i32);
        let record = self.b.ins().iadd(records, offset);
        self.dispatch(code, record);
    }

    /// The handle of the matching entry.
    fn find(&mut self, code: &TableCode, descriptor: Value) -> Value {
        if let [part] = &code.parts[..] {
            if part.width <= 64 && part.kind != MatchKind::Range {
                let key = self.key_word(part);
                if part.kind == MatchKind::Exact && part.width <= DIRECT_BITS {
                    let offset = offset_of!(Descriptor, direct) as i32;
                    let handles = self.b.ins().load(I64, entries(), descriptor, offset);
                    let at = self.b.ins().ishl_imm(key, 2);
                    let at = self.b.ins().iadd(handles, at);
                    return self.b.ins().load(I32, entries(), at, 0);
                }
                if part.kind == MatchKind::Lpm {
                    return self.find_prefix(descriptor, key);
                }
                let arguments = [descriptor, key];
                return self.call(callbacks::find_word as *const u8, &arguments, Some(I32));
            }
        }
        self.find_among(code, descriptor)
    }

    /// The same for prefixes: by the few highest bits of the key if those of all entries lie there.
    fn find_prefix(&mut self, descriptor: Value, key: Value) -> Value {
        let mut from = |offset: usize| self.b.ins().load(I64, entries(), descriptor, offset as i32);
        let handles = from(offset_of!(Descriptor, by_magnitude));
        let fraction = from(offset_of!(Descriptor, fraction_bits));
        let [direct, search, found] = [(); 3].map(|()| self.b.create_block());
        self.b.append_block_param(found, I32);
        self.branch(handles, direct, search);

        // As in `Magnitudes::index`.
        self.b.switch_to_block(direct);
        let one = self.constant(1);
        let least = self.b.ins().ishl(one, fraction);
        let least = self.b.ins().bor(key, least);
        let zeros = self.b.ins().clz(least);
        let highest = self.b.ins().irsub_imm(zeros, 63);
        let magnitude = self.b.ins().isub(highest, fraction);
        let first = self.b.ins().ishl(magnitude, fraction);
        let rest = self.b.ins().ushr(key, magnitude);
        let index = self.b.ins().iadd(first, rest);
        let at = self.b.ins().ishl_imm(index, 2);
        let at = self.b.ins().iadd(handles, at);
        let handle = self.b.ins().load(I32, entries(), at, 0);
        self.b.ins().jump(found, &[handle.into()]);

        self.b.switch_to_block(search);
        let arguments = [descriptor, key];
        let handle = self.call(callbacks::find_word as *const u8, &arguments, Some(I32));
        self.b.ins().jump(found, &[handle.into()]);
        self.b.switch_to_block(found);
        self.b.block_params(found)[0]
    }

    /// The same for keys of several fields. Often entries look at one of them only, with few bits: then it is the only one
    /// that is read.
    fn find_among(&mut self, code: &TableCode, descriptor: Value) -> Value {
        self.flush_pending_stores_of_keys(code);
        let mut from = |offset: usize| self.b.ins().load(I64, entries(), descriptor, offset as i32);
        let handles = from(offset_of!(Descriptor, direct));
        let (word, mask) = (from(offset_of!(Descriptor, word)), from(offset_of!(Descriptor, mask)));
        let [direct, search, chosen, found] = [(); 4].map(|()| self.b.create_block());
        self.b.append_block_param(chosen, I64);
        self.b.append_block_param(found, I32);
        self.branch(handles, direct, search);

        self.b.switch_to_block(direct);
        let mut at = 0;
        for part in &code.parts {
            for half in 0..part.words() {
                let (this, next) = (self.b.create_block(), self.b.create_block());
                let is_this = self.b.ins().icmp_imm(IntCC::Equal, word, at);
                self.branch(is_this, this, next);
                self.b.switch_to_block(this);
                let (low, high) = self.key_part(part);
                let key = if half == 0 { low } else { high };
                self.b.ins().jump(chosen, &[key.into()]);
                self.b.switch_to_block(next);
                at += 8;
            }
        }
        // There is no other word.
        self.jump(search);
        self.b.switch_to_block(chosen);
        let key = self.b.block_params(chosen)[0];
        let key = self.b.ins().band(key, mask);
        let at = self.b.ins().ishl_imm(key, 2);
        let at = self.b.ins().iadd(handles, at);
        let handle = self.b.ins().load(I32, entries(), at, 0);
        self.b.ins().jump(found, &[handle.into()]);

        self.b.switch_to_block(search);
        let words: u32 = code.parts.iter().map(KeyPart::words).sum();
        let room = self.room(8 * words.max(1));
        let address = self.address_of(room);
        let mut at = 0;
        for part in &code.parts {
            let (low, high) = self.key_part(part);
            self.b.ins().store(stack(), low, address, at);
            if part.width > 64 {
                self.b.ins().store(stack(), high, address, at + 8);
            }
            at += 8 * part.words() as i32;
        }
        let arguments = [descriptor, address];
        let handle = self.call(callbacks::find as *const u8, &arguments, Some(I32));
        self.b.ins().jump(found, &[handle.into()]);
        self.b.switch_to_block(found);
        self.b.block_params(found)[0]
    }

    /// Headers with key fields are complete: these may be read where not all packets come.
    pub(super) fn flush_pending_stores_of_keys(&mut self, code: &TableCode) {
        for part in &code.parts {
            if let Source::Header { header, .. } | Source::HeaderWide { header, .. } = part.source {
                self.flush_pending_stores(header);
            }
        }
    }

    /// A key field of at most 64 bits as the entries hold it.
    fn key_word(&mut self, part: &KeyPart) -> Value {
        let (low, _) = self.key_part(part);
        let mask = (part.mask.unwrap_or(u128::MAX) & wide_ones(part.width)) as u64;
        let mask = self.constant(mask);
        self.b.ins().band(low, mask)
    }

    /// A key field in two words, with whatever lies beyond its width.
    pub(super) fn key_part(&mut self, part: &KeyPart) -> (Value, Value) {
        let zero = self.constant(0);
        match part.source {
            Source::Slot(slot) if part.width > 64 => (self.slot(slot), self.slot(slot.wrapping_add(1))),
            Source::Slot(slot) => (self.slot(slot), zero),
            Source::Valid(header) => (self.is_valid(header), zero),
            Source::Header { header, byte, shift } => (self.window(header, byte, 8, u32::from(shift & 63)), zero),
            Source::HeaderWide { header, byte, shift } => self.wide_window(header, byte, u32::from(shift), 128),
        }
    }

    /// Goes to the action that a record names, its parameters loaded.
    pub(super) fn dispatch(&mut self, code: &TableCode, record: Value) {
        let tag = self.b.ins().load(I64, entries(), record, 0);
        let mut ways: Vec<(u64, u32, usize)> = Vec::new();
        for (index, action) in code.actions.iter().enumerate().take(code.reachable()) {
            if action.targets[0] == action.targets[1] {
                ways.push((index as u64 * 2, action.targets[0], index));
            } else {
                ways.push((index as u64 * 2, action.targets[0], index));
                ways.push((index as u64 * 2 + 1, action.targets[1], index));
            }
        }
        let halves = ways.iter().any(|w| w.0 % 2 == 1);
        let tag = if halves { tag } else { self.b.ins().band_imm(tag, !1) };
        let Some((last, others)) = ways.split_last() else {
            // Every table has at least what happens when no action runs.
            let end = self.end();
            return self.jump(end);
        };
        for &(value, target, action) in others {
            let mut is_this = self.b.ins().icmp_imm(IntCC::Equal, tag, value as i64);
            if halves && code.actions[action].targets[0] == code.actions[action].targets[1] {
                let other = self.b.ins().icmp_imm(IntCC::Equal, tag, value as i64 + 1);
                is_this = self.b.ins().bor(is_this, other);
            }
            let [way, next] = self.fork(is_this);
            self.b.switch_to_block(way);
            self.load_params(code, action, record);
            let target = self.block(target);
            self.jump(target);
            self.b.switch_to_block(next);
        }
        self.load_params(code, last.2, record);
        let target = self.block(last.1);
        self.jump(target);
    }

    fn load_params(&mut self, code: &TableCode, action: usize, record: Value) {
        for word in 0..code.actions[action].words() {
            let value = self.b.ins().load(I64, inputs(), record, 8 + 8 * word as i32);
            self.set(code.params + word as u16, value);
        }
    }
}
