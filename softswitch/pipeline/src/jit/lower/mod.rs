// SPDX-License-Identifier: Apache-2.0
//! Instructions to Cranelift's intermediate code: functions, blocks and the flow between them.

mod arithmetic;
mod edges;
mod header;
mod memory;
mod preview;
mod state;
mod sums;
mod table;

use cranelift_codegen::ir::{types::I64, AbiParam, Block, InstBuilder, UserFuncName, Value};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{default_libcall_names, FuncId, Linkage, Module, ModuleError};

use super::context::Context;
use super::validity::{analyse, Known};
use crate::layout::Slot;
use crate::op::Op;
use crate::packet::{MAX_HEADERS, TAIL};
use crate::program::Program;

/// Programs longer than this are interpreted: code is made in a time that grows faster than the program.
const MAX_OPS: usize = 20_000;
/// Headers are zeroed by single stores, which is meant for short ones.
const MAX_HEADER_BYTES: u32 = 256;

/// Made and linked functions.
pub(super) struct Compiled {
    pub module: JITModule,
    pub preview: FuncId,
    pub ingress: FuncId,
    pub egress: FuncId,
    pub deparse: FuncId,
}

pub(super) fn compile(program: &Program) -> Result<Compiled, String> {
    refuse(program)?;
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", "false"),
        ("enable_verifier", verify),
    ] {
        flags.set(name, value).map_err(|e| e.to_string())?;
    }
    let isa = cranelift_native::builder().map_err(str::to_owned)?;
    let isa = isa
        .finish(settings::Flags::new(flags))
        .map_err(|e| e.to_string())?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let known = analyse(program);
    let made = functions(program, &mut module, &known);
    let linked = made.and_then(|made| Ok(module.finalize_definitions().map(|()| made)?));
    match linked {
        Ok([preview, ingress, egress, deparse]) => Ok(Compiled {
            module,
            preview,
            ingress,
            egress,
            deparse,
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// What the code relies on beyond what the loader checks.
fn refuse(program: &Program) -> Result<(), String> {
    let longest = program.headers.iter().copied().max().unwrap_or(0);
    if program.code.ops.len() > MAX_OPS {
        return Err(format!("more than {MAX_OPS} instructions"));
    }
    if longest > MAX_HEADER_BYTES || longest as usize + TAIL > program.zeros() {
        return Err(format!("a header of more than {MAX_HEADER_BYTES} bytes"));
    }
    Ok(())
}

fn functions(
    program: &Program,
    module: &mut JITModule,
    known: &[Option<Known>],
) -> Result<[FuncId; 4], Box<ModuleError>> {
    let mut buffers = FunctionBuilderContext::new();
    let mut make = |name: &str, body: fn(&mut Lowering)| {
        let mut context = module.make_context();
        context.func.signature.params.push(AbiParam::new(I64));
        let id = module.declare_function(name, Linkage::Local, &context.func.signature)?;
        context.func.name = UserFuncName::user(0, id.as_u32());
        let builder = FunctionBuilder::new(&mut context.func, &mut buffers);
        Lowering::run(program, known, builder, body);
        module.define_function(id, &mut context)?;
        Ok::<FuncId, Box<ModuleError>>(id)
    };
    let preview = make("preview", |l| l.preview())?;
    let ingress = make("ingress", |l| l.ingress())?;
    let egress = make("egress", |l| l.egress())?;
    let deparse = make("deparse", |l| l.deparse())?;
    Ok([preview, ingress, egress, deparse])
}

/// Variables behind those of the slots.
enum Extra {
    /// Where a header lies in the buffer.
    Base(u8),
    Valid,
    Payload,
    RegisterLength,
    States,
    Clone,
    Digest,
    ParserError,
    ChecksumError,
}

/// A function in the making.
struct Lowering<'p, 'f> {
    program: &'p Program,
    known: &'p [Option<Known>],
    b: FunctionBuilder<'f>,
    context: Value,
    packet: Value,
    buffer: Value,
    /// The block of each instruction that something jumps to.
    blocks: Vec<Option<Block>>,
    /// Where the part of the program that is being translated ends.
    end: Block,
    /// In a preview, where it ends.
    stop: Option<Block>,
    /// The instruction that is being translated.
    at: u32,
    constants: std::collections::HashMap<Slot, u64>,
}

impl<'p, 'f> Lowering<'p, 'f> {
    fn run(
        program: &'p Program,
        known: &'p [Option<Known>],
        mut b: FunctionBuilder<'f>,
        body: fn(&mut Lowering),
    ) {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let context = b.block_params(entry)[0];
        for variable in 0..u32::from(program.slots) + MAX_HEADERS as u32 + 8 + 2 {
            b.declare_var(Variable::from_u32(variable), I64);
        }
        let mut lowering = Lowering {
            program,
            known,
            b,
            context,
            packet: context,
            buffer: context,
            blocks: vec![None; program.code.ops.len()],
            end: entry,
            stop: None,
            at: 0,
            constants: program.code.constants.iter().copied().collect(),
        };
        lowering.packet = lowering.context_word(std::mem::offset_of!(Context, packet));
        lowering.buffer = lowering.context_word(std::mem::offset_of!(Context, buffer));
        body(&mut lowering);
        lowering.b.seal_all_blocks();
        lowering.b.finalize();
    }

    fn extra(&self, extra: Extra) -> Variable {
        let number = match extra {
            Extra::Base(header) => 9 + u32::from(header),
            Extra::Valid => 0,
            Extra::Payload => 1,
            Extra::RegisterLength => 2,
            Extra::States => 3,
            Extra::Clone => 4,
            Extra::Digest => 5,
            Extra::ParserError => 6,
            Extra::ChecksumError => 7,
        };
        Variable::from_u32(u32::from(self.program.slots) + 1 + number)
    }

    fn get_extra(&mut self, extra: Extra) -> Value {
        let variable = self.extra(extra);
        self.b.use_var(variable)
    }

    fn set_extra(&mut self, extra: Extra, value: Value) {
        let variable = self.extra(extra);
        self.b.def_var(variable, value);
    }

    fn constant(&mut self, value: u64) -> Value {
        self.b.ins().iconst(I64, value as i64)
    }

    fn slot(&mut self, slot: Slot) -> Value {
        match self.constants.get(&slot) {
            Some(&value) => self.constant(value),
            None => self.b.use_var(Variable::from_u32(u32::from(slot))),
        }
    }

    fn set(&mut self, slot: Slot, value: Value) {
        self.b.def_var(Variable::from_u32(u32::from(slot)), value);
    }

    /// The block that starts with an instruction.
    fn block(&mut self, at: u32) -> Block {
        let b = &mut self.b;
        *self.blocks[at as usize].get_or_insert_with(|| b.create_block())
    }

    fn jump(&mut self, to: Block) {
        self.b.ins().jump(to, &[]);
    }

    fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.b.ins().brif(condition, then, &[], otherwise, &[]);
    }

    /// Goes to `to` if the condition holds, and on in a new block if not.
    fn branch_out(&mut self, condition: Value, to: Block) {
        let next = self.b.create_block();
        self.branch(condition, to, next);
        self.b.switch_to_block(next);
    }

    /// Runs `body` only if the condition holds.
    fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) {
        let (then, next) = (self.b.create_block(), self.b.create_block());
        self.branch(condition, then, next);
        self.b.switch_to_block(then);
        body(self);
        self.jump(next);
        self.b.switch_to_block(next);
    }

    /// Marks the current block as one that is hardly ever reached.
    fn cold(&mut self) {
        if let Some(block) = self.b.current_block() {
            self.b.set_cold_block(block);
        }
    }

    /// The instructions from `start` to `limit`; afterwards the builder is where they end.
    fn part(&mut self, start: u32, limit: u32) {
        self.end = self.b.create_block();
        let mut leads = vec![false; limit as usize + 1];
        for op in &self.program.code.ops[start as usize..limit as usize] {
            let targets: Vec<u32> = match op {
                Op::Table { table } => self.program.tables[usize::from(*table)].targets().collect(),
                _ => op.clone().target().map(|to| *to).into_iter().collect(),
            };
            for to in targets {
                leads[to as usize] = true;
            }
        }
        let mut open = true;
        for at in start..limit {
            if self.known[at as usize].is_none() {
                continue;
            }
            if leads[at as usize] {
                let block = self.block(at);
                if open {
                    self.jump(block);
                }
                self.b.switch_to_block(block);
            } else if !open {
                // Behind the end of a preview.
                continue;
            }
            self.at = at;
            let op = self.program.code.ops[at as usize];
            open = self.op(op);
        }
        self.b.switch_to_block(self.end);
    }

    /// What is known about headers before the current instruction.
    fn known(&self) -> Known {
        self.known
            .get(self.at as usize)
            .copied()
            .flatten()
            .unwrap_or_default()
    }

    /// Translates an instruction. True if control goes on behind it.
    fn op(&mut self, op: Op) -> bool {
        if self.ends_preview(op) {
            return false;
        }
        match op {
            Op::End => {
                self.jump(self.end);
                return false;
            }
            Op::ParserError { code } => {
                let code = self.slot(code);
                self.set_extra(Extra::ParserError, code);
                self.jump(self.end);
                return false;
            }
            Op::Jump(to) => {
                let to = self.block(to);
                self.jump(to);
                return false;
            }
            Op::Table { table } => {
                self.table(usize::from(table));
                return false;
            }
            Op::JumpZero { s, to } => {
                let value = self.slot(s);
                let zero =
                    self.b
                        .ins()
                        .icmp_imm(cranelift_codegen::ir::condcodes::IntCC::Equal, value, 0);
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
        match self.known().of(header) {
            Some(known) if known == valid => {
                let to = self.block(to);
                self.jump(to);
                false
            }
            Some(_) => true,
            None => {
                let is_valid = self.validity(header);
                let (to, next) = (self.block(to), self.b.create_block());
                if valid {
                    self.branch(is_valid, to, next);
                } else {
                    self.branch(is_valid, next, to);
                }
                self.b.switch_to_block(next);
                true
            }
        }
    }
}
