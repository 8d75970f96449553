// SPDX-License-Identifier: Apache-2.0
//! A program with its state, applied to packets.
#![allow(unsafe_code)]

use std::sync::Arc;

use narrows_interpreter::output::{cut, gather};
use narrows_interpreter::packet::{made_for, Instance, Packet as Inner, DEPARSED, FRESH};
use narrows_interpreter::prefetch::prefetch;
use narrows_interpreter::stages::{Decisions, EgressMeta};
use narrows_native::{Deparsed, Native, NativeMachine};
use narrows_program::bits::ones;
use narrows_program::control::DigestRecord;
use narrows_program::field::Field;
use narrows_program::intrinsics::Intrinsic;
use narrows_program::DROP_PORT;

use crate::packet::Packet;
use crate::program::Program;

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
    /// To every member of the group: one [`Pipeline::replicate`] of the packet each, with its replica id in [`EgressMeta::rid`].
    Multicast {
        group: u16,
        priority: u8,
    },
    /// Through ingress once more, at once: the packet is as it came in, but for what the program keeps (resubmit).
    Again,
}

/// What ingress decided. An ignored verdict leaks a decision of the program.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressVerdict {
    pub forward: Forward,
    /// Clone session (0..32767) of an ingress-to-egress clone.
    pub clone: Option<u16>,
}

/// Whose a packet is, by what the program writes into the fields with these aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketIdentity {
    /// `narrows.flow`.
    pub flow: u32,
    /// `narrows.signature`.
    pub signature: u32,
    /// `narrows.bottleneck`.
    pub bottleneck: u8,
    /// `narrows.drop_cause`: why ingress drops it, 0 if it does not.
    pub drop_cause: u8,
}

/// What the field with the alias `narrows.excess` has of a packet that a policer marks.
const EXCEEDS: u64 = 4;

/// What egress decided.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressVerdict {
    /// False: dropped. True: send what [`Pipeline::deparse`] yields.
    pub transmit: bool,
    /// Not sent either: [`Pipeline::recirculate`] makes it a packet that goes through ingress once more, at once. With the list of
    /// fields that it keeps.
    pub again: Option<u16>,
    /// Clone session (0..32767) of an egress-to-egress clone, also of a packet that egress dropped.
    pub clone: Option<u16>,
}

/// A program and its state. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) program: Arc<Program>,
    /// Native code is not used even if there is some.
    interpreted: bool,
    /// [`Program::zeros`].
    zeros: usize,
    /// The longest array of rows: its bank, and bytes of a row.
    rows: Option<(usize, usize)>,
    pub(crate) machine: NativeMachine,
    /// The parsed bytes of the last packet as they came in, for programs that clone at ingress.
    original: Vec<u8>,
    /// The headers of a packet that cannot be sent from where they lie.
    gathered: Vec<u8>,
    digests: Vec<DigestRecord>,
    digests_lost: u64,
}

impl Pipeline {
    /// A pipeline with only the program's constant entries. `seed` is the seed of the program's random numbers.
    #[must_use]
    pub fn new(program: Arc<Program>, seed: u64) -> Self {
        let machine = NativeMachine::new(&program, seed);
        Self {
            zeros: program.zeros(),
            rows: program.cells.longest_rows(),
            program,
            interpreted: false,
            machine,
            original: Vec::new(),
            gathered: Vec::new(),
            digests: Vec::new(),
            digests_lost: 0,
        }
    }

    /// The same, but instructions are interpreted: the reference that native code must equal.
    #[must_use]
    pub fn interpreter(program: Arc<Program>, seed: u64) -> Self {
        Self { interpreted: true, ..Self::new(program, seed) }
    }

    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// What the program asserts and a packet has shown to be wrong: BMv2 ends there.
    #[must_use]
    pub fn failed_assertion(&self) -> Option<&str> {
        let failed = self.machine.failed?;
        self.program.assertions.get(usize::from(failed)).map(String::as_str)
    }

    /// Says that a packet will come in soon, on `port` at `timestamp`: what has no effect on [`Pipeline::ingress`] is done
    /// already, and the cells that it uses are prefetched. This changes nothing but the time that
    /// ingress takes, whatever happens in between; if the announcement was wrong, ingress starts over.
    #[inline]
    pub fn prepare(&mut self, packet: &mut Packet, port: u16, timestamp: u64) {
        let program = &*self.program;
        let packet = &mut packet.0;
        let ours = packet.owner == FRESH && packet.made_for == made_for(program);
        if let (true, false, Ok(native)) = (ours, self.interpreted, &program.native) {
            // SAFETY: code and machine are this program's, which does not change; the packet is fresh, with its headroom.
            unsafe { native.prepare(&mut self.machine, packet, port, program.time(timestamp)) };
        }
    }

    /// Parser, checksum verification and ingress control. `timestamp` is `ingress_global_timestamp` (48 bits).
    #[inline(always)]
    pub fn ingress(&mut self, packet: &mut Packet, port: u16, timestamp: u64) -> IngressVerdict {
        let program = &*self.program;
        let packet = &mut packet.0;
        if program.calls {
            self.machine.begin_calls(timestamp);
            packet.origin = port;
        }
        let timestamp = program.time(timestamp);
        if program.keeps_original {
            self.original.clear();
            self.original.extend_from_slice(packet.bytes());
        }
        let resumed = match &program.native {
            // SAFETY: code and machine are this program's, which does not change.
            Ok(native) => unsafe { native.resume(&program.data, &mut self.machine, packet, port, timestamp) },
            Err(_) => None,
        };
        let decided = resumed.unwrap_or_else(|| self.ingress_at_once(packet, port, timestamp));
        self.leave_ingress(packet, &decided)
    }

    /// Ingress of a packet that was not prepared, or not for this.
    #[inline(never)]
    fn ingress_at_once(&mut self, packet: &mut Inner, port: u16, timestamp: u64) -> Decisions {
        let program = &*self.program;
        // Of a pool for another program the packet has no room where this one puts its headers.
        if !packet.is_new() || packet.made_for != made_for(program) {
            packet.adopt(program);
        }
        // What a packet keeps that comes once more is known to the interpreter only.
        let first = packet.instance == Instance::Normal;
        match program.native.as_ref().ok().filter(|_| first && !self.interpreted) {
            // SAFETY: code and machine are this program's, which does not change; the packet is new, with its headroom.
            Some(native) => unsafe { native.ingress(&program.data, &mut self.machine, packet, port, timestamp) },
            None => self.machine.change().ingress(&program.data, packet, port, timestamp),
        }
    }

    #[inline(always)]
    fn leave_ingress(&mut self, packet: &mut Inner, decided: &Decisions) -> IngressVerdict {
        if let Some((_, list)) = decided.clone {
            self.machine.keep_for_clones(&self.program, packet, list);
        }
        if let Some(index) = decided.digest {
            self.learn(packet, index);
        }
        let priority = decided.priority;
        let again = if self.program.calls { self.machine.outcome.again } else { None };
        let forward = if let Some(list) = again {
            self.resubmit(packet, list);
            Forward::Again
        } else if decided.group != 0 {
            packet.instance = Instance::Replication;
            Forward::Multicast { group: decided.group, priority }
        } else if u64::from(decided.egress_spec) == DROP_PORT {
            Forward::Drop
        } else {
            Forward::Unicast { port: decided.egress_spec, priority }
        };
        IngressVerdict { forward, clone: decided.clone.map(|(session, _)| session) }
    }

    /// Makes it the packet that came in, with what the program keeps.
    #[cold]
    fn resubmit(&mut self, packet: &mut Inner, list: u16) {
        let (program, length) = (&self.program, packet.ingress_length as usize);
        self.machine.preserve_again(program, packet, list);
        packet.send_again(program, (&self.original, length), Instance::Resubmitted, list);
    }

    /// Makes a packet that egress has seen, and [`Pipeline::deparse`] put together, a new one with what the program keeps; returns
    /// the port by which it came in first.
    #[cold]
    pub fn recirculate(&mut self, packet: &mut Packet, list: u16) -> u16 {
        let packet = &mut packet.0;
        let (frame, length) = (packet.bytes().to_vec(), packet.frame_length() as usize);
        self.machine.preserve_again(&self.program, packet, list);
        packet.send_again(&self.program, (&frame, length), Instance::Recirculated, list);
        packet.origin
    }

    /// Makes `copy` a replica of a packet as ingress has left it.
    #[cold]
    pub fn replicate(&self, packet: &Packet, copy: &mut Packet) {
        copy.0.replicate(&packet.0);
    }

    /// Keeps the record of a digest.
    #[cold]
    fn learn(&mut self, packet: &Inner, index: u16) {
        if self.digests.len() >= MAX_DIGESTS {
            self.digests_lost += 1;
            return;
        }
        let fields = &self.program.digest_fields[usize::from(index)];
        let values = fields.iter().map(|f| self.machine.value(*f, packet));
        self.digests.push(DigestRecord {
            program: self.program.id,
            list: self.program.digests[usize::from(index)].list,
            values: values.collect(),
        });
    }

    /// Whose a packet is that ingress has seen and egress has not; `None` if the program says so of no packet, or not of this.
    pub fn identity(&self, packet: &Packet) -> Option<PacketIdentity> {
        let fields = &self.program.intrinsics;
        let value = |field: Intrinsic| match field {
            Intrinsic::Header { header, byte, count } if packet.0.is_valid(header) => {
                Some(packet.0.read_bytes(header, byte, usize::from(count)) as u64)
            }
            _ => None,
        };
        Some(PacketIdentity {
            flow: value(fields.flow)? as u32,
            signature: value(fields.signature)? as u32,
            bottleneck: value(fields.bottleneck)? as u8,
            drop_cause: value(fields.drop_cause)? as u8,
        })
    }

    /// Tells egress, by the field with the alias `narrows.excess`, that a packet exceeds its policer. Returns whether it may be
    /// marked: ingress has written the packet's ECN field there, which is not 0.
    pub fn mark_excess(&self, packet: &mut Packet) -> bool {
        let Intrinsic::Header { header, byte, count } = self.program.intrinsics.excess else {
            return false;
        };
        let count = usize::from(count);
        let may_be = packet.0.is_valid(header) && packet.0.read_bytes(header, byte, count) != 0;
        if may_be {
            packet.0.write_bytes(header, byte, EXCEEDS, count);
        }
        may_be
    }

    /// Says that [`Pipeline::egress`] will soon be called for a packet that has waited: what it needs is fetched from memory
    /// meanwhile, its description should be there. Cells are those of its flow, if the longest arrays are by flow.
    #[inline]
    pub fn prefetch(&self, packet: &Packet) {
        packet.0.prefetch_contents();
        if let Some((bank, bytes)) = self.rows {
            if let Some(row) = self.machine.row(bank, packet.0.flow as usize * bytes) {
                prefetch(row, bytes.min(128));
            }
        }
    }

    /// Egress control. A packet that is to be cloned can be until [`Pipeline::deparse`]; of others, [`Packet::bytes`] are not
    /// to be read before.
    #[inline(always)]
    pub fn egress(&mut self, packet: &mut Packet, meta: &EgressMeta) -> EgressVerdict {
        let packet = &mut packet.0;
        let program = &*self.program;
        if program.calls {
            self.machine.begin_calls(meta.timestamp);
        }
        let converted;
        let meta = if program.nanoseconds {
            meta
        } else {
            converted = in_its_time(program, meta);
            &converted
        };
        let Some(native) = native_for(program, self.interpreted, packet) else {
            let machine = self.machine.change();
            let decided = machine.egress(&program.data, packet, meta);
            return self.verdict(&decided);
        };
        // SAFETY: code and machine are this program's, which does not change, and so is the packet.
        let (decided, deparsed) = unsafe { native.egress(&program.data, &mut self.machine, packet, meta) };
        if deparsed != Deparsed::No {
            packet.owner = DEPARSED;
            if deparsed == Deparsed::Scattered {
                self.gather(packet);
            }
        }
        self.verdict(&decided)
    }

    /// What the watched fields have of the packet that egress has just seen, in the order in which they were chosen.
    pub fn watched<'p>(&'p self, packet: &'p Packet) -> impl Iterator<Item = u64> + 'p {
        let value = |field: &Field| self.machine.value(*field, &packet.0) as u64 & ones(field.width);
        self.program.watched.iter().map(value)
    }

    #[inline(always)]
    fn verdict(&self, decided: &Decisions) -> EgressVerdict {
        let sent = u64::from(decided.egress_spec) != DROP_PORT;
        let again = if self.program.calls { self.machine.outcome.again.filter(|_| sent) } else { None };
        EgressVerdict { transmit: sent && again.is_none(), again, clone: decided.clone.map(|(session, _)| session) }
    }

    /// Puts the output together of headers that do not lie in a row.
    #[cold]
    fn gather(&mut self, packet: &mut Inner) {
        gather(&self.program, packet, &mut self.gathered);
        cut(packet);
    }

    /// Makes `copy` an ingress-to-egress clone of the packet that [`Pipeline::ingress`] has just seen, one of as many as are
    /// wanted: its original bytes, parsed again, metadata reset but for the preserved field list. Ready for
    /// [`Pipeline::egress`]. `limit` as for [`Pipeline::clone_egress`].
    pub fn clone_ingress(&mut self, packet: &Packet, copy: &mut Packet, limit: usize) {
        let machine = &mut self.machine;
        machine.clone_ingress(&self.program, &packet.0, &mut copy.0, &self.original, limit);
    }

    /// Makes `copy` the egress-to-egress clone of the packet that [`Pipeline::egress`] has just seen: headers as after
    /// egress and not yet deparsed, metadata reset but for the preserved field list. Ready for [`Pipeline::egress`].
    ///
    /// At most `limit` bytes of the frame (but all parsed headers) are copied, and accounted by queues: `usize::MAX`, or less
    /// if the session or the program is known to truncate the copy.
    #[inline]
    pub fn clone_egress(&mut self, packet: &Packet, copy: &mut Packet, limit: usize) {
        let (from, to) = (&packet.0, &mut copy.0);
        self.machine.clone_egress(&self.program, from, to, self.zeros, limit);
    }

    /// Updates checksums and puts the packet together. Returns what [`Packet::bytes`] is from now on.
    #[inline]
    pub fn deparse<'p>(&mut self, packet: &'p mut Packet) -> &'p [u8] {
        if packet.0.owner != DEPARSED {
            self.put_together(&mut packet.0);
        }
        packet.bytes()
    }

    #[inline]
    fn put_together(&mut self, packet: &mut Inner) {
        let program = &*self.program;
        let placed = match native_for(program, self.interpreted, packet) {
            // SAFETY: as in `egress`.
            Some(native) => unsafe { native.deparse(&program.data, &mut self.machine, packet) },
            None => self.machine.change().deparse(&program.data, packet),
        };
        if !placed {
            self.gather(packet);
        }
    }

    /// Moves the digest records gathered since the last call to the end of `records`.
    pub fn drain_digests(&mut self, records: &mut Vec<DigestRecord>) {
        records.append(&mut self.digests);
    }

    /// Digest records thrown away because they were not drained (65,536 are kept).
    #[must_use]
    pub fn digests_lost(&self) -> u64 {
        self.digests_lost
    }
}

/// What the queue measured, for a program whose times are not in nanoseconds.
#[cold]
fn in_its_time(program: &Program, meta: &EgressMeta) -> EgressMeta {
    EgressMeta {
        timestamp: program.time(meta.timestamp),
        enq_timestamp: program.time(meta.timestamp.saturating_sub(meta.queue_delay)) as u32,
        deq_timedelta: program.time(meta.queue_delay) as u32,
        queue_delay: program.time(meta.queue_delay),
        ..*meta
    }
}

/// The program's native code if it can run on this packet, which ingress has seen.
#[inline]
fn native_for<'p>(program: &'p Program, interpreted: bool, packet: &Inner) -> Option<&'p Native> {
    let native = program.native.as_ref().ok()?;
    (packet.owner == program.id && !interpreted).then_some(native)
}
