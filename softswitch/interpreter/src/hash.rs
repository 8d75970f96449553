// SPDX-License-Identifier: Apache-2.0
//! Checksums and hashes over fields, with BMv2's algorithms and byte order.

use narrows_program::bits::ones;
use narrows_program::calculation::{Algorithm, Calculation, Piece};

use crate::machine::Frame;
use crate::packet::Packet;

/// What an algorithm makes of bytes, with BMv2's byte order.
#[must_use]
pub fn compute(algorithm: Algorithm, data: &[u8]) -> u64 {
    match algorithm {
        Algorithm::Crc16 => u64::from(reflected_crc(&CRC16, 0, data)),
        Algorithm::Crc32 => u64::from(!reflected_crc(&CRC32, u32::MAX, data)),
        Algorithm::CrcCcitt => u64::from(crc_ccitt(data)),
        Algorithm::Csum16 => u64::from(csum16(data)),
        Algorithm::Identity => data
            .iter()
            .take(8)
            .fold(0, |value, &b| value << 8 | u64::from(b)),
        Algorithm::Xor16 => xor_words(data, 2),
        Algorithm::Xor32 => xor_words(data, 4),
    }
}

type Tables = [[u32; 256]; 8];

static CRC32: Tables = tables(0xedb8_8320);
static CRC16: Tables = tables(0xa001);
static CCITT: [u16; 256] = ccitt_table();

/// Tables for eight bytes at a time: table k advances a byte by k more zero bytes.
const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ polynomial
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let previous = tables[k - 1][byte];
            tables[k][byte] = previous >> 8 ^ tables[0][(previous & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

fn reflected_crc(tables: &Tables, initial: u32, data: &[u8]) -> u32 {
    let mut crc = initial;
    let mut chunks = data.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]) ^ u64::from(crc);
        crc = tables[7][(word & 0xff) as usize]
            ^ tables[6][(word >> 8 & 0xff) as usize]
            ^ tables[5][(word >> 16 & 0xff) as usize]
            ^ tables[4][(word >> 24 & 0xff) as usize]
            ^ tables[3][(word >> 32 & 0xff) as usize]
            ^ tables[2][(word >> 40 & 0xff) as usize]
            ^ tables[1][(word >> 48 & 0xff) as usize]
            ^ tables[0][(word >> 56) as usize];
    }
    // The rest in one step: byte i of n is followed by n - 1 - i others.
    let rest = chunks.remainder();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let word = u64::from_le_bytes(tail) ^ u64::from(crc);
    crc = if rest.is_empty() {
        crc
    } else {
        (word >> (8 * rest.len())) as u32
    };
    for i in 0..rest.len() {
        crc ^= tables[rest.len() - 1 - i][(word >> (8 * i) & 0xff) as usize];
    }
    crc
}

const fn ccitt_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                crc << 1 ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc_ccitt(data: &[u8]) -> u16 {
    data.iter().fold(0xffff, |crc: u16, &byte| {
        crc << 8 ^ CCITT[usize::from(crc >> 8 ^ u16::from(byte))]
    })
}

/// The Internet checksum (RFC 1071).
fn csum16(data: &[u8]) -> u16 {
    let mut sum = 0u64;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        sum += u64::from(u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    let mut tail = [0; 4];
    tail[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    sum += u64::from(u32::from_be_bytes(tail));
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Exclusive or of big-endian words; the last one is filled up with zeros.
fn xor_words(data: &[u8], size: usize) -> u64 {
    data.chunks(size).fold(0, |value, chunk| {
        let word = chunk.iter().fold(0, |word, &b| word << 8 | u64::from(b));
        value ^ word << (8 * (size - chunk.len()))
    })
}

/// Collects bits, most significant first.
#[derive(Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    /// Bits that do not fill 8 bytes yet, and their number (at most 63).
    rest: u64,
    count: u32,
}

impl Bits {
    /// Runs a calculation over the current field values.
    pub fn run(&mut self, calculation: &Calculation, frame: &Frame, packet: &Packet) -> u64 {
        let algorithm = calculation.algorithm;
        if let [Piece::Header { header, bit, width }] = calculation.pieces[..] {
            // One run of whole bytes is read where it is.
            if bit % 8 == 0 && width % 8 == 0 && packet.is_valid(header) {
                let from = usize::from(packet.base[usize::from(header)]) + (bit / 8) as usize;
                return compute(algorithm, &packet.buffer[from..from + (width / 8) as usize]);
            }
        }
        if calculation.repeated {
            return compute(algorithm, self.finish());
        }
        self.run_anew(calculation, frame, packet)
    }

    /// The same, whatever ran before.
    pub fn run_anew(&mut self, calculation: &Calculation, frame: &Frame, packet: &Packet) -> u64 {
        self.bytes.clear();
        (self.rest, self.count) = (0, 0);
        for piece in &calculation.pieces {
            self.push_piece(piece, frame, packet);
        }
        compute(calculation.algorithm, self.finish())
    }

    fn push_piece(&mut self, piece: &Piece, frame: &Frame, packet: &Packet) {
        match *piece {
            Piece::Slot { slot, width } => self.push(frame[usize::from(slot)], width),
            Piece::Constant { value, width } => self.push(value, width),
            Piece::Header { header, bit, width } => {
                if packet.is_valid(header) {
                    let from = usize::from(packet.base[usize::from(header)]) + (bit / 8) as usize;
                    self.push_bits(&packet.buffer[from..], bit % 8, width);
                }
            }
            Piece::Payload => {
                let (from, to) = (packet.payload as usize, packet.end as usize);
                let length = (to - from).min(packet.truncated as usize);
                self.push_bytes(&packet.buffer[from..from + length]);
            }
        }
    }

    /// Appends the low `width` bits, 1 to 64, of a value that has no others.
    #[inline(always)]
    fn push(&mut self, value: u64, width: u32) {
        let joined = u128::from(self.rest) << width | u128::from(value);
        self.count += width;
        if self.count >= 64 {
            self.count -= 64;
            self.bytes
                .extend_from_slice(&((joined >> self.count) as u64).to_be_bytes());
        }
        self.rest = joined as u64 & ones(self.count);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.push(word.iter().fold(0, |v, &b| v << 8 | u64::from(b)), 64);
        }
        words
            .remainder()
            .iter()
            .for_each(|&b| self.push(u64::from(b), 8));
    }

    /// `width` bits of `data` behind the first `skip` ones.
    fn push_bits(&mut self, data: &[u8], skip: u32, width: u32) {
        let (mut data, mut left) = (data, width);
        if skip > 0 {
            let count = left.min(8 - skip);
            self.push(
                u64::from(data[0] >> (8 - skip - count)) & ones(count),
                count,
            );
            data = &data[1..];
            left -= count;
        }
        let whole = (left / 8) as usize;
        self.push_bytes(&data[..whole]);
        if left % 8 > 0 {
            self.push(u64::from(data[whole] >> (8 - left % 8)), left % 8);
        }
    }

    /// All bits, filled up with zeros to whole bytes.
    #[inline(always)]
    fn finish(&mut self) -> &[u8] {
        if self.count > 0 {
            let bytes = (self.rest << (64 - self.count)).to_be_bytes();
            self.bytes
                .extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
            (self.rest, self.count) = (0, 0);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_algorithms() {
        let text = b"123456789";
        assert_eq!(compute(Algorithm::Crc32, text), 0xcbf4_3926);
        assert_eq!(compute(Algorithm::Crc16, text), 0xbb3d);
        assert_eq!(compute(Algorithm::CrcCcitt, text), 0x29b1);
        assert_eq!(compute(Algorithm::Identity, &[1, 2, 3]), 0x01_0203);
        assert_eq!(compute(Algorithm::Identity, text), 0x3132_3334_3536_3738);
        assert_eq!(
            compute(Algorithm::Xor16, &[0x12, 0x34, 0x56]),
            0x1234 ^ 0x5600
        );
        assert_eq!(
            compute(Algorithm::Xor32, &[1, 2, 3, 4, 5]),
            0x0102_0304 ^ 0x0500_0000
        );
    }

    #[test]
    fn internet_checksum_of_the_rfc_1071_example() {
        assert_eq!(
            csum16(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        assert_eq!(csum16(&[0xff]), !0xff00);
    }

    #[test]
    fn crc_of_every_length_equals_bit_by_bit() {
        let data: Vec<u8> = (0..61u8).map(|i| i.wrapping_mul(73) ^ 0x5a).collect();
        for length in 0..data.len() {
            let mut crc = u32::MAX;
            for &byte in &data[..length] {
                crc ^= u32::from(byte);
                for _ in 0..8 {
                    crc = if crc & 1 == 1 {
                        crc >> 1 ^ 0xedb8_8320
                    } else {
                        crc >> 1
                    };
                }
            }
            assert_eq!(compute(Algorithm::Crc32, &data[..length]), u64::from(!crc));
        }
    }

    #[test]
    fn bits_are_packed_most_significant_first() {
        let mut bits = Bits::default();
        bits.push(0b10, 2);
        bits.push(0b00_0011, 6);
        bits.push(0xabcd, 16);
        bits.push(1, 1);
        bits.push_bytes(&[0xff]);
        assert_eq!(bits.finish(), [0x83, 0xab, 0xcd, 0xff, 0x80]);
    }
}
