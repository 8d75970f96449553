// SPDX-License-Identifier: Apache-2.0
//! Calculations and checksums.

use std::collections::HashMap;

use narrows_program::calculation::{Calculation, Piece};
use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{Compare, Op};
use serde_json::Value;

use super::architecture;
use super::emit::Emitter;
use super::{Objects, Result};
use crate::error::LoadError;
use crate::expr::Expr;
use crate::json;
use crate::layout::Layout;

pub(super) fn calculations(root: &Value, layout: &Layout) -> Result<(Vec<Calculation>, HashMap<String, u16>)> {
    let mut calculations = Vec::new();
    let mut names = HashMap::new();
    for value in json::array(root, "calculations", "program")? {
        let name = json::text(value, "name", "calculations")?;
        names.insert(name.to_owned(), add(&mut calculations, value, name, layout)?);
    }
    Ok((calculations, names))
}

/// Adds the calculation with the algorithm and the input that `value` names; returns its number.
pub(super) fn add(calculations: &mut Vec<Calculation>, value: &Value, name: &str, layout: &Layout) -> Result<u16> {
    let algorithm = json::text(value, "algo", name)?;
    let Some(algorithm) = architecture::algorithm(algorithm) else {
        return Err(LoadError::unsupported(format!("the hash algorithm {algorithm}"), name));
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for input in json::array(value, "input", name)? {
        let content = json::member(input, "value", name);
        match json::text(input, "type", name)? {
            "field" if layout.varbit_owner(input).is_some() => {
                let owner = layout.varbit_owner(input).and_then(|owner| layout.varbit(owner));
                let parts = owner.into_iter().flat_map(|varbit| varbit.parts.iter());
                pieces.extend(parts.map(|&part| whole(part, layout)));
            }
            "field" => add_field(&mut pieces, layout.field_ref(content?, name)?, name)?,
            "hexstr" => {
                let width = json::number(input, "bitwidth", name)?;
                let constant = json::unsigned_hex(content?, name)?;
                if width == 0 || width > 128 || width < 128 && constant >> width != 0 {
                    return Err(LoadError::unsupported(format!("a constant of {width} bits"), name));
                }
                if width > 64 {
                    pieces.push(Piece::Constant { value: (constant >> 64) as u64, width: width as u32 - 64 });
                }
                pieces.push(Piece::Constant { value: constant as u64, width: width.min(64) as u32 });
            }
            "header" => {
                let header = layout.header(json::as_text(content?, name)?, name)?;
                pieces.extend(layout.parts(header).map(|part| whole(part, layout)));
            }
            "payload" => pieces.push(Piece::Payload),
            other => return Err(LoadError::unsupported(format!("a {other} in a calculation"), name)),
        }
    }
    let index = u16::try_from(calculations.len());
    let index = index.map_err(|_| LoadError::unsupported("this number of calculations", name))?;
    calculations.push(Calculation { algorithm, pieces, repeated: false });
    Ok(index)
}

/// All of a header; of one that is not valid there is nothing.
fn whole(header: u8, layout: &Layout) -> Piece {
    Piece::Header { header, bit: 0, width: layout.headers[usize::from(header)].bytes * 8 }
}

fn add_field(pieces: &mut Vec<Piece>, field: Field, place: &str) -> Result<()> {
    match field.place {
        Place::Slot(slot) => {
            for word in (0..field.width.div_ceil(64)).rev() {
                let width = (field.width - 64 * word).min(64);
                pieces.push(Piece::Slot { slot: slot + word as Slot, width });
            }
        }
        Place::Valid(_) => return Err(LoadError::unsupported("a validity in a calculation", place)),
        Place::Header { header, bit } => {
            if let Some(Piece::Header { header: h, bit: b, width }) = pieces.last_mut() {
                if *h == header && *b + *width == bit {
                    *width += field.width;
                    return Ok(());
                }
            }
            pieces.push(Piece::Header { header, bit, width: field.width });
        }
    }
    Ok(())
}

/// A checksum field and how it is computed.
pub(super) struct Checksum {
    name: String,
    target: Field,
    calculation: u16,
    condition: Option<Expr>,
    verified: bool,
    updated: bool,
}

pub(super) fn load(root: &Value, objects: &Objects) -> Result<Vec<Checksum>> {
    let mut checksums = Vec::new();
    for value in json::array(root, "checksums", "program")? {
        let name = json::text(value, "name", "checksums")?;
        let kind = json::text(value, "type", name)?;
        if kind != "generic" {
            return Err(LoadError::unsupported(format!("a checksum of type {kind}"), name));
        }
        let calculation = json::text(value, "calculation", name)?;
        let target = objects.layout.field_ref(json::member(value, "target", name)?, name)?;
        if target.width > 64 {
            return Err(LoadError::unsupported("a checksum field wider than 64 bits", name));
        }
        let switch = |key| value.get(key).and_then(Value::as_bool).unwrap_or(true);
        checksums.push(Checksum {
            name: format!("checksum {name}"),
            target,
            calculation: *objects
                .calculation_names
                .get(calculation)
                .ok_or_else(|| LoadError::malformed(format!("{name}: no calculation {calculation}")))?,
            condition: match value.get("if_cond") {
                None | Some(Value::Null) => None,
                Some(condition) => Some(Expr::parse(condition, objects.layout, &[], name)?),
            },
            verified: switch("verify"),
            updated: switch("update"),
        });
    }
    Ok(checksums)
}

/// Code that runs after the parser.
pub(super) fn verify(checksums: &[Checksum], emitter: &mut Emitter) -> Result<()> {
    for sum in checksums.iter().filter(|c| c.verified) {
        let skip = emitter.label();
        if let Place::Header { header, .. } = sum.target.place {
            emitter.op(Op::JumpInvalid { header, to: skip });
        }
        if let Some(condition) = &sum.condition {
            emitter.jump_if(condition, false, skip, &sum.name)?;
        }
        let d = emitter.allocate(1, &sum.name)?;
        emitter.op(Op::Checksum { d, calculation: sum.calculation });
        let found = emitter.exact(&Expr::Field(Field { signed: false, ..sum.target }), &sum.name)?;
        emitter.op(Op::JumpCompare { compare: Compare::Eq, a: d, b: found, to: skip });
        emitter.op(Op::ChecksumError);
        emitter.place(skip);
        emitter.end_statement();
    }
    emitter.op(Op::End);
    Ok(())
}

/// Code that runs before the deparser.
pub(super) fn update(checksums: &[Checksum], emitter: &mut Emitter) -> Result<()> {
    for sum in checksums.iter().filter(|c| c.updated) {
        let skip = emitter.label();
        if let Some(condition) = &sum.condition {
            emitter.jump_if(condition, false, skip, &sum.name)?;
        }
        let d = emitter.allocate(1, &sum.name)?;
        emitter.op(Op::Checksum { d, calculation: sum.calculation });
        let value = Expr::Field(Field { place: Place::Slot(d), width: 64, signed: false });
        emitter.assign(sum.target, &value, &sum.name)?;
        emitter.place(skip);
    }
    emitter.op(Op::End);
    Ok(())
}
