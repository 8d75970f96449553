// SPDX-License-Identifier: Apache-2.0
//! Truth values and conditional jumps.

use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{Compare, Op};

use super::{Emitter, Label, Result, Want};
use crate::error::LoadError;
use crate::expr::Expr;

impl Emitter {
    /// A truth value as 0 or 1.
    pub(crate) fn boolean(&mut self, expr: &Expr, place: &str) -> Result<Slot> {
        match expr {
            Expr::Bool(b) => self.constant(u64::from(*b)),
            Expr::Valid(header) => {
                let d = self.temporary()?;
                self.op(Op::Valid { d, header: *header });
                Ok(d)
            }
            Expr::Not(x) => {
                let (s, one) = (self.boolean(x, place)?, self.constant(1)?);
                let d = self.temporary()?;
                self.op(Op::Xor { d, a: s, b: one });
                Ok(d)
            }
            Expr::And(a, b) | Expr::Or(a, b) => {
                let (a, b) = (self.boolean(a, place)?, self.boolean(b, place)?);
                let d = self.temporary()?;
                self.op(if matches!(expr, Expr::And(..)) { Op::And { d, a, b } } else { Op::Or { d, a, b } });
                Ok(d)
            }
            Expr::Compare(compare, a, b) => {
                if a.range().narrow() && b.range().narrow() {
                    let (a, b) = (self.exact(a, place)?, self.exact(b, place)?);
                    let d = self.temporary()?;
                    self.op(Op::Compare { compare: *compare, d, a, b });
                    return Ok(d);
                }
                let signed = a.range().signed || b.range().signed;
                if signed && (a.range().bits > 126 || b.range().bits > 126) {
                    return Err(LoadError::unsupported("a signed comparison wider than 127 bits", place));
                }
                if a.is_long() || b.is_long() || !a.range().wide() || !b.range().wide() {
                    return self.long_compare(*compare, a, b, place);
                }
                let (a, b) = (self.wide(a, Want::Exact, place)?, self.wide(b, Want::Exact, place)?);
                let d = self.temporary()?;
                self.op(Op::WideCompare { compare: *compare, signed, d, a, b });
                Ok(d)
            }
            Expr::ToBool(x) => {
                let zero = Box::new(Expr::constant(0));
                self.boolean(&Expr::Compare(Compare::Ne, x.clone(), zero), place)
            }
            Expr::Choose(..) => Ok(self.narrow(expr, Want::Exact, place)?.slot),
            // p4c writes a bool variable as a one-bit field.
            Expr::Field(f) if f.width == 1 => Ok(self.narrow_field(*f, Want::Exact, place)?.slot),
            _ => Err(LoadError::unsupported("a number used as a truth value", place)),
        }
    }

    /// Jumps to `to` if the expression's truth is `when`.
    pub(crate) fn jump_if(&mut self, expr: &Expr, when: bool, to: Label, place: &str) -> Result<()> {
        match expr {
            Expr::Bool(b) => {
                if *b == when {
                    self.op(Op::Jump(to));
                }
            }
            Expr::Not(x) => self.jump_if(x, !when, to, place)?,
            Expr::Valid(header) | Expr::Field(Field { place: Place::Valid(header), .. }) => {
                let header = *header;
                self.op(if when { Op::JumpValid { header, to } } else { Op::JumpInvalid { header, to } });
            }
            Expr::And(a, b) | Expr::Or(a, b) => {
                // `a and b` is false as soon as a is; `a or b` is true as soon as a is.
                if matches!(expr, Expr::Or(..)) == when {
                    self.jump_if(a, when, to, place)?;
                    self.jump_if(b, when, to, place)?;
                } else {
                    let end = self.label();
                    self.jump_if(a, !when, end, place)?;
                    self.jump_if(b, when, to, place)?;
                    self.place(end);
                }
            }
            Expr::ToBool(x) if matches!(**x, Expr::Field(Field { place: Place::Valid(_), .. })) => {
                self.jump_if(x, when, to, place)?;
            }
            Expr::ToBool(x) if x.range().narrow() => {
                let s = self.exact(x, place)?;
                self.op(if when { Op::JumpNonZero { s, to } } else { Op::JumpZero { s, to } });
            }
            Expr::Compare(compare, a, b) if a.range().narrow() && b.range().narrow() => {
                let (a, b) = (self.exact(a, place)?, self.exact(b, place)?);
                let compare = if when { *compare } else { compare.inverse() };
                self.op(Op::JumpCompare { compare, a, b, to });
            }
            _ => {
                let s = self.boolean(expr, place)?;
                self.op(if when { Op::JumpNonZero { s, to } } else { Op::JumpZero { s, to } });
            }
        }
        Ok(())
    }
}
