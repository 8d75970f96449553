// SPDX-License-Identifier: Apache-2.0
//! What instructions are, seen from outside: their operands, targets and kinds.

use super::{Compare, Op};
use crate::field::Slot;

impl Compare {
    pub fn inverse(self) -> Self {
        match self {
            Compare::Eq => Compare::Ne,
            Compare::Ne => Compare::Eq,
            Compare::Lt => Compare::Ge,
            Compare::Ge => Compare::Lt,
            Compare::Gt => Compare::Le,
            Compare::Le => Compare::Gt,
        }
    }

    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Ge => a >= b,
            Compare::Gt => a > b,
            Compare::Le => a <= b,
        }
    }
}

/// How an instruction uses a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    /// Two slots.
    ReadWide,
    Write,
    WriteWide,
    /// Written or left as it is.
    MayWrite,
}

impl Op {
    /// Visits the slots that the instruction names. Tables and calculations use more (see [`crate::liveness`]).
    pub fn visit(&mut self, mut slot: impl FnMut(&mut Slot, Use)) {
        use Use::{MayWrite, Read, ReadWide, Write, WriteWide};
        match self {
            Op::JumpZero { s, .. }
            | Op::JumpNonZero { s, .. }
            | Op::Store1 { s, .. }
            | Op::Store2 { s, .. }
            | Op::Store4 { s, .. }
            | Op::Store8 { s, .. }
            | Op::StoreBytes { s, .. }
            | Op::StoreBits { s, .. }
            | Op::Advance { s }
            | Op::Require { bits: s }
            | Op::Count { index: s, .. }
            | Op::Clone { session: s, .. }
            | Op::Truncate { length: s }
            | Op::ParserError { code: s } => slot(s, Read),
            Op::JumpCompare { a, b, .. } | Op::RegisterWrite { index: a, s: b, .. } => {
                slot(a, Read);
                slot(b, Read);
            }
            Op::Move { d, s } | Op::Not { d, s, .. } | Op::Mask { d, s, .. } => {
                slot(s, Read);
                slot(d, Write);
            }
            Op::MoveWide { d, s } | Op::WideNot { d, s } | Op::WideCast { d, s, .. } => {
                slot(s, ReadWide);
                slot(d, WriteWide);
            }
            Op::Add { d, a, b, .. }
            | Op::Sub { d, a, b, .. }
            | Op::Mul { d, a, b, .. }
            | Op::And { d, a, b }
            | Op::Or { d, a, b }
            | Op::Xor { d, a, b }
            | Op::Shl { d, a, b, .. }
            | Op::Shr { d, a, b }
            | Op::Div { d, a, b }
            | Op::Mod { d, a, b }
            | Op::SaturatingAdd { d, a, b, .. }
            | Op::SaturatingSub { d, a, b }
            | Op::Concat { d, a, b, .. }
            | Op::Compare { d, a, b, .. }
            | Op::Hash { d, base: a, size: b, .. } => {
                slot(a, Read);
                slot(b, Read);
                slot(d, Write);
            }
            Op::Widen { d, s } => {
                slot(s, Read);
                slot(d, WriteWide);
            }
            Op::WideArithmetic { d, a, b, .. } => {
                slot(a, ReadWide);
                slot(b, ReadWide);
                slot(d, WriteWide);
            }
            Op::WideCompare { d, a, b, .. } => {
                slot(a, ReadWide);
                slot(b, ReadWide);
                slot(d, Write);
            }
            Op::Valid { d, .. }
            | Op::Load1 { d, .. }
            | Op::Load2 { d, .. }
            | Op::Load4 { d, .. }
            | Op::Load8 { d, .. }
            | Op::LookAhead { d, .. }
            | Op::Checksum { d, .. } => slot(d, Write),
            Op::LoadWide { d, .. } | Op::LookAheadWide { d, .. } => slot(d, WriteWide),
            Op::StoreWide { s, .. } => slot(s, ReadWide),
            Op::RegisterRead { d, index, .. } => {
                slot(index, Read);
                slot(d, MayWrite);
            }
            Op::RegisterAdd { d, index, s, .. } => {
                slot(index, Read);
                slot(s, Read);
                slot(d, MayWrite);
            }
            Op::Extern { d, s, .. } => {
                slot(s, Read);
                slot(d, MayWrite);
            }
            Op::Random { d, low, high, .. } => {
                slot(low, Read);
                slot(high, Read);
                slot(d, MayWrite);
            }
            Op::End
            | Op::Jump(_)
            | Op::JumpValid { .. }
            | Op::JumpInvalid { .. }
            | Op::AddHeader { .. }
            | Op::RemoveHeader { .. }
            | Op::CopyHeader { .. }
            | Op::ChecksumError
            | Op::Digest { .. }
            | Op::Table { .. }
            | Op::Extract { .. }
            | Op::LoopGuard => {}
        }
    }

    /// The instruction's jump target.
    pub fn target(&mut self) -> Option<&mut u32> {
        match self {
            Op::Jump(to)
            | Op::JumpZero { to, .. }
            | Op::JumpNonZero { to, .. }
            | Op::JumpCompare { to, .. }
            | Op::JumpValid { to, .. }
            | Op::JumpInvalid { to, .. } => Some(to),
            _ => None,
        }
    }

    /// True if control never continues with the next instruction.
    pub fn is_last(&self) -> bool {
        matches!(self, Op::End | Op::Jump(_) | Op::Table { .. } | Op::ParserError { .. })
    }

    /// True if a part of the program can end here: wherever a parser may fail, it ends.
    pub fn may_end(&self) -> bool {
        matches!(self, Op::End | Op::ParserError { .. }) || self.may_fail()
    }

    /// True if a parser may fail here.
    pub fn may_fail(&self) -> bool {
        matches!(
            self,
            Op::Extract { .. }
                | Op::Advance { .. }
                | Op::Require { .. }
                | Op::LookAhead { .. }
                | Op::LookAheadWide { .. }
                | Op::LoopGuard
        )
    }

    /// True if the instruction only computes: without its destination it is useless, and the same operands give the
    /// same result as long as the headers stay.
    pub fn is_pure(&self) -> bool {
        matches!(
            self,
            Op::Move { .. }
                | Op::MoveWide { .. }
                | Op::Add { .. }
                | Op::Sub { .. }
                | Op::Mul { .. }
                | Op::And { .. }
                | Op::Or { .. }
                | Op::Xor { .. }
                | Op::Not { .. }
                | Op::Shl { .. }
                | Op::Shr { .. }
                | Op::Div { .. }
                | Op::Mod { .. }
                | Op::SaturatingAdd { .. }
                | Op::SaturatingSub { .. }
                | Op::Concat { .. }
                | Op::Mask { .. }
                | Op::Compare { .. }
                | Op::Widen { .. }
                | Op::WideArithmetic { .. }
                | Op::WideNot { .. }
                | Op::WideCast { .. }
                | Op::WideCompare { .. }
        ) || self.reads_header()
    }

    /// True for loads and validity tests.
    pub fn reads_header(&self) -> bool {
        matches!(
            self,
            Op::Valid { .. }
                | Op::Load1 { .. }
                | Op::Load2 { .. }
                | Op::Load4 { .. }
                | Op::Load8 { .. }
                | Op::LoadWide { .. }
        )
    }

    /// True for registers and counters.
    pub fn uses_cell(&self) -> bool {
        matches!(self, Op::RegisterRead { .. } | Op::RegisterWrite { .. } | Op::RegisterAdd { .. } | Op::Count { .. })
    }

    /// True if header bytes, places or validity change.
    pub fn writes_header(&self) -> bool {
        matches!(
            self,
            Op::Store1 { .. }
                | Op::Store2 { .. }
                | Op::Store4 { .. }
                | Op::Store8 { .. }
                | Op::StoreBytes { .. }
                | Op::StoreBits { .. }
                | Op::StoreWide { .. }
                | Op::AddHeader { .. }
                | Op::RemoveHeader { .. }
                | Op::CopyHeader { .. }
                | Op::Extract { .. }
        )
    }

    /// Makes an instruction that writes the temporary `from` write `to` instead, if it surely writes one slot there (two
    /// if `wide`).
    pub fn retarget(&mut self, from: Slot, to: Slot, wide: bool) -> bool {
        let wanted = if wide { Use::WriteWide } else { Use::Write };
        let mut done = false;
        self.visit(|slot, how| {
            if how == wanted && *slot == from {
                *slot = to;
                done = true;
            }
        });
        done
    }
}
