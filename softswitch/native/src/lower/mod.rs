// SPDX-License-Identifier: Apache-2.0
//! Instructions to Cranelift's intermediate code: functions, blocks and the flow between them.

mod arithmetic;
mod edges;
mod flow;
mod header;
mod memory;
mod outcome;
mod parser;
mod prepare;
mod rules;
mod state;
mod sums;
mod table;

use cranelift_codegen::ir::{types::I64, AbiParam, Block, InstBuilder, UserFuncName, Value};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{default_libcall_names, FuncId, Linkage, Module, ModuleError};
use narrows_program::field::{Slot, TAIL};
use narrows_program::op::Op;
use narrows_program::Program;

use super::context::Context;
use super::shape::Shape;
use super::validity::{analyse, in_a_row, Known};

use flow::Starts;

pub(crate) use prepare::kept_words;
use prepare::Stop;

/// Programs longer than this are interpreted: code is made in a time that grows faster than the program.
const MAX_OPS: usize = 20_000;
/// Headers are zeroed by single stores, which is meant for short ones.
const MAX_HEADER_BYTES: u32 = 256;

/// Egress of packets that it has not made itself, and of the copies that it has made: they have little in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Egress<T> {
    pub packets: T,
    pub copies: T,
}

/// What egress is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MadeFor {
    Packets,
    Copies,
    Both,
}

/// Made and linked functions.
pub(super) struct Compiled {
    pub module: JITModule,
    pub prepare: FuncId,
    pub resume: FuncId,
    pub egress: Egress<FuncId>,
    pub deparse: FuncId,
    /// Blocks that are general because the limits on variants were reached.
    pub limited: usize,
}

pub(super) fn compile(program: &Program) -> Result<Compiled, String> {
    refuse(program)?;
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    for (name, value) in [("opt_level", "speed"), ("is_pic", "false"), ("enable_verifier", verify)] {
        flags.set(name, value).map_err(|e| e.to_string())?;
    }
    let isa = cranelift_native::builder().map_err(str::to_owned)?;
    let isa = isa.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let known = analyse(program);
    let mut limited = 0;
    let made = functions(program, &mut module, &known, &mut limited);
    let linked = made.and_then(|made| Ok(module.finalize_definitions().map(|()| made)?));
    match linked {
        Ok((prepare, resume, egress, deparse)) => Ok(Compiled { module, prepare, resume, egress, deparse, limited }),
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
    limited: &mut usize,
) -> Result<(FuncId, FuncId, Egress<FuncId>, FuncId), Box<ModuleError>> {
    let mut buffers = FunctionBuilderContext::new();
    let mut make = |name: &str, body: &mut dyn FnMut(&mut Lowering)| {
        let mut context = module.make_context();
        context.func.signature.params.push(AbiParam::new(I64));
        let id = module.declare_function(name, Linkage::Local, &context.func.signature)?;
        context.func.name = UserFuncName::user(0, id.as_u32());
        let builder = FunctionBuilder::new(&mut context.func, &mut buffers);
        *limited += Lowering::run(program, known, builder, body);
        module.define_function(id, &mut context)?;
        Ok::<FuncId, Box<ModuleError>>(id)
    };
    let mut stops = Vec::new();
    let prepare = make("prepare", &mut |l| stops = l.prepare())?;
    let resume = make("resume", &mut |l| l.resume(&stops))?;
    let mut make_egress = |name, made_for| make(name, &mut |l| l.egress(made_for));
    let code = &program.code;
    let copies = code.ops[code.egress as usize..code.update as usize].iter().any(|op| matches!(op, Op::Clone { .. }));
    let egress = if copies {
        let packets = make_egress("egress", MadeFor::Packets)?;
        Egress { packets, copies: make_egress("egress of copies", MadeFor::Copies)? }
    } else {
        let both = make_egress("egress", MadeFor::Both)?;
        Egress { packets: both, copies: both }
    };
    let deparse = make("deparse", &mut |l| l.deparse())?;
    Ok((prepare, resume, egress, deparse))
}

/// Variables behind those of the slots.
enum Extra {
    Valid,
    Payload,
    RegisterLength,
    /// The session of the clone that was asked for.
    Session,
    States,
    ParserError,
    ChecksumError,
    /// Where the headers behind start, from the last one to the first.
    Row,
}

/// How many of them there are.
const EXTRAS: u32 = Extra::Row as u32 + 1;

/// A function under construction.
struct Lowering<'p, 'f> {
    program: &'p Program,
    known: &'p [Option<Known>],
    b: FunctionBuilder<'f>,
    context: Value,
    packet: Value,
    buffer: Value,
    starts: Starts,
    /// Instructions that something jumps to.
    leads: Vec<bool>,
    /// The instruction that is being translated, and what is known before it.
    at: u32,
    shape: Shape,
    /// Bit h: header h is added or removed by this function.
    moving: u64,
    /// Parsed headers always lie in a row, as the deparser puts them.
    in_a_row: bool,
    /// The slot of a packet's instance, where it is known not to be a copy that egress has made.
    never_copy: Option<Slot>,
    /// Only what changes nothing is done, up to these places.
    prepares: bool,
    stops: Vec<Stop>,
    /// Blocks in which they keep what ingress needs, and their numbers.
    keeping: Vec<(Block, usize)>,
    /// Slots that were written to.
    written: Vec<bool>,
    constants: std::collections::HashMap<Slot, u64>,
}

impl<'p, 'f> Lowering<'p, 'f> {
    fn run(
        program: &'p Program,
        known: &'p [Option<Known>],
        mut b: FunctionBuilder<'f>,
        body: &mut dyn FnMut(&mut Lowering),
    ) -> usize {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let context = b.block_params(entry)[0];
        for variable in 0..u32::from(program.slots) + 1 + EXTRAS {
            b.declare_var(Variable::from_u32(variable), I64);
        }
        let mut lowering = Lowering {
            program,
            known,
            b,
            context,
            packet: context,
            buffer: context,
            starts: Starts::default(),
            leads: flow::leads(program),
            at: 0,
            shape: Shape::new(Known::default()),
            moving: 0,
            in_a_row: in_a_row(program, known),
            never_copy: None,
            prepares: false,
            stops: Vec::new(),
            keeping: Vec::new(),
            written: vec![false; usize::from(program.slots) + 2],
            constants: program.code.constants.iter().copied().collect(),
        };
        lowering.packet = lowering.context_word(std::mem::offset_of!(Context, packet));
        lowering.buffer = lowering.context_word(std::mem::offset_of!(Context, buffer));
        body(&mut lowering);
        lowering.b.seal_all_blocks();
        lowering.b.finalize();
        lowering.starts.limited
    }

    fn extra(&self, extra: Extra) -> Variable {
        Variable::from_u32(u32::from(self.program.slots) + 1 + extra as u32)
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
        if let Some(written) = self.written.get_mut(usize::from(slot)) {
            *written = true;
        }
        self.shape.forget_index(slot);
        self.b.def_var(Variable::from_u32(u32::from(slot)), value);
    }
}
