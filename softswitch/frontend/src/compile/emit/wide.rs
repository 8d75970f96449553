// SPDX-License-Identifier: Apache-2.0
//! Values of 65 to 128 bits, and signed ones.

use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{Cast, Op, Wide};

use super::{Emitter, Result, Want};
use crate::error::LoadError;
use crate::expr::{Binary, Expr};

impl Emitter {
    /// A value of at most 128 bits in two slots; signed values in two's complement. With `Want::Exact` it is exact.
    pub(crate) fn wide(&mut self, expr: &Expr, want: Want, place: &str) -> Result<Slot> {
        let range = expr.range();
        if want == Want::Exact && !range.wide() {
            return Err(LoadError::unsupported("an expression wider than 128 bits", place));
        }
        if expr.is_long() {
            let words = self.words(expr, 128, place)?;
            let d = self.temporary()?;
            for (at, s) in words.into_iter().enumerate() {
                self.op(Op::Move { d: d + at as Slot, s });
            }
            return Ok(d);
        }
        match expr {
            Expr::Const { negative, magnitude } => {
                return self.wide_constant(if *negative { magnitude.wrapping_neg() } else { *magnitude });
            }
            Expr::Field(f) => return self.wide_field(*f, place),
            Expr::Choose(cond, a, b) if !range.narrow() => {
                let d = self.temporary()?;
                let (otherwise, end) = (self.label(), self.label());
                self.jump_if(cond, false, otherwise, place)?;
                let s = self.wide(a, want, place)?;
                self.op(Op::MoveWide { d, s });
                self.op(Op::Jump(end));
                self.place(otherwise);
                let s = self.wide(b, want, place)?;
                self.op(Op::MoveWide { d, s });
                self.place(end);
                return Ok(d);
            }
            Expr::BitNot(x) => {
                let s = self.wide(x, if x.range().wide() { Want::Exact } else { want }, place)?;
                let d = self.temporary()?;
                self.op(Op::WideNot { d, s });
                return Ok(d);
            }
            Expr::Binary(op, a, b) => {
                if let Some(d) = self.wide_binary(range.narrow(), *op, a, b, want, place)? {
                    return Ok(d);
                }
            }
            _ => {}
        }
        let s = self.narrow(expr, Want::Exact, place)?.slot;
        let d = self.temporary()?;
        self.op(Op::Widen { d, s });
        Ok(d)
    }

    pub(super) fn wide_field(&mut self, f: Field, place: &str) -> Result<Slot> {
        let value = match (f.place, f.width > 64) {
            (Place::Slot(slot), true) => slot,
            (Place::Header { header, bit }, _) => self.load_wide(header, bit, f.width)?,
            (_, false) => {
                let s = self.narrow_field(Field { signed: false, ..f }, Want::Exact, place)?.slot;
                let d = self.temporary()?;
                self.op(Op::Widen { d, s });
                d
            }
            (Place::Valid(_), true) => return Err(LoadError::malformed(format!("{place}: a wide validity"))),
        };
        if f.signed {
            let d = self.temporary()?;
            self.op(Op::WideCast { cast: Cast::SignExtend, d, s: value, bits: f.width as u8 });
            return Ok(d);
        }
        Ok(value)
    }

    /// `None` if the expression is better computed narrow.
    pub(super) fn wide_binary(
        &mut self,
        narrow: bool,
        op: Binary,
        a: &Expr,
        b: &Expr,
        want: Want,
        place: &str,
    ) -> Result<Option<Slot>> {
        let simple = match op {
            Binary::Add => Wide::Add,
            Binary::Sub => Wide::Sub,
            Binary::Mul => Wide::Mul,
            Binary::And => Wide::And,
            Binary::Or => Wide::Or,
            Binary::Xor => Wide::Xor,
            Binary::Shl | Binary::Shr => {
                if narrow && a.range().narrow() {
                    return Ok(None);
                }
                let left = if op == Binary::Shr { Want::Exact } else { want };
                let x = self.wide(a, left, place)?;
                let s = self.exact(b, place)?;
                let y = self.temporary()?;
                self.op(Op::Widen { d: y, s });
                let d = self.temporary()?;
                let op = match (op, a.range().signed) {
                    (Binary::Shl, _) => Wide::Shl,
                    (_, true) => Wide::ShrSigned,
                    (_, false) => Wide::ShrUnsigned,
                };
                self.op(Op::WideArithmetic { op, d, a: x, b: y });
                return Ok(Some(d));
            }
            Binary::Div | Binary::Mod => {
                if a.range().narrow() && b.range().narrow() {
                    return Ok(None);
                }
                if a.range().signed || b.range().signed {
                    return Err(LoadError::unsupported("a division of signed numbers", place));
                }
                let (x, y) = (self.wide(a, Want::Exact, place)?, self.wide(b, Want::Exact, place)?);
                let d = self.temporary()?;
                let op = if op == Binary::Div { Wide::Div } else { Wide::Mod };
                self.op(Op::WideArithmetic { op, d, a: x, b: y });
                return Ok(Some(d));
            }
            Binary::TwoComplement | Binary::SaturateUnsigned | Binary::SaturateSigned => {
                let range = a.range();
                let cast = match op {
                    Binary::TwoComplement => Cast::SignExtend,
                    Binary::SaturateSigned if range.signed || range.bits < 127 => Cast::SaturateSigned,
                    Binary::SaturateUnsigned if range.signed => Cast::SaturateUnsigned,
                    Binary::SaturateUnsigned => Cast::SaturateUnsignedFromUnsigned,
                    _ => return Err(LoadError::unsupported("a saturating cast of this width", place)),
                };
                let bits = b.as_constant().unwrap_or(128) as u8;
                let left = if op == Binary::TwoComplement && !range.wide() { want } else { Want::Exact };
                let s = self.wide(a, left, place)?;
                let d = self.temporary()?;
                self.op(Op::WideCast { cast, d, s, bits });
                return Ok(Some(d));
            }
        };
        if narrow {
            return Ok(None);
        }
        // The low 128 bits of the operands are enough, and exact if the result fits.
        let (x, y) = (self.wide(a, Want::Low(128), place)?, self.wide(b, Want::Low(128), place)?);
        let d = self.temporary()?;
        self.op(Op::WideArithmetic { op: simple, d, a: x, b: y });
        Ok(Some(d))
    }
}
