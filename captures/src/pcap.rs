// SPDX-License-Identifier: Apache-2.0
//! The classic pcap format: both byte orders, timestamps in microseconds and nanoseconds.

use crate::frame::{Frame, Step, ETHERNET, MAX_RECORD_BYTES};

/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 24;
/// Bytes before each frame.
pub const RECORD_HEADER_BYTES: usize = 16;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// The file's timestamps are in nanoseconds.
pub(crate) const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// The bits of the link type in their word of the file header; higher bits say whether frames include their FCS, and its length.
const LINK_TYPE: u32 = 0x03ff_ffff;
const FCS_LENGTH_PRESENT: u32 = 0x0400_0000;

/// What the file header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapHeader {
    big_endian: bool,
    /// Nanoseconds in a unit of the fraction field.
    fraction_ns: u64,
    /// Bytes of frame check sequence at the end of each frame.
    fcs_bytes: usize,
}

/// What is known about a frame before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Nanoseconds since the epoch.
    pub time_ns: u64,
    /// Bytes on the wire.
    pub wire_length: usize,
    /// Bytes that were captured, which follow.
    pub captured: usize,
}

impl PcapHeader {
    /// Whether a file that starts like this is a pcap file.
    #[must_use]
    pub fn starts(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|&magic| Self::of_magic(magic).is_some())
    }

    fn of_magic(magic: [u8; 4]) -> Option<Self> {
        let little = u32::from_le_bytes(magic);
        let (big_endian, magic) = match little {
            MAGIC_MICROSECONDS | MAGIC_NANOSECONDS => (false, little),
            _ => (true, little.swap_bytes()),
        };
        let fraction_ns = match magic {
            MAGIC_MICROSECONDS => 1_000,
            MAGIC_NANOSECONDS => 1,
            _ => return None,
        };
        Some(Self { big_endian, fraction_ns, fcs_bytes: 0 })
    }

    /// Reads the file header.
    ///
    /// # Errors
    /// What is wrong with it; link types other than Ethernet are refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let Some(head) = bytes.first_chunk::<FILE_HEADER_BYTES>() else {
            return Err("too short to be a pcap or pcapng file".into());
        };
        let Some(mut header) = Self::of_magic([head[0], head[1], head[2], head[3]]) else {
            return Err("neither a pcap nor a pcapng file".into());
        };
        let major = if header.big_endian {
            u16::from_be_bytes([head[4], head[5]])
        } else {
            u16::from_le_bytes([head[4], head[5]])
        };
        if major != 2 {
            return Err(format!("pcap version {major}, only 2 is known"));
        }
        let link = header.number([head[20], head[21], head[22], head[23]]);
        let link_type = link & LINK_TYPE;
        if link_type != ETHERNET {
            return Err(format!("link type {link_type}, only {ETHERNET} (Ethernet) is known"));
        }
        if link & FCS_LENGTH_PRESENT != 0 {
            // In units of 16 bits.
            header.fcs_bytes = 2 * (link >> 28) as usize;
        }
        Ok(header)
    }

    /// Captured bytes and length on the wire of a valid record, without the frame check sequence, which no switch counts.
    #[inline(always)]
    pub fn without_fcs(&self, record: &RecordHeader) -> (usize, usize) {
        let wire_length = record.wire_length.saturating_sub(self.fcs_bytes);
        (if self.fcs_bytes == 0 { record.captured } else { record.captured.min(wire_length) }, wire_length)
    }

    /// What a record's header says.
    ///
    /// # Errors
    /// If the record's length is impossible.
    #[inline(always)]
    pub fn record(&self, header: &[u8; RECORD_HEADER_BYTES]) -> Result<RecordHeader, String> {
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let words = [word(0), word(4), word(8), word(12)];
        let [seconds, fraction, captured, wire_length] = if self.big_endian { swapped(words) } else { words };
        if captured as usize > MAX_RECORD_BYTES {
            return Err(damaged(captured));
        }
        Ok(RecordHeader {
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns,
            wire_length: wire_length as usize,
            captured: captured as usize,
        })
    }

    /// The record at the start of `bytes`; `None` if it is not there in full.
    ///
    /// # Errors
    /// If the record's length is impossible.
    #[inline]
    pub(crate) fn next<'a>(&self, bytes: &'a [u8]) -> Result<Option<Step<'a>>, String> {
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(None);
        };
        let record = self.record(header)?;
        let (captured, wire_length) = self.without_fcs(&record);
        Ok(rest.get(..record.captured).map(|bytes| Step {
            consumed: RECORD_HEADER_BYTES + record.captured,
            frame: Some(Frame {
                link_type: ETHERNET,
                time_ns: Some(record.time_ns),
                wire_length,
                bytes: &bytes[..captured],
            }),
        }))
    }

    fn number(self, word: [u8; 4]) -> u32 {
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }
}

#[cold]
fn swapped(words: [u32; 4]) -> [u32; 4] {
    words.map(u32::swap_bytes)
}

#[cold]
fn damaged(length: u32) -> String {
    format!("a record of {length} bytes: the file is damaged")
}
