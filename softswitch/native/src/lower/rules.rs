// SPDX-License-Identifier: Apache-2.0
//! Tables with a few constant entries, which code compares.

use std::mem::{offset_of, size_of};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use narrows_interpreter::table::parameter_words;
use narrows_program::bits::{cut, prefix_mask, wide_ones};
use narrows_program::control::{KeyMatch, MatchKind};
use narrows_program::table::{KeyPart, TableCode};

use super::super::context::{Context, Descriptor};
use super::memory::entries;
use super::Lowering;

/// Constant entries up to this many are compared by code.
const COMPARED: usize = 16;

/// An entry's key field as code compares it: `(field ^ value) & mask == 0`.
type Test = (u128, u128);

impl Lowering<'_, '_> {
    /// Compares constant entries one by one.
    pub(super) fn compare_entries(&mut self, index: usize, rules: &[Rule]) {
        let code = &self.program.tables[index];
        self.flush_pending_stores_of_keys(code);
        let miss = self.b.create_block();
        // What all entries ask for is looked at once.
        let shared: Vec<bool> = (0..code.parts.len())
            .map(|p| rules.len() > 1 && rules.iter().all(|r| r.tests[p] == rules[0].tests[p]))
            .collect();
        if let Some(first) = rules.first().filter(|_| shared.contains(&true)) {
            let mut tests = Vec::new();
            for (position, part) in code.parts.iter().enumerate().filter(|p| shared[p.0]) {
                tests.push((first.tests[position], self.key_part(part)));
            }
            let next = self.b.create_block();
            self.test(&tests, next, miss);
            self.b.switch_to_block(next);
        }
        // The others are only read where those hold.
        let mut parts = Vec::new();
        for (position, part) in code.parts.iter().enumerate().filter(|p| !shared[p.0]) {
            parts.push((position, self.key_part(part)));
        }
        for rule in rules {
            let tests = parts.iter().map(|&(p, value)| (rule.tests[p], value));
            let tests: Vec<(Test, (Value, Value))> = tests.collect();
            let (hit, next) = (self.b.create_block(), self.b.create_block());
            self.test(&tests, hit, next);
            self.b.switch_to_block(hit);
            self.run_constant(code, &rule.params, usize::from(rule.action), 1);
            self.b.switch_to_block(next);
        }
        self.jump(miss);
        self.b.switch_to_block(miss);
        if code.info.const_default {
            let words = parameter_words(code, code.default.0, &code.default.1, code.stride());
            return self.run_constant(code, &words, usize::from(code.default.0), 0);
        }
        let descriptor = self.context_word(offset_of!(Context, descriptors));
        let offset = size_of::<Descriptor>() * index + offset_of!(Descriptor, records);
        let record = self.b.ins().load(I64, entries(), descriptor, offset as i32);
        self.dispatch(code, record);
    }

    /// Goes to `hit` if all tests hold.
    fn test(&mut self, tests: &[(Test, (Value, Value))], hit: Block, miss: Block) {
        let mut differ = self.constant(0);
        for &((value, mask), (low, high)) in tests {
            for (field, value, mask) in
                [(low, value as u64, mask as u64), (high, (value >> 64) as u64, (mask >> 64) as u64)]
            {
                if mask == 0 {
                    continue;
                }
                let (value, mask_value) = (self.constant(value), self.constant(mask));
                let other = self.b.ins().bxor(field, value);
                let other = if mask == cut(64) { other } else { self.b.ins().band(other, mask_value) };
                differ = self.b.ins().bor(differ, other);
            }
        }
        let same = self.b.ins().icmp_imm(IntCC::Equal, differ, 0);
        self.branch(same, hit, miss);
    }

    fn run_constant(&mut self, code: &TableCode, params: &[u64], action: usize, hit: usize) {
        for (word, &value) in params.iter().enumerate() {
            let value = self.constant(value);
            self.set(code.params + word as u16, value);
        }
        let target = self.block(code.actions[action].targets[hit]);
        self.jump(target);
    }
}

/// A constant entry.
pub(super) struct Rule {
    tests: Vec<Test>,
    action: u16,
    params: Vec<u64>,
}

/// The constant entries of a table, the best first, if code can compare them.
pub(super) fn constant_rules(code: &TableCode) -> Option<Vec<Rule>> {
    let simple = |p: &KeyPart| matches!(p.kind, MatchKind::Exact | MatchKind::Ternary);
    let few = code.info.const_entries && code.entries.len() <= COMPARED;
    if !few || code.info.notes_hits() || !code.parts.iter().all(simple) {
        return None;
    }
    let mut entries: Vec<_> = code.entries.iter().collect();
    // Of equal priorities the first one wins: the sort is stable.
    entries.sort_by_key(|e| std::cmp::Reverse(e.priority));
    let mut rules = Vec::new();
    for entry in entries {
        // Loading refuses other programs, later.
        if entry.key.len() != code.parts.len() {
            return None;
        }
        let action = code.info.actions.iter().position(|a| a.name == entry.action.action)? as u16;
        let mut tests = Vec::new();
        for (part, key) in code.parts.iter().zip(&entry.key) {
            let all = wide_ones(part.width);
            let (value, mask) = match *key {
                KeyMatch::Exact(value) => (value, all),
                KeyMatch::Ternary { value, mask } => (value, mask),
                KeyMatch::Lpm { value, prefix_len } => (value, prefix_mask(part.width, prefix_len)),
                KeyMatch::Range { .. } => return None,
            };
            // Where the program masks the field with 0, an entry that asks for 1 never matches.
            let program = part.mask.unwrap_or(u128::MAX);
            if value & mask & !program != 0 {
                return None;
            }
            tests.push((value & mask, mask & program));
        }
        let params = parameter_words(code, action, &entry.action.params, code.stride());
        rules.push(Rule { tests, action, params });
    }
    Some(rules)
}
