// SPDX-License-Identifier: Apache-2.0
//! Reading and writing of fields.

use narrows_program::field::{Field, Place, Slot};
use narrows_program::op::{At, Cast, Op};

use super::{Emitter, Narrow, Result, Want};
use crate::error::LoadError;
use crate::expr::Expr;

impl Emitter {
    pub(super) fn load_narrow(&mut self, header: u8, bit: u32, width: u32) -> Result<Narrow> {
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
        Ok(Narrow { slot: d, bits: width })
    }

    /// Of a field that lies in 16 bytes.
    pub(super) fn load_wide(&mut self, header: u8, bit: u32, width: u32) -> Result<Slot> {
        let d = self.temporary()?;
        let shift = (128 - bit % 8 - width) as u8;
        self.op(Op::LoadWide { d, at: At { header, byte: (bit / 8) as u16, shift, bits: width as u8 } });
        Ok(d)
    }

    pub(super) fn store_narrow(&mut self, s: Slot, header: u8, bit: u32, width: u32) -> Result<()> {
        let byte = (bit / 8) as u16;
        let window = (bit % 8 + width).div_ceil(8);
        if bit % 8 == 0 && width % 8 == 0 {
            self.op(match window {
                1 => Op::Store1 { s, header, byte },
                2 => Op::Store2 { s, header, byte },
                4 => Op::Store4 { s, header, byte },
                8 => Op::Store8 { s, header, byte },
                count => Op::StoreBytes { s, header, byte, count: count as u8 },
            });
        } else if window <= 8 {
            let shift = (window * 8 - bit % 8 - width) as u8;
            self.op(Op::StoreBits { s, at: At { header, byte, shift, bits: width as u8 }, count: window as u8 });
        } else {
            let d = self.temporary()?;
            self.op(Op::Widen { d, s });
            let shift = (128 - bit % 8 - width) as u8;
            self.op(Op::StoreWide { s: d, at: At { header, byte, shift, bits: width as u8 } });
        }
        Ok(())
    }

    /// `field = expression`, cut to the field's width.
    pub(crate) fn assign(&mut self, field: Field, expr: &Expr, place: &str) -> Result<()> {
        if Expr::Field(field).is_long() {
            self.assign_long(field, expr, place)?;
        } else if field.width <= 64 {
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
                self.op(Op::WideCast { cast: Cast::Truncate, d, s: value, bits: field.width as u8 });
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
                    let shift = (128 - bit % 8 - field.width) as u8;
                    let at = At { header, byte: (bit / 8) as u16, shift, bits: field.width as u8 };
                    self.op(Op::StoreWide { s: value, at });
                }
                Place::Valid(_) => return Err(LoadError::malformed(format!("{place}: validity is written"))),
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
                // The instruction that made a temporary can write to its destination instead.
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
            Place::Valid(_) => Err(LoadError::malformed(format!("{place}: validity is written"))),
        }
    }

    /// A slot to which a primitive may write a field's value, to be stored by [`Emitter::store`] afterwards.
    pub(crate) fn destination(&mut self, field: Field, place: &str) -> Result<Slot> {
        match field.place {
            _ if field.width > 64 => Err(LoadError::unsupported("a destination wider than 64 bits", place)),
            Place::Slot(slot) => Ok(slot),
            _ => self.temporary(),
        }
    }
}
