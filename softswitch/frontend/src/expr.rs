// SPDX-License-Identifier: Apache-2.0
//! Expressions as the JSON has them, and what is known about their values.
//!
//! BMv2 computes with integers of any size and cuts them when they are stored. [`Range`] says how large the value of an
//! expression can get, so that the emitter can compute the same with 64 or 128 bits, or refuse.

use narrows_program::field::{Field, Place};
use narrows_program::op::Compare;
use serde_json::Value;

use crate::error::LoadError;
use crate::json;
use crate::layout::{Layout, Stack};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Const {
        negative: bool,
        magnitude: u128,
    },
    /// A constant of more than 128 bits, the lowest word first.
    Long(Vec<u64>),
    Bool(bool),
    Field(Field),
    Valid(u8),
    Not(Box<Expr>),
    BitNot(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Compare(Compare, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    ToBool(Box<Expr>),
    ToData(Box<Expr>),
    /// Condition, value if true, value if false.
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    /// Casts to the width that the right side (a constant) says.
    TwoComplement,
    SaturateUnsigned,
    SaturateSigned,
}

/// Values from 0 to 2^bits - 1, or from -2^bits to 2^bits if signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub signed: bool,
    pub bits: u32,
}

impl Range {
    const BOOL: Range = Range { signed: false, bits: 1 };

    /// Fits an unsigned 64-bit word.
    pub(crate) fn narrow(self) -> bool {
        !self.signed && self.bits <= 64
    }

    /// Fits a 128-bit word, signed or unsigned as it is.
    pub(crate) fn wide(self) -> bool {
        self.bits <= if self.signed { 126 } else { 128 }
    }
}

/// What an action's parameter is bound to: a constant, or slots that an entry fills.
pub(crate) type Params<'p> = &'p [Expr];

impl Expr {
    pub(crate) fn constant(value: u128) -> Self {
        Expr::Const { negative: false, magnitude: value }
    }

    /// The constant's value if it is one and not negative.
    pub(crate) fn as_constant(&self) -> Option<u128> {
        match self {
            Expr::Const { negative: false, magnitude } => Some(*magnitude),
            Expr::Bool(b) => Some(u128::from(*b)),
            _ => None,
        }
    }

    /// True if the JSON means a truth value.
    pub(crate) fn is_bool(&self) -> bool {
        matches!(
            self,
            Expr::Bool(_)
                | Expr::Valid(_)
                | Expr::Not(_)
                | Expr::Compare(..)
                | Expr::And(..)
                | Expr::Or(..)
                | Expr::ToBool(_)
        ) || matches!(self, Expr::Choose(_, a, _) if a.is_bool())
    }

    /// True if no instruction has a part of it: a number of more than 128 bits, or in more than 16 bytes.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Expr::Long(_) => true,
            Expr::Field(Field { place: Place::Header { bit, .. }, width, .. }) => *width > 64 && bit % 8 + width > 128,
            Expr::Field(field) => field.width > 128,
            Expr::BitNot(inner) => inner.is_long(),
            Expr::Binary(_, a, b) | Expr::Choose(_, a, b) => a.is_long() || b.is_long(),
            _ => false,
        }
    }

    pub(crate) fn range(&self) -> Range {
        match self {
            Expr::Long(words) => {
                let top = words.iter().rposition(|word| *word > 0).unwrap_or(0);
                let bits = 64 - words.get(top).map_or(64, |word| word.leading_zeros());
                Range { signed: false, bits: (64 * top as u32 + bits).max(1) }
            }
            Expr::Const { negative, magnitude } => {
                Range { signed: *negative, bits: (128 - magnitude.leading_zeros()).max(1) }
            }
            Expr::Field(f) if f.signed => Range { signed: true, bits: f.width - 1 },
            Expr::Field(f) => Range { signed: false, bits: f.width },
            Expr::BitNot(x) => Range { signed: true, bits: x.range().bits },
            Expr::Choose(_, a, b) => union(a.range(), b.range()),
            Expr::Binary(op, a, b) => binary_range(*op, a, b),
            _ => Range::BOOL,
        }
    }

    /// Parses a JSON value object (`{"type": ..., "value": ...}`).
    pub(crate) fn parse(value: &Value, layout: &Layout, params: Params, place: &str) -> Result<Expr, LoadError> {
        if value.get("type").is_none() && value.get("op").is_some() {
            return parse_operation(value, layout, params, place);
        }
        let kind = json::text(value, "type", place)?;
        let content = json::member(value, "value", place)?;
        match kind {
            "expression" => Expr::parse(content, layout, params, place),
            "hexstr" => {
                let text = json::as_text(content, place)?;
                if let Some(words) = json::long_hex(text) {
                    return Ok(Expr::Long(words));
                }
                let (negative, magnitude) = json::hex(text, place)?;
                Ok(Expr::Const { negative, magnitude })
            }
            "bool" => content
                .as_bool()
                .map(Expr::Bool)
                .ok_or_else(|| LoadError::malformed(format!("{place}: a bool is neither true nor false"))),
            "field" => Ok(Expr::Field(layout.field_ref(content, place)?)),
            "stack_field" => {
                let (stack, field) = json::pair(content, place)?;
                let stack = layout.stack(json::as_text(stack, place)?, place)?;
                let field = json::as_text(field, place)?;
                let last = |header: u8| layout.element_field(header, field, place).map(Expr::Field);
                // The last element is the one before the next.
                element(stack, &next_element(stack), 1, last)
            }
            "local" | "runtime_data" => {
                let index = json::as_number(content, place)?;
                usize::try_from(index)
                    .ok()
                    .and_then(|i| params.get(i))
                    .cloned()
                    .ok_or_else(|| LoadError::malformed(format!("{place}: no parameter {index}")))
            }
            other => Err(LoadError::unsupported(format!("a {other} in an expression"), place)),
        }
    }
}

/// The number of a stack's next element.
fn next_element(stack: &Stack) -> Expr {
    Expr::Field(Field { place: Place::Slot(stack.next), width: 32, signed: false })
}

/// What `of` says of the element whose number, plus `offset`, is `index`; 0 if there is none.
fn element(
    stack: &Stack,
    index: &Expr,
    offset: u128,
    of: impl Fn(u8) -> Result<Expr, LoadError>,
) -> Result<Expr, LoadError> {
    let mut value = Expr::constant(0);
    for (number, &header) in stack.headers.iter().enumerate().rev() {
        let found = of(header)?;
        if found.is_bool() && !value.is_bool() {
            value = Expr::Bool(false);
        }
        let number = Box::new(Expr::constant(number as u128 + offset));
        let this = Expr::Compare(Compare::Eq, Box::new(index.clone()), number);
        value = Expr::Choose(Box::new(this), Box::new(found), Box::new(value));
    }
    Ok(value)
}

/// The stack that an operand names.
fn stack_of<'l>(value: &Value, layout: &'l Layout, place: &str) -> Result<&'l Stack, LoadError> {
    let kind = json::text(value, "type", place)?;
    if kind != "header_stack" {
        return Err(LoadError::unsupported(format!("a {kind} in place of a header stack"), place));
    }
    layout.stack(json::text(value, "value", place)?, place)
}

/// An operand that is an expression in its own right, or wrapped in one.
fn inner(value: &Value) -> &Value {
    match (value.get("type").and_then(Value::as_str), value.get("value")) {
        (Some("expression"), Some(content)) => inner(content),
        _ => value,
    }
}

/// The stack and the index of `stack[index]`.
fn dereference<'l>(
    value: &Value,
    layout: &'l Layout,
    params: Params,
    place: &str,
) -> Result<(&'l Stack, Expr), LoadError> {
    let stack = stack_of(inner(json::member(value, "left", place)?), layout, place)?;
    Ok((stack, Expr::parse(json::member(value, "right", place)?, layout, params, place)?))
}

/// The index of `stack[index].field`, and that field of each element; `None` if the value is something else.
pub(crate) fn element_fields(
    value: &Value,
    layout: &Layout,
    params: Params,
    place: &str,
) -> Result<Option<(Expr, Vec<Field>)>, LoadError> {
    let access = inner(value);
    let header = access.get("left").map(inner);
    let of_element = header.filter(|header| operator(header) == Some("dereference_header_stack"));
    let Some(header) = of_element.filter(|_| operator(access) == Some("access_field")) else {
        return Ok(None);
    };
    let (stack, index) = dereference(header, layout, params, place)?;
    let number = json::as_number(json::member(access, "right", place)?, place)?;
    let fields = stack.headers.iter().map(|&header| layout.numbered_field(header, number, place));
    Ok(Some((index, fields.collect::<Result<_, _>>()?)))
}

fn operator(value: &Value) -> Option<&str> {
    value.get("op").and_then(Value::as_str)
}

/// Whether two varbits have the same length and the same bits.
fn same_varbits(a: u8, b: u8, layout: &Layout, place: &str) -> Result<Expr, LoadError> {
    let parts = |header| layout.varbit(header).map_or(&[][..], |varbit| &varbit.parts[..]);
    if parts(a).len() != parts(b).len() {
        return Err(LoadError::unsupported("a comparison of varbits of different types", place));
    }
    let mut same = Expr::Bool(true);
    let mut require = |left: Expr, right: Expr| {
        let equal = Expr::Compare(Compare::Eq, Box::new(left), Box::new(right));
        same = Expr::And(Box::new(std::mem::replace(&mut same, Expr::Bool(true))), Box::new(equal));
    };
    for (&a, &b) in parts(a).iter().zip(parts(b)) {
        let valid = |header| Expr::ToData(Box::new(Expr::Valid(header)));
        require(valid(a), valid(b));
        let bits = layout.headers[usize::from(a)].bytes * 8;
        for bit in (0..bits).step_by(64) {
            // A part that is not there reads as 0.
            let word = |header| {
                let place = Place::Header { header, bit };
                Expr::Field(Field { place, width: bits.min(64), signed: false })
            };
            require(word(a), word(b));
        }
    }
    Ok(same)
}

/// `header.field` of a header that is an expression: the field is given by its number.
fn access_field(value: &Value, layout: &Layout, params: Params, place: &str) -> Result<Expr, LoadError> {
    let header = inner(json::member(value, "left", place)?);
    if header.get("op").and_then(Value::as_str) != Some("dereference_header_stack") {
        return Err(LoadError::unsupported("a field of something other than an element of a stack", place));
    }
    let (stack, index) = dereference(header, layout, params, place)?;
    let number = json::as_number(json::member(value, "right", place)?, place)?;
    element(stack, &index, 0, |header| layout.numbered_field(header, number, place).map(Expr::Field))
}

fn union(a: Range, b: Range) -> Range {
    Range { signed: a.signed || b.signed, bits: a.bits.max(b.bits) }
}

fn binary_range(op: Binary, left: &Expr, right: &Expr) -> Range {
    let (a, b) = (left.range(), right.range());
    let width = || u32::try_from(right.as_constant().unwrap_or(128)).unwrap_or(u32::MAX);
    let bits = match op {
        Binary::Add => a.bits.max(b.bits) + 1,
        Binary::Sub => a.bits.max(b.bits) + u32::from(a.signed || b.signed),
        Binary::Mul => a.bits + b.bits,
        Binary::Shl => {
            // The greatest amount that the right side can be.
            let most = match right.as_constant() {
                Some(k) => k.min(1 << 16) as u32,
                None => (1u32 << b.bits.min(16)) - 1,
            };
            a.bits.saturating_add(most)
        }
        Binary::Shr => match right.as_constant() {
            Some(k) if !a.signed => a.bits.saturating_sub(k.min(1 << 16) as u32).max(1),
            _ => a.bits,
        },
        Binary::And => match (a.signed, b.signed) {
            (false, false) => a.bits.min(b.bits),
            (false, true) => a.bits,
            (true, false) => b.bits,
            (true, true) => a.bits.max(b.bits),
        },
        Binary::Or | Binary::Xor => a.bits.max(b.bits),
        Binary::Div => a.bits,
        Binary::Mod => a.bits.min(b.bits),
        Binary::SaturateUnsigned => width(),
        Binary::TwoComplement | Binary::SaturateSigned => width().saturating_sub(1),
    };
    let signed = match op {
        Binary::Sub | Binary::TwoComplement | Binary::SaturateSigned => true,
        Binary::SaturateUnsigned | Binary::Div | Binary::Mod => false,
        Binary::And => a.signed && b.signed,
        Binary::Shl | Binary::Shr => a.signed,
        _ => a.signed || b.signed,
    };
    Range { signed, bits: bits.min(1 << 20) }
}

fn parse_operation(value: &Value, layout: &Layout, params: Params, place: &str) -> Result<Expr, LoadError> {
    let op = json::text(value, "op", place)?;
    let side = |key: &str| -> Result<Box<Expr>, LoadError> {
        Expr::parse(json::member(value, key, place)?, layout, params, place).map(Box::new)
    };
    let owner = |key: &str| value.get(key).and_then(|side| layout.varbit_owner(inner(side)));
    let has_left = value.get("left").is_some_and(|l| !l.is_null());
    let binary = |op| Ok(Expr::Binary(op, side("left")?, side("right")?));
    let compare = |op| Ok(Expr::Compare(op, side("left")?, side("right")?));
    match op {
        "+" if !has_left => side("right").map(|x| *x),
        "-" if !has_left => Ok(Expr::Binary(Binary::Sub, Box::new(Expr::constant(0)), side("right")?)),
        "+" => binary(Binary::Add),
        "-" => binary(Binary::Sub),
        "*" => binary(Binary::Mul),
        "/" => binary(Binary::Div),
        "%" => binary(Binary::Mod),
        "<<" => binary(Binary::Shl),
        ">>" => binary(Binary::Shr),
        "&" => binary(Binary::And),
        "|" => binary(Binary::Or),
        "^" => binary(Binary::Xor),
        "two_comp_mod" | "usat_cast" | "sat_cast" => {
            let width = side("right")?;
            if !matches!(width.as_constant(), Some(1..=2048)) {
                return Err(LoadError::unsupported(
                    format!("{op} to a width that is not a constant up to 2,048"),
                    place,
                ));
            }
            let op = match op {
                "two_comp_mod" => Binary::TwoComplement,
                "usat_cast" => Binary::SaturateUnsigned,
                _ => Binary::SaturateSigned,
            };
            Ok(Expr::Binary(op, side("left")?, width))
        }
        "==" | "!=" if owner("left").is_some() || owner("right").is_some() => {
            let (Some(a), Some(b)) = (owner("left"), owner("right")) else {
                return Err(LoadError::unsupported("a comparison of a varbit with something else", place));
            };
            let same = same_varbits(a, b, layout, place)?;
            Ok(if op == "==" { same } else { Expr::Not(Box::new(same)) })
        }
        "==" => compare(Compare::Eq),
        "!=" => compare(Compare::Ne),
        "<" => compare(Compare::Lt),
        ">=" => compare(Compare::Ge),
        ">" => compare(Compare::Gt),
        "<=" => compare(Compare::Le),
        "~" => side("right").map(Expr::BitNot),
        "not" => side("right").map(Expr::Not),
        "and" => Ok(Expr::And(side("left")?, side("right")?)),
        "or" => Ok(Expr::Or(side("left")?, side("right")?)),
        "d2b" => side("right").map(Expr::ToBool),
        "b2d" => side("right").map(Expr::ToData),
        "valid" => {
            let header = inner(json::member(value, "right", place)?);
            if header.get("op").and_then(Value::as_str) == Some("dereference_header_stack") {
                let (stack, index) = dereference(header, layout, params, place)?;
                return element(stack, &index, 0, |header| Ok(Expr::Valid(header)));
            }
            if json::text(header, "type", place)? != "header" {
                return Err(LoadError::unsupported("valid() of something other than a header", place));
            }
            Ok(Expr::Valid(layout.header(json::text(header, "value", place)?, place)?))
        }
        "valid_union" => {
            let union = inner(json::member(value, "right", place)?);
            if json::text(union, "type", place)? != "header_union" {
                return Err(LoadError::unsupported("valid() of something other than a header union", place));
            }
            let members = layout.union(json::text(union, "value", place)?, place)?;
            let valid = members.iter().map(|&member| Expr::Valid(member));
            Ok(valid.fold(Expr::Bool(false), |any, valid| Expr::Or(Box::new(any), Box::new(valid))))
        }
        "access_field" => access_field(value, layout, params, place),
        "last_stack_index" => {
            let stack = stack_of(inner(json::member(value, "right", place)?), layout, place)?;
            // Of 32 bits, as P4 says.
            let last = Expr::Binary(Binary::Sub, Box::new(next_element(stack)), Box::new(Expr::constant(1)));
            Ok(Expr::Binary(Binary::And, Box::new(last), Box::new(Expr::constant(u128::from(u32::MAX)))))
        }
        "size_stack" => {
            let stack = stack_of(inner(json::member(value, "right", place)?), layout, place)?;
            Ok(Expr::constant(stack.headers.len() as u128))
        }
        "?" => Ok(Expr::Choose(side("cond")?, side("left")?, side("right")?)),
        other => Err(LoadError::unsupported(format!("the operator {other}"), place)),
    }
}
