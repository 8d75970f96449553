//! Traffic manager: queues, shapers and delay lines of every egress port, driven by the caller's clock.
//!
//! Nothing here reads a clock: real time and virtual time run the same code. The caller alternates [`TrafficManager::poll`]
//! up to an instant with [`TrafficManager::enqueue`] at that instant; instants never go backwards. At one instant
//! departures come before arrivals.
// SPDX-License-Identifier: Apache-2.0
mod clock;
mod queue;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

pub use clock::{ByteClock, MAX_RATE_BPS};
pub use queue::{Counters, Drops};
use queue::{Queue, Refusal, Waiting};

/// Egress ports are 9 bits wide in v1model.
pub const PORTS: usize = 512;
/// Priorities (queues) of a port, as in `standard_metadata.priority`.
pub const PRIORITIES: usize = 8;
/// Packets that may wait in a queue that was never configured.
pub const DEFAULT_LIMIT_PACKETS: u64 = 100_000;
/// Longest constant delay of a port, in nanoseconds.
pub const MAX_DELAY_NS: u64 = 100_000_000_000;

const NO_QUEUE: u16 = u16::MAX;

/// Settings to change; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes {
    /// Rate in bit/s; 0 = unlimited.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait; 0 = no limit.
    pub limit_bytes: Option<u64>,
    /// Packets that may wait; 0 = no limit.
    pub limit_packets: Option<u64>,
    /// Delay of the whole port in nanoseconds.
    pub delay_ns: Option<u64>,
}

/// Settings, depth and counters of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStatus {
    /// Egress port.
    pub port: u16,
    /// Priority.
    pub priority: u8,
    /// Rate in bit/s; 0 = unlimited.
    pub rate_bps: u64,
    /// Bytes that may wait; 0 = no limit.
    pub limit_bytes: u64,
    /// Packets that may wait; 0 = no limit.
    pub limit_packets: u64,
    /// Delay of the port in nanoseconds.
    pub delay_ns: u64,
    /// Generation of the settings.
    pub epoch: u64,
    /// Bytes waiting.
    pub depth_bytes: u64,
    /// Packets waiting.
    pub depth_packets: u64,
    /// Counters.
    pub counters: Counters,
}

/// A packet that started on its link: run egress on it, then hand it to [`TrafficManager::transmit`].
#[derive(Debug)]
pub struct Dequeued<P> {
    /// The packet.
    pub packet: P,
    /// Egress port.
    pub port: u16,
    /// Priority.
    pub priority: u8,
    /// Length it was queued with, in bytes.
    pub length: u32,
    /// Arrival at the queue.
    pub enqueue_ns: u64,
    /// Start on the link, by the byte clock.
    pub start_ns: u64,
    /// When its last bit leaves the delay line.
    pub exit_ns: u64,
    /// Bytes it found waiting.
    pub enqueue_depth_bytes: u64,
    /// Packets it found waiting.
    pub enqueue_depth_packets: u64,
    /// Bytes it left waiting.
    pub dequeue_depth_bytes: u64,
    /// Packets it left waiting.
    pub dequeue_depth_packets: u64,
    /// Generation of the queue's settings when it arrived.
    pub epoch: u64,
}

/// What became of an arriving packet.
#[derive(Debug)]
pub enum Admission<P> {
    /// Dropped and counted.
    Dropped(P),
    /// Waits; [`TrafficManager::poll`] will return it.
    Queued,
    /// The link was idle: it starts now.
    Started(Dequeued<P>),
}

/// Something that became due.
#[derive(Debug)]
pub enum Event<P> {
    /// A packet left its queue.
    Start(Dequeued<P>),
    /// A packet left the delay line of `port` at `exit_ns`: send it.
    Exit {
        /// Egress port.
        port: u16,
        /// When it was due.
        exit_ns: u64,
        /// The packet.
        packet: P,
    },
}

/// Kind of a heap entry; the order breaks ties between events of one queue at one instant.
const KIND_EXIT: u32 = 0;
const KIND_START: u32 = 1;

/// All queues of a switch. `P` is whatever the caller queues; it should be small (a pointer).
pub struct TrafficManager<P> {
    queues: Vec<Queue<P>>,
    /// Queue number of (port, priority), or `NO_QUEUE`.
    index: Vec<u16>,
    delays_ns: Vec<u64>,
    /// At most one start and one exit entry a queue: the head of `waiting` and the head of `line`. Neither time changes
    /// once it is known, so entries are never stale.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    held: usize,
    pool_limit: usize,
}

impl<P> TrafficManager<P> {
    /// A traffic manager that holds at most `pool_limit` packets in all its queues and delay lines.
    pub fn new(pool_limit: usize) -> Self {
        TrafficManager {
            queues: Vec::new(),
            index: vec![NO_QUEUE; PORTS * PRIORITIES],
            delays_ns: vec![0; PORTS],
            due: BinaryHeap::new(),
            held: 0,
            pool_limit,
        }
    }

    fn slot(port: u16, priority: u8) -> Option<usize> {
        let (port, priority) = (usize::from(port), usize::from(priority));
        (port < PORTS && priority < PRIORITIES).then_some(port * PRIORITIES + priority)
    }

    /// Number of the queue; created when it does not exist. `None`: no such port or priority in v1model.
    #[inline]
    fn queue_number(&mut self, port: u16, priority: u8) -> Option<usize> {
        let slot = Self::slot(port, priority)?;
        if self.index[slot] == NO_QUEUE {
            self.index[slot] = self.queues.len() as u16;
            self.queues.push(Queue::new(port, priority, DEFAULT_LIMIT_PACKETS));
        }
        Some(usize::from(self.index[slot]))
    }

    /// Packets held: waiting, in service or delayed.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Most packets that can be held.
    pub fn pool_limit(&self) -> usize {
        self.pool_limit
    }

    /// When the next event is due.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((time, _))| *time)
    }

    /// A packet of `length` bytes arrives at `now_ns` (every event up to `now_ns` must have been polled).
    /// `flow` is what its drop would be accounted to.
    #[inline]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        (port, priority): (u16, u8),
        length: u32,
        flow: Option<u32>,
        packet: P,
    ) -> Admission<P> {
        let Some(number) = self.queue_number(port, priority) else {
            return Admission::Dropped(packet);
        };
        let queue = &mut self.queues[number];
        if !queue.admits(length) {
            queue.count_drop(length, flow, Refusal::Limit);
            return Admission::Dropped(packet);
        }
        if self.held >= self.pool_limit {
            queue.count_drop(length, flow, Refusal::Pool);
            return Admission::Dropped(packet);
        }
        queue.count_enqueue(length);
        let waiting = Waiting {
            packet,
            length,
            enqueue_ns: now_ns,
            enqueue_depth_bytes: queue.depth_bytes,
            enqueue_depth_packets: queue.depth_packets(),
            epoch: queue.epoch,
        };
        if queue.is_idle(now_ns) {
            return Admission::Started(Self::start(queue, self.delays_ns[usize::from(port)], waiting));
        }
        if queue.waiting.is_empty() {
            self.due.push(Reverse((queue.clock.finish_ns(), (number as u32) << 1 | KIND_START)));
        }
        queue.push_waiting(waiting);
        self.held += 1;
        Admission::Queued
    }

    #[inline]
    fn start(queue: &mut Queue<P>, delay_ns: u64, waiting: Waiting<P>) -> Dequeued<P> {
        let start_ns = queue.clock.start(waiting.enqueue_ns, waiting.length);
        queue.count_dequeue(waiting.length);
        let exit_ns = (queue.clock.finish_ns() + delay_ns).max(queue.last_exit_ns);
        queue.last_exit_ns = exit_ns;
        Dequeued {
            packet: waiting.packet,
            port: queue.port,
            priority: queue.priority,
            length: waiting.length,
            enqueue_ns: waiting.enqueue_ns,
            start_ns,
            exit_ns,
            enqueue_depth_bytes: waiting.enqueue_depth_bytes,
            enqueue_depth_packets: waiting.enqueue_depth_packets,
            dequeue_depth_bytes: queue.depth_bytes,
            dequeue_depth_packets: queue.depth_packets(),
            epoch: waiting.epoch,
        }
    }

    /// Puts a dequeued packet, processed by egress, on its way. Returned: it is due at `now_ns` already, send it.
    #[inline]
    pub fn transmit(&mut self, now_ns: u64, port: u16, priority: u8, exit_ns: u64, packet: P) -> Option<P> {
        let Some(number) = self.queue_number(port, priority) else {
            return Some(packet);
        };
        let queue = &mut self.queues[number];
        if queue.line.is_empty() {
            if exit_ns <= now_ns {
                return Some(packet);
            }
            self.due.push(Reverse((exit_ns, (number as u32) << 1 | KIND_EXIT)));
        }
        queue.line.push_back((exit_ns, packet));
        self.held += 1;
        None
    }

    /// The earliest event that is due at or before `now_ns`.
    #[inline]
    pub fn poll(&mut self, now_ns: u64) -> Option<Event<P>> {
        let entry = self.due.peek_mut()?;
        let Reverse((time, id)) = *entry;
        if time > now_ns {
            return None;
        }
        let queue = self.queues.get_mut((id >> 1) as usize)?;
        self.held -= 1;
        if id & 1 == KIND_EXIT {
            let (exit_ns, packet) = queue.line.pop_front()?;
            again(entry, queue.line.front().map(|(next, _)| *next));
            return Some(Event::Exit { port: queue.port, exit_ns, packet });
        }
        let waiting = queue.pop_waiting()?;
        let dequeued = Self::start(queue, self.delays_ns[usize::from(queue.port)], waiting);
        again(entry, (!queue.waiting.is_empty()).then_some(queue.clock.finish_ns()));
        Some(Event::Start(dequeued))
    }

    /// A packet that waits in a queue, counted from the one to start next. It asks for those behind it meanwhile.
    #[inline]
    pub fn waiting(&self, port: u16, priority: u8, position: usize) -> Option<&P> {
        let queue = self.queues.get(usize::from(*self.index.get(Self::slot(port, priority)?)?))?;
        if let Some(later) = queue.waiting.get(position + 8) {
            narrows_pipeline::prefetch(later);
        }
        queue.waiting.get(position).map(|waiting| &waiting.packet)
    }

    /// Changes settings of a queue at `now_ns` (every event up to then must have been polled). Returns its new epoch.
    ///
    /// A new rate holds from the next packet to start, a new limit from the next arrival, a new delay from the next packet to
    /// start. Errors: the name of the setting that is out of range, and its range; nothing is changed then.
    pub fn configure(&mut self, (port, priority): (u16, u8), changes: Changes) -> Result<u64, String> {
        if let Some(rate) = changes.rate_bps.filter(|rate| *rate > MAX_RATE_BPS) {
            return Err(format!("rate_bps {rate}: allowed are 0 (unlimited) to {MAX_RATE_BPS}"));
        }
        if let Some(delay) = changes.delay_ns.filter(|delay| *delay > MAX_DELAY_NS) {
            return Err(format!("delay_ns {delay}: allowed are 0 to {MAX_DELAY_NS}"));
        }
        let number = self.queue_number(port, priority).ok_or_else(|| no_such_queue(port, priority))?;
        if let Some(delay_ns) = changes.delay_ns {
            self.delays_ns[usize::from(port)] = delay_ns;
            for (other, queue) in self.queues.iter_mut().enumerate() {
                queue.epoch += u64::from(queue.port == port && other != number);
            }
        }
        let queue = &mut self.queues[number];
        if let Some(rate_bps) = changes.rate_bps {
            queue.clock.set_rate(rate_bps);
        }
        queue.limit_bytes = changes.limit_bytes.unwrap_or(queue.limit_bytes);
        queue.limit_packets = changes.limit_packets.unwrap_or(queue.limit_packets);
        queue.epoch += 1;
        Ok(queue.epoch)
    }

    /// Every queue that was configured or has seen a packet, in order of port and priority.
    pub fn status(&self) -> Vec<QueueStatus> {
        let mut all: Vec<QueueStatus> = self
            .queues
            .iter()
            .map(|queue| QueueStatus {
                port: queue.port,
                priority: queue.priority,
                rate_bps: queue.clock.rate_bps(),
                limit_bytes: queue.limit_bytes,
                limit_packets: queue.limit_packets,
                delay_ns: self.delays_ns[usize::from(queue.port)],
                epoch: queue.epoch,
                depth_bytes: queue.depth_bytes,
                depth_packets: queue.depth_packets(),
                counters: queue.counters,
            })
            .collect();
        all.sort_by_key(|status| (status.port, status.priority));
        all
    }

    /// Drops of a queue by flow, in order of flow. Errors: no such port or priority in v1model.
    pub fn flow_drops(&self, port: u16, priority: u8) -> Result<Vec<(u32, Drops)>, String> {
        let slot = Self::slot(port, priority).ok_or_else(|| no_such_queue(port, priority))?;
        let Some(queue) = self.queues.get(usize::from(self.index[slot])) else {
            return Ok(Vec::new());
        };
        let mut drops: Vec<(u32, Drops)> = queue.flow_drops.iter().map(|(flow, drops)| (*flow, *drops)).collect();
        drops.sort_by_key(|(flow, _)| *flow);
        Ok(drops)
    }

    /// Discards what waits (counted as flushed) and returns it; what egress has seen stays on its way.
    pub fn flush(&mut self) -> Vec<P> {
        let mut flushed = Vec::new();
        for queue in &mut self.queues {
            while let Some(waiting) = queue.pop_waiting() {
                queue.counters.flushed_packets += 1;
                queue.counters.flushed_bytes += u64::from(waiting.length);
                self.held -= 1;
                flushed.push(waiting.packet);
            }
        }
        self.due.retain(|Reverse((_, id))| id & 1 == KIND_EXIT);
        flushed
    }
}

/// Moves a due entry to its queue's next event, or takes it out: cheaper than taking it out and putting it in again.
#[inline]
fn again(mut entry: PeekMut<Reverse<(u64, u32)>>, next: Option<u64>) {
    match next {
        Some(time) => entry.0 .0 = time,
        None => drop(PeekMut::pop(entry)),
    }
}

fn no_such_queue(port: u16, priority: u8) -> String {
    format!("port {port}, queue {priority}: allowed are ports 0 to {} and queues 0 to {}", PORTS - 1, PRIORITIES - 1)
}
