// SPDX-License-Identifier: Apache-2.0
//! A packet between ingress and egress: its bytes, where its headers are, and the metadata that egress still reads.

mod headers;

use narrows_program::field::{Slot, MAX_HEADERS, TAIL};
use narrows_program::Program;

use crate::prefetch::prefetch;

/// The longest frame in bytes.
pub const MAX_FRAME: usize = 60_000;

/// A packet and what the pipeline knows about it.
///
/// The bytes lie in one buffer: first the headroom (zeros, read in place of headers that are absent, and the fixed
/// places of headers that the program adds), then the frame. Parsed headers are read and written where they lie, so nothing is copied between parser and deparser.
///
/// What a packet that has waited in a long queue needs first lies in the first two cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Packet {
    pub buffer: Vec<u8>,
    /// Metadata that egress reads before it writes it, in the order of the program's live list.
    pub live: Vec<u64>,
    /// Bit h: header h is valid.
    pub valid: u64,
    /// The program that parsed it: native code runs on packets of its own program only. Or [`FRESH`], [`DEPARSED`]
    /// or, of a packet whose ingress has begun, a number with the bit [`PREPARED`].
    pub owner: u64,
    /// Where the frame starts (end of the headroom), then, after the deparser, where the output starts.
    pub start: u32,
    /// First byte that no header covers.
    pub payload: u32,
    pub end: u32,
    /// What queues account, in bytes: what was received, then the length as it came out of ingress, v1model's `packet_length`
    /// without headers that only carry fields of the traffic manager.
    pub length: u32,
    /// v1model's packet length: bytes received, then corrected for each header added or removed.
    pub register_length: u32,
    /// Bytes received: what counters count.
    pub ingress_length: u32,
    /// At most this many bytes leave (truncate), `u32::MAX` if it is not truncated.
    pub truncated: u32,
    /// The value of the field with alias `narrows.flow` at the end of ingress; 0 if the program has none.
    pub flow: u32,
    /// Bytes of the frame after `end` that are not stored: nothing ever reads them.
    pub missing: u32,
    pub instance: Instance,
    /// Clones between the packet that came in and this one.
    pub generation: u8,
    /// The program for which the buffer is laid out, see [`made_for`]: another one may read in place of absent headers what this
    /// one has written.
    pub made_for: u16,
    /// Where each header lies in the buffer: an invalid one, at 0, in the zeros at the buffer's start.
    pub base: [u16; MAX_HEADERS],
    /// The port that it came in by, of a program that may send it through ingress again.
    pub origin: u16,
    /// What whoever queues it keeps with it.
    pub note: Note,
}

/// What is known of a packet's flow when it is offered to a queue, for its report when it departs. No program sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Note {
    pub bottleneck: u8,
    pub flags: u8,
    pub flow: u16,
    pub signature: u32,
    /// Packets of the flow up to and including this one.
    pub arrivals: u32,
    /// Packets of the flow lost and dropped before this one.
    pub losses: u32,
    pub drops: u32,
    pub queue: u16,
}

/// Bytes before and behind the start of a frame that egress is expected to use.
const ADDED_NEARBY: usize = 112;
const PARSED_NEARBY: usize = 128;

/// No program has seen the packet yet.
pub const FRESH: u64 = 0;
/// Egress has put the packet together.
pub const DEPARSED: u64 = u64::MAX - 1;
pub const PREPARED: u64 = 1 << 62;

/// A program's number in [`Packet::made_for`]: that many programs are never loaded while a packet is on its way.
#[must_use]
pub fn made_for(program: &Program) -> u16 {
    program.id as u16
}

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
    /// It has left egress for ingress.
    Recirculated = 4,
    /// Made by multicast.
    Replication = 5,
    /// It has left ingress for ingress.
    Resubmitted = 6,
}

impl Packet {
    /// The frame: what was received, until the deparser has run, then what is to be sent. Of a packet from
    /// a pool these are the bytes that are stored.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.buffer.get(self.start as usize..self.end as usize);
        bytes.unwrap_or_default()
    }

    /// The frame's bytes, to be filled by a receiver of a packet from a pool.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.forget();
        &mut self.buffer[self.start as usize..self.end as usize]
    }

    /// Length of [`Packet::bytes`] including the bytes of the frame that are not stored.
    #[inline]
    #[must_use]
    pub fn frame_length(&self) -> u32 {
        (self.end - self.start + self.missing).min(self.truncated)
    }

    /// Says that the packet will be processed soon: its description is prefetched.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self), 128);
    }

    /// The same for what will be sent, or the beginning of it; the description should be there.
    #[inline]
    pub fn prefetch_bytes(&self) {
        let bytes = self.bytes();
        prefetch(bytes.as_ptr(), bytes.len().min(PARSED_NEARBY));
    }

    /// Says that the packet will be used for another frame soon: where that will be, and the zeros that are read in place of absent
    /// headers, are prefetched. Its description should be there.
    #[inline]
    pub fn prefetch_room(&self) {
        prefetch(self.buffer.as_ptr(), ADDED_NEARBY + PARSED_NEARBY);
    }

    /// The same for metadata and headers; the description should be there.
    #[inline]
    pub fn prefetch_contents(&self) {
        prefetch(self.live.as_ptr(), 8 * self.live.len());
        // The zeros that are read in place of absent headers.
        prefetch(self.buffer.as_ptr(), 1);
        let from = (self.start as usize).saturating_sub(ADDED_NEARBY);
        let headers = self.buffer.get(from..).unwrap_or_default();
        prefetch(headers.as_ptr(), headers.len().min(ADDED_NEARBY + PARSED_NEARBY));
    }
}

/// Bases that are cleared and copied at a time: as many as lie in the first two cache lines with the rest of the description. Few
/// programs have more headers, and what lies beyond is never fetched for them.
pub const BASES: usize = 4;

/// Bases that lie in the first two cache lines.
const NEAR: usize = 3 * BASES;

/// How many times [`BASES`] hold all headers of a program.
#[inline]
fn bases(program: &Program) -> usize {
    program.headers.len().div_ceil(BASES)
}

impl Packet {
    /// A packet with room for so many bytes, for a program.
    #[cold]
    pub fn new(bytes: usize, made_for: u16) -> Self {
        Self {
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
            made_for,
            base: [0; MAX_HEADERS],
            origin: 0,
            note: Note::default(),
        }
    }

    /// No program has passed it through its ingress.
    #[inline]
    pub fn is_new(&self) -> bool {
        self.owner == FRESH || self.owner >> 62 == 1
    }

    /// Takes back what was done of its ingress.
    #[inline]
    pub fn forget(&mut self) {
        if self.owner >> 62 == 1 {
            self.owner = FRESH;
            self.valid = 0;
            self.payload = self.start;
            self.base = [0; MAX_HEADERS];
        }
    }

    /// A frame of `length` bytes that was not looked at yet, of which the first `held` at most are there. Its bases are left
    /// as they were: see [`Packet::clear_bases`].
    #[inline]
    pub fn set_frame(&mut self, headroom: usize, length: usize, held: usize) {
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

    /// Makes it a new packet of `program` with the same frame, whatever it was before.
    #[cold]
    pub fn adopt(&mut self, program: &Program) {
        let (frame, length) = (self.bytes().to_vec(), self.frame_length() as usize);
        // The zeros at the start of the buffer are this program's.
        self.buffer.clear();
        self.set_frame(program.headroom, length, frame.len());
        self.buffer[program.headroom..][..frame.len()].copy_from_slice(&frame);
        self.made_for = made_for(program);
    }

    /// The same packet once more, with what its buffer holds from `from` to `end`; its frame ends there. Not copied: metadata,
    /// flow, and how the packet came to be.
    #[inline]
    pub fn set_copy(&mut self, packet: &Packet, program: &Program, from: usize, end: usize) {
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

    /// Makes it a new packet with this frame, of `length` bytes in all, that goes through ingress again and keeps the values of a
    /// field list.
    pub fn send_again(&mut self, program: &Program, (frame, length): (&[u8], usize), instance: Instance, list: u16) {
        self.set_frame(program.headroom, length, frame.len());
        self.bytes_mut().copy_from_slice(frame);
        self.instance = instance;
        self.live.insert(0, u64::from(list));
    }

    /// What [`Packet::send_again`] has kept: slots and their values. Nothing of a packet that comes in for the first time.
    pub fn kept_again<'p>(&'p self, program: &'p Program) -> impl Iterator<Item = (Slot, u64)> + 'p {
        let again = matches!(self.instance, Instance::Resubmitted | Instance::Recirculated);
        let kept = self.live.split_first().filter(|_| again);
        let of_list =
            |(list, values): (&u64, &'p [u64])| program.again(*list as u16).iter().copied().zip(values.iter().copied());
        kept.map(of_list).into_iter().flatten()
    }

    /// The same packet as ingress has left it: a replica.
    pub fn replicate(&mut self, packet: &Packet) {
        self.buffer.clone_from(&packet.buffer);
        self.live.clone_from(&packet.live);
        (self.valid, self.base, self.owner, self.origin) = (packet.valid, packet.base, packet.owner, packet.origin);
        (self.start, self.payload, self.end, self.missing) = (packet.start, packet.payload, packet.end, packet.missing);
        (self.length, self.register_length) = (packet.length, packet.register_length);
        (self.ingress_length, self.truncated, self.flow) = (packet.ingress_length, packet.truncated, packet.flow);
        (self.instance, self.generation) = (packet.instance, packet.generation);
    }

    /// Shortens the frame to `limit` bytes, but not its parsed headers; queues account no more than that.
    pub fn limit(&mut self, limit: usize) {
        let (held, whole) = (self.end as usize, (self.end + self.missing) as usize);
        let end = (self.start as usize).saturating_add(limit).clamp(self.payload as usize, whole);
        self.end = end.min(held) as u32;
        self.missing = (end - end.min(held)) as u32;
        self.length = self.length.min(u32::try_from(limit).unwrap_or(u32::MAX));
    }

    /// No header of `program` has a place yet.
    #[inline]
    pub fn clear_bases(&mut self, program: &Program) {
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
