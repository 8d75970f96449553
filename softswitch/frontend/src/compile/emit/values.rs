// SPDX-License-Identifier: Apache-2.0
//! Values of at most 64 bits.

use narrows_program::bits::ones;
use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::Op;

use super::{Emitter, Narrow, Result, Want};
use crate::error::LoadError;
use crate::expr::{Binary, Expr};

impl Emitter {
    pub(super) fn mask(&mut self, value: Narrow, bits: u32) -> Result<Narrow> {
        let d = self.temporary()?;
        self.op(Op::Mask { d, s: value.slot, bits: bits as u8 });
        Ok(Narrow { slot: d, bits })
    }

    /// An exact unsigned value of at most 64 bits.
    pub(crate) fn exact(&mut self, expr: &Expr, place: &str) -> Result<Slot> {
        let range = expr.range();
        if !range.narrow() {
            return Err(LoadError::unsupported("an operand wider than 64 bits or negative", place));
        }
        Ok(self.narrow(expr, Want::Exact, place)?.slot)
    }

    /// The low 64 bits of a value: what BMv2's conversions to machine integers take.
    pub(crate) fn low(&mut self, expr: &Expr, bits: u32, place: &str) -> Result<Slot> {
        let value = self.narrow(expr, Want::Low(bits), place)?;
        if value.bits > bits {
            return Ok(self.mask(value, bits)?.slot);
        }
        Ok(value.slot)
    }

    /// A value of at most 64 bits. With `Want::Exact` the expression's range must be narrow.
    pub(crate) fn narrow(&mut self, expr: &Expr, want: Want, place: &str) -> Result<Narrow> {
        let range = expr.range();
        let all = want.bits(64);
        let fits = if range.narrow() { range.bits } else { 64 };
        if expr.is_long() && !matches!(expr, Expr::Field(_)) {
            let words = self.words(expr, 64, place)?;
            return Ok(Narrow { slot: words[0], bits: fits });
        }
        match expr {
            Expr::Const { negative, magnitude } => {
                let value = if *negative { magnitude.wrapping_neg() } else { *magnitude } as u64 & ones(all);
                Ok(Narrow { slot: self.constant(value)?, bits: (64 - value.leading_zeros()).max(1) })
            }
            Expr::Bool(b) => Ok(Narrow { slot: self.constant(u64::from(*b))?, bits: 1 }),
            Expr::Field(f) => self.narrow_field(*f, want, place),
            Expr::Binary(op, a, b) => self.narrow_binary(expr, *op, a, b, want, place),
            Expr::BitNot(x) if want != Want::Exact => {
                let x = self.narrow(x, Want::Low(all), place)?;
                let d = self.temporary()?;
                self.op(Op::Not { d, s: x.slot, bits: all as u8 });
                Ok(Narrow { slot: d, bits: all })
            }
            Expr::BitNot(_) => self.low_of_wide(expr, want, place),
            Expr::Choose(cond, a, b) => {
                let d = self.temporary()?;
                let (otherwise, end) = (self.label(), self.label());
                self.jump_if(cond, false, otherwise, place)?;
                let a = self.narrow(a, want, place)?;
                self.op(Op::Move { d, s: a.slot });
                self.op(Op::Jump(end));
                self.place(otherwise);
                let b = self.narrow(b, want, place)?;
                self.op(Op::Move { d, s: b.slot });
                self.place(end);
                Ok(Narrow { slot: d, bits: a.bits.max(b.bits).min(fits.max(all)) })
            }
            Expr::ToData(x) => Ok(Narrow { slot: self.boolean(x, place)?, bits: 1 }),
            _ => Ok(Narrow { slot: self.boolean(expr, place)?, bits: 1 }),
        }
    }

    pub(super) fn narrow_field(&mut self, f: Field, want: Want, place: &str) -> Result<Narrow> {
        let all = want.bits(64);
        match f.place {
            Place::Valid(header) => {
                let d = self.temporary()?;
                self.op(Op::Valid { d, header });
                Ok(Narrow { slot: d, bits: 1 })
            }
            // The low bits of a two's complement number are those of its sign extension.
            _ if f.signed && all > f.width => self.low_of_wide(&Expr::Field(f), want, place),
            Place::Slot(slot) => Ok(Narrow { slot, bits: f.width.min(64) }),
            Place::Header { header, bit } => {
                let width = f.width.min(all);
                self.load_narrow(header, bit + f.width - width, width)
            }
        }
    }

    pub(super) fn low_of_wide(&mut self, expr: &Expr, want: Want, place: &str) -> Result<Narrow> {
        let range = expr.range();
        let want = if range.wide() { Want::Exact } else { want };
        let slot = self.wide(expr, want, place)?;
        Ok(Narrow { slot, bits: if range.narrow() { range.bits } else { 64 } })
    }

    pub(super) fn narrow_binary(
        &mut self,
        expr: &Expr,
        op: Binary,
        a: &Expr,
        b: &Expr,
        want: Want,
        place: &str,
    ) -> Result<Narrow> {
        let range = expr.range();
        let all = want.bits(64);
        // Sums, products and bitwise operations: the low bits of the result come from the low bits of the operands.
        let ring = range.narrow() || want != Want::Exact;
        match op {
            Binary::Add | Binary::Sub | Binary::Mul if ring => {
                let (x, y) = (self.narrow(a, Want::Low(all), place)?, self.narrow(b, Want::Low(all), place)?);
                let d = self.temporary()?;
                let bits = if range.narrow() { all.min(range.bits) } else { all };
                let (a, b, cut) = (x.slot, y.slot, bits as u8);
                self.op(match op {
                    Binary::Add => Op::Add { d, a, b, bits: cut },
                    Binary::Sub => Op::Sub { d, a, b, bits: cut },
                    _ => Op::Mul { d, a, b, bits: cut },
                });
                Ok(Narrow { slot: d, bits })
            }
            Binary::And if ring => {
                for (mask, other) in [(b, a), (a, b)] {
                    if let Some(n) = mask.as_constant().and_then(ones_count) {
                        // A mask that covers the other operand changes nothing.
                        let n = if other.range().narrow() { n.min(64) } else { n };
                        if n <= 64 {
                            let value = self.narrow(other, Want::Low(n.min(all)), place)?;
                            let n = n.min(all);
                            return if value.bits <= n { Ok(value) } else { self.mask(value, n) };
                        }
                    }
                }
                let (x, y) = (self.narrow(a, Want::Low(all), place)?, self.narrow(b, Want::Low(all), place)?);
                let d = self.temporary()?;
                self.op(Op::And { d, a: x.slot, b: y.slot });
                Ok(Narrow { slot: d, bits: x.bits.min(y.bits) })
            }
            Binary::Or | Binary::Xor if ring => {
                let (x, y) = (self.narrow(a, Want::Low(all), place)?, self.narrow(b, Want::Low(all), place)?);
                let d = self.temporary()?;
                let (a, b) = (x.slot, y.slot);
                self.op(if op == Binary::Or { Op::Or { d, a, b } } else { Op::Xor { d, a, b } });
                Ok(Narrow { slot: d, bits: x.bits.max(y.bits) })
            }
            Binary::Shl if ring => {
                let x = self.narrow(a, Want::Low(all), place)?;
                let y = self.exact(b, place)?;
                let d = self.temporary()?;
                let bits = if range.narrow() { all.min(range.bits) } else { all };
                self.op(Op::Shl { d, a: x.slot, b: y, bits: bits as u8 });
                Ok(Narrow { slot: d, bits })
            }
            Binary::Shr => {
                if let (Expr::Field(f), Some(k)) = (a, b.as_constant()) {
                    // A slice of a header field.
                    if let (Place::Header { .. }, false, true) = (f.place, f.signed, k < u128::from(f.width)) {
                        return self.narrow_field(Field { width: f.width - k as u32, ..*f }, want, place);
                    }
                }
                if !a.range().narrow() {
                    return self.low_of_wide(expr, want, place);
                }
                let (x, y) = (self.exact(a, place)?, self.exact(b, place)?);
                let d = self.temporary()?;
                self.op(Op::Shr { d, a: x, b: y });
                Ok(Narrow { slot: d, bits: range.bits })
            }
            Binary::Div | Binary::Mod if a.range().narrow() && b.range().narrow() => {
                let (x, y) = (self.exact(a, place)?, self.exact(b, place)?);
                let d = self.temporary()?;
                self.op(if op == Binary::Div { Op::Div { d, a: x, b: y } } else { Op::Mod { d, a: x, b: y } });
                Ok(Narrow { slot: d, bits: a.range().bits })
            }
            Binary::SaturateUnsigned => self.narrow_saturate(expr, a, b, want, place),
            Binary::TwoComplement if b.as_constant().is_some_and(|w| u128::from(all) <= w) && want != Want::Exact => {
                self.narrow(a, Want::Low(all), place)
            }
            _ => self.low_of_wide(expr, want, place),
        }
    }

    /// Saturating sums and differences of unsigned numbers, which is what P4's `|+|` and `|-|` become.
    pub(super) fn narrow_saturate(
        &mut self,
        expr: &Expr,
        a: &Expr,
        b: &Expr,
        want: Want,
        place: &str,
    ) -> Result<Narrow> {
        let width = b.as_constant().unwrap_or(128) as u32;
        if let Expr::Binary(op @ (Binary::Add | Binary::Sub), x, y) = a {
            let operands = [x.range(), y.range()];
            if width <= 64 && operands.iter().all(|r| !r.signed && r.bits <= width) {
                let (x, y) = (self.exact(x, place)?, self.exact(y, place)?);
                let d = self.temporary()?;
                self.op(match op {
                    Binary::Add => Op::SaturatingAdd { d, a: x, b: y, bits: width as u8 },
                    _ => Op::SaturatingSub { d, a: x, b: y },
                });
                return Ok(Narrow { slot: d, bits: width });
            }
        }
        self.low_of_wide(expr, want, place)
    }
}

/// n if the value is 2^n - 1 and not 0.
fn ones_count(value: u128) -> Option<u32> {
    let n = value.trailing_ones();
    (n > 0 && (n == 128 || value >> n == 0)).then_some(n)
}
