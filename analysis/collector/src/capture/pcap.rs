// SPDX-License-Identifier: Apache-2.0
//! The classic pcap format, both byte orders, microsecond and nanosecond timestamps.

use super::file::{Step, LINKTYPE_ETHERNET, MAX_RECORD_BYTES};

/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// What the file header says; capture timestamps are not used, reports carry the switch's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapHeader {
    big_endian: bool,
}

impl PcapHeader {
    /// Reads the file header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let Some(head) = bytes.first_chunk::<FILE_HEADER_BYTES>() else {
            return Err("too short to be a pcap or pcapng file".into());
        };
        let little = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let big_endian = match little {
            MAGIC_MICROSECONDS | MAGIC_NANOSECONDS => false,
            _ if matches!(little.swap_bytes(), MAGIC_MICROSECONDS | MAGIC_NANOSECONDS) => true,
            _ => return Err("neither a pcap nor a pcapng file".into()),
        };
        let header = PcapHeader { big_endian };
        let major = if big_endian {
            u16::from_be_bytes([head[4], head[5]])
        } else {
            u16::from_le_bytes([head[4], head[5]])
        };
        if major != 2 {
            return Err(format!("pcap version {major}, only 2 is known"));
        }
        // The upper bits carry the FCS length.
        let link_type = header.word(&head[20..24]) & 0x0fff_ffff;
        if link_type != LINKTYPE_ETHERNET {
            return Err(format!(
                "link type {link_type}, only {LINKTYPE_ETHERNET} (Ethernet) holds reports"
            ));
        }
        Ok(header)
    }

    /// The record at the start of `bytes`; `None` if it is not there in full.
    ///
    /// # Errors
    /// If the record's length cannot be.
    #[inline]
    pub fn next<'a>(&self, bytes: &'a [u8]) -> Result<Option<Step<'a>>, String> {
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = self.word(&header[8..12]) as usize;
        if length > MAX_RECORD_BYTES {
            return Err(format!("a record of {length} bytes: the file is damaged"));
        }
        Ok(rest.get(..length).map(|frame| Step {
            consumed: RECORD_HEADER_BYTES + length,
            frame: Some(frame),
        }))
    }

    #[inline]
    fn word(self, bytes: &[u8]) -> u32 {
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }
}
