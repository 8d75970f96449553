// SPDX-License-Identifier: Apache-2.0
//! Parsers.

use std::collections::HashMap;

use narrows_program::externs::Extern;
use narrows_program::field::{Field, Place};
use narrows_program::op::{Compare, Op};
use serde_json::Value;

use super::action::Primitive;
use super::emit::{Emitter, Label};
use super::{headers, stacks, Objects, Result};
use crate::error::LoadError;
use crate::expr::{Binary, Expr};
use crate::json;

pub(super) fn compile(root: &Value, objects: &mut Objects, emitter: &mut Emitter) -> Result<()> {
    let parsers = json::array(root, "parsers", "program")?;
    let Some(parser) = parsers.iter().find(|p| p.get("name").and_then(Value::as_str) == Some("parser")) else {
        return Err(LoadError::malformed("there is no parser"));
    };
    let mut states = HashMap::new();
    let values = json::array(parser, "parse_states", "parser")?;
    for value in values {
        states.insert(json::text(value, "name", "parse_states")?, (value, emitter.label()));
    }
    let end = emitter.label();
    let init = json::text(parser, "init_state", "parser")?;
    let loops = has_loop(values);
    let mut pending = vec![init];
    while let Some(name) = pending.pop() {
        let &(value, label) =
            states.get(name).ok_or_else(|| LoadError::malformed(format!("parser: no state {name}")))?;
        if emitter.is_placed(label) {
            continue;
        }
        emitter.fall_through(label);
        emitter.place(label);
        if loops {
            emitter.op(Op::LoopGuard);
        }
        let place = format!("parser state {name}");
        for op in json::array(value, "parser_ops", &place)? {
            compile_op(op, &place, objects, emitter)?;
            emitter.end_statement();
        }
        let next = Transitions { place: &place, states: &states, end };
        next.compile(value, &mut pending, objects, emitter)?;
        emitter.end_statement();
    }
    emitter.place(end);
    emitter.op(Op::End);
    Ok(())
}

/// True if some state can be reached from itself.
fn has_loop(states: &[Value]) -> bool {
    let next_of = |value: &Value| -> Vec<String> {
        let transitions = value.get("transitions").and_then(Value::as_array);
        let next = |t: &Value| t.get("next_state").and_then(Value::as_str).map(str::to_owned);
        transitions.map_or_else(Vec::new, |t| t.iter().filter_map(next).collect())
    };
    let mut left: HashMap<&str, Vec<String>> =
        states.iter().filter_map(|s| Some((s.get("name")?.as_str()?, next_of(s)))).collect();
    // States that lead only to states already taken away cannot be part of a loop.
    loop {
        let done: Vec<&str> =
            left.iter().filter(|(_, n)| !n.iter().any(|s| left.contains_key(s.as_str()))).map(|(k, _)| *k).collect();
        if done.is_empty() {
            return !left.is_empty();
        }
        for name in done {
            left.remove(name);
        }
    }
}

fn compile_op(value: &Value, place: &str, objects: &mut Objects, emitter: &mut Emitter) -> Result<()> {
    let op = json::text(value, "op", place)?;
    let args = json::array(value, "parameters", place)?;
    let place = &format!("{place}, {op}");
    let arg = |i: usize| args.get(i).ok_or_else(|| LoadError::malformed(format!("{place}: argument {i} is missing")));
    match op {
        "extract" | "extract_VL" => {
            let name = || json::text(arg(0)?, "value", place);
            let length = match op {
                "extract_VL" => Some(Expr::parse(arg(1)?, objects.layout, &[], place)?),
                _ => None,
            };
            match json::text(arg(0)?, "type", place)? {
                "regular" => {
                    let header = objects.layout.header(name()?, place)?;
                    headers::extract(header, length.as_ref(), objects, emitter, place)?;
                }
                "stack" => {
                    let stack = objects.layout.stack(name()?, place)?;
                    stacks::extract_next(stack, length.as_ref(), objects, emitter, place)?;
                }
                "union_stack" => {
                    let (name, member) = json::pair(json::member(arg(0)?, "value", place)?, place)?;
                    let (name, member) = (json::as_text(name, place)?, json::as_text(member, place)?);
                    let stack = objects.layout.union_stack(name, member, place)?;
                    stacks::extract_next(&stack, length.as_ref(), objects, emitter, place)?;
                }
                kind => return Err(LoadError::unsupported(format!("extraction to a {kind}"), place)),
            }
        }
        "set" => {
            let Expr::Field(field) = Expr::parse(arg(0)?, objects.layout, &[], place)? else {
                return Err(LoadError::malformed(format!("{place}: the destination is not a field")));
            };
            let source = arg(1)?;
            let expr = if json::text(source, "type", place)? == "lookahead" {
                Expr::Field(look_ahead(json::member(source, "value", place)?, place, emitter)?)
            } else {
                Expr::parse(source, objects.layout, &[], place)?
            };
            emitter.assign(field, &expr, place)?;
        }
        "verify" => {
            let condition = Expr::parse(arg(0)?, objects.layout, &[], place)?;
            let passed = emitter.label();
            emitter.jump_if(&condition, true, passed, place)?;
            let code = emitter.low(&Expr::parse(arg(1)?, objects.layout, &[], place)?, 32, place)?;
            emitter.op(Op::ParserError { code });
            emitter.place(passed);
        }
        "advance" => {
            let s = emitter.low(&Expr::parse(arg(0)?, objects.layout, &[], place)?, 64, place)?;
            emitter.op(Op::Advance { s });
        }
        "shift" => {
            let s = emitter.constant(json::as_number(arg(0)?, place)?.saturating_mul(8))?;
            emitter.op(Op::Advance { s });
        }
        "primitive" => {
            let call = arg(0)?;
            let op = json::text(call, "op", place)?;
            let args = json::array(call, "parameters", place)?;
            if op == "exit" || op.starts_with('_') {
                return Err(LoadError::unsupported(format!("the primitive {op}"), place));
            }
            let source = call.get("source_info");
            Primitive { op, args, source, params: &[], place: format!("{place} {op}") }.compile(objects, emitter)?;
        }
        other => return Err(LoadError::unsupported(format!("the parser operation {other}"), place)),
    }
    Ok(())
}

/// Reads ahead into new slots, which are returned as a field.
fn look_ahead(value: &Value, place: &str, emitter: &mut Emitter) -> Result<Field> {
    let (bit, width) = json::pair(value, place)?;
    let (bit, width) = (json::as_number(bit, place)?, json::as_number(width, place)?);
    if width == 0 || width > 128 || bit > 1 << 19 {
        return Err(LoadError::unsupported(format!("a lookahead of {width} bits at {bit}"), place));
    }
    let (bit, bits) = (bit as u32, width as u8);
    let d = emitter.allocate(2, place)?;
    emitter.op(if width > 64 { Op::LookAheadWide { d, bit, bits } } else { Op::LookAhead { d, bit, bits } });
    Ok(Field { place: Place::Slot(d), width: width as u32, signed: false })
}

/// The number of a value set that a select asks, whose members have fields of these widths.
fn use_set(objects: &mut Objects, name: &str, widths: &[u32], place: &str) -> Result<u16> {
    let found = objects.value_sets.iter().position(|set| set.name == name);
    let number = found.ok_or_else(|| LoadError::malformed(format!("{place}: no value set {name}")))?;
    let set = &mut objects.value_sets[number];
    if !set.widths.is_empty() && set.widths != widths {
        return Err(LoadError::unsupported("a value set in selects of different fields", name));
    }
    let bytes: u32 = widths.iter().map(|width| width.div_ceil(8)).sum();
    if bytes > 8 {
        return Err(LoadError::unsupported(format!("a value set of {bytes} bytes (8 are)"), name));
    }
    set.widths = widths.to_vec();
    Ok(number as u16)
}

struct Transitions<'a> {
    place: &'a str,
    states: &'a HashMap<&'a str, (&'a Value, Label)>,
    end: Label,
}

impl Transitions<'_> {
    fn compile<'v>(
        &self,
        state: &'v Value,
        pending: &mut Vec<&'v str>,
        objects: &mut Objects,
        emitter: &mut Emitter,
    ) -> Result<()> {
        let place = self.place;
        let (key, widths) = self.key(state, objects, emitter)?;
        let bytes: u32 = widths.iter().map(|width| width.div_ceil(8)).sum();
        let mut default = self.end;
        let mut next = Vec::new();
        for transition in json::array(state, "transitions", place)? {
            let target = json::optional_text(transition, "next_state", place)?;
            let label = match target {
                None => self.end,
                Some(name) => {
                    next.push(name);
                    let found = self.states.get(name);
                    found.ok_or_else(|| LoadError::malformed(format!("{place}: no state {name}")))?.1
                }
            };
            let value = json::member(transition, "value", place)?;
            match json::optional_text(transition, "type", place)? {
                Some("default") => default = label,
                None if value.is_null() || value.as_str() == Some("default") => default = label,
                Some("hexstr") | None => {
                    let Some(key) = &key else {
                        return Err(LoadError::malformed(format!("{place}: a transition value but no key")));
                    };
                    let value = json::unsigned_hex(value, place)?;
                    let mask = match transition.get("mask") {
                        None | Some(Value::Null) => None,
                        Some(mask) => Some(json::unsigned_hex(mask, place)?),
                    };
                    if bytes < 16 && value >> (8 * bytes) != 0 {
                        return Err(LoadError::malformed(format!("{place}: {value:#x} is wider than the key")));
                    }
                    let masked = match mask {
                        Some(mask) => {
                            let mask = Box::new(Expr::constant(mask));
                            Expr::Binary(Binary::And, Box::new(key.clone()), mask)
                        }
                        None => key.clone(),
                    };
                    let value = Expr::constant(value & mask.unwrap_or(u128::MAX));
                    let condition = Expr::Compare(Compare::Eq, Box::new(masked), Box::new(value));
                    emitter.jump_if(&condition, true, label, place)?;
                }
                Some("parse_vset") => {
                    let Some(key) = &key else {
                        return Err(LoadError::malformed(format!("{place}: a value set but no key")));
                    };
                    if transition.get("mask").is_some_and(|mask| !mask.is_null()) {
                        return Err(LoadError::unsupported("a masked value set", place));
                    }
                    let object = use_set(objects, json::as_text(value, place)?, &widths, place)?;
                    let s = emitter.low(key, 64, place)?;
                    let zero = emitter.constant(0)?;
                    let d = emitter.allocate(1, place)?;
                    emitter.op(Op::Move { d, s: zero });
                    emitter.op(Op::Extern { call: Extern::ValueSet, object, d, s });
                    emitter.op(Op::JumpNonZero { s: d, to: label });
                }
                Some(other) => return Err(LoadError::unsupported(format!("a {other} in a select"), place)),
            }
        }
        emitter.op(Op::Jump(default));
        // The default's state follows directly if it is not placed yet: it is taken last from `pending`.
        pending.extend(next);
        Ok(())
    }

    /// The key: its fields, each padded to whole bytes, in slots of their own; and their widths.
    fn key(&self, state: &Value, objects: &Objects, emitter: &mut Emitter) -> Result<(Option<Expr>, Vec<u32>)> {
        let place = self.place;
        let mut fields = Vec::new();
        for part in json::array(state, "transition_key", place)? {
            let value = json::member(part, "value", place)?;
            fields.push(match json::text(part, "type", place)? {
                "field" => objects.layout.field_ref(value, place)?,
                "stack_field" => {
                    let (_, name) = json::pair(value, place)?;
                    let stack = objects.layout.stack(json::as_text(json::pair(value, place)?.0, place)?, place)?;
                    let first = stack
                        .headers
                        .first()
                        .ok_or_else(|| LoadError::malformed(format!("{place}: an empty stack")))?;
                    let field = objects.layout.element_field(*first, json::as_text(name, place)?, place)?;
                    let slot = emitter.allocate(2, place)?;
                    let last = Field { place: Place::Slot(slot), ..field };
                    emitter.assign(last, &Expr::parse(part, objects.layout, &[], place)?, place)?;
                    last
                }
                "lookahead" => look_ahead(value, place, emitter)?,
                other => return Err(LoadError::unsupported(format!("a {other} in a select"), place)),
            });
        }
        let bytes: u32 = fields.iter().map(|f| f.width.div_ceil(8)).sum();
        if bytes == 0 {
            return Ok((None, vec![]));
        }
        if bytes > 16 {
            return Err(LoadError::unsupported(format!("a select key of {bytes} bytes (16 are)"), place));
        }
        let width = bytes * 8;
        let first = emitter.allocate(2, place)?;
        let key = Field { place: Place::Slot(first), width, signed: false };
        if width <= 64 {
            let mut joined: Option<u16> = None;
            for field in &fields {
                let field = Field { signed: false, ..*field };
                let value = emitter.exact(&Expr::Field(field), place)?;
                joined = Some(match joined {
                    None => value,
                    Some(high) => {
                        let shift = (field.width.div_ceil(8) * 8) as u8;
                        emitter.op(Op::Concat { d: first, a: high, b: value, shift });
                        first
                    }
                });
            }
            emitter.store(key, joined.unwrap_or(first), place)?;
        } else {
            let mut joined: Option<Expr> = None;
            for field in &fields {
                let value = Expr::Field(Field { signed: false, ..*field });
                joined = Some(match joined {
                    None => value,
                    Some(high) => {
                        let shift = Expr::constant(u128::from(field.width.div_ceil(8) * 8));
                        let high = Expr::Binary(Binary::Shl, Box::new(high), Box::new(shift));
                        Expr::Binary(Binary::Or, Box::new(high), Box::new(value))
                    }
                });
            }
            if let Some(expr) = joined {
                emitter.assign(key, &expr, place)?;
            }
        }
        Ok((Some(Expr::Field(key)), fields.iter().map(|field| field.width).collect()))
    }
}
