// SPDX-License-Identifier: Apache-2.0
//! A program with its state, applied to packets.

mod control;
mod interpreted;
mod output;

use std::sync::Arc;

use crate::control::DigestRecord;
use crate::exec::{Machine, Outcome};
use crate::hash::Bits;
use crate::jit::{describe, kept_words, Ahead, Decisions, Deparsed, Native};
use crate::layout::{Field, Place};
use crate::packet::{Instance, Packet, DEPARSED, FRESH};
use crate::program::{Program, DROP_PORT};
use crate::random::Random;
use crate::state::State;
use crate::table::{wide_ones, TableState};

use interpreted::{clear, kept, parse, wire_length};
use output::{cut, gather};

/// Digest records that wait to be drained, at most.
const MAX_DIGESTS: usize = 65_536;

/// Where a packet goes after ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    Drop,
    /// To the queue of this port and this priority (v1model's `standard_metadata.priority`, 0..7).
    Unicast {
        port: u16,
        priority: u8,
    },
    /// To every member of the group: one [`Clone`] of the packet each, with its replica id in [`EgressMeta::rid`].
    Multicast {
        group: u16,
        priority: u8,
    },
}

/// What ingress decided. An ignored verdict leaks a decision of the program.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressVerdict {
    pub forward: Forward,
    /// Clone session (0..32767) of an ingress-to-egress clone.
    pub clone: Option<u16>,
}

/// What the queue measured, for one packet that leaves it. Units as v1model says or as the target's profile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressMeta {
    pub port: u16,
    /// Priority of the queue it left.
    pub priority: u8,
    /// Replica id of a multicast copy, else 0.
    pub rid: u16,
    /// `egress_global_timestamp`, 48 bits.
    pub timestamp: u64,
    pub enq_timestamp: u32,
    pub deq_timedelta: u32,
    /// In packets, 19 bits, saturated by the caller.
    pub enq_qdepth: u32,
    pub deq_qdepth: u32,
    /// `narrows.enq_depth_bytes`
    pub enq_depth_bytes: u32,
    /// `narrows.deq_depth_bytes`
    pub deq_depth_bytes: u32,
    /// `narrows.epoch`
    pub epoch: u16,
}

/// What egress decided.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressVerdict {
    /// False: dropped. True: send what [`Pipeline::deparse`] yields.
    pub transmit: bool,
    /// Clone session (0..32767) of an egress-to-egress clone, also of a packet that egress dropped.
    pub clone: Option<u16>,
}

/// A program and its state. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Pipeline {
    program: Arc<Program>,
    /// Native code is not used even if there is some.
    interpreted: bool,
    seed: u64,
    /// [`Program::zeros`].
    zeros: usize,
    /// The longest array of rows: its bank, and bytes of a row.
    rows: Option<(usize, usize)>,
    machine: Machine,
    /// The parsed bytes of the last packet as they came in, for programs that clone at ingress.
    original: Vec<u8>,
    /// Session and field list of the clone that the last ingress asked for.
    cloned_at_ingress: Option<(u16, u16)>,
    /// The headers of a packet that cannot be sent from where they lie.
    gathered: Vec<u8>,
    digests: Vec<DigestRecord>,
    digests_lost: u64,
}

impl Pipeline {
    /// A pipeline with only the program's constant entries. `seed` is the seed of the program's random numbers.
    #[must_use]
    pub fn new(program: Arc<Program>, seed: u64) -> Self {
        let machine = machine(&program, seed);
        Self {
            zeros: program.zeros(),
            rows: program.longest_rows(),
            program,
            interpreted: false,
            seed,
            machine,
            original: Vec::new(),
            cloned_at_ingress: None,
            gathered: Vec::new(),
            digests: Vec::new(),
            digests_lost: 0,
        }
    }

    /// The same, but instructions are interpreted: the reference that native code must equal.
    #[must_use]
    pub fn interpreter(program: Arc<Program>, seed: u64) -> Self {
        Self {
            interpreted: true,
            ..Self::new(program, seed)
        }
    }

    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Says that a packet will come in soon, on `port` at `timestamp`: what changes nothing of [`Pipeline::ingress`] is done
    /// already, and the cells that it uses are fetched from memory meanwhile. This changes nothing but the time that
    /// ingress takes, whatever happens before; if it is not as was said, ingress starts over.
    #[inline]
    pub fn anticipate(&mut self, packet: &mut Packet, port: u16, timestamp: u64) {
        let program = &*self.program;
        let ours = packet.owner == FRESH && packet.start as usize == program.headroom;
        if let (true, false, Ok(native)) = (ours, self.interpreted, &program.native) {
            if !self.machine.changed {
                native.prepare(&mut self.machine, packet, port, timestamp);
            }
        }
    }

    /// Parser, checksum verification and ingress control. `timestamp` is `ingress_global_timestamp` (48 bits).
    #[inline]
    pub fn ingress(&mut self, packet: &mut Packet, port: u16, timestamp: u64) -> IngressVerdict {
        let program = &*self.program;
        if program.clones_at_ingress {
            self.original.clear();
            self.original.extend_from_slice(packet.bytes());
        }
        // Of a pool for another program the packet has no room where this one puts its headers.
        let ours = packet.is_new() && packet.start as usize == program.headroom;
        let native = program.native.as_ref().ok();
        let decided = match native.filter(|_| ours && !self.interpreted) {
            Some(native) => {
                if self.machine.changed {
                    describe(program, &mut self.machine);
                }
                if packet.live.len() != program.live.len() {
                    packet.live.resize(program.live.len(), 0);
                }
                native.ingress(program, &mut self.machine, packet, port, timestamp)
            }
            None => self.ingress_interpreted(packet, port, timestamp, ours),
        };
        self.cloned_at_ingress = decided.clone;
        if let Some(index) = decided.digest {
            self.learn(packet, index);
        }
        let priority = decided.priority;
        let forward = if decided.group != 0 {
            packet.instance = Instance::Replication;
            Forward::Multicast {
                group: decided.group,
                priority,
            }
        } else if u64::from(decided.egress_spec) == DROP_PORT {
            Forward::Drop
        } else {
            Forward::Unicast {
                port: decided.egress_spec,
                priority,
            }
        };
        IngressVerdict {
            forward,
            clone: decided.clone.map(|(session, _)| session),
        }
    }

    /// Keeps the record of a digest.
    #[cold]
    fn learn(&mut self, packet: &Packet, index: u16) {
        if self.digests.len() >= MAX_DIGESTS {
            self.digests_lost += 1;
            return;
        }
        let fields = &self.program.digest_fields[usize::from(index)];
        let values = fields.iter().map(|f| value_of(*f, &self.machine, packet));
        self.digests.push(DigestRecord {
            list: self.program.digests[usize::from(index)].list,
            values: values.collect(),
        });
    }

    /// Says that [`Pipeline::egress`] will soon be called for a packet that has waited: what it needs is fetched from memory
    /// meanwhile, its description should be there. Cells are those of its flow, if the longest arrays are by flow.
    #[inline]
    pub fn prefetch(&self, packet: &Packet) {
        packet.prefetch_contents();
        if let Some((bank, bytes)) = self.rows {
            if let Some(start) = self.machine.banks.get(bank) {
                let row = start
                    .0
                    .cast::<u8>()
                    .wrapping_add(packet.flow as usize * bytes);
                crate::jit::prefetch(row, bytes.min(128));
            }
        }
    }

    /// Egress control. A packet that is to be cloned can be until [`Pipeline::deparse`]; of others, [`Packet::bytes`] are not
    /// to be read before.
    #[inline]
    pub fn egress(&mut self, packet: &mut Packet, meta: &EgressMeta) -> EgressVerdict {
        let Some(native) = native_for(&self.program, self.interpreted, packet) else {
            return self.egress_interpreted(packet, meta);
        };
        if self.machine.changed {
            describe(&self.program, &mut self.machine);
        }
        let (decided, deparsed) = native.egress(&mut self.machine, packet, meta);
        if deparsed != Deparsed::No {
            packet.owner = DEPARSED;
            if deparsed == Deparsed::Scattered {
                self.gather(packet);
            }
        }
        verdict(&decided)
    }

    /// Puts the output together of headers that do not lie in a row.
    #[cold]
    fn gather(&mut self, packet: &mut Packet) {
        gather(&self.program, packet, &mut self.gathered);
        cut(packet);
    }

    /// Makes `copy` the ingress-to-egress clone of the packet that [`Pipeline::ingress`] has just seen: its original
    /// bytes, parsed again, metadata reset but for the preserved field list. Ready for [`Pipeline::egress`].
    pub fn clone_ingress(&mut self, packet: &Packet, copy: &mut Packet) {
        let program = &*self.program;
        let machine = &mut self.machine;
        let kept = kept(program, machine, self.cloned_at_ingress);
        let port = program.intrinsics.ingress_port.get(&machine.frame, packet);
        let length = packet.ingress_length as usize;
        copy.set_frame(program.headroom, length, self.original.len());
        copy.clear_bases(program);
        copy.bytes_mut().copy_from_slice(&self.original);
        copy.owner = program.id;
        clear(program, machine);
        program
            .intrinsics
            .ingress_port
            .set(&mut machine.frame, copy, port);
        parse(program, machine, copy);
        copy.live.clear();
        copy.live.resize(program.live.len(), 0);
        for (position, value) in kept {
            copy.live[position] = value;
        }
        copy.instance = Instance::IngressClone;
        copy.generation = packet.generation.saturating_add(1);
    }

    /// Makes `copy` the egress-to-egress clone of the packet that [`Pipeline::egress`] has just seen: headers as after
    /// egress and not yet deparsed, metadata reset but for the preserved field list. Ready for [`Pipeline::egress`].
    ///
    /// At most `limit` bytes of the frame (but all parsed headers) are copied, and accounted by queues: `usize::MAX`, or less
    /// if the session or the program is known to truncate the copy.
    #[inline(never)]
    pub fn clone_egress(&mut self, packet: &Packet, copy: &mut Packet, limit: usize) {
        let program = &*self.program;
        let start = program.headroom;
        let whole = packet.end as usize + packet.missing as usize;
        let end = start
            .saturating_add(limit)
            .clamp(packet.payload as usize, whole);
        // Added headers lie in the headroom, behind its zeros.
        let from = match packet.valid & program.added_headers {
            0 => start,
            _ => self.zeros,
        };
        copy.set_copy(packet, program, from, end);
        copy.length = wire_length(program, copy).min(u32::try_from(limit).unwrap_or(u32::MAX));
        if copy.live.len() != self.machine.kept.len() {
            copy.live.resize(self.machine.kept.len(), 0);
        }
        copy.live.copy_from_slice(&self.machine.kept);
        copy.instance = Instance::EgressClone;
    }

    /// Updates checksums and puts the packet together. Returns what [`Packet::bytes`] is from now on.
    #[inline]
    pub fn deparse<'p>(&mut self, packet: &'p mut Packet) -> &'p [u8] {
        if packet.owner != DEPARSED {
            self.put_together(packet);
        }
        packet.bytes()
    }

    #[inline]
    fn put_together(&mut self, packet: &mut Packet) {
        let placed = match native_for(&self.program, self.interpreted, packet) {
            Some(native) => {
                if self.machine.changed {
                    describe(&self.program, &mut self.machine);
                }
                native.deparse(&mut self.machine, packet)
            }
            None => self.deparse_interpreted(packet),
        };
        if !placed {
            self.gather(packet);
        }
    }

    /// Moves the digest records gathered since the last call to the end of `records`.
    pub fn drain_digests(&mut self, records: &mut Vec<DigestRecord>) {
        records.append(&mut self.digests);
    }

    /// Digest records thrown away because nobody drained them (65,536 are kept).
    #[must_use]
    pub fn digests_lost(&self) -> u64 {
        self.digests_lost
    }

    /// Back to the state after loading: tables, counters, registers, digests, random numbers.
    pub fn reset(&mut self) {
        self.machine = machine(&self.program, self.seed);
        self.digests.clear();
        self.digests_lost = 0;
    }
}

#[inline]
fn verdict(decided: &Decisions) -> EgressVerdict {
    EgressVerdict {
        transmit: u64::from(decided.egress_spec) != DROP_PORT,
        clone: decided.clone.map(|(session, _)| session),
    }
}

/// The program's native code if it can run on this packet, which ingress has seen.
#[inline]
fn native_for<'p>(program: &'p Program, interpreted: bool, packet: &Packet) -> Option<&'p Native> {
    let native = program.native.as_ref().ok()?;
    (packet.owner == program.id && !interpreted).then_some(native)
}

fn machine(program: &Program, seed: u64) -> Machine {
    let mut frame = vec![0; 65536].into_boxed_slice();
    for &(slot, value) in &program.code.constants {
        frame[usize::from(slot)] = value;
    }
    Machine {
        frame: frame.try_into().unwrap_or_else(|_| Box::new([0; 65536])),
        // Loading has checked that the constant entries fit.
        tables: program
            .tables
            .iter()
            .filter_map(|t| TableState::new(t).ok())
            .collect(),
        descriptors: Vec::new(),
        banks: Vec::new(),
        changed: true,
        context: Box::default(),
        ahead: Ahead::new(kept_words(program)),
        kept: Vec::new(),
        state: State::new(&program.registers, &program.counters),
        random: Random::new(seed),
        bits: Bits::default(),
        outcome: Outcome::default(),
    }
}

fn value_of(field: Field, machine: &Machine, packet: &Packet) -> u128 {
    match field.place {
        Place::Slot(slot) => {
            let slot = usize::from(slot);
            let high = if field.width > 64 {
                machine.frame[slot + 1]
            } else {
                0
            };
            u128::from(machine.frame[slot]) | u128::from(high) << 64
        }
        Place::Valid(header) => u128::from(packet.is_valid(header)),
        Place::Header { header, bit } => {
            let byte = (bit / 8) as u16;
            let end = bit % 8 + field.width;
            if end <= 128 {
                packet.window16(header, byte) >> (128 - end) & wide_ones(field.width)
            } else {
                // 17 bytes: all but the last, then the rest.
                let rest = end - 128;
                let head = packet.window16(header, byte) & wide_ones(128 - bit % 8);
                head << rest | u128::from(packet.window1(header, byte + 16) >> (8 - rest))
            }
        }
    }
}
