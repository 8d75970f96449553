// SPDX-License-Identifier: Apache-2.0
//! A packet between ingress and egress: its bytes, where its headers are, and the metadata that egress still reads.

/// Headers a program may declare: header positions travel with the packet in arrays of this size.
pub const MAX_HEADERS: usize = 64;

/// The longest frame in bytes.
pub const MAX_FRAME: usize = 60_000;

/// Zero bytes kept behind the packet so that a field can be read as one machine word.
pub(crate) const TAIL: usize = 16;

/// A packet and what the pipeline knows about it.
///
/// The bytes lie in one buffer: first the headroom (zeros, which stand for headers that are not there, and the fixed
/// places of headers that the program adds), then the frame. Parsed headers are read and written where they lie, so nothing is copied between parser and deparser.
///
/// What a packet that has waited in a long queue needs first lies in the first two cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Packet {
    pub(crate) buffer: Vec<u8>,
    /// Metadata that egress reads before it writes it, in the order of the program's live list.
    pub(crate) live: Vec<u64>,
    /// Bit h: header h is valid.
    pub(crate) valid: u64,
    /// The program that parsed it: native code runs on packets of its own program only. Or [`FRESH`], [`FOREIGN`],
    /// [`DEPARSED`] or, of a packet whose ingress has begun, a number with the bit [`PREPARED`].
    pub(crate) owner: u64,
    /// Where the frame starts (end of the headroom), then, after [`crate::Pipeline::deparse`], where the output starts.
    pub(crate) start: u32,
    /// First byte that no header covers.
    pub(crate) payload: u32,
    pub(crate) end: u32,
    /// What queues account.
    pub(crate) length: u32,
    /// v1model's packet length: bytes received, then corrected for each header added or removed.
    pub(crate) register_length: u32,
    /// Bytes received: what counters count.
    pub(crate) ingress_length: u32,
    /// At most this many bytes leave (truncate), `u32::MAX` if it is not truncated.
    pub(crate) truncated: u32,
    pub(crate) flow: u32,
    /// Bytes of the frame behind `end`, which are not there: nobody looks at them.
    pub(crate) missing: u32,
    pub(crate) instance: Instance,
    pub(crate) generation: u8,
    /// Where each header lies in the buffer: an invalid one, at 0, in the zeros at the buffer's start.
    pub(crate) base: [u16; MAX_HEADERS],
}

/// Bytes before and behind the start of a frame that egress is expected to use.
const ADDED_NEARBY: usize = 112;
const PARSED_NEARBY: usize = 128;

/// No program has seen the packet yet.
pub(crate) const FRESH: u64 = 0;
/// The packet was not made for the program that parsed it.
pub(crate) const FOREIGN: u64 = u64::MAX;
/// Egress has put the packet together.
pub(crate) const DEPARSED: u64 = u64::MAX - 1;
pub(crate) const PREPARED: u64 = 1 << 62;

/// v1model's `standard_metadata.instance_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
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
    /// The frame: what was received, until [`crate::Pipeline::deparse`] has run, then what is to be sent. Of a packet from
    /// [`crate::PacketPool::take_beginning`] these are the bytes that there are.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.buffer.get(self.start as usize..self.end as usize);
        bytes.unwrap_or_default()
    }

    /// The frame's bytes, to be filled by a receiver after [`crate::PacketPool::take`].
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.forget();
        &mut self.buffer[self.start as usize..self.end as usize]
    }

    /// Length of [`Packet::bytes`] with those bytes of the frame that are not there.
    #[inline]
    #[must_use]
    pub fn frame_length(&self) -> u32 {
        (self.end - self.start + self.missing).min(self.truncated)
    }

    /// What queues account of the frame, in bytes. Before [`crate::Pipeline::ingress`] this is what was received; between ingress
    /// and egress it is the length as it came out of ingress, which queues account: v1model's `packet_length` without
    /// headers that only carry the fields of the traffic manager (those with an alias `narrows.*`).
    #[inline]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The value of the field with alias `narrows.flow` at the end of ingress; 0 if the program has none.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Says that the packet will be processed soon: its description is fetched from memory meanwhile.
    #[inline]
    pub fn prefetch(&self) {
        crate::jit::prefetch(std::ptr::from_ref(self), 128);
    }

    /// The same for metadata and headers; the description should be there.
    #[inline]
    pub(crate) fn prefetch_contents(&self) {
        crate::jit::prefetch(self.live.as_ptr(), 8 * self.live.len());
        // The zeros that stand for headers that are not there.
        crate::jit::prefetch(self.buffer.as_ptr(), 1);
        let from = (self.start as usize).saturating_sub(ADDED_NEARBY);
        let headers = self.buffer.get(from..).unwrap_or_default();
        crate::jit::prefetch(
            headers.as_ptr(),
            headers.len().min(ADDED_NEARBY + PARSED_NEARBY),
        );
    }

    /// How this packet came to be.
    #[inline]
    #[must_use]
    pub fn instance(&self) -> Instance {
        self.instance
    }

    /// Clones between the packet that came in and this one.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u8 {
        self.generation
    }
}

/// Bases that are cleared and copied at a time: as many as lie in the first two cache lines with the rest of the description. Few
/// programs have more headers, and what lies behind is never fetched for them.
pub(crate) const BASES: usize = 4;

/// Bases that lie in the first two cache lines.
const NEAR: usize = 3 * BASES;

/// How many times [`BASES`] hold all headers of a program.
#[inline]
fn bases(program: &crate::Program) -> usize {
    program.headers.len().div_ceil(BASES)
}

impl Packet {
    #[cold]
    pub(crate) fn new(bytes: usize) -> Box<Self> {
        Box::new(Self {
            buffer: vec![0; bytes],
            live: Vec::new(),
            valid: 0,
            owner: FRESH,
            start: 0,
            payload: 0,
            end: 0,
            length: 0,
            register_length: 0,
            ingress_length: 0,
            truncated: u32::MAX,
            flow: 0,
            missing: 0,
            instance: Instance::Normal,
            generation: 0,
            base: [0; MAX_HEADERS],
        })
    }

    /// No program has passed it through its ingress.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.owner == FRESH || self.owner >> 62 == 1
    }

    /// Takes back what was done of its ingress.
    #[inline]
    pub(crate) fn forget(&mut self) {
        if self.owner >> 62 == 1 {
            self.owner = FRESH;
            self.valid = 0;
            self.payload = self.start;
            self.base = [0; MAX_HEADERS];
        }
    }

    pub(crate) fn is_valid(&self, header: u8) -> bool {
        self.valid >> (header & 63) & 1 == 1
    }

    #[inline(always)]
    fn bytes_at<const N: usize>(&self, header: u8, byte: u16) -> [u8; N] {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
        let mut bytes = [0; N];
        if let Some(found) = self.buffer.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        bytes
    }

    #[inline(always)]
    pub(crate) fn window1(&self, header: u8, byte: u16) -> u64 {
        u64::from(u8::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub(crate) fn window2(&self, header: u8, byte: u16) -> u64 {
        u64::from(u16::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub(crate) fn window4(&self, header: u8, byte: u16) -> u64 {
        u64::from(u32::from_be_bytes(self.bytes_at(header, byte)))
    }

    #[inline(always)]
    pub(crate) fn window8(&self, header: u8, byte: u16) -> u64 {
        u64::from_be_bytes(self.bytes_at(header, byte))
    }

    #[inline(always)]
    pub(crate) fn window16(&self, header: u8, byte: u16) -> u128 {
        u128::from_be_bytes(self.bytes_at(header, byte))
    }

    /// Writes bytes of a header, unless it is invalid.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(&mut self, header: u8, byte: u16, bytes: [u8; N]) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let Some(place) = self.buffer.get_mut(at..at + N) {
                place.copy_from_slice(&bytes);
            }
        }
    }

    /// Writes the low `count` bytes of a value.
    pub(crate) fn write_bytes(&mut self, header: u8, byte: u16, value: u64, count: usize) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let (Some(place), true) = (self.buffer.get_mut(at..at + count), count <= 8) {
                place.copy_from_slice(&value.to_be_bytes()[8 - count..]);
            }
        }
    }

    /// The `count` bytes (at most 16) of a window, right-aligned.
    pub(crate) fn read_bytes(&self, header: u8, byte: u16, count: usize) -> u128 {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
        let found = self.buffer.get(at..at + count).unwrap_or_default();
        found.iter().fold(0, |value, &b| value << 8 | u128::from(b))
    }

    /// Writes the low `count` bytes (at most 16) of a value.
    pub(crate) fn write_wide(&mut self, header: u8, byte: u16, value: u128, count: usize) {
        if self.is_valid(header) {
            let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]) + usize::from(byte);
            if let (Some(place), true) = (self.buffer.get_mut(at..at + count), count <= 16) {
                place.copy_from_slice(&value.to_be_bytes()[16 - count..]);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn place_header(&mut self, header: u8, base: u16) {
        self.valid |= 1 << (header & 63);
        self.base[usize::from(header) % MAX_HEADERS] = base;
    }

    pub(crate) fn invalidate_header(&mut self, header: u8) {
        self.valid &= !(1 << (header & 63));
        self.base[usize::from(header) % MAX_HEADERS] = 0;
    }

    pub(crate) fn zero_header(&mut self, header: u8, bytes: usize) {
        let at = usize::from(self.base[usize::from(header) % MAX_HEADERS]);
        if let Some(place) = self.buffer.get_mut(at..at + bytes) {
            place.fill(0);
        }
    }

    pub(crate) fn copy_header(&mut self, to: u8, from: u8, bytes: usize) {
        let [to, from] = [to, from].map(|h| usize::from(self.base[usize::from(h) % MAX_HEADERS]));
        if to.max(from) + bytes <= self.buffer.len() {
            self.buffer.copy_within(from..from + bytes, to);
        }
    }

    /// `bits` bits (at most 128) that lie `bit` bits behind the parsed headers; `None` if the packet ends before.
    pub(crate) fn look_ahead(&self, bit: u32, bits: u8) -> Option<u128> {
        let (bit, bits) = (bit as usize, usize::from(bits));
        let from = self.payload as usize + bit / 8;
        let skip = bit % 8;
        let count = (skip + bits).div_ceil(8);
        if from + count > self.end as usize {
            return None;
        }
        let bytes = self.buffer.get(from..from + count)?;
        let mut value = 0u128;
        for (i, &byte) in bytes.iter().enumerate() {
            let byte = if i == 0 { byte & (0xff >> skip) } else { byte };
            let keep = (8 * count - skip - bits) as u32;
            value = if i + 1 == count {
                value << (8 - keep) | u128::from(byte >> keep)
            } else {
                value << 8 | u128::from(byte)
            };
        }
        Some(value)
    }

    /// A frame of `length` bytes that nobody has looked at yet, of which the first `held` at most are there. Its bases are left
    /// as they were: see [`Packet::clear_bases`].
    #[inline]
    pub(crate) fn set_frame(&mut self, headroom: usize, length: usize, held: usize) {
        let length = length.min(MAX_FRAME);
        let held = held.min(length);
        self.reserve(headroom + held + TAIL);
        self.start = headroom as u32;
        self.payload = headroom as u32;
        self.end = (headroom + held) as u32;
        self.missing = (length - held) as u32;
        self.length = length as u32;
        self.register_length = length as u32;
        self.ingress_length = length as u32;
        self.truncated = u32::MAX;
        self.valid = 0;
        self.flow = 0;
        self.instance = Instance::Normal;
        self.generation = 0;
        self.owner = FRESH;
    }

    /// The same packet once more, with what its buffer holds from `from` to `end`; its frame ends there. Not copied: metadata,
    /// flow, and how the packet came to be.
    #[inline]
    pub(crate) fn set_copy(
        &mut self,
        packet: &Packet,
        program: &crate::Program,
        from: usize,
        end: usize,
    ) {
        let held = end.min(packet.end as usize);
        self.reserve(held + TAIL);
        self.buffer[from..held].copy_from_slice(&packet.buffer[from..held]);
        self.start = program.headroom as u32;
        self.payload = packet.payload;
        self.end = held as u32;
        self.missing = (end - held) as u32;
        self.register_length = packet.register_length;
        self.ingress_length = packet.ingress_length;
        self.truncated = u32::MAX;
        self.base[..NEAR].copy_from_slice(&packet.base[..NEAR]);
        let count = bases(program) * BASES;
        if count > NEAR {
            self.base[NEAR..count].copy_from_slice(&packet.base[NEAR..count]);
        }
        self.valid = packet.valid;
        self.flow = 0;
        self.generation = packet.generation.saturating_add(1);
        self.owner = match packet.owner {
            DEPARSED => program.id,
            owner => owner,
        };
    }

    /// No header of `program` has a place yet.
    #[inline]
    pub(crate) fn clear_bases(&mut self, program: &crate::Program) {
        for base in self.base.chunks_exact_mut(BASES).take(bases(program)) {
            base.fill(0);
        }
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }
}
