// SPDX-License-Identifier: Apache-2.0
//! Writes instructions: slots, constants, labels, and the evaluation of expressions.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::expr::{Binary, Expr};
use crate::layout::{Field, Layout, Place, Slot};
use crate::op::{At, Cast, Compare, Op, Wide};

type Result<T> = std::result::Result<T, LoadError>;

/// Slots of constants, with their values.
pub(crate) type Constants = Vec<(Slot, u64)>;

/// A jump target that may not have a place yet.
pub(crate) type Label = u32;

/// A narrow value: its slot, and the number of bits it can have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrow {
    pub slot: Slot,
    pub bits: u32,
}

/// How much of a value is wanted: all of it, or its low bits (what lies above them is then undefined).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Exact,
    Low(u32),
}

impl Want {
    fn bits(self, most: u32) -> u32 {
        match self {
            Want::Exact => most,
            Want::Low(n) => n.min(most),
        }
    }
}

/// Slots that a program may use at most; the frame has as many as a slot number can say.
const MAX_SLOTS: u32 = 60_000;
const UNPLACED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Emitter {
    pub ops: Vec<Op>,
    labels: Vec<u32>,
    /// Instructions before this one may be jumped behind: they must not be changed any more.
    barrier: usize,
    next_slot: u32,
    constants: Constants,
    constant_of: HashMap<u64, Slot>,
    wide_constant_of: HashMap<u128, Slot>,
    temporaries: Vec<Slot>,
    used_temporaries: usize,
    first_temporary: u32,
}

impl Emitter {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            ops: Vec::new(),
            labels: Vec::new(),
            barrier: 0,
            next_slot: u32::from(layout.metadata_slots),
            constants: Vec::new(),
            constant_of: HashMap::new(),
            wide_constant_of: HashMap::new(),
            temporaries: Vec::new(),
            used_temporaries: 0,
            first_temporary: u32::MAX,
        }
    }

    // ---- slots

    /// Permanent slots, consecutive.
    pub(crate) fn allocate(&mut self, count: u32, place: &str) -> Result<Slot> {
        let slot = self.next_slot;
        self.next_slot = slot.saturating_add(count);
        if self.next_slot > MAX_SLOTS {
            return Err(LoadError::unsupported("a program of this size", place));
        }
        Ok(slot as Slot)
    }

    /// Two slots that live until the end of the statement.
    fn temporary(&mut self) -> Result<Slot> {
        if self.used_temporaries == self.temporaries.len() {
            let slot = self.allocate(2, "expression")?;
            self.first_temporary = self.first_temporary.min(u32::from(slot));
            self.temporaries.push(slot);
        }
        self.used_temporaries += 1;
        Ok(self.temporaries[self.used_temporaries - 1])
    }

    fn is_temporary(&self, slot: Slot) -> bool {
        u32::from(slot) >= self.first_temporary
            && self.temporaries[..self.used_temporaries].contains(&slot)
    }

    /// All temporaries are free again.
    pub(crate) fn end_statement(&mut self) {
        self.used_temporaries = 0;
    }

    pub(crate) fn constant(&mut self, value: u64) -> Result<Slot> {
        if let Some(&slot) = self.constant_of.get(&value) {
            return Ok(slot);
        }
        let slot = self.allocate(1, "constant")?;
        self.constants.push((slot, value));
        self.constant_of.insert(value, slot);
        Ok(slot)
    }

    fn wide_constant(&mut self, value: u128) -> Result<Slot> {
        if let Some(&slot) = self.wide_constant_of.get(&value) {
            return Ok(slot);
        }
        let slot = self.allocate(2, "constant")?;
        self.constants.push((slot, value as u64));
        self.constants.push((slot + 1, (value >> 64) as u64));
        self.wide_constant_of.insert(value, slot);
        Ok(slot)
    }

    // ---- labels

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(UNPLACED);
        (self.labels.len() - 1) as Label
    }

    /// The label stands for the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label as usize] = self.ops.len() as u32;
        self.barrier = self.ops.len();
    }

    /// Drops a jump to `label`, which is about to be placed here.
    pub(crate) fn fall_through(&mut self, label: Label) {
        if self.ops.len() > self.barrier && self.ops.last() == Some(&Op::Jump(label)) {
            self.ops.pop();
        }
    }

    /// Slots in use.
    pub(crate) fn slots(&self) -> Slot {
        self.next_slot as Slot
    }

    pub(crate) fn is_placed(&self, label: Label) -> bool {
        self.labels[label as usize] != UNPLACED
    }

    /// The instruction that a placed label stands for.
    pub(crate) fn address(&self, label: Label) -> Result<u32> {
        let mut address = self.labels[label as usize];
        if address == UNPLACED {
            return Err(LoadError::malformed("a jump leads nowhere"));
        }
        // A jump to a jump goes on; bounded because a program may hold a circle of them only behind a loop guard.
        for _ in 0..8 {
            match self.ops.get(address as usize) {
                Some(Op::Jump(next)) if self.labels[*next as usize] != UNPLACED => {
                    address = self.labels[*next as usize];
                }
                _ => break,
            }
        }
        Ok(address)
    }

    /// Turns labels into addresses.
    pub(crate) fn finish(mut self) -> Result<(Vec<Op>, Constants)> {
        let mut ops = self.ops.clone();
        for op in &mut ops {
            match op {
                Op::Jump(to)
                | Op::JumpZero { to, .. }
                | Op::JumpNonZero { to, .. }
                | Op::JumpCompare { to, .. }
                | Op::JumpValid { to, .. }
                | Op::JumpInvalid { to, .. } => *to = self.address(*to)?,
                _ => {}
            }
        }
        self.ops.clear();
        Ok((ops, self.constants))
    }

    pub(crate) fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    // ---- fields

    fn load_narrow(&mut self, header: u8, bit: u32, width: u32) -> Result<Narrow> {
        let d = self.temporary()?;
        let window = (bit % 8 + width).div_ceil(8);
        let at = |bytes: u32| At {
            header,
            byte: (bit / 8) as u16,
            shift: (bytes * 8 - bit % 8 - width) as u8,
            bits: width as u8,
        };
        self.op(match window {
            1 => Op::Load1 { d, at: at(1) },
            2 => Op::Load2 { d, at: at(2) },
            3 | 4 => Op::Load4 { d, at: at(4) },
            5..=8 => Op::Load8 { d, at: at(8) },
            _ => Op::LoadWide { d, at: at(16) },
        });
        Ok(Narrow {
            slot: d,
            bits: width,
        })
    }

    fn load_wide(&mut self, header: u8, bit: u32, width: u32, place: &str) -> Result<Slot> {
        if bit % 8 + width > 128 {
            return Err(LoadError::unsupported(
                "a field of more than 120 bits that does not start at a byte",
                place,
            ));
        }
        let d = self.temporary()?;
        let shift = (128 - bit % 8 - width) as u8;
        self.op(Op::LoadWide {
            d,
            at: At {
                header,
                byte: (bit / 8) as u16,
                shift,
                bits: width as u8,
            },
        });
        Ok(d)
    }

    fn store_narrow(&mut self, s: Slot, header: u8, bit: u32, width: u32) -> Result<()> {
        let byte = (bit / 8) as u16;
        let window = (bit % 8 + width).div_ceil(8);
        if bit % 8 == 0 && width % 8 == 0 {
            self.op(match window {
                1 => Op::Store1 { s, header, byte },
                2 => Op::Store2 { s, header, byte },
                4 => Op::Store4 { s, header, byte },
                8 => Op::Store8 { s, header, byte },
                count => Op::StoreBytes {
                    s,
                    header,
                    byte,
                    count: count as u8,
                },
            });
        } else if window <= 8 {
            let shift = (window * 8 - bit % 8 - width) as u8;
            self.op(Op::StoreBits {
                s,
                at: At {
                    header,
                    byte,
                    shift,
                    bits: width as u8,
                },
                count: window as u8,
            });
        } else {
            let d = self.temporary()?;
            self.op(Op::Widen { d, s });
            let shift = (128 - bit % 8 - width) as u8;
            self.op(Op::StoreWide {
                s: d,
                at: At {
                    header,
                    byte,
                    shift,
                    bits: width as u8,
                },
            });
        }
        Ok(())
    }

    /// `field = expression`, cut to the field's width.
    pub(crate) fn assign(&mut self, field: Field, expr: &Expr, place: &str) -> Result<()> {
        if field.width <= 64 {
            let mut value = self.narrow(expr, Want::Low(field.width), place)?;
            if value.bits > field.width {
                value = self.mask(value, field.width)?;
            }
            self.store(field, value.slot, place)?;
        } else {
            let mut value = self.wide(expr, Want::Low(field.width), place)?;
            let range = expr.range();
            if field.width < 128 && (range.signed || range.bits > field.width) {
                let d = self.temporary()?;
                self.op(Op::WideCast {
                    cast: Cast::Truncate,
                    d,
                    s: value,
                    bits: field.width as u8,
                });
                value = d;
            }
            match field.place {
                Place::Slot(d) if d == value => {}
                Place::Slot(d) => {
                    let made_here = self.is_temporary(value) && self.ops.len() > self.barrier;
                    let last = self.ops.last_mut().filter(|_| made_here);
                    if !last.is_some_and(|op| op.retarget(value, d, true)) {
                        self.op(Op::MoveWide { d, s: value });
                    }
                }
                Place::Header { header, bit } => {
                    if bit % 8 + field.width > 128 {
                        let what = "a field of more than 120 bits that does not start at a byte";
                        return Err(LoadError::unsupported(what, place));
                    }
                    let shift = (128 - bit % 8 - field.width) as u8;
                    let at = At {
                        header,
                        byte: (bit / 8) as u16,
                        shift,
                        bits: field.width as u8,
                    };
                    self.op(Op::StoreWide { s: value, at });
                }
                Place::Valid(_) => {
                    return Err(LoadError::malformed(format!(
                        "{place}: validity is written"
                    )))
                }
            }
        }
        self.end_statement();
        Ok(())
    }

    /// Stores a slot whose value fits the (narrow) field.
    pub(crate) fn store(&mut self, field: Field, slot: Slot, place: &str) -> Result<()> {
        match field.place {
            Place::Slot(d) if d == slot => Ok(()),
            Place::Slot(d) => {
                // The instruction that made a temporary can as well write to its destination.
                if self.is_temporary(slot) && self.ops.len() > self.barrier {
                    if let Some(last) = self.ops.last_mut() {
                        if last.retarget(slot, d, false) {
                            return Ok(());
                        }
                    }
                }
                self.op(Op::Move { d, s: slot });
                Ok(())
            }
            Place::Header { header, bit } => self.store_narrow(slot, header, bit, field.width),
            Place::Valid(_) => Err(LoadError::malformed(format!(
                "{place}: validity is written"
            ))),
        }
    }

    /// A slot to which a primitive may write a field's value, to be stored by [`Emitter::store`] afterwards.
    pub(crate) fn destination(&mut self, field: Field, place: &str) -> Result<Slot> {
        match field.place {
            _ if field.width > 64 => Err(LoadError::unsupported(
                "a destination wider than 64 bits",
                place,
            )),
            Place::Slot(slot) => Ok(slot),
            _ => self.temporary(),
        }
    }

    // ---- values

    fn mask(&mut self, value: Narrow, bits: u32) -> Result<Narrow> {
        let d = self.temporary()?;
        self.op(Op::Mask {
            d,
            s: value.slot,
            bits: bits as u8,
        });
        Ok(Narrow { slot: d, bits })
    }

    /// An exact unsigned value of at most 64 bits.
    pub(crate) fn exact(&mut self, expr: &Expr, place: &str) -> Result<Slot> {
        let range = expr.range();
        if !range.narrow() {
            return Err(LoadError::unsupported(
                "an operand wider than 64 bits or negative",
                place,
            ));
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
        match expr {
            Expr::Const {
                negative,
                magnitude,
            } => {
                let value = if *negative {
                    magnitude.wrapping_neg()
                } else {
                    *magnitude
                } as u64
                    & ones(all);
                Ok(Narrow {
                    slot: self.constant(value)?,
                    bits: (64 - value.leading_zeros()).max(1),
                })
            }
            Expr::Bool(b) => Ok(Narrow {
                slot: self.constant(u64::from(*b))?,
                bits: 1,
            }),
            Expr::Field(f) => self.narrow_field(*f, want, place),
            Expr::Binary(op, a, b) => self.narrow_binary(expr, *op, a, b, want, place),
            Expr::BitNot(x) if want != Want::Exact => {
                let x = self.narrow(x, Want::Low(all), place)?;
                let d = self.temporary()?;
                self.op(Op::Not {
                    d,
                    s: x.slot,
                    bits: all as u8,
                });
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
                Ok(Narrow {
                    slot: d,
                    bits: a.bits.max(b.bits).min(fits.max(all)),
                })
            }
            Expr::ToData(x) => Ok(Narrow {
                slot: self.boolean(x, place)?,
                bits: 1,
            }),
            _ => Ok(Narrow {
                slot: self.boolean(expr, place)?,
                bits: 1,
            }),
        }
    }

    fn narrow_field(&mut self, f: Field, want: Want, place: &str) -> Result<Narrow> {
        let all = want.bits(64);
        match f.place {
            Place::Valid(header) => {
                let d = self.temporary()?;
                self.op(Op::Valid { d, header });
                Ok(Narrow { slot: d, bits: 1 })
            }
            // The low bits of a two's complement number are those of its sign extension.
            _ if f.signed && all > f.width => self.low_of_wide(&Expr::Field(f), want, place),
            Place::Slot(slot) => Ok(Narrow {
                slot,
                bits: f.width.min(64),
            }),
            Place::Header { header, bit } => {
                let width = f.width.min(all);
                self.load_narrow(header, bit + f.width - width, width)
            }
        }
    }

    fn low_of_wide(&mut self, expr: &Expr, want: Want, place: &str) -> Result<Narrow> {
        let range = expr.range();
        let want = if range.wide() { Want::Exact } else { want };
        let slot = self.wide(expr, want, place)?;
        Ok(Narrow {
            slot,
            bits: if range.narrow() { range.bits } else { 64 },
        })
    }

    fn narrow_binary(
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
                let (x, y) = (
                    self.narrow(a, Want::Low(all), place)?,
                    self.narrow(b, Want::Low(all), place)?,
                );
                let d = self.temporary()?;
                let bits = if range.narrow() {
                    all.min(range.bits)
                } else {
                    all
                };
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
                            return if value.bits <= n {
                                Ok(value)
                            } else {
                                self.mask(value, n)
                            };
                        }
                    }
                }
                let (x, y) = (
                    self.narrow(a, Want::Low(all), place)?,
                    self.narrow(b, Want::Low(all), place)?,
                );
                let d = self.temporary()?;
                self.op(Op::And {
                    d,
                    a: x.slot,
                    b: y.slot,
                });
                Ok(Narrow {
                    slot: d,
                    bits: x.bits.min(y.bits),
                })
            }
            Binary::Or | Binary::Xor if ring => {
                let (x, y) = (
                    self.narrow(a, Want::Low(all), place)?,
                    self.narrow(b, Want::Low(all), place)?,
                );
                let d = self.temporary()?;
                let (a, b) = (x.slot, y.slot);
                self.op(if op == Binary::Or {
                    Op::Or { d, a, b }
                } else {
                    Op::Xor { d, a, b }
                });
                Ok(Narrow {
                    slot: d,
                    bits: x.bits.max(y.bits),
                })
            }
            Binary::Shl if ring => {
                let x = self.narrow(a, Want::Low(all), place)?;
                let y = self.exact(b, place)?;
                let d = self.temporary()?;
                let bits = if range.narrow() {
                    all.min(range.bits)
                } else {
                    all
                };
                self.op(Op::Shl {
                    d,
                    a: x.slot,
                    b: y,
                    bits: bits as u8,
                });
                Ok(Narrow { slot: d, bits })
            }
            Binary::Shr => {
                if let (Expr::Field(f), Some(k)) = (a, b.as_constant()) {
                    // A slice of a header field.
                    if let (Place::Header { .. }, false, true) =
                        (f.place, f.signed, k < u128::from(f.width))
                    {
                        return self.narrow_field(
                            Field {
                                width: f.width - k as u32,
                                ..*f
                            },
                            want,
                            place,
                        );
                    }
                }
                if !a.range().narrow() {
                    return self.low_of_wide(expr, want, place);
                }
                let (x, y) = (self.exact(a, place)?, self.exact(b, place)?);
                let d = self.temporary()?;
                self.op(Op::Shr { d, a: x, b: y });
                Ok(Narrow {
                    slot: d,
                    bits: range.bits,
                })
            }
            Binary::Div | Binary::Mod if a.range().narrow() && b.range().narrow() => {
                let (x, y) = (self.exact(a, place)?, self.exact(b, place)?);
                let d = self.temporary()?;
                self.op(if op == Binary::Div {
                    Op::Div { d, a: x, b: y }
                } else {
                    Op::Mod { d, a: x, b: y }
                });
                Ok(Narrow {
                    slot: d,
                    bits: a.range().bits,
                })
            }
            Binary::SaturateUnsigned => self.narrow_saturate(expr, a, b, want, place),
            Binary::TwoComplement
                if b.as_constant().is_some_and(|w| u128::from(all) <= w) && want != Want::Exact =>
            {
                self.narrow(a, Want::Low(all), place)
            }
            _ => self.low_of_wide(expr, want, place),
        }
    }

    /// Saturating sums and differences of unsigned numbers, which is what P4's `|+|` and `|-|` become.
    fn narrow_saturate(
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
                    Binary::Add => Op::SaturatingAdd {
                        d,
                        a: x,
                        b: y,
                        bits: width as u8,
                    },
                    _ => Op::SaturatingSub { d, a: x, b: y },
                });
                return Ok(Narrow {
                    slot: d,
                    bits: width,
                });
            }
        }
        self.low_of_wide(expr, want, place)
    }

    /// A value of at most 128 bits in two slots; signed values in two's complement. With `Want::Exact` it is exact.
    pub(crate) fn wide(&mut self, expr: &Expr, want: Want, place: &str) -> Result<Slot> {
        let range = expr.range();
        if want == Want::Exact && !range.wide() {
            return Err(LoadError::unsupported(
                "an expression wider than 128 bits",
                place,
            ));
        }
        match expr {
            Expr::Const {
                negative,
                magnitude,
            } => {
                return self.wide_constant(if *negative {
                    magnitude.wrapping_neg()
                } else {
                    *magnitude
                });
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

    fn wide_field(&mut self, f: Field, place: &str) -> Result<Slot> {
        let value = match (f.place, f.width > 64) {
            (Place::Slot(slot), true) => slot,
            (Place::Header { header, bit }, _) => self.load_wide(header, bit, f.width, place)?,
            (_, false) => {
                let s = self
                    .narrow_field(Field { signed: false, ..f }, Want::Exact, place)?
                    .slot;
                let d = self.temporary()?;
                self.op(Op::Widen { d, s });
                d
            }
            (Place::Valid(_), true) => {
                return Err(LoadError::malformed(format!("{place}: a wide validity")))
            }
        };
        if f.signed {
            let d = self.temporary()?;
            self.op(Op::WideCast {
                cast: Cast::SignExtend,
                d,
                s: value,
                bits: f.width as u8,
            });
            return Ok(d);
        }
        Ok(value)
    }

    /// `None` if the expression is better computed narrow.
    fn wide_binary(
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
                    return Err(LoadError::unsupported(
                        "a division of signed numbers",
                        place,
                    ));
                }
                let (x, y) = (
                    self.wide(a, Want::Exact, place)?,
                    self.wide(b, Want::Exact, place)?,
                );
                let d = self.temporary()?;
                let op = if op == Binary::Div {
                    Wide::Div
                } else {
                    Wide::Mod
                };
                self.op(Op::WideArithmetic { op, d, a: x, b: y });
                return Ok(Some(d));
            }
            Binary::TwoComplement | Binary::SaturateUnsigned | Binary::SaturateSigned => {
                let range = a.range();
                let cast = match op {
                    Binary::TwoComplement => Cast::SignExtend,
                    Binary::SaturateSigned if range.signed || range.bits < 127 => {
                        Cast::SaturateSigned
                    }
                    Binary::SaturateUnsigned if range.signed => Cast::SaturateUnsigned,
                    Binary::SaturateUnsigned => Cast::SaturateUnsignedFromUnsigned,
                    _ => {
                        return Err(LoadError::unsupported(
                            "a saturating cast of this width",
                            place,
                        ))
                    }
                };
                let bits = b.as_constant().unwrap_or(128) as u8;
                let left = if op == Binary::TwoComplement && !range.wide() {
                    want
                } else {
                    Want::Exact
                };
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
        let (x, y) = (
            self.wide(a, Want::Low(128), place)?,
            self.wide(b, Want::Low(128), place)?,
        );
        let d = self.temporary()?;
        self.op(Op::WideArithmetic {
            op: simple,
            d,
            a: x,
            b: y,
        });
        Ok(Some(d))
    }

    // ---- truth

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
                self.op(if matches!(expr, Expr::And(..)) {
                    Op::And { d, a, b }
                } else {
                    Op::Or { d, a, b }
                });
                Ok(d)
            }
            Expr::Compare(compare, a, b) => {
                if a.range().narrow() && b.range().narrow() {
                    let (a, b) = (self.exact(a, place)?, self.exact(b, place)?);
                    let d = self.temporary()?;
                    self.op(Op::Compare {
                        compare: *compare,
                        d,
                        a,
                        b,
                    });
                    return Ok(d);
                }
                let signed = a.range().signed || b.range().signed;
                if signed && (a.range().bits > 126 || b.range().bits > 126) {
                    return Err(LoadError::unsupported(
                        "a signed comparison wider than 127 bits",
                        place,
                    ));
                }
                let (a, b) = (
                    self.wide(a, Want::Exact, place)?,
                    self.wide(b, Want::Exact, place)?,
                );
                let d = self.temporary()?;
                self.op(Op::WideCompare {
                    compare: *compare,
                    signed,
                    d,
                    a,
                    b,
                });
                Ok(d)
            }
            Expr::ToBool(x) => {
                let zero = Box::new(Expr::constant(0));
                self.boolean(&Expr::Compare(Compare::Ne, x.clone(), zero), place)
            }
            Expr::Choose(..) => Ok(self.narrow(expr, Want::Exact, place)?.slot),
            // p4c writes a bool variable as a one-bit field.
            Expr::Field(f) if f.width == 1 => Ok(self.narrow_field(*f, Want::Exact, place)?.slot),
            _ => Err(LoadError::unsupported(
                "a number used as a truth value",
                place,
            )),
        }
    }

    /// Jumps to `to` if the expression's truth is `when`.
    pub(crate) fn jump_if(
        &mut self,
        expr: &Expr,
        when: bool,
        to: Label,
        place: &str,
    ) -> Result<()> {
        match expr {
            Expr::Bool(b) => {
                if *b == when {
                    self.op(Op::Jump(to));
                }
            }
            Expr::Not(x) => self.jump_if(x, !when, to, place)?,
            Expr::Valid(header)
            | Expr::Field(Field {
                place: Place::Valid(header),
                ..
            }) => {
                let header = *header;
                self.op(if when {
                    Op::JumpValid { header, to }
                } else {
                    Op::JumpInvalid { header, to }
                });
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
            Expr::ToBool(x)
                if matches!(
                    **x,
                    Expr::Field(Field {
                        place: Place::Valid(_),
                        ..
                    })
                ) =>
            {
                self.jump_if(x, when, to, place)?;
            }
            Expr::ToBool(x) if x.range().narrow() => {
                let s = self.exact(x, place)?;
                self.op(if when {
                    Op::JumpNonZero { s, to }
                } else {
                    Op::JumpZero { s, to }
                });
            }
            Expr::Compare(compare, a, b) if a.range().narrow() && b.range().narrow() => {
                let (a, b) = (self.exact(a, place)?, self.exact(b, place)?);
                let compare = if when { *compare } else { compare.inverse() };
                self.op(Op::JumpCompare { compare, a, b, to });
            }
            _ => {
                let s = self.boolean(expr, place)?;
                self.op(if when {
                    Op::JumpNonZero { s, to }
                } else {
                    Op::JumpZero { s, to }
                });
            }
        }
        Ok(())
    }
}

/// The lowest `bits` bits set.
pub(crate) fn ones(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// n if the value is 2^n - 1 and not 0.
fn ones_count(value: u128) -> Option<u32> {
    let n = value.trailing_ones();
    (n > 0 && (n == 128 || value >> n == 0)).then_some(n)
}
