// SPDX-License-Identifier: Apache-2.0
//! The pcapng format: section headers of either byte order, enhanced, simple and obsolete packet blocks.

use crate::frame::{Frame, Step, MAX_RECORD_BYTES};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Block type, length at the start, length at the end.
const BLOCK_OVERHEAD: usize = 12;

/// The option of an interface that gives the unit of its timestamps.
const IF_TSRESOL: u16 = 9;
/// The option of an interface that gives the seconds to add to its timestamps.
const IF_TSOFFSET: u16 = 14;

/// Byte order and interfaces of the current section.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snapshot: usize,
    /// `None`: a unit that does not fit.
    units: Option<Units>,
}

/// The units of timestamps: how many nanoseconds a number of units is, and what is added.
#[derive(Clone, Copy, Debug)]
struct Units {
    nanoseconds: u128,
    count: u128,
    offset_ns: i128,
}

impl Units {
    const MICROSECONDS: Units = Units { nanoseconds: 1_000, count: 1, offset_ns: 0 };

    /// From the option if_tsresol: units a second, as a power of 10, or of 2 if the highest bit is set.
    fn from_option(value: u8) -> Option<Self> {
        let exponent = u32::from(value & 0x7f);
        let base: u128 = if value & 0x80 == 0 { 10 } else { 2 };
        let count = base.checked_pow(exponent).filter(|_| exponent <= 64)?;
        Some(Units { nanoseconds: 1_000_000_000, count, offset_ns: 0 })
    }

    /// `None` before 1970 and after the year 2554; the offset can lead there.
    #[inline]
    fn to_ns(self, units: u64) -> Option<u64> {
        // Below 2^94.
        let since_offset = (u128::from(units) * self.nanoseconds / self.count) as i128;
        u64::try_from(since_offset + self.offset_ns).ok()
    }
}

impl Sections {
    /// Whether a file that starts like this is pcapng.
    #[must_use]
    pub fn starts(bytes: &[u8]) -> bool {
        bytes.first_chunk::<4>().is_some_and(|word| u32::from_be_bytes(*word) == SECTION_HEADER)
    }

    /// The block at the start of `bytes`; `None` if it is not there in full.
    ///
    /// # Errors
    /// If the block contradicts itself.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Step<'a>>, String> {
        let Some(head) = bytes.first_chunk::<BLOCK_OVERHEAD>() else {
            return Ok(None);
        };
        if Self::starts(head) {
            let magic = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
            self.big_endian = match magic {
                BYTE_ORDER_MAGIC => true,
                _ if magic.swap_bytes() == BYTE_ORDER_MAGIC => false,
                _ => return Err("a section header without its byte-order magic".into()),
            };
            self.interfaces.clear();
        }
        let length = self.word(&head[4..8]) as usize;
        if length < BLOCK_OVERHEAD || length % 4 != 0 || length > MAX_RECORD_BYTES {
            return Err(format!("a block of {length} bytes: the file is damaged"));
        }
        let Some(block) = bytes.get(..length) else {
            return Ok(None);
        };
        if self.word(&block[length - 4..]) as usize != length {
            return Err("a block whose two lengths differ: the file is damaged".into());
        }
        let body = &block[8..length - 4];
        let frame = match self.word(&head[..4]) {
            INTERFACE_DESCRIPTION => {
                self.add_interface(body)?;
                None
            }
            kind @ (ENHANCED_PACKET | OBSOLETE_PACKET) => Some(self.packet(body, kind)?),
            SIMPLE_PACKET => Some(self.simple_packet(body)?),
            _ => None,
        };
        Ok(Some(Step { consumed: length, frame }))
    }

    fn add_interface(&mut self, body: &[u8]) -> Result<(), String> {
        let Some((fixed, options)) = body.split_first_chunk::<8>() else {
            return Err("an interface description that is too short".into());
        };
        let snapshot = match self.word(&fixed[4..8]) as usize {
            0 => usize::MAX,
            limit => limit,
        };
        self.interfaces.push(Interface {
            link_type: u32::from(self.half(&fixed[..2])),
            snapshot,
            units: self.units(options),
        });
        Ok(())
    }

    fn units(&self, mut options: &[u8]) -> Option<Units> {
        let (mut units, mut offset_s) = (Some(Units::MICROSECONDS), 0);
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let (code, length) = (self.half(&head[..2]), usize::from(self.half(&head[2..])));
            match (code, rest.get(..length)) {
                (0, _) | (_, None) => break,
                (IF_TSRESOL, Some([value])) => units = Units::from_option(*value),
                (IF_TSOFFSET, Some(value)) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(value) {
                        offset_s = if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                    }
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        units.map(|units| Units { offset_ns: i128::from(offset_s) * 1_000_000_000, ..units })
    }

    /// Frame of an enhanced or obsolete packet block.
    #[inline]
    fn packet<'a>(&self, body: &'a [u8], kind: u32) -> Result<Frame<'a>, String> {
        let Some(fixed) = body.first_chunk::<20>() else {
            return Err("a packet block that is too short".into());
        };
        let interface =
            if kind == ENHANCED_PACKET { self.word(&fixed[..4]) as usize } else { usize::from(self.half(&fixed[..2])) };
        let length = self.word(&fixed[12..16]) as usize;
        let bytes = body[20..].get(..length).ok_or("a packet longer than its block: the file is damaged")?;
        let interface = self.interface(interface)?;
        let units = u64::from(self.word(&fixed[4..8])) << 32 | u64::from(self.word(&fixed[8..12]));
        Ok(Frame {
            link_type: interface.link_type,
            time_ns: interface.units.and_then(|unit| unit.to_ns(units)),
            wire_length: self.word(&fixed[16..20]) as usize,
            bytes,
        })
    }

    fn simple_packet<'a>(&self, body: &'a [u8]) -> Result<Frame<'a>, String> {
        let Some((fixed, data)) = body.split_first_chunk::<4>() else {
            return Err("a packet block that is too short".into());
        };
        let interface = self.interface(0)?;
        let wire_length = self.word(fixed) as usize;
        let bytes = data
            .get(..wire_length.min(interface.snapshot))
            .ok_or("a packet longer than its block: the file is damaged")?;
        Ok(Frame { link_type: interface.link_type, time_ns: None, wire_length, bytes })
    }

    #[inline]
    fn interface(&self, number: usize) -> Result<Interface, String> {
        let interface = self.interfaces.get(number).copied();
        interface.ok_or_else(|| "a packet of an interface that is not described".into())
    }

    #[inline]
    fn word(&self, bytes: &[u8]) -> u32 {
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }

    #[inline]
    fn half(&self, bytes: &[u8]) -> u16 {
        let half = [bytes[0], bytes[1]];
        if self.big_endian {
            u16::from_be_bytes(half)
        } else {
            u16::from_le_bytes(half)
        }
    }
}
