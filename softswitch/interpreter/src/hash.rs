// SPDX-License-Identifier: Apache-2.0
//! Checksums and hashes over fields, with BMv2's algorithms and byte order.

use crc::{Crc, Table, CRC_16_ARC, CRC_16_IBM_3740, CRC_32_ISO_HDLC};
use narrows_program::bits::ones;
use narrows_program::calculation::{Algorithm, Calculation, Piece};

use crate::frame::Frame;
use crate::packet::Packet;

/// What an algorithm makes of bytes, with BMv2's byte order.
#[must_use]
pub fn compute(algorithm: Algorithm, data: &[u8]) -> u64 {
    match algorithm {
        Algorithm::Crc16 => u64::from(CRC16.checksum(data)),
        Algorithm::Crc32 => u64::from(crc32(data)),
        Algorithm::CrcCcitt => u64::from(CRC_CCITT.checksum(data)),
        Algorithm::Csum16 => u64::from(internet_checksum(data)),
        Algorithm::Identity => data.iter().take(8).fold(0, |value, &b| value << 8 | u64::from(b)),
        Algorithm::Xor16 => xor_words(data, 2),
        Algorithm::Xor32 => xor_words(data, 4),
    }
}

static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_ARC);
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);
static CRC_CCITT: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_IBM_3740);

/// The CRC-32 of IEEE 802.3.
#[must_use]
pub fn crc32(data: &[u8]) -> u32 {
    CRC32.checksum(data)
}

/// The Internet checksum (RFC 1071).
#[must_use]
pub fn internet_checksum(data: &[u8]) -> u16 {
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

    /// The same, independent of what ran before.
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
            self.bytes.extend_from_slice(&((joined >> self.count) as u64).to_be_bytes());
        }
        self.rest = joined as u64 & ones(self.count);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.push(word.iter().fold(0, |v, &b| v << 8 | u64::from(b)), 64);
        }
        words.remainder().iter().for_each(|&b| self.push(u64::from(b), 8));
    }

    /// `width` bits of `data` behind the first `skip` ones.
    fn push_bits(&mut self, data: &[u8], skip: u32, width: u32) {
        let (mut data, mut left) = (data, width);
        if skip > 0 {
            let count = left.min(8 - skip);
            self.push(u64::from(data[0] >> (8 - skip - count)) & ones(count), count);
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
            self.bytes.extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
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
        assert_eq!(compute(Algorithm::Xor16, &[0x12, 0x34, 0x56]), 0x1234 ^ 0x5600);
        assert_eq!(compute(Algorithm::Xor32, &[1, 2, 3, 4, 5]), 0x0102_0304 ^ 0x0500_0000);
    }

    #[test]
    fn internet_checksum_of_the_rfc_1071_example() {
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(internet_checksum(&[0xff]), !0xff00);
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
