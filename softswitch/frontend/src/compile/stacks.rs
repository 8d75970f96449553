// SPDX-License-Identifier: Apache-2.0
//! Header stacks: each element is a header of its own, and a slot says which one comes next. What the program does with a stack
//! becomes instructions on its elements.

use narrows_program::field::{Field, Place};
use narrows_program::op::{Compare, Op};

use super::emit::Emitter;
use super::{headers, Objects, Result};
use crate::expr::{Binary, Expr};
use crate::layout::{Layout, Stack};

/// Extracts to the next element, as [`headers::extract`] does; the parser ends if there is none.
pub(super) fn extract_next(
    stack: &Stack,
    length: Option<&Expr>,
    objects: &Objects,
    emitter: &mut Emitter,
    place: &str,
) -> Result<()> {
    let done = emitter.label();
    for (number, &header) in stack.headers.iter().enumerate() {
        let other = emitter.label();
        let (this, next) = (emitter.constant(number as u64)?, emitter.constant(number as u64 + 1)?);
        emitter.op(Op::JumpCompare { compare: Compare::Ne, a: stack.next, b: this, to: other });
        headers::extract(header, length, objects, emitter, place)?;
        emitter.op(Op::Move { d: stack.next, s: next });
        emitter.op(Op::Jump(done));
        emitter.place(other);
    }
    let code = emitter.constant(objects.errors.get("StackOutOfBounds").copied().unwrap_or(3))?;
    emitter.op(Op::ParserError { code });
    emitter.place(done);
    Ok(())
}

/// Moves the elements towards the end of the stack; the first ones are invalid then.
pub(super) fn push(stack: &Stack, count: usize, layout: &Layout, emitter: &mut Emitter, place: &str) -> Result<()> {
    let size = stack.headers.len();
    let count = count.min(size);
    for to in (count..size).rev() {
        headers::copy(stack.headers[to], stack.headers[to - count], layout, emitter);
    }
    stack.headers[..count].iter().for_each(|&header| headers::remove(header, layout, emitter));
    let moved = Expr::Binary(Binary::Add, Box::new(next(stack)), Box::new(Expr::constant(count as u128)));
    let beyond = Expr::Compare(Compare::Gt, Box::new(moved.clone()), Box::new(Expr::constant(size as u128)));
    let index = Expr::Choose(Box::new(beyond), Box::new(Expr::constant(size as u128)), Box::new(moved));
    emitter.assign(next_field(stack), &index, place)
}

/// Moves the elements towards the start of the stack; the last ones are invalid then.
pub(super) fn pop(stack: &Stack, count: usize, layout: &Layout, emitter: &mut Emitter) -> Result<()> {
    let size = stack.headers.len();
    let count = count.min(size);
    for to in 0..size - count {
        headers::copy(stack.headers[to], stack.headers[to + count], layout, emitter);
    }
    stack.headers[size - count..].iter().for_each(|&header| headers::remove(header, layout, emitter));
    let count = emitter.constant(count as u64)?;
    emitter.op(Op::SaturatingSub { d: stack.next, a: stack.next, b: count });
    Ok(())
}

/// Copies all elements, and which one comes next.
pub(super) fn assign(to: &Stack, from: &Stack, layout: &Layout, emitter: &mut Emitter) {
    for (&to, &from) in to.headers.iter().zip(&from.headers) {
        headers::copy(to, from, layout, emitter);
    }
    emitter.op(Op::Move { d: to.next, s: from.next });
}

/// Writes a field of the element with this number; of a stack that has none it writes nothing.
pub(super) fn assign_element(
    index: &Expr,
    fields: &[Field],
    value: &Expr,
    emitter: &mut Emitter,
    place: &str,
) -> Result<()> {
    let Some(&first) = fields.first() else {
        return Ok(());
    };
    // Both may depend on what is written.
    let (number, kept) = (emitter.allocate(1, place)?, emitter.allocate(2, place)?);
    emitter.assign(Field { place: Place::Slot(number), width: 64, signed: false }, index, place)?;
    let kept = Field { place: Place::Slot(kept), ..first };
    emitter.assign(kept, value, place)?;
    let done = emitter.label();
    for (element, &field) in fields.iter().enumerate() {
        let other = emitter.label();
        let this = emitter.constant(element as u64)?;
        emitter.op(Op::JumpCompare { compare: Compare::Ne, a: number, b: this, to: other });
        emitter.assign(field, &Expr::Field(kept), place)?;
        emitter.op(Op::Jump(done));
        emitter.place(other);
    }
    emitter.place(done);
    Ok(())
}

fn next_field(stack: &Stack) -> Field {
    Field { place: Place::Slot(stack.next), width: 32, signed: false }
}

/// The number of the element that comes next.
fn next(stack: &Stack) -> Expr {
    Expr::Field(next_field(stack))
}
