//! Traffic manager: queues, shapers and delay lines of every egress port, driven by the caller's clock.
//!
//! Nothing here reads a clock: real time and virtual time run the same code. The caller alternates [`TrafficManager::poll`]
//! up to an instant with [`TrafficManager::enqueue`] at that instant; instants never go backwards. At one instant
//! departures come before arrivals.
//!
//! Who does not need to see packets leave their delay lines in order of time over all ports, and in between what starts on
//! links, calls [`TrafficManager::poll_start`] instead, and [`TrafficManager::take_exits`] now and then.
// SPDX-License-Identifier: Apache-2.0
mod clock;
mod exits;
mod queue;
#[cfg(test)]
mod tests;

use crate::earliest::Earliest;
pub use clock::{ByteClock, MAX_RATE_BPS};
use exits::{Exits, NEVER};
use queue::{Arrival, Queue, Refusal};
pub use queue::{Counters, Drops};

/// Egress ports are 9 bits wide in v1model.
pub const PORTS: usize = 512;
/// Priorities (queues) of a port, as in `standard_metadata.priority`.
pub const PRIORITIES: usize = 8;
/// Packets that may wait in a queue that was never configured.
pub const DEFAULT_LIMIT_PACKETS: u64 = 100_000;
/// Longest constant delay of a port, in nanoseconds.
pub const MAX_DELAY_NS: u64 = 100_000_000_000;

const NO_QUEUE: u16 = u16::MAX;
/// How far ahead waiting packets are asked for.
const WAITING_AHEAD: usize = 16;

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

/// Identifies a queue of one traffic manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueNumber(u16);

/// A packet that started on its link: run egress on it, then hand it to [`TrafficManager::transmit`].
#[derive(Debug)]
pub struct Dequeued<P> {
    /// The packet.
    pub packet: P,
    /// Where it comes from; stays the same for all packets of (port, priority).
    pub queue: QueueNumber,
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

/// All queues of a switch. `P` is whatever the caller queues; it should be small (a pointer).
pub struct TrafficManager<P> {
    queues: Vec<Queue<P>>,
    /// Queue number of (port, priority), or `NO_QUEUE`.
    index: Box<[u16; PORTS * PRIORITIES]>,
    /// By queue number, when the head of `waiting` starts. Once known that does not change.
    starts: Earliest,
    /// What follows from the heads of the queues' lines.
    exits: Exits,
    held: usize,
    pool_limit: usize,
}

impl<P> TrafficManager<P> {
    /// A traffic manager that holds at most `pool_limit` packets in all its queues and delay lines.
    pub fn new(pool_limit: usize) -> Self {
        TrafficManager {
            queues: Vec::new(),
            index: Box::new([NO_QUEUE; PORTS * PRIORITIES]),
            starts: Earliest::default(),
            exits: Exits::new(),
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
        match self.index[slot] {
            NO_QUEUE => Some(self.create(slot, port, priority)),
            number => Some(usize::from(number)),
        }
    }

    #[cold]
    fn create(&mut self, slot: usize, port: u16, priority: u8) -> usize {
        let number = self.queues.len();
        self.index[slot] = number as u16;
        let exit_port = self.exits.add_queue(port, number as u16);
        self.queues.push(Queue::new(port, priority, exit_port, DEFAULT_LIMIT_PACKETS));
        self.starts.reserve(number + 1);
        number
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
        let next = self.starts.time().unwrap_or(NEVER).min(self.exits.next());
        (next != NEVER).then_some(next)
    }

    /// When the next packet leaves its delay line.
    #[inline]
    pub fn next_exit(&self) -> Option<u64> {
        Some(self.exits.next()).filter(|next| *next != NEVER)
    }

    /// A packet of `length` bytes arrives at `now_ns` (every event up to `now_ns` must have been polled).
    /// `flow` is what its drop would be accounted to.
    #[inline(always)]
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
        if queue.is_idle(now_ns) {
            let (depth_bytes, depth_packets, epoch) = (0, 0, queue.epoch);
            let arrival = Arrival { length, enqueue_ns: now_ns, depth_bytes, depth_packets, epoch };
            let delay_ns = self.exits.delay_ns(queue.exit_port);
            return Admission::Started(Self::start(queue, number, delay_ns, packet, arrival));
        }
        if queue.waiting.is_empty() {
            self.starts.set(number, Some(queue.clock.finish_ns()));
        }
        queue.push_waiting(packet, length, now_ns);
        self.held += 1;
        Admission::Queued
    }

    #[inline]
    fn start(queue: &mut Queue<P>, number: usize, delay_ns: u64, packet: P, arrival: Arrival) -> Dequeued<P> {
        let start_ns = queue.clock.start(arrival.enqueue_ns, arrival.length);
        queue.count_dequeue(arrival.length);
        let exit_ns = (queue.clock.finish_ns() + delay_ns).max(queue.last_exit_ns);
        queue.last_exit_ns = exit_ns;
        Dequeued {
            packet,
            queue: QueueNumber(number as u16),
            port: queue.port,
            priority: queue.priority,
            length: arrival.length,
            enqueue_ns: arrival.enqueue_ns,
            start_ns,
            exit_ns,
            enqueue_depth_bytes: arrival.depth_bytes,
            enqueue_depth_packets: arrival.depth_packets,
            dequeue_depth_bytes: queue.depth_bytes,
            dequeue_depth_packets: queue.depth_packets(),
            epoch: arrival.epoch,
        }
    }

    /// Puts a dequeued packet, processed by egress, on its way. Returned: it is due at `now_ns` already, send it. (What else
    /// is due on its port then must have been taken: see [`TrafficManager::has_exit`].)
    #[inline]
    pub fn transmit(&mut self, now_ns: u64, queue: QueueNumber, exit_ns: u64, packet: P) -> Option<P> {
        let Some(queue) = self.queues.get_mut(usize::from(queue.0)) else {
            return Some(packet);
        };
        if exit_ns <= now_ns && self.exits.head(queue.exit_port) > now_ns {
            return Some(packet);
        }
        self.exits.pushed(queue.exit_port, exit_ns);
        queue.line.push_back((exit_ns, packet));
        self.held += 1;
        None
    }

    /// Whether a packet is due on the port of this queue at `now_ns` that was not taken yet.
    #[inline]
    pub fn has_exit(&self, now_ns: u64, queue: QueueNumber) -> bool {
        let queue = self.queues.get(usize::from(queue.0));
        queue.is_some_and(|queue| self.exits.head(queue.exit_port) <= now_ns)
    }

    /// The earliest event that is due at or before `now_ns`; at one instant in order of the queues' numbers.
    pub fn poll(&mut self, now_ns: u64) -> Option<Event<P>> {
        let due = self.next_due().filter(|due| *due <= now_ns)?;
        let start = self.starts.first().filter(|(time, _)| *time == due);
        let exit = self.exits.first(&self.queues).filter(|(time, _)| *time == due);
        match (start, exit) {
            (Some((_, start)), exit) if exit.is_none_or(|(_, exit)| start < exit) => {
                self.poll_start(now_ns).map(Event::Start)
            }
            (_, Some((_, number))) => {
                let (exit_ns, packet) = self.exits.pop(&mut self.queues, number)?;
                self.held -= 1;
                Some(Event::Exit { port: self.queues[number].port, exit_ns, packet })
            }
            _ => None,
        }
    }

    /// The earliest packet to start on its link at or before `now_ns`.
    #[inline]
    pub fn poll_start(&mut self, now_ns: u64) -> Option<Dequeued<P>> {
        let (_, number) = self.starts.first().filter(|(time, _)| *time <= now_ns)?;
        let queue = self.queues.get_mut(number)?;
        let (packet, arrival) = queue.pop_waiting()?;
        self.held -= 1;
        let delay_ns = self.exits.delay_ns(queue.exit_port);
        let dequeued = Self::start(queue, number, delay_ns, packet, arrival);
        self.starts.set(number, (!queue.waiting.is_empty()).then_some(queue.clock.finish_ns()));
        Some(dequeued)
    }

    /// Takes all packets that leave their delay lines until `now_ns`: port, exit time and packet, of each port in order of
    /// time.
    #[inline]
    pub fn take_exits(&mut self, now_ns: u64, mut take: impl FnMut(u16, u64, P)) {
        let held = &mut self.held;
        self.exits.take_due(&mut self.queues, now_ns, |port, exit_ns, packet| {
            *held -= 1;
            take(port, exit_ns, packet);
        });
    }

    /// Packets that wait in a queue, at positions counted from the one to start next. It asks for those behind them meanwhile.
    #[inline]
    pub fn waiting<const N: usize>(&self, queue: QueueNumber, positions: [usize; N]) -> [Option<&P>; N] {
        let waiting = self.queues.get(usize::from(queue.0)).map(|queue| &queue.waiting);
        if let Some(later) = waiting.and_then(|waiting| waiting.get(WAITING_AHEAD)) {
            narrows_pipeline::prefetch(later);
        }
        positions.map(|position| Some(&waiting?.get(position)?.0))
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
            for other in self.exits.set_delay(self.queues[number].exit_port, delay_ns) {
                let other = usize::from(*other);
                self.queues[other].epoch += u64::from(other != number);
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
                delay_ns: self.exits.delay_ns(queue.exit_port),
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
        for (number, queue) in self.queues.iter_mut().enumerate() {
            self.starts.set(number, None);
            while let Some((packet, arrival)) = queue.pop_waiting() {
                queue.counters.flushed_packets += 1;
                queue.counters.flushed_bytes += u64::from(arrival.length);
                self.held -= 1;
                flushed.push(packet);
            }
        }
        flushed
    }
}

fn no_such_queue(port: u16, priority: u8) -> String {
    format!("port {port}, queue {priority}: allowed are ports 0 to {} and queues 0 to {}", PORTS - 1, PRIORITIES - 1)
}
