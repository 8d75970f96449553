// SPDX-License-Identifier: Apache-2.0
//! The pcapng format: section headers of either byte order, enhanced, simple and obsolete packet blocks.

use super::file::{Step, LINKTYPE_ETHERNET, MAX_RECORD_BYTES};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Block type, length in front, length behind.
const BLOCK_OVERHEAD: usize = 12;

/// Byte order and interfaces of the current section.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    ethernet: bool,
    snapshot: usize,
}

impl Sections {
    /// Whether a file that starts like this is pcapng.
    pub fn starts(bytes: &[u8]) -> bool {
        bytes
            .first_chunk::<4>()
            .is_some_and(|word| u32::from_be_bytes(*word) == SECTION_HEADER)
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
            ENHANCED_PACKET | OBSOLETE_PACKET => self.packet(body, self.word(&head[..4]))?,
            SIMPLE_PACKET => self.simple_packet(body)?,
            _ => None,
        };
        Ok(Some(Step {
            consumed: length,
            frame,
        }))
    }

    fn add_interface(&mut self, body: &[u8]) -> Result<(), String> {
        if body.len() < 8 {
            return Err("an interface description that is too short".into());
        }
        let link_type = u32::from(self.half(&body[..2]));
        let snapshot = match self.word(&body[4..8]) as usize {
            0 => usize::MAX,
            limit => limit,
        };
        self.interfaces.push(Interface {
            ethernet: link_type == LINKTYPE_ETHERNET,
            snapshot,
        });
        Ok(())
    }

    /// Frame of an enhanced or obsolete packet block; `None` if its interface is not Ethernet.
    #[inline]
    fn packet<'a>(&self, body: &'a [u8], kind: u32) -> Result<Option<&'a [u8]>, String> {
        let Some(fixed) = body.first_chunk::<20>() else {
            return Err("a packet block that is too short".into());
        };
        let interface = if kind == ENHANCED_PACKET {
            self.word(&fixed[..4]) as usize
        } else {
            usize::from(self.half(&fixed[..2]))
        };
        let length = self.word(&fixed[12..16]) as usize;
        let frame = body[20..]
            .get(..length)
            .ok_or("a packet longer than its block: the file is damaged")?;
        let interface = self
            .interfaces
            .get(interface)
            .ok_or("a packet of an interface that is not described")?;
        Ok(interface.ethernet.then_some(frame))
    }

    fn simple_packet<'a>(&self, body: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        let Some((fixed, data)) = body.split_first_chunk::<4>() else {
            return Err("a packet block that is too short".into());
        };
        let interface = self
            .interfaces
            .first()
            .ok_or("a packet of an interface that is not described")?;
        let length = (self.word(fixed) as usize).min(interface.snapshot);
        let frame = data
            .get(..length)
            .ok_or("a packet longer than its block: the file is damaged")?;
        Ok(interface.ethernet.then_some(frame))
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

    fn half(&self, bytes: &[u8]) -> u16 {
        let half = [bytes[0], bytes[1]];
        if self.big_endian {
            u16::from_be_bytes(half)
        } else {
            u16::from_le_bytes(half)
        }
    }
}
