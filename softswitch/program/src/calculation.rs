// SPDX-License-Identifier: Apache-2.0
//! Checksums and hashes over fields: the algorithm, and its input.

use crate::field::Slot;

/// A hash algorithm of v1model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Crc16,
    Crc32,
    CrcCcitt,
    Csum16,
    Identity,
    Xor16,
    Xor32,
}

impl Algorithm {
    /// By their numbers, `algorithm as usize`.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Crc16,
        Algorithm::Crc32,
        Algorithm::CrcCcitt,
        Algorithm::Csum16,
        Algorithm::Identity,
        Algorithm::Xor16,
        Algorithm::Xor32,
    ];

    /// The largest value it can have.
    pub fn most(self) -> u64 {
        match self {
            Algorithm::Crc32 | Algorithm::Xor32 => 0xffff_ffff,
            Algorithm::Identity => u64::MAX,
            _ => 0xffff,
        }
    }
}

/// A part of a calculation's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A slot's value of `width` bits, at most 64.
    Slot { slot: Slot, width: u32 },
    /// Consecutive bits of a header; nothing if the header is invalid.
    Header { header: u8, bit: u32, width: u32 },
    /// At most 64 bits.
    Constant { value: u64, width: u32 },
    /// The bytes behind the parsed headers.
    Payload,
}

/// An algorithm and its input.
#[derive(Debug, Clone)]
pub struct Calculation {
    pub algorithm: Algorithm,
    pub pieces: Vec<Piece>,
    /// The calculation before it ran over the same input.
    pub repeated: bool,
}

impl Piece {
    /// The width of a slot or a constant.
    pub fn narrow_width(&self) -> u32 {
        match *self {
            Piece::Slot { width, .. } | Piece::Constant { width, .. } => width,
            Piece::Header { .. } | Piece::Payload => 0,
        }
    }
}
