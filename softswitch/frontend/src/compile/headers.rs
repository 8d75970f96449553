// SPDX-License-Identifier: Apache-2.0
//! What a program does with a whole header: with all parts of one that has a varbit, and with the other members of its union.

use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{Compare, Op};

use super::emit::Emitter;
use super::{architecture, Objects, Result};
use crate::expr::Expr;
use crate::layout::{Layout, Varbit};

/// Extracts a header; `length` is the expression for the bits of its varbit.
pub(super) fn extract(
    header: u8,
    length: Option<&Expr>,
    objects: &Objects,
    emitter: &mut Emitter,
    place: &str,
) -> Result<()> {
    let layout = objects.layout;
    layout.rivals(header).iter().for_each(|&rival| remove(rival, layout, emitter));
    let Some(varbit) = layout.varbit(header) else {
        emitter.op(Op::Extract { header });
        return Ok(());
    };
    let bits = emitter.allocate(1, place)?;
    let of_bits = Field { place: Place::Slot(bits), width: 64, signed: false };
    emitter.assign(of_bits, length.unwrap_or(&Expr::constant(0)), place)?;
    checked_length(header, bits, varbit, objects, emitter)?;
    remove(header, layout, emitter);
    emitter.op(Op::Extract { header });
    let taken = emitter.allocate(1, place)?;
    for &part in &varbit.parts {
        let skipped = emitter.label();
        let its_bits = emitter.constant(u64::from(layout.headers[usize::from(part)].bytes) * 8)?;
        emitter.op(Op::And { d: taken, a: bits, b: its_bits });
        emitter.op(Op::JumpZero { s: taken, to: skipped });
        emitter.op(Op::Extract { header: part });
        emitter.place(skipped);
    }
    varbit.behind.iter().for_each(|&header| emitter.op(Op::Extract { header }));
    Ok(())
}

/// Ends the parser where a header with so many bits of varbit cannot be extracted: nothing of it is extracted then.
fn checked_length(header: u8, bits: Slot, varbit: &Varbit, objects: &Objects, emitter: &mut Emitter) -> Result<()> {
    let errors = architecture::parser_errors(&objects.errors);
    let (whole, fits) = (emitter.label(), emitter.label());
    let (rest, seven) = (emitter.allocate(1, "varbit")?, emitter.constant(7)?);
    emitter.op(Op::And { d: rest, a: bits, b: seven });
    emitter.op(Op::JumpZero { s: rest, to: whole });
    let code = emitter.constant(errors.invalid_argument)?;
    emitter.op(Op::ParserError { code });
    emitter.place(whole);
    let fixed = [Some(header), varbit.behind].into_iter().flatten();
    let fixed = fixed.map(|part| u64::from(objects.layout.headers[usize::from(part)].bytes) * 8).sum();
    let (all, fixed) = (emitter.allocate(1, "varbit")?, emitter.constant(fixed)?);
    emitter.op(Op::Add { d: all, a: bits, b: fixed, bits: 64 });
    emitter.op(Op::Require { bits: all });
    let most = emitter.constant(u64::from(varbit.most_bytes) * 8)?;
    emitter.op(Op::JumpCompare { compare: Compare::Le, a: bits, b: most, to: fits });
    let code = emitter.constant(objects.errors.get("HeaderTooShort").copied().unwrap_or(4))?;
    emitter.op(Op::ParserError { code });
    emitter.place(fits);
    Ok(())
}

/// Makes a header valid, with an empty varbit.
pub(super) fn add(header: u8, layout: &Layout, emitter: &mut Emitter) {
    layout.rivals(header).iter().for_each(|&rival| remove(rival, layout, emitter));
    emitter.op(Op::AddHeader { header });
    if let Some(varbit) = layout.varbit(header) {
        varbit.parts.iter().for_each(|&header| emitter.op(Op::RemoveHeader { header }));
        varbit.behind.iter().for_each(|&header| emitter.op(Op::AddHeader { header }));
    }
}

/// Makes a header invalid.
pub(super) fn remove(header: u8, layout: &Layout, emitter: &mut Emitter) {
    layout.parts(header).for_each(|header| emitter.op(Op::RemoveHeader { header }));
}

/// Copies a header of the same type, and whether it is valid.
pub(super) fn copy(to: u8, from: u8, layout: &Layout, emitter: &mut Emitter) {
    let parts = layout.parts(to).zip(layout.parts(from));
    parts.for_each(|(to, from)| emitter.op(Op::CopyHeader { to, from }));
}

/// Copies a varbit to another one of the same type; one of an invalid header stays as it is.
pub(super) fn assign_varbit((to, from): (u8, u8), layout: &Layout, emitter: &mut Emitter) {
    let (Some(written), Some(read)) = (layout.varbit(to), layout.varbit(from)) else {
        return;
    };
    let skipped = emitter.label();
    if !written.is_metadata {
        emitter.op(Op::JumpInvalid { header: to, to: skipped });
    }
    for (&to, &from) in written.parts.iter().zip(&read.parts) {
        emitter.op(Op::CopyHeader { to, from });
    }
    emitter.place(skipped);
}
