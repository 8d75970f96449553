// SPDX-License-Identifier: Apache-2.0
//! The flow of control: blocks, and which of them are made.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, InstructionData, Opcode, Value};
use narrows_interpreter::packet::Instance;
use narrows_program::field::Slot;
use narrows_program::op::{Compare, Op};
use narrows_program::Program;

use super::super::shape::Shape;
use super::{arithmetic, Extra, Lowering};

/// Where the parts of a program end, in place of an instruction's index.
pub(super) const PARSER_END: u32 = u32::MAX;
pub(super) const VERIFY_END: u32 = u32::MAX - 1;
pub(super) const INGRESS_END: u32 = u32::MAX - 2;
pub(super) const EGRESS_END: u32 = u32::MAX - 3;
pub(super) const UPDATE_END: u32 = u32::MAX - 4;

/// Variants of the code of one instruction, and how many times its instructions a program may be translated: code takes time to
/// make. What is beyond is left to the general variant; what is jumped to last is translated first.
const VARIANTS: usize = 24;
const COPIES: usize = 12;
const COPIED: usize = 500;

/// Instructions in a row that only choose the way.
const DECIDED: usize = 64;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// The instruction it starts with.
    Itself,
    /// The way to the general variant.
    General,
}

/// The blocks that start with an instruction, for states of the packet.
#[derive(Default)]
pub(super) struct Starts {
    blocks: HashMap<(u32, Shape), Block>,
    /// How many there are of each instruction.
    variants: HashMap<u32, usize>,
    /// Those that have not been translated yet, the last one first. With the state as it is if it only leads to the general
    /// variant.
    pending: Vec<(u32, Shape, Block, Leads)>,
    /// Instructions translated.
    translated: usize,
    /// Blocks left to the general variant because there were too many.
    pub limited: usize,
}

impl Lowering<'_, '_> {
    /// The block that starts with an instruction where the packet is as it is now: behind those that only choose the way, if that
    /// is known already.
    pub(super) fn block(&mut self, at: u32) -> Block {
        let mut at = at;
        // Jumps may go round in circles.
        for _ in 0..DECIDED {
            match self.decided(at) {
                Some(to) => at = to,
                None => break,
            }
        }
        if let Some(&block) = self.starts.blocks.get(&(at, self.shape)) {
            return block;
        }
        let most = COPIES * self.program.code.ops.len() + COPIED;
        let variants = self.starts.variants.entry(at).or_default();
        *variants += 1;
        if self.shape.general {
            return self.general_block(at);
        }
        if *variants > VARIANTS || self.starts.translated > most {
            self.starts.limited += 1;
            return self.general_block(at);
        }
        self.new_block(at, self.shape, Leads::Itself)
    }

    /// Where an instruction leads that does nothing but choose the way, if what it asks for is a constant here.
    fn decided(&mut self, at: u32) -> Option<u32> {
        let op = *self.program.code.ops.get(at as usize)?;
        let (jumps, to) = match op {
            Op::Jump(to) => (true, to),
            Op::JumpZero { s, to } => (self.known_slot(s)? == 0, to),
            Op::JumpNonZero { s, to } => (self.known_slot(s)? != 0, to),
            Op::JumpCompare { compare, a, b, to } => (self.known_comparison(compare, a, b)?, to),
            Op::JumpValid { header, to } => (self.shape.headers.of(header)?, to),
            Op::JumpInvalid { header, to } => (!self.shape.headers.of(header)?, to),
            _ => return None,
        };
        Some(if jumps { to } else { at + 1 })
    }

    fn known_comparison(&mut self, compare: Compare, a: Slot, b: Slot) -> Option<bool> {
        let other = self.known_slot(b)?;
        let never = self.never_copy == Some(a) && other == Instance::EgressClone as u64;
        match compare {
            Compare::Eq if never => Some(false),
            Compare::Ne if never => Some(true),
            _ => Some(compare.holds(self.known_slot(a)?, other)),
        }
    }

    /// The value of a slot, if it is a constant here.
    fn known_slot(&mut self, slot: Slot) -> Option<u64> {
        let value = self.slot(slot);
        self.known_value(value)
    }

    pub(super) fn known_value(&self, value: Value) -> Option<u64> {
        let dfg = &self.b.func.dfg;
        match dfg.insts[dfg.value_def(dfg.resolve_aliases(value)).inst()?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
            _ => None,
        }
    }

    /// The same in the general variant.
    fn general_block(&mut self, at: u32) -> Block {
        if self.shape.unfinished().next().is_some() {
            return self.new_block(at, self.shape, Leads::General);
        }
        let instruction = match at {
            PARSER_END => self.program.code.verify,
            VERIFY_END => self.program.code.ingress,
            at => at,
        };
        let known = self.known.get(instruction as usize).copied().flatten();
        let mut shape = self.shape.widened(known.unwrap_or_default());
        shape.general = true;
        match self.starts.blocks.get(&(at, shape)) {
            Some(&block) => block,
            None => self.new_block(at, shape, Leads::Itself),
        }
    }

    fn new_block(&mut self, at: u32, shape: Shape, leads: Leads) -> Block {
        let block = self.b.create_block();
        self.starts.blocks.insert((at, shape), block);
        self.starts.pending.push((at, shape, block, leads));
        block
    }

    /// Where the part of the program ends that is being translated.
    pub(super) fn end(&mut self) -> Block {
        let (code, at) = (&self.program.code, self.at);
        let end = match at {
            _ if at < code.verify => PARSER_END,
            _ if at < code.ingress => VERIFY_END,
            _ if at < code.egress => INGRESS_END,
            _ if at < code.update => EGRESS_END,
            _ => UPDATE_END,
        };
        self.block(end)
    }

    pub(super) fn jump(&mut self, to: Block) {
        self.b.ins().jump(to, &[]);
    }

    /// Goes on with an instruction.
    pub(super) fn go(&mut self, at: u32) {
        let block = self.block(at);
        self.jump(block);
    }

    pub(super) fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.b.ins().brif(condition, then, &[], otherwise, &[]);
    }

    /// Two new blocks: for where the condition holds, and for where it does not.
    pub(super) fn fork(&mut self, condition: Value) -> [Block; 2] {
        let [then, otherwise] = [(); 2].map(|()| self.b.create_block());
        self.branch(condition, then, otherwise);
        // Nothing else leads there: what is known here is known there.
        self.b.seal_block(then);
        self.b.seal_block(otherwise);
        [then, otherwise]
    }

    /// Goes to `to` if the condition holds, and on in a new block if not.
    pub(super) fn branch_out(&mut self, condition: Value, to: Block) {
        let next = self.b.create_block();
        self.branch(condition, to, next);
        self.b.seal_block(next);
        self.b.switch_to_block(next);
    }

    /// Runs `body` only if the condition holds.
    pub(super) fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) {
        let (then, next) = (self.b.create_block(), self.b.create_block());
        self.branch(condition, then, next);
        self.b.seal_block(then);
        self.b.switch_to_block(then);
        body(self);
        self.jump(next);
        self.b.seal_block(next);
        self.b.switch_to_block(next);
    }

    /// Marks the current block as one that is hardly ever reached.
    pub(super) fn cold(&mut self) {
        if let Some(block) = self.b.current_block() {
            self.b.set_cold_block(block);
        }
    }

    /// Translates all instructions to which control can come from the blocks that were asked for.
    pub(super) fn translate(&mut self) {
        while let Some((at, shape, block, leads)) = self.starts.pending.pop() {
            self.b.switch_to_block(block);
            (self.at, self.shape) = (at, shape);
            if leads == Leads::General {
                self.flush_all_pending_stores();
                let block = self.general_block(at);
                self.jump(block);
                continue;
            }
            while self.step() {
                self.at += 1;
                let before = &self.program.code.ops[self.at as usize - 1];
                // Into the general variant control comes behind each cell.
                let entered = self.shape.general && before.uses_cell();
                if entered || self.leads.get(self.at as usize) == Some(&true) {
                    self.go(self.at);
                    break;
                }
            }
        }
    }

    /// Translates the current instruction. True if control continues behind it.
    fn step(&mut self) -> bool {
        if self.at >= UPDATE_END {
            match self.at {
                UPDATE_END => self.leave_deparse(),
                EGRESS_END => self.leave_egress(),
                end => self.finish_ingress(end),
            }
            return false;
        }
        self.starts.translated += 1;
        let op = self.program.code.ops[self.at as usize];
        if self.prepares && self.stops_before(op) {
            return false;
        }
        self.op(op)
    }

    fn op(&mut self, op: Op) -> bool {
        match op {
            Op::End => {
                let end = self.end();
                self.jump(end);
                return false;
            }
            Op::ParserError { code } => {
                let code = self.slot(code);
                self.set_extra(Extra::ParserError, code);
                let end = self.end();
                self.jump(end);
                return false;
            }
            Op::Table { table } => {
                self.table(usize::from(table));
                return false;
            }
            Op::Jump(_) | Op::JumpZero { .. } | Op::JumpNonZero { .. } | Op::JumpCompare { .. }
                if self.decided(self.at).is_some() =>
            {
                self.go(self.at);
                return false;
            }
            Op::JumpZero { s, to } => {
                let value = self.slot(s);
                let zero = self.b.ins().icmp_imm(IntCC::Equal, value, 0);
                let to = self.block(to);
                self.branch_out(zero, to);
            }
            Op::JumpNonZero { s, to } => {
                let (value, to) = (self.slot(s), self.block(to));
                self.branch_out(value, to);
            }
            Op::JumpCompare { compare, a, b, to } => {
                let [a, b] = [a, b].map(|s| self.slot(s));
                let holds = self.b.ins().icmp(arithmetic::unsigned(compare), a, b);
                let to = self.block(to);
                self.branch_out(holds, to);
            }
            Op::JumpValid { header, to } => return self.jump_valid(header, true, to),
            Op::JumpInvalid { header, to } => return self.jump_valid(header, false, to),
            _ => {
                let done = self.arithmetic(op) || self.header(op) || self.state(op);
                debug_assert!(done, "{op:?}");
            }
        }
        true
    }

    fn jump_valid(&mut self, header: u8, valid: bool, to: u32) -> bool {
        match self.shape.headers.of(header) {
            Some(known) if known == valid => {
                self.go(to);
                false
            }
            Some(_) => true,
            None => {
                let is_valid = self.validity(header);
                let before = self.shape;
                self.shape.set(header, Some(valid), self.home(header));
                let (to, next) = (self.block(to), self.b.create_block());
                self.shape = before;
                self.shape.set(header, Some(!valid), self.home(header));
                if valid {
                    self.branch(is_valid, to, next);
                } else {
                    self.branch(is_valid, next, to);
                }
                self.b.seal_block(next);
                self.b.switch_to_block(next);
                true
            }
        }
    }
}

/// Instructions that something jumps to.
pub(super) fn leads(program: &Program) -> Vec<bool> {
    let mut leads = vec![false; program.code.ops.len()];
    for op in &program.code.ops {
        for to in program.targets(op) {
            if let Some(leads) = leads.get_mut(to as usize) {
                *leads = true;
            }
        }
    }
    leads
}
