// SPDX-License-Identifier: Apache-2.0
//! The instructions that a program is compiled to.
//!
//! Operands are slots of the frame; constants have slots too. Booleans are 0 or 1. A wide value (65 to 128 bits) lies
//! in two consecutive slots, low word first. Jump targets are instruction indices.

mod visit;

pub use visit::Use;

use crate::externs::Extern;
use crate::field::Slot;

/// Where a field of at most 64 bits lies in its header: a window of bytes, read big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct At {
    pub header: u8,
    /// First byte of the window.
    pub byte: u16,
    /// Bits of the window behind the field.
    pub shift: u8,
    pub bits: u8,
}

/// Two-operand arithmetic on 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wide {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Shl,
    ShrUnsigned,
    ShrSigned,
    Div,
    Mod,
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Ge,
    Gt,
    Le,
}

/// Casts of a 128-bit signed value to `bits` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cast {
    /// Keep the low bits.
    Truncate,
    /// Keep the low bits and extend their sign.
    SignExtend,
    /// Clamp a signed value to the unsigned range.
    SaturateUnsigned,
    /// Clamp an unsigned value to the unsigned range.
    SaturateUnsignedFromUnsigned,
    /// Clamp to the signed range.
    SaturateSigned,
}

impl Cast {
    /// By their numbers, `cast as u8`.
    pub const ALL: [Cast; 5] = [
        Cast::Truncate,
        Cast::SignExtend,
        Cast::SaturateUnsigned,
        Cast::SaturateUnsignedFromUnsigned,
        Cast::SaturateSigned,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The end of parser, control or checksums.
    End,
    Jump(u32),
    JumpZero {
        s: Slot,
        to: u32,
    },
    JumpNonZero {
        s: Slot,
        to: u32,
    },
    JumpCompare {
        compare: Compare,
        a: Slot,
        b: Slot,
        to: u32,
    },
    JumpValid {
        header: u8,
        to: u32,
    },
    JumpInvalid {
        header: u8,
        to: u32,
    },

    Move {
        d: Slot,
        s: Slot,
    },
    MoveWide {
        d: Slot,
        s: Slot,
    },
    /// Results are cut to `bits`.
    Add {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    Sub {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    Mul {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    And {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Or {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Xor {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Not {
        d: Slot,
        s: Slot,
        bits: u8,
    },
    Shl {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    Shr {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Div {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Mod {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `a + b`, at most 2^bits - 1.
    SaturatingAdd {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    /// `a - b`, at least 0.
    SaturatingSub {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `(a << shift) | b`
    Concat {
        d: Slot,
        a: Slot,
        b: Slot,
        shift: u8,
    },
    Mask {
        d: Slot,
        s: Slot,
        bits: u8,
    },
    Compare {
        compare: Compare,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Valid {
        d: Slot,
        header: u8,
    },

    /// From one word to two.
    Widen {
        d: Slot,
        s: Slot,
    },
    WideArithmetic {
        op: Wide,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    WideNot {
        d: Slot,
        s: Slot,
    },
    WideCast {
        cast: Cast,
        d: Slot,
        s: Slot,
        bits: u8,
    },
    WideCompare {
        compare: Compare,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },

    /// Reads of header fields through a window of 1, 2, 4 or 8 bytes; an invalid header reads as 0.
    Load1 {
        d: Slot,
        at: At,
    },
    Load2 {
        d: Slot,
        at: At,
    },
    Load4 {
        d: Slot,
        at: At,
    },
    Load8 {
        d: Slot,
        at: At,
    },
    /// Through 16 bytes, to two slots.
    LoadWide {
        d: Slot,
        at: At,
    },
    /// Writes of header fields; to an invalid header they do nothing.
    /// Whole bytes: 1, 2, 4, 8, or another number of them.
    Store1 {
        s: Slot,
        header: u8,
        byte: u16,
    },
    Store2 {
        s: Slot,
        header: u8,
        byte: u16,
    },
    Store4 {
        s: Slot,
        header: u8,
        byte: u16,
    },
    Store8 {
        s: Slot,
        header: u8,
        byte: u16,
    },
    StoreBytes {
        s: Slot,
        header: u8,
        byte: u16,
        count: u8,
    },
    /// Part of a window of `count` bytes, at most 8.
    StoreBits {
        s: Slot,
        at: At,
        count: u8,
    },
    StoreWide {
        s: Slot,
        at: At,
    },

    AddHeader {
        header: u8,
    },
    RemoveHeader {
        header: u8,
    },
    CopyHeader {
        to: u8,
        from: u8,
    },

    RegisterRead {
        d: Slot,
        register: u16,
        index: Slot,
        bits: u8,
    },
    RegisterWrite {
        register: u16,
        index: Slot,
        s: Slot,
    },
    /// Adds a slot to a cell, cut to `bits`, and gives the sum; beyond the array, adds to the destination.
    RegisterAdd {
        d: Slot,
        register: u16,
        index: Slot,
        s: Slot,
        bits: u8,
    },
    Count {
        counter: u16,
        index: Slot,
    },
    Random {
        d: Slot,
        low: Slot,
        high: Slot,
        bits: u8,
    },
    /// `calculation % size + base`
    Hash {
        d: Slot,
        calculation: u16,
        base: Slot,
        size: Slot,
        bits: u8,
    },
    /// The checksum itself.
    Checksum {
        d: Slot,
        calculation: u16,
    },
    ChecksumError,
    Digest {
        list: u16,
    },
    Clone {
        session: Slot,
        list: u16,
    },
    Truncate {
        length: Slot,
    },
    /// An operation of the architecture on an object: reads a slot, writes another one or leaves it as it is.
    Extern {
        call: Extern,
        object: u16,
        d: Slot,
        s: Slot,
    },
    /// Applies a table: builds its key, looks it up, loads the action's parameters, jumps to the action.
    Table {
        table: u16,
    },

    Extract {
        header: u8,
    },
    /// Moves on by the value of a slot in bits.
    Advance {
        s: Slot,
    },
    /// Ends parsing unless the packet has as many more bits as the slot says.
    Require {
        bits: Slot,
    },
    /// Reads ahead: `bit` bits behind the cursor.
    LookAhead {
        d: Slot,
        bit: u32,
        bits: u8,
    },
    LookAheadWide {
        d: Slot,
        bit: u32,
        bits: u8,
    },
    /// Ends parsing with the error code in the slot.
    ParserError {
        code: Slot,
    },
    /// Ends parsing when it has gone in circles too often.
    LoopGuard,
}
