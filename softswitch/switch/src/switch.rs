//! The switch without its interfaces: pipeline, traffic manager, clones and loopback ports, driven by the caller's clock.
// SPDX-License-Identifier: Apache-2.0
use std::collections::VecDeque;

use narrows_pipeline::{DigestRecord, EgressMeta, Forward, Packet, PacketPool};

use crate::forwarding::Forwarding;
use crate::tm::{Admission, Dequeued, Event, TrafficManager, PORTS};

/// Copies of copies a packet can have; a program that clones its clones for ever ends here.
const MAX_GENERATION: u8 = 8;
/// v1model's queue depth fields are 19 bits wide.
const MAX_QDEPTH: u64 = (1 << 19) - 1;

/// Takes the frames that leave the switch.
pub trait Output {
    /// `packet` is due on `port` at `exit_ns`. The packet goes back to `pool` once it was sent.
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool);
}

/// A packet in a queue.
#[derive(Debug)]
pub struct Held {
    packet: Box<Packet>,
    replica: u16,
    generation: u8,
    /// Bytes that its clone session left of it; `u32::MAX` for a packet that is no clone.
    length_limit: u32,
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
    looped: VecDeque<(u16, u64, Box<Packet>)>,
    discards: Discards,
    now_ns: u64,
    clones: Vec<(u16, u8, Held)>,
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
            kinds: by_number,
            looped: VecDeque::new(),
            discards: Discards::default(),
            now_ns: 0,
            clones: Vec::new(),
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
    /// earlier `now_ns` counts as the switch's time.
    pub fn receive(&mut self, port: u16, now_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        self.advance(now_ns, output);
        self.admit(port, self.now_ns, packet, output);
    }

    /// Lets everything happen that is due until `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
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
                Some(Event::Start(dequeued)) => {
                    self.now_ns = self.now_ns.max(dequeued.start_ns);
                    self.prefetch(dequeued.port, dequeued.priority);
                    self.depart(dequeued, output);
                }
                Some(Event::Exit { port, exit_ns, packet }) => {
                    self.now_ns = self.now_ns.max(exit_ns);
                    self.emit(port, exit_ns, packet.packet, output);
                }
                None => break,
            }
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// A long queue has left the processor's caches: what follows is asked for while this packet is worked on, first the
    /// description, which says where the rest is, one packet later the rest.
    #[inline]
    fn prefetch(&self, port: u16, priority: u8) {
        if let Some(held) = self.tm.waiting(port, priority, 3) {
            held.packet.prefetch();
            if let Some(held) = self.tm.waiting(port, priority, 1) {
                held.packet.prefetch_contents();
            }
        }
    }

    fn admit(&mut self, port: u16, now_ns: u64, mut packet: Box<Packet>, output: &mut impl Output) {
        let Some(forwarding) = &mut self.forwarding else {
            self.discards.no_pipeline += 1;
            self.pool.give(packet);
            return;
        };
        let verdict = forwarding.pipeline.ingress(&mut packet, port, now_ns);
        if let Some(number) = verdict.clone {
            match forwarding.sessions.get(number) {
                Some(session) => {
                    for &(port, replica) in session.replicas.iter().rev() {
                        let mut copy = self.pool.take(packet.bytes().len());
                        forwarding.pipeline.clone_ingress(&packet, &mut copy);
                        self.clones.push((
                            port,
                            session.priority,
                            Held { packet: copy, replica, generation: 1, length_limit: u32::MAX },
                        ));
                    }
                }
                None => self.discards.clones += 1,
            }
        }
        match verdict.forward {
            Forward::Unicast { port, priority } => {
                self.enqueue(
                    now_ns,
                    port,
                    priority,
                    Held { packet, replica: 0, generation: 0, length_limit: u32::MAX },
                    output,
                );
            }
            // A program with multicast groups is refused when it is loaded.
            Forward::Drop | Forward::Multicast { .. } => {
                self.discards.ingress += 1;
                self.pool.give(packet);
            }
        }
        self.enqueue_clones(now_ns, output);
    }

    fn enqueue_clones(&mut self, now_ns: u64, output: &mut impl Output) {
        while let Some((port, priority, copy)) = self.clones.pop() {
            if copy.generation > MAX_GENERATION {
                self.discards.clones += 1;
                self.pool.give(copy.packet);
                continue;
            }
            self.enqueue(now_ns, port, priority, copy, output);
        }
    }

    #[inline]
    fn enqueue(&mut self, now_ns: u64, port: u16, priority: u8, held: Held, output: &mut impl Output) {
        if self.kind(port) == PortKind::Absent {
            self.discards.absent_port += 1;
            self.pool.give(held.packet);
            return;
        }
        let (length, flow) = (held.packet.length().min(held.length_limit), held.packet.flow());
        // Copies never reach the flow's queue, and their flow field was reset.
        let flow = (held.generation == 0).then_some(flow);
        match self.tm.enqueue(now_ns, (port, priority), length, flow, held) {
            Admission::Queued => {}
            Admission::Dropped(held) => self.pool.give(held.packet),
            Admission::Started(dequeued) => self.depart(dequeued, output),
        }
    }

    fn depart(&mut self, dequeued: Dequeued<Held>, output: &mut impl Output) {
        let Dequeued { packet: mut held, port, priority, start_ns, enqueue_ns, .. } = dequeued;
        let Some(forwarding) = &mut self.forwarding else {
            self.discards.no_pipeline += 1;
            self.pool.give(held.packet);
            return;
        };
        let meta = EgressMeta {
            port,
            priority,
            rid: held.replica,
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
        let cloned = verdict.clone.is_some();
        if let Some(number) = verdict.clone {
            match forwarding.sessions.get(number) {
                Some(session) => {
                    let limit = if session.length_limit == 0 { usize::MAX } else { session.length_limit as usize };
                    for &(port, replica) in session.replicas.iter().rev() {
                        let mut copy = self.pool.take(limit.min(held.packet.length() as usize));
                        forwarding.pipeline.clone_egress(&held.packet, &mut copy, limit);
                        let length_limit = u32::try_from(limit).unwrap_or(u32::MAX);
                        let copy = Held { packet: copy, replica, generation: held.generation + 1, length_limit };
                        self.clones.push((port, session.priority, copy));
                    }
                }
                None => self.discards.clones += 1,
            }
        }
        if verdict.transmit {
            forwarding.pipeline.deparse(&mut held.packet);
            if let Some(held) = self.tm.transmit(start_ns, port, priority, dequeued.exit_ns, held) {
                self.emit(port, dequeued.exit_ns, held.packet, output);
            }
        } else {
            self.discards.egress += 1;
            self.pool.give(held.packet);
        }
        if cloned {
            self.enqueue_clones(start_ns, output);
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
fn telemetry_epoch(epoch: u64) -> u16 {
    (epoch.wrapping_sub(1) % 0xffff + 1) as u16
}
