// SPDX-License-Identifier: Apache-2.0
//! Values of more than 128 bits, a word of 64 bits at a time: what is wider than any instruction becomes several of them.

use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{Compare, Op, Wide};

use super::{Emitter, Result, Want};
use crate::error::LoadError;
use crate::expr::{Binary, Expr};

/// Words that so many bits take.
fn words_of(bits: u32) -> usize {
    bits.div_ceil(64) as usize
}

impl Emitter {
    /// The low `bits` bits of a value, the lowest word first. Above them the last word is not defined.
    pub(crate) fn words(&mut self, expr: &Expr, bits: u32, place: &str) -> Result<Vec<Slot>> {
        let count = words_of(bits);
        let range = expr.range();
        match expr {
            Expr::Const { negative, magnitude } => {
                let value = if *negative { magnitude.wrapping_neg() } else { *magnitude };
                let above = if *negative { u64::MAX } else { 0 };
                let word = |at| match at {
                    0 => value as u64,
                    1 => (value >> 64) as u64,
                    _ => above,
                };
                (0..count).map(|at| self.constant(word(at))).collect()
            }
            Expr::Long(words) => (0..count).map(|at| self.constant(words.get(at).copied().unwrap_or(0))).collect(),
            Expr::Field(field) if expr.is_long() => self.field_words(*field, bits, place),
            _ if !expr.is_long() && range.wide() => self.short_words(expr, count, place),
            Expr::BitNot(inner) => {
                let words = self.words(inner, bits, place)?;
                self.each_word(words, |d, s| Op::Not { d, s, bits: 64 })
            }
            Expr::Choose(condition, a, b) => {
                let all = (0..count).map(|_| self.temporary()).collect::<Result<Vec<_>>>()?;
                let (otherwise, end) = (self.label(), self.label());
                self.jump_if(condition, false, otherwise, place)?;
                let words = self.words(a, bits, place)?;
                all.iter().zip(words).for_each(|(&d, s)| self.op(Op::Move { d, s }));
                self.op(Op::Jump(end));
                self.place(otherwise);
                let words = self.words(b, bits, place)?;
                all.iter().zip(words).for_each(|(&d, s)| self.op(Op::Move { d, s }));
                self.place(end);
                Ok(all)
            }
            Expr::Binary(op, a, b) => self.long_binary(*op, a, b, bits, place),
            _ => Err(LoadError::unsupported("an expression wider than 128 bits of this kind", place)),
        }
    }

    fn each_word(&mut self, words: Vec<Slot>, op: impl Fn(Slot, Slot) -> Op) -> Result<Vec<Slot>> {
        let make = |s| {
            let d = self.temporary()?;
            self.op(op(d, s));
            Ok(d)
        };
        words.into_iter().map(make).collect()
    }

    /// Of a value that other instructions have.
    fn short_words(&mut self, expr: &Expr, count: usize, place: &str) -> Result<Vec<Slot>> {
        let range = expr.range();
        let zero = self.constant(0)?;
        let (mut words, above) = if range.narrow() {
            (vec![self.exact(expr, place)?], zero)
        } else {
            let low = self.wide(expr, Want::Exact, place)?;
            let above = match range.signed {
                false => zero,
                true => {
                    let (d, by) = (self.temporary()?, self.wide_constant(127)?);
                    self.op(Op::WideArithmetic { op: Wide::ShrSigned, d, a: low, b: by });
                    d
                }
            };
            (vec![low, low + 1], above)
        };
        words.resize(count, above);
        Ok(words)
    }

    fn field_words(&mut self, field: Field, bits: u32, place: &str) -> Result<Vec<Slot>> {
        if field.signed && bits > field.width {
            return Err(LoadError::unsupported("a signed number wider than 128 bits that becomes wider", place));
        }
        let zero = self.constant(0)?;
        let word = |at: usize| match part(field, at) {
            None => Ok(zero),
            Some(Field { place: Place::Header { header, bit }, width, .. }) => {
                Ok(self.load_narrow(header, bit, width)?.slot)
            }
            Some(Field { place: Place::Slot(slot), .. }) => Ok(slot),
            Some(_) => Err(LoadError::malformed(format!("{place}: a wide validity"))),
        };
        (0..words_of(bits)).map(word).collect()
    }

    fn long_binary(&mut self, op: Binary, a: &Expr, b: &Expr, bits: u32, place: &str) -> Result<Vec<Slot>> {
        let unsupported = |what: &str| Err(LoadError::unsupported(format!("{what} wider than 128 bits"), place));
        match op {
            Binary::And | Binary::Or | Binary::Xor => {
                let (x, y) = (self.words(a, bits, place)?, self.words(b, bits, place)?);
                let make = |(a, b)| {
                    let d = self.temporary()?;
                    self.op(match op {
                        Binary::And => Op::And { d, a, b },
                        Binary::Or => Op::Or { d, a, b },
                        _ => Op::Xor { d, a, b },
                    });
                    Ok(d)
                };
                x.into_iter().zip(y).map(make).collect()
            }
            Binary::Add => {
                let (x, y) = (self.words(a, bits, place)?, self.words(b, bits, place)?);
                self.sum(&x, &y)
            }
            Binary::Sub => {
                let (x, y) = (self.words(a, bits, place)?, self.words(b, bits, place)?);
                Ok(self.difference(&x, &y)?.0)
            }
            Binary::Shl | Binary::Shr => {
                let Some(by) = b.as_constant() else {
                    return unsupported("a shift, by a number that is not constant,");
                };
                let by = by.min(1 << 16) as u32;
                if op == Binary::Shl {
                    let kept = bits.saturating_sub(by);
                    let words = if kept > 0 { self.words(a, kept, place)? } else { vec![] };
                    self.moved(&words, i64::from(by), words_of(bits))
                } else if a.range().signed {
                    unsupported("a shift to the right of a signed number")
                } else {
                    let all = a.range().bits;
                    let mut words = self.words(a, all, place)?;
                    self.cut_last(&mut words, all)?;
                    self.moved(&words, -i64::from(by), words_of(bits))
                }
            }
            Binary::TwoComplement if b.as_constant().is_some_and(|width| u128::from(bits) <= width) => {
                self.words(a, bits, place)
            }
            Binary::TwoComplement => unsupported("a signed number that becomes wider, of a cast"),
            Binary::SaturateSigned | Binary::SaturateUnsigned => unsupported("a saturating operation"),
            Binary::Mul => unsupported("a product"),
            Binary::Div | Binary::Mod => unsupported("a division"),
        }
    }

    /// Clears what is not defined above `bits` bits.
    fn cut_last(&mut self, words: &mut [Slot], bits: u32) -> Result<()> {
        if let (Some(last), 1..) = (words.last_mut(), bits % 64) {
            let d = self.temporary()?;
            self.op(Op::Mask { d, s: *last, bits: (bits % 64) as u8 });
            *last = d;
        }
        Ok(())
    }

    fn sum(&mut self, x: &[Slot], y: &[Slot]) -> Result<Vec<Slot>> {
        let mut carry = self.constant(0)?;
        let mut sums = Vec::with_capacity(x.len());
        for (&a, &b) in x.iter().zip(y) {
            let [first, sum, over, again, next] =
                [self.temporary()?, self.temporary()?, self.temporary()?, self.temporary()?, self.temporary()?];
            self.op(Op::Add { d: first, a, b, bits: 64 });
            self.op(Op::Compare { compare: Compare::Lt, d: over, a: first, b: a });
            self.op(Op::Add { d: sum, a: first, b: carry, bits: 64 });
            self.op(Op::Compare { compare: Compare::Lt, d: again, a: sum, b: first });
            self.op(Op::Or { d: next, a: over, b: again });
            carry = next;
            sums.push(sum);
        }
        Ok(sums)
    }

    /// A difference, and 1 if it is below 0.
    fn difference(&mut self, x: &[Slot], y: &[Slot]) -> Result<(Vec<Slot>, Slot)> {
        let mut borrow = self.constant(0)?;
        let mut differences = Vec::with_capacity(x.len());
        for (&a, &b) in x.iter().zip(y) {
            let [first, difference, under, again, next] =
                [self.temporary()?, self.temporary()?, self.temporary()?, self.temporary()?, self.temporary()?];
            self.op(Op::Compare { compare: Compare::Lt, d: under, a, b });
            self.op(Op::Sub { d: first, a, b, bits: 64 });
            self.op(Op::Compare { compare: Compare::Lt, d: again, a: first, b: borrow });
            self.op(Op::Sub { d: difference, a: first, b: borrow, bits: 64 });
            self.op(Op::Or { d: next, a: under, b: again });
            borrow = next;
            differences.push(difference);
        }
        Ok((differences, borrow))
    }

    /// Words moved up by `by` bits, or down if that is negative, in `count` words.
    fn moved(&mut self, words: &[Slot], by: i64, count: usize) -> Result<Vec<Slot>> {
        let (whole, rest) = (by.div_euclid(64), by.rem_euclid(64));
        let zero = self.constant(0)?;
        let word = |at: i64| usize::try_from(at).ok().and_then(|at| words.get(at)).copied();
        let (up, down) = (self.constant(rest as u64)?, self.constant(64 - rest as u64)?);
        let make = |at: usize| {
            let at = at as i64 - whole;
            let low = word(at - 1).filter(|_| rest > 0);
            let high = word(at);
            if rest == 0 {
                return Ok(high.unwrap_or(zero));
            }
            let mut shifted = zero;
            if let Some(high) = high {
                shifted = self.temporary()?;
                self.op(Op::Shl { d: shifted, a: high, b: up, bits: 64 });
            }
            let Some(low) = low else {
                return Ok(shifted);
            };
            let (carried, d) = (self.temporary()?, self.temporary()?);
            self.op(Op::Shr { d: carried, a: low, b: down });
            self.op(Op::Or { d, a: shifted, b: carried });
            Ok(d)
        };
        (0..count).map(make).collect()
    }

    /// Compares unsigned numbers, of which one is long.
    pub(super) fn long_compare(&mut self, compare: Compare, a: &Expr, b: &Expr, place: &str) -> Result<Slot> {
        let bits = a.range().bits.max(b.range().bits);
        let (mut x, mut y) = (self.words(a, bits, place)?, self.words(b, bits, place)?);
        self.cut_last(&mut x, bits)?;
        self.cut_last(&mut y, bits)?;
        let d = self.temporary()?;
        let one = self.constant(1)?;
        match compare {
            Compare::Eq | Compare::Ne => {
                let mut differ = self.constant(0)?;
                for (a, b) in x.into_iter().zip(y) {
                    let (this, any) = (self.temporary()?, self.temporary()?);
                    self.op(Op::Xor { d: this, a, b });
                    self.op(Op::Or { d: any, a: differ, b: this });
                    differ = any;
                }
                let zero = self.constant(0)?;
                self.op(Op::Compare { compare, d, a: differ, b: zero });
            }
            Compare::Lt | Compare::Ge => {
                let (_, below) = self.difference(&x, &y)?;
                let flip = self.constant(u64::from(compare == Compare::Ge))?;
                self.op(Op::Xor { d, a: below, b: flip });
            }
            Compare::Gt => {
                let (_, below) = self.difference(&y, &x)?;
                self.op(Op::Move { d, s: below });
            }
            Compare::Le => {
                let (_, below) = self.difference(&y, &x)?;
                self.op(Op::Xor { d, a: below, b: one });
            }
        }
        Ok(d)
    }

    /// `field = expression` for fields that no instruction writes at once.
    pub(super) fn assign_long(&mut self, field: Field, expr: &Expr, place: &str) -> Result<()> {
        let words = self.words(expr, field.width, place)?;
        self.store_words(field, words, place)
    }

    /// Stores words whose bits beyond the field are not defined.
    pub(crate) fn store_words(&mut self, field: Field, mut words: Vec<Slot>, place: &str) -> Result<()> {
        self.cut_last(&mut words, field.width)?;
        if let Place::Slot(first) = field.place {
            // What is still to be read must not be overwritten.
            for (at, word) in words.iter_mut().enumerate() {
                let own = (first..first + words_of(field.width) as Slot).contains(word);
                if own && *word != first + at as Slot {
                    let d = self.temporary()?;
                    self.op(Op::Move { d, s: *word });
                    *word = d;
                }
            }
        }
        for (at, word) in words.into_iter().enumerate() {
            match part(field, at) {
                Some(Field { place: Place::Slot(d), .. }) if d == word => {}
                Some(Field { place: Place::Slot(d), .. }) => self.op(Op::Move { d, s: word }),
                Some(Field { place: Place::Header { header, bit }, width, .. }) => {
                    self.store_narrow(word, header, bit, width)?;
                }
                _ => return Err(LoadError::malformed(format!("{place}: validity is written"))),
            }
        }
        Ok(())
    }

    /// The words of a field, in temporaries that may be written to.
    pub(crate) fn copied_words(&mut self, field: Field, place: &str) -> Result<Vec<Slot>> {
        let words = self.words(&Expr::Field(Field { signed: false, ..field }), field.width, place)?;
        self.each_word(words, |d, s| Op::Move { d, s })
    }
}

/// The word of a field that is its `at`th, from the lowest on; `None` beyond the field.
fn part(field: Field, at: usize) -> Option<Field> {
    let below = 64 * at as u32;
    let width = field.width.checked_sub(below).filter(|rest| *rest > 0)?.min(64);
    let place = match field.place {
        Place::Slot(slot) => Place::Slot(slot + at as Slot),
        Place::Header { header, bit } => Place::Header { header, bit: bit + field.width - below - width },
        valid @ Place::Valid(_) => valid,
    };
    Some(Field { place, width, signed: false })
}
