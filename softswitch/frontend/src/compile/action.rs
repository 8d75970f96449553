// SPDX-License-Identifier: Apache-2.0
//! Actions: what primitives become.

use narrows_program::cells::words_of;
use narrows_program::externs::Extern;
use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::Op;
use narrows_program::DROP_PORT;
use serde_json::Value;

use super::emit::{Emitter, Label};
use super::{headers, stacks, Objects, Result};
use crate::error::LoadError;
use crate::expr::{element_fields, Expr, Params};
use crate::json;
use crate::layout::Stack;

/// An action as the JSON has it.
#[derive(Clone)]
pub(super) struct Action<'v> {
    pub name: String,
    pub params: Vec<(String, u32)>,
    pub primitives: &'v [Value],
}

impl<'v> Action<'v> {
    pub(super) fn load(value: &'v Value) -> Result<Self> {
        let name = json::text(value, "name", "actions")?;
        let mut params = Vec::new();
        for param in json::array(value, "runtime_data", name)? {
            let param_name = json::text(param, "name", name)?;
            let width = json::number(param, "bitwidth", name)?;
            if width == 0 || width > 128 {
                let what = format!("the parameter {param_name} of {width} bits (1 to 128 are)");
                return Err(LoadError::unsupported(what, name));
            }
            params.push((param_name.to_owned(), width as u32));
        }
        Ok(Self { name: name.to_owned(), params, primitives: json::array(value, "primitives", name)? })
    }

    /// Slots that the parameters take.
    pub(super) fn slots(&self) -> u32 {
        self.params.iter().map(|p| p.1.div_ceil(64)).sum()
    }

    /// The parameters as expressions that read them from `first` on.
    pub(super) fn bind(&self, first: Slot) -> Vec<Expr> {
        let mut slot = first;
        let mut bound = Vec::new();
        for &(_, width) in &self.params {
            bound.push(Expr::Field(Field { place: Place::Slot(slot), width, signed: false }));
            slot += if width > 64 { 2 } else { 1 };
        }
        bound
    }

    fn has_exit(&self) -> bool {
        self.primitives.iter().any(|p| p.get("op").and_then(Value::as_str) == Some("exit"))
    }

    /// The body. `ended` is where control ends after an `exit`.
    pub(super) fn compile(
        &self,
        params: Params,
        objects: &mut Objects,
        emitter: &mut Emitter,
        ended: Label,
    ) -> Result<()> {
        let exits = self.has_exit();
        if exits {
            let zero = emitter.constant(0)?;
            emitter.op(Op::Move { d: objects.exit, s: zero });
        }
        let mut labels: Vec<Option<Label>> = vec![None; self.primitives.len() + 1];
        for (i, value) in self.primitives.iter().enumerate() {
            if let Some(label) = labels[i] {
                emitter.place(label);
            }
            let op = json::text(value, "op", &self.name)?;
            let primitive = Primitive {
                op,
                args: json::array(value, "parameters", &self.name)?,
                source: value.get("source_info"),
                params,
                place: format!("action {}, {op}", self.name),
            };
            if op == "_jump" || op == "_jump_if_zero" {
                primitive.jump(i, &mut labels, objects, emitter)?;
            } else {
                primitive.compile(objects, emitter)?;
            }
            emitter.end_statement();
        }
        if let Some(label) = labels[self.primitives.len()] {
            emitter.place(label);
        }
        if exits {
            emitter.op(Op::JumpNonZero { s: objects.exit, to: ended });
        }
        Ok(())
    }
}

/// One primitive call.
pub(super) struct Primitive<'a> {
    pub op: &'a str,
    pub args: &'a [Value],
    /// Where the program has it.
    pub source: Option<&'a Value>,
    pub params: Params<'a>,
    pub place: String,
}

impl Primitive<'_> {
    fn arg(&self, index: usize) -> Result<&Value> {
        self.args.get(index).ok_or_else(|| LoadError::malformed(format!("{}: argument {index} is missing", self.place)))
    }

    /// What the program says here, and its file and line, as far as the compiler has told them.
    fn source(&self) -> String {
        let text = |key| self.source.and_then(|source| source.get(key)).and_then(Value::as_str);
        let line = self.source.and_then(|source| source.get("line")).and_then(Value::as_u64);
        match (text("source_fragment"), text("filename"), line) {
            (Some(code), Some(file), Some(line)) => format!("{code} ({file}, line {line})"),
            _ => self.place.clone(),
        }
    }

    fn expr(&self, index: usize, objects: &Objects) -> Result<Expr> {
        Expr::parse(self.arg(index)?, objects.layout, self.params, &self.place)
    }

    /// The argument that is written.
    fn destination(&self, index: usize, objects: &Objects) -> Result<Field> {
        match self.expr(index, objects)? {
            Expr::Field(field) => Ok(field),
            _ => Err(LoadError::unsupported("a destination that is not a field", &self.place)),
        }
    }

    /// The name of an object argument of type `kind`.
    fn named(&self, index: usize, kind: &str) -> Result<&str> {
        let arg = self.arg(index)?;
        let found = json::text(arg, "type", &self.place)?;
        if found != kind {
            return Err(LoadError::unsupported(format!("a {found} in place of a {kind}"), &self.place));
        }
        json::text(arg, "value", &self.place)
    }

    fn header(&self, index: usize, objects: &Objects) -> Result<u8> {
        objects.layout.header(self.named(index, "header")?, &self.place)
    }

    fn stack<'o>(&self, index: usize, objects: &'o Objects) -> Result<&'o Stack> {
        objects.layout.stack(self.named(index, "header_stack")?, &self.place)
    }

    /// How many elements are pushed or popped.
    fn count(&self, objects: &Objects) -> Result<usize> {
        Ok(usize::try_from(self.constant(1, "number of elements", objects)?).unwrap_or(usize::MAX))
    }

    /// The number of a field list; 0 is none.
    fn field_list(&self, index: usize, objects: &Objects) -> Result<u16> {
        let list = self.constant(index, "field list", objects)?;
        let known = list == 0 || objects.field_lists.contains_key(&list);
        let number = u16::try_from(list).ok().filter(|_| known);
        number.ok_or_else(|| LoadError::malformed(format!("{}: no field list {list}", self.place)))
    }

    fn register(&self, index: usize, objects: &Objects) -> Result<(u16, u32)> {
        let name = self.named(index, "register_array")?;
        let found = objects.registers.iter().position(|r| r.name == name);
        let index = found.ok_or_else(|| LoadError::malformed(format!("{}: no register {name}", self.place)))?;
        Ok((index as u16, objects.registers[index].width))
    }

    fn constant(&self, index: usize, what: &str, objects: &Objects) -> Result<u64> {
        let value = self.expr(index, objects)?.as_constant().and_then(|v| u64::try_from(v).ok());
        value.ok_or_else(|| LoadError::unsupported(format!("a {what} that is not a constant"), &self.place))
    }

    fn jump(&self, at: usize, labels: &mut [Option<Label>], objects: &Objects, emitter: &mut Emitter) -> Result<()> {
        let conditional = self.op == "_jump_if_zero";
        let target = self.constant(usize::from(conditional), "jump target", objects)? as usize;
        if target <= at || target >= labels.len() {
            return Err(LoadError::unsupported("a jump that does not lead forward", &self.place));
        }
        let label = *labels[target].get_or_insert_with(|| emitter.label());
        if conditional {
            let condition = self.expr(0, objects)?;
            let condition = if condition.is_bool() { condition } else { Expr::ToBool(Box::new(condition)) };
            emitter.jump_if(&condition, false, label, &self.place)
        } else {
            emitter.op(Op::Jump(label));
            Ok(())
        }
    }

    pub(super) fn compile(&self, objects: &mut Objects, emitter: &mut Emitter) -> Result<()> {
        let place = self.place.as_str();
        match self.op {
            "assign" | "modify_field" => {
                let value = self.expr(1, objects)?;
                if let Some((index, fields)) = element_fields(self.arg(0)?, objects.layout, self.params, place)? {
                    return stacks::assign_element(&index, &fields, &value, emitter, place);
                }
                let field = self.destination(0, objects)?;
                emitter.assign(field, &value, place)?;
            }
            "assign_header" | "copy_header" => {
                let (to, from) = (self.named(0, "header")?, self.named(1, "header")?);
                if !objects.layout.same_type(to, from) {
                    return Err(LoadError::malformed(format!("{place}: {to} and {from} differ in type")));
                }
                if let (Some(to), Some(from)) =
                    (objects.layout.metadata_fields(to), objects.layout.metadata_fields(from))
                {
                    for (to, from) in to.into_iter().zip(from) {
                        let from = Expr::Field(from);
                        emitter.assign(to, &from, place)?;
                    }
                    return Ok(());
                }
                let (to, from) = (self.header(0, objects)?, self.header(1, objects)?);
                for &rival in objects.layout.rivals(to).iter().filter(|&&rival| rival != from) {
                    let kept = emitter.label();
                    emitter.op(Op::JumpInvalid { header: from, to: kept });
                    headers::remove(rival, objects.layout, emitter);
                    emitter.place(kept);
                }
                headers::copy(to, from, objects.layout, emitter);
            }
            "assign_VL" => {
                let owner = |value| objects.layout.varbit_owner(value);
                let varbits = owner(self.arg(0)?).zip(owner(self.arg(1)?));
                let varbits =
                    varbits.ok_or_else(|| LoadError::malformed(format!("{place}: not between two varbits")))?;
                headers::assign_varbit(varbits, objects.layout, emitter);
            }
            "add_header" => headers::add(self.header(0, objects)?, objects.layout, emitter),
            "push" => stacks::push(self.stack(0, objects)?, self.count(objects)?, objects.layout, emitter, place)?,
            "pop" => stacks::pop(self.stack(0, objects)?, self.count(objects)?, objects.layout, emitter)?,
            "assign_header_stack" => {
                stacks::assign(self.stack(0, objects)?, self.stack(1, objects)?, objects.layout, emitter);
            }
            "remove_header" => headers::remove(self.header(0, objects)?, objects.layout, emitter),
            "mark_to_drop" | "drop" => {
                let (port, zero) = (emitter.constant(DROP_PORT)?, emitter.constant(0)?);
                emitter.op(Op::Move { d: objects.egress_spec, s: port });
                if let Some(d) = objects.mcast_grp {
                    emitter.op(Op::Move { d, s: zero });
                }
            }
            "exit" => {
                let one = emitter.constant(1)?;
                emitter.op(Op::Move { d: objects.exit, s: one });
            }
            "register_read" => {
                let field = self.destination(0, objects)?;
                let (register, width) = self.register(1, objects)?;
                let index = emitter.low(&self.expr(2, objects)?, 32, place)?;
                if width > 64 {
                    let words = emitter.copied_words(field, place)?;
                    for (&d, register) in words.iter().zip(words_of(&objects.registers, usize::from(register))) {
                        emitter.op(Op::RegisterRead { d, register, index, bits: 64 });
                    }
                    return emitter.store_words(field, words, place);
                }
                let d = emitter.destination(field, place)?;
                // An index beyond the array leaves the destination unchanged.
                if !matches!(field.place, Place::Slot(_)) {
                    let old = emitter.low(&Expr::Field(field), field.width, place)?;
                    emitter.op(Op::Move { d, s: old });
                }
                emitter.op(Op::RegisterRead { d, register, index, bits: field.width.min(width) as u8 });
                emitter.store(field, d, place)?;
            }
            "register_write" => {
                let (register, width) = self.register(0, objects)?;
                let index = emitter.low(&self.expr(1, objects)?, 32, place)?;
                if width > 64 {
                    let words = emitter.words(&self.expr(2, objects)?, width, place)?;
                    for (s, register) in words.into_iter().zip(words_of(&objects.registers, usize::from(register))) {
                        emitter.op(Op::RegisterWrite { register, index, s });
                    }
                    return Ok(());
                }
                let s = emitter.low(&self.expr(2, objects)?, width, place)?;
                emitter.op(Op::RegisterWrite { register, index, s });
            }
            "count" => {
                let name = self.named(0, "counter_array")?;
                let found = objects.counters.iter().position(|c| c.name == name);
                let counter = found.ok_or_else(|| LoadError::malformed(format!("{place}: no counter {name}")))?;
                let index = emitter.low(&self.expr(1, objects)?, 32, place)?;
                emitter.op(Op::Count { counter: counter as u16, index });
            }
            "modify_field_rng_uniform" => {
                let field = self.destination(0, objects)?;
                let low = emitter.low(&self.expr(1, objects)?, 64, place)?;
                let high = emitter.low(&self.expr(2, objects)?, 64, place)?;
                let d = emitter.destination(field, place)?;
                if !matches!(field.place, Place::Slot(_)) {
                    let old = emitter.low(&Expr::Field(field), field.width, place)?;
                    emitter.op(Op::Move { d, s: old });
                }
                emitter.op(Op::Random { d, low, high, bits: field.width as u8 });
                emitter.store(field, d, place)?;
            }
            "modify_field_with_hash_based_offset" => {
                let field = self.destination(0, objects)?;
                let base = emitter.low(&self.expr(1, objects)?, 64, place)?;
                let name = self.named(2, "calculation")?;
                let calculation = *objects
                    .calculation_names
                    .get(name)
                    .ok_or_else(|| LoadError::malformed(format!("{place}: no calculation {name}")))?;
                let size = emitter.low(&self.expr(3, objects)?, 64, place)?;
                let d = emitter.destination(field, place)?;
                emitter.op(Op::Hash { d, calculation, base, size, bits: field.width as u8 });
                emitter.store(field, d, place)?;
            }
            "execute_meter" => {
                let field = self.destination(2, objects)?;
                let name = self.named(0, "meter_array")?;
                let found = objects.meters.iter().position(|meter| meter.name == name);
                let object = found.ok_or_else(|| LoadError::malformed(format!("{place}: no meter {name}")))? as u16;
                let index = emitter.low(&self.expr(1, objects)?, 32, place)?;
                let d = emitter.destination(field, place)?;
                if !matches!(field.place, Place::Slot(_)) {
                    let old = emitter.low(&Expr::Field(field), field.width, place)?;
                    emitter.op(Op::Move { d, s: old });
                }
                emitter.op(Op::Extern { call: Extern::Meter, object, d, s: index });
                emitter.store(field, d, place)?;
            }
            "resubmit" | "recirculate" => {
                let list = self.field_list(0, objects)?;
                let unused = emitter.allocate(1, place)?;
                emitter.op(Op::Extern { call: Extern::SendAgain, object: list, d: unused, s: unused });
                objects.keeps_original = true;
            }
            "truncate" => {
                let length = emitter.low(&self.expr(0, objects)?, 64, place)?;
                emitter.op(Op::Truncate { length });
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let session = emitter.low(&self.expr(0, objects)?, 15, place)?;
                let list = self.field_list(1, objects)?;
                emitter.op(Op::Clone { session, list });
                objects.keeps_original = true;
            }
            "generate_digest" => {
                let list = self.constant(1, "digest", objects)?;
                let index = objects.digests.iter().position(|d| u64::from(d.0.list) == list);
                let index = index.ok_or_else(|| LoadError::malformed(format!("{place}: no digest {list}")))?;
                emitter.op(Op::Digest { list: index as u16 });
            }
            "assert" | "assume" => {
                let condition = self.expr(0, objects)?;
                let condition = if condition.is_bool() { condition } else { Expr::ToBool(Box::new(condition)) };
                json::numbered(objects.assertions.len(), "assertions", place)?;
                let object = objects.assertions.len() as u16;
                let (holds, unused) = (emitter.label(), emitter.allocate(1, place)?);
                emitter.jump_if(&condition, true, holds, place)?;
                emitter.op(Op::Extern { call: Extern::Assertion, object, d: unused, s: unused });
                emitter.place(holds);
                objects.assertions.push(self.source());
            }
            // Log messages have no effect on packets.
            "no_op" | "log_msg" => {}
            other => return Err(LoadError::unsupported(format!("the primitive {other}"), place)),
        }
        Ok(())
    }
}
