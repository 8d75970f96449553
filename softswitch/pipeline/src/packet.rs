// SPDX-License-Identifier: Apache-2.0
//! A packet between ingress and egress: its bytes, where its headers are, and the metadata that egress still reads.

/// Headers a program may declare: header positions travel with the packet in arrays of this size.
pub const MAX_HEADERS: usize = 64;

/// Zero bytes kept behind the packet so that a field can be read as one machine word.
pub(crate) const TAIL: usize = 16;

/// A packet and what the pipeline knows about it.
///
/// The bytes lie in one buffer: first the headroom, in which headers that the program adds have fixed places, then
/// the frame. Parsed headers are read and written where they lie, so nothing is copied between parser and deparser.
#[derive(Debug, Clone)]
pub struct Packet {
    pub(crate) buffer: Vec<u8>,
    /// Where the frame starts (end of the headroom), then, after [`crate::Pipeline::deparse`], where the output starts.
    pub(crate) start: u32,
    /// First byte that no header covers.
    pub(crate) payload: u32,
    pub(crate) end: u32,
    /// Bit h: header h is valid.
    pub(crate) valid: u64,
    /// Offset of each valid header in the buffer.
    pub(crate) base: [u32; MAX_HEADERS],
    /// Metadata that egress reads before it writes it, in the order of the program's live list.
    pub(crate) live: Vec<u64>,
    /// v1model's packet length: bytes received, then corrected for each header added or removed.
    pub(crate) length: u32,
    /// Bytes received: what counters count.
    pub(crate) ingress_length: u32,
    /// At most this many bytes leave (truncate), `u32::MAX` if it is not truncated.
    pub(crate) truncated: u32,
    pub(crate) flow: u32,
    pub(crate) instance: Instance,
    pub(crate) preserve: Option<u16>,
}

/// v1model's `standard_metadata.instance_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Instance {
    /// A packet as it came in.
    #[default]
    Normal = 0,
    /// Made by an ingress-to-egress clone.
    IngressClone = 1,
    /// Made by an egress-to-egress clone.
    EgressClone = 2,
    /// Made by multicast.
    Replication = 5,
}

impl Packet {
    /// The frame: what was received, until [`crate::Pipeline::deparse`] has run, then what is to be sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }

    /// The frame's bytes, to be filled by a receiver after [`PacketPool::take`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start as usize..self.end as usize]
    }

    /// Length of the frame in bytes. Before [`crate::Pipeline::ingress`] this is what was received; between ingress
    /// and egress it is the length as it came out of ingress (v1model's `packet_length`), which queues account.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The value of the field with alias `narrows.flow` at the end of ingress; 0 if the program has none.
    #[must_use]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// How this packet came to be.
    #[must_use]
    pub fn instance(&self) -> Instance {
        self.instance
    }
}

/// Recycles packets so that nothing is allocated in steady state.
///
/// Buffers come in two sizes, so that a long queue of small packets does not occupy the memory of large ones.
#[derive(Debug, Default)]
pub struct PacketPool {
    headroom: usize,
    small: Vec<Box<Packet>>,
    large: Vec<Box<Packet>>,
}

/// Frames up to this many bytes use small buffers.
const SMALL_FRAME: usize = 256;
/// A large buffer holds a frame of this many bytes at least; longer frames grow it.
const LARGE_FRAME: usize = 1600;

impl PacketPool {
    /// A pool for packets of `program`.
    #[must_use]
    pub fn new(program: &crate::Program) -> Self {
        Self { headroom: program.headroom(), small: Vec::new(), large: Vec::new() }
    }

    /// A packet with room for a frame of `length` bytes, whose content is whatever the buffer held: fill all of
    /// [`Packet::bytes_mut`].
    #[must_use]
    pub fn take(&mut self, length: usize) -> Box<Packet> {
        let (pool, least) =
            if length <= SMALL_FRAME { (&mut self.small, SMALL_FRAME) } else { (&mut self.large, LARGE_FRAME) };
        let mut packet = pool.pop().unwrap_or_else(|| {
            Box::new(Packet {
                buffer: vec![0; self.headroom + least + TAIL],
                start: 0,
                payload: 0,
                end: 0,
                valid: 0,
                base: [0; MAX_HEADERS],
                live: Vec::new(),
                length: 0,
                ingress_length: 0,
                truncated: u32::MAX,
                flow: 0,
                instance: Instance::Normal,
                preserve: None,
            })
        });
        packet.set_frame(self.headroom, length);
        packet
    }

    /// A packet that holds a copy of `frame`.
    #[must_use]
    pub fn packet(&mut self, frame: &[u8]) -> Box<Packet> {
        let mut packet = self.take(frame.len());
        packet.bytes_mut().copy_from_slice(frame);
        packet
    }

    /// Gives a packet back.
    pub fn give(&mut self, packet: Box<Packet>) {
        if packet.buffer.len() < self.headroom + LARGE_FRAME + TAIL {
            self.small.push(packet);
        } else {
            self.large.push(packet);
        }
    }
}

impl Packet {
    pub(crate) fn set_frame(&mut self, headroom: usize, length: usize) {
        let needed = headroom + length + TAIL;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        self.start = headroom as u32;
        self.payload = headroom as u32;
        self.end = (headroom + length) as u32;
        self.length = length as u32;
        self.ingress_length = length as u32;
        self.truncated = u32::MAX;
        self.valid = 0;
        self.flow = 0;
        self.instance = Instance::Normal;
        self.preserve = None;
    }
}
