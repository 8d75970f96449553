//! The switch without its interfaces: pipeline, traffic manager, clones and loopback ports, driven by the caller's clock.
// SPDX-License-Identifier: Apache-2.0
use std::collections::VecDeque;

use narrows_pipeline::{DigestRecord, EgressMeta, Forward, Packet, PacketPool};

use crate::forwarding::Forwarding;
use crate::tm::{Admission, Dequeued, Event, QueueNumber, TrafficManager, PORTS};

/// Copies of copies a packet can have; a program that clones its clones for ever ends here.
const MAX_GENERATION: u8 = 8;
/// Frames received before what has left the delay lines is sent on: in a batch it costs less.
const EXIT_BATCH: u32 = 16;
/// v1model's queue depth fields are 19 bits wide.
const MAX_QDEPTH: u64 = (1 << 19) - 1;

/// Takes the frames that leave the switch.
pub trait Output {
    /// `packet` is due on `port` at `exit_ns`. The packet goes back to `pool` once it was sent.
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool);
}

/// A packet in a queue: two words, so that it moves in registers. (What is put together in memory from smaller pieces and read as a
/// whole at once makes the processor wait.)
#[derive(Debug)]
pub struct Held {
    packet: Box<Packet>,
    origin: Origin,
}

/// How a packet came to be, in one word: replica (16 bits), generation (8 bits), and in the upper half the bytes that its clone
/// session left of it, `u32::MAX` for a packet that is no clone.
#[derive(Debug, Clone, Copy)]
struct Origin(u64);

impl Origin {
    const RECEIVED: Origin = Origin::new(0, 0, u32::MAX);

    #[inline]
    const fn new(replica: u16, generation: u8, length_limit: u32) -> Self {
        Origin((length_limit as u64) << 32 | (generation as u64) << 16 | replica as u64)
    }

    #[inline]
    fn replica(self) -> u16 {
        self.0 as u16
    }

    /// Clones between the received packet and this one.
    #[inline]
    fn generation(self) -> u8 {
        (self.0 >> 16) as u8
    }

    #[inline]
    fn length_limit(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A copy that is still to be queued.
struct Copied {
    held: Held,
    port: u16,
    priority: u8,
}

/// Role of a port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Not a port of this switch: what is sent there is dropped and counted.
    Absent,
    /// Connected to the outside.
    Interface,
    /// What is sent there comes in again on the same port.
    Loopback,
}

/// Packets that ended in the switch other than in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Discards {
    /// Received while no pipeline was configured.
    pub no_pipeline: u64,
    /// Dropped by the program's ingress.
    pub ingress: u64,
    /// Dropped by the program's egress.
    pub egress: u64,
    /// Sent to a port that the switch does not have.
    pub absent_port: u64,
    /// Copies whose clone session is not set, or copies of copies beyond the bound.
    pub clones: u64,
    /// Sent to a loopback port faster than it could be received again.
    pub loopback: u64,
}

/// Pipeline and queues.
pub struct Switch {
    forwarding: Option<Forwarding>,
    pool: PacketPool,
    /// All queues.
    pub tm: TrafficManager<Held>,
    kinds: Vec<PortKind>,
    /// Some port is a loopback: packets that leave come in again, in order of time with all else that happens.
    loops: bool,
    looped: VecDeque<(u16, u64, Box<Packet>)>,
    discards: Discards,
    now_ns: u64,
    /// Copies to be queued next, from the last to the first.
    clones: Vec<Copied>,
    /// Frames received since exits were taken.
    received: u32,
}

impl Switch {
    /// A switch without a pipeline. `kinds` gives the role of each port number; `pool_limit` bounds the packets held.
    pub fn new(kinds: &[(u16, PortKind)], pool_limit: usize) -> Self {
        let mut by_number = vec![PortKind::Absent; PORTS];
        for (port, kind) in kinds {
            if let Some(slot) = by_number.get_mut(usize::from(*port)) {
                *slot = *kind;
            }
        }
        Switch {
            forwarding: None,
            pool: PacketPool::default(),
            tm: TrafficManager::new(pool_limit),
            loops: by_number.contains(&PortKind::Loopback),
            kinds: by_number,
            looped: VecDeque::new(),
            discards: Discards::default(),
            now_ns: 0,
            clones: Vec::new(),
            received: 0,
        }
    }

    /// The switch's time: every event up to it has happened.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Role of a port number.
    #[inline]
    pub fn kind(&self, port: u16) -> PortKind {
        self.kinds.get(usize::from(port)).copied().unwrap_or(PortKind::Absent)
    }

    /// Packets that ended other than in a queue.
    pub fn discards(&self) -> Discards {
        self.discards
    }

    /// The configured pipeline.
    pub fn forwarding(&mut self) -> Option<&mut Forwarding> {
        self.forwarding.as_mut()
    }

    /// Packet buffers; a frame to be received is written into one of these.
    pub fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    /// Replaces the pipeline. What waits in queues was meant for the old program: it is discarded and counted as flushed.
    pub fn set_forwarding(&mut self, forwarding: Forwarding) {
        drop(self.tm.flush());
        self.looped.clear();
        self.pool = PacketPool::new(forwarding.pipeline.program());
        self.forwarding = Some(forwarding);
    }

    /// Moves the program's digests to `records`.
    pub fn drain_digests(&mut self, records: &mut Vec<DigestRecord>) {
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.pipeline.drain_digests(records);
        }
    }

    /// Digest records that the pipeline threw away because nobody drained them.
    pub fn digests_lost(&self) -> u64 {
        self.forwarding.as_ref().map_or(0, |forwarding| forwarding.pipeline.digests_lost())
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<u64> {
        let looped = self.looped.front().map(|(_, exit_ns, _)| *exit_ns);
        looped.into_iter().chain(self.tm.next_due()).min()
    }

    /// Receives a frame on `port` at `now_ns`, after everything that was due until then. Time never goes backwards: an
    /// earlier `now_ns` counts as the switch's time. Some of what leaves is given to `output` by a later call only.
    #[inline]
    pub fn receive(&mut self, port: u16, now_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        self.happen(now_ns, output);
        self.admit(port, self.now_ns, packet, output);
        self.received += 1;
        if self.received >= EXIT_BATCH {
            self.send_due(self.now_ns, output);
        }
    }

    /// Lets everything happen that is due until `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        self.happen(now_ns, output);
        self.send_due(self.now_ns, output);
    }

    /// Lets everything happen until `now_ns` but the sending, on which nothing depends if there are no loopback ports.
    #[inline]
    fn happen(&mut self, now_ns: u64, output: &mut impl Output) {
        if self.loops {
            self.happen_with_loops(now_ns, output);
        } else {
            while let Some(dequeued) = self.tm.poll_start(now_ns) {
                self.start(dequeued, output);
            }
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn happen_with_loops(&mut self, now_ns: u64, output: &mut impl Output) {
        // A frame that loops without delay would keep this instant for ever: it continues at the next call.
        let mut loops_left = self.looped.len() + 64;
        loop {
            let looped = self.looped.front().map(|(_, exit_ns, _)| *exit_ns).filter(|_| loops_left > 0);
            if let Some(exit_ns) = looped.filter(|exit_ns| *exit_ns <= now_ns) {
                if self.tm.next_due().is_none_or(|due| due > exit_ns) {
                    if let Some((port, _, packet)) = self.looped.pop_front() {
                        loops_left -= 1;
                        self.now_ns = self.now_ns.max(exit_ns);
                        self.admit(port, self.now_ns, packet, output);
                    }
                    continue;
                }
            }
            match self.tm.poll(now_ns) {
                Some(Event::Start(dequeued)) => self.start(dequeued, output),
                Some(Event::Exit { port, exit_ns, packet }) => {
                    self.now_ns = self.now_ns.max(exit_ns);
                    self.emit(port, exit_ns, packet.packet, output);
                }
                None => break,
            }
        }
    }

    /// Gives `output` what has left the delay lines until `now_ns`.
    #[inline]
    fn send_due(&mut self, now_ns: u64, output: &mut impl Output) {
        self.received = 0;
        if !self.loops {
            let pool = &mut self.pool;
            self.tm.take_exits(now_ns, |port, exit_ns, held| output.send(port, exit_ns, held.packet, pool));
        }
    }

    /// A packet that has waited starts on its link.
    #[inline]
    fn start(&mut self, dequeued: Dequeued<Held>, output: &mut impl Output) {
        let start_ns = dequeued.start_ns;
        self.now_ns = self.now_ns.max(start_ns);
        self.prefetch(dequeued.queue);
        let last = self.depart(dequeued, output);
        if let Some(copy) = self.next_copy(last) {
            self.pass(start_ns, copy, output);
        }
    }

    /// A long queue has left the processor's caches: what follows is asked for while this packet is worked on, first the
    /// description, which says where the rest is, two packets later the rest.
    #[inline]
    fn prefetch(&self, queue: QueueNumber) {
        let Some(forwarding) = &self.forwarding else {
            return;
        };
        if let [Some(near), far] = self.tm.waiting(queue, [1, 3]) {
            forwarding.pipeline.prefetch(&near.packet);
            if let Some(far) = far {
                far.packet.prefetch();
            }
        }
    }

    #[inline]
    fn admit(&mut self, port: u16, now_ns: u64, mut packet: Box<Packet>, output: &mut impl Output) {
        let Some(forwarding) = &mut self.forwarding else {
            self.discards.no_pipeline += 1;
            self.pool.give(packet);
            return;
        };
        let verdict = forwarding.pipeline.ingress(&mut packet, port, now_ns);
        if let Some(number) = verdict.clone {
            self.clone_at_ingress(number, &packet);
        }
        let next = match verdict.forward {
            Forward::Unicast { port, priority } => {
                Some(Copied { held: Held { packet, origin: Origin::RECEIVED }, port, priority })
            }
            // A program with multicast groups is refused when it is loaded.
            Forward::Drop | Forward::Multicast { .. } => {
                self.discards.ingress += 1;
                self.pool.give(packet);
                self.next_copy(None)
            }
        };
        if let Some(next) = next {
            self.pass(now_ns, next, output);
        }
    }

    #[cold]
    fn clone_at_ingress(&mut self, number: u16, packet: &Packet) {
        let Some(forwarding) = &mut self.forwarding else {
            return;
        };
        let Some(session) = forwarding.sessions.get(number) else {
            self.discards.clones += 1;
            return;
        };
        for &(port, replica) in session.replicas.iter().rev() {
            let mut copy = self.pool.blank(packet.bytes().len());
            forwarding.pipeline.clone_ingress(packet, &mut copy);
            let held = Held { packet: copy, origin: Origin::new(replica, 1, u32::MAX) };
            self.clones.push(Copied { held, port, priority: session.priority });
        }
    }

    /// The copy to be queued next. `last` was made last.
    #[inline(always)]
    fn next_copy(&mut self, last: Option<Copied>) -> Option<Copied> {
        let mut next = last.or_else(|| self.clones.pop())?;
        while next.held.origin.generation() > MAX_GENERATION {
            self.discards.clones += 1;
            self.pool.give(next.held.packet);
            next = self.clones.pop()?;
        }
        Some(next)
    }

    /// Queues a packet, the copies that were made of it, and the copies that are made of them when they start at once.
    fn pass(&mut self, now_ns: u64, mut next: Copied, output: &mut impl Output) {
        loop {
            let last = self.enqueue(now_ns, next, output);
            match self.next_copy(last) {
                Some(copy) => next = copy,
                None => return,
            }
        }
    }

    /// Returns the copy that was made last; the others are left in `clones`.
    #[inline(always)]
    fn enqueue(&mut self, now_ns: u64, arriving: Copied, output: &mut impl Output) -> Option<Copied> {
        let Copied { held, port, priority } = arriving;
        if self.kind(port) == PortKind::Absent {
            self.discards.absent_port += 1;
            self.pool.give(held.packet);
            return None;
        }
        let (length, flow) = (held.packet.length().min(held.origin.length_limit()), held.packet.flow());
        if self.tm.held() >= self.tm.pool_limit() {
            // What has left already takes up no room.
            self.send_due(now_ns, output);
        }
        // Copies never reach the flow's queue, and their flow field was reset.
        let flow = (held.origin.generation() == 0).then_some(flow);
        match self.tm.enqueue(now_ns, (port, priority), length, flow, held) {
            Admission::Queued => None,
            Admission::Dropped(held) => {
                self.pool.give(held.packet);
                None
            }
            Admission::Started(dequeued) => self.depart(dequeued, output),
        }
    }

    /// Egress, and on to the delay line. Returns the copy that was made last; the others are left in `clones`.
    #[inline(always)]
    fn depart(&mut self, dequeued: Dequeued<Held>, output: &mut impl Output) -> Option<Copied> {
        let mut last = None;
        let Dequeued { packet: mut held, port, priority, start_ns, enqueue_ns, .. } = dequeued;
        let Some(forwarding) = &mut self.forwarding else {
            self.discards.no_pipeline += 1;
            self.pool.give(held.packet);
            return None;
        };
        let meta = EgressMeta {
            port,
            priority,
            rid: held.origin.replica(),
            timestamp: start_ns,
            enq_timestamp: enqueue_ns as u32,
            deq_timedelta: u32::try_from(start_ns - enqueue_ns).unwrap_or(u32::MAX),
            enq_qdepth: dequeued.enqueue_depth_packets.min(MAX_QDEPTH) as u32,
            deq_qdepth: dequeued.dequeue_depth_packets.min(MAX_QDEPTH) as u32,
            enq_depth_bytes: u32::try_from(dequeued.enqueue_depth_bytes).unwrap_or(u32::MAX),
            deq_depth_bytes: u32::try_from(dequeued.dequeue_depth_bytes).unwrap_or(u32::MAX),
            epoch: telemetry_epoch(dequeued.epoch),
        };
        let verdict = forwarding.pipeline.egress(&mut held.packet, &meta);
        if let Some(number) = verdict.clone {
            match forwarding.sessions.get(number) {
                Some(session) => {
                    let limit = if session.length_limit == 0 { usize::MAX } else { session.length_limit as usize };
                    for &(port, replica) in session.replicas.iter().rev() {
                        let mut copy = self.pool.blank(limit.min(held.packet.bytes().len()));
                        forwarding.pipeline.clone_egress(&held.packet, &mut copy, limit);
                        let length_limit = u32::try_from(limit).unwrap_or(u32::MAX);
                        let origin = Origin::new(replica, held.origin.generation() + 1, length_limit);
                        let copy = Copied { held: Held { packet: copy, origin }, port, priority: session.priority };
                        if let Some(before) = last.replace(copy) {
                            self.clones.push(before);
                        }
                    }
                }
                None => self.discards.clones += 1,
            }
        }
        if verdict.transmit {
            self.transmit(dequeued.queue, port, start_ns, dequeued.exit_ns, held, output);
        } else {
            self.discards.egress += 1;
            self.pool.give(held.packet);
        }
        last
    }

    /// Puts a packet together and on its way. Not part of `depart`, which there are two of.
    #[inline(never)]
    fn transmit(
        &mut self,
        queue: QueueNumber,
        port: u16,
        start_ns: u64,
        exit_ns: u64,
        mut held: Held,
        output: &mut impl Output,
    ) {
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.pipeline.deparse(&mut held.packet);
        }
        if exit_ns <= start_ns && self.tm.has_exit(start_ns, queue) {
            self.send_due(start_ns, output);
        }
        if let Some(held) = self.tm.transmit(start_ns, queue, exit_ns, held) {
            self.emit(port, exit_ns, held.packet, output);
        }
    }

    #[inline]
    fn emit(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        if self.kind(port) != PortKind::Loopback {
            output.send(port, exit_ns, packet, &mut self.pool);
            return;
        }
        if self.looped.len() + self.tm.held() >= self.tm.pool_limit() {
            self.discards.loopback += 1;
        } else {
            let again = self.pool.packet(packet.bytes());
            self.looped.push_back((port, exit_ns, again));
        }
        self.pool.give(packet);
    }
}

/// The epoch as telemetry carries it: 16 bits, never 0 (0 says that nothing counts bytes and epochs).
#[inline]
fn telemetry_epoch(epoch: u64) -> u16 {
    match u16::try_from(epoch) {
        Ok(epoch @ 1..) => epoch,
        _ => (epoch.wrapping_sub(1) % 0xffff + 1) as u16,
    }
}
