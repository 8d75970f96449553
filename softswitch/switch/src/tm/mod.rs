//! Traffic manager: queues, shapers and delay lines of every egress port, driven by the caller's clock.
//!
//! Nothing here reads a clock: real time and virtual time run the same code. The caller alternates [`TrafficManager::poll`]
//! up to an instant with [`TrafficManager::enqueue`] at that instant; instants never go backwards. At one instant
//! departures come before arrivals.
//!
//! A caller that does not need to see packets leave their delay lines in order of time over all ports, and in between what starts on
//! links, calls [`TrafficManager::poll_start`] instead, and [`TrafficManager::take_exits`] now and then. Where some ports are
//! loopbacks, what leaves these comes in again and has its place among the starts: [`TrafficManager::poll_inside`].
// SPDX-License-Identifier: Apache-2.0
mod ack_filter;
mod aggregation;
mod clock;
mod control;
mod curve;
mod exits;
mod framing;
mod management;
mod policer;
mod queue;
mod queued;
mod scheduler;
mod shaper;
#[cfg(test)]
mod tests;

use narrows_pipeline::EgressMeta;

use crate::earliest::Earliest;
use crate::line::Delay;
pub use ack_filter::Ack;
pub use aggregation::AggregationSettings;
pub use clock::{ByteClock, MAX_RATE_BPS};
pub use control::{Changes, DelayChange, QueueStatus, RateSchedule};
pub use curve::{Curve, Opportunities, Rate, Schedule, Steps, NEVER};
use exits::Exits;
pub use framing::{Framing, LinkLayer};
pub use management::{Management, QueueState, Tick};
pub use policer::{BucketSettings, PolicerSettings};
use queue::{Arrival, Queue, Refusal};
pub use queue::{Counters, Drops, FlowCause};
use queued::Queued;
pub use scheduler::Scheduling;
pub use shaper::Shaper;

/// Port numbers are below this: of v1model's 9 bits, 511 says drop.
pub const PORTS: usize = 511;
/// The port of the program by which the timer's frames come in: no packet can come in by the one that says drop.
pub const TIMER_PORT: u16 = PORTS as u16;
/// Priorities (queues) of a port, as in `standard_metadata.priority`.
pub const PRIORITIES: usize = 8;
/// Packets that may wait in a queue that was never configured.
pub const DEFAULT_LIMIT_PACKETS: u64 = 100_000;
/// Longest constant delay of a port, in nanoseconds.
pub const MAX_DELAY_NS: u64 = 100_000_000_000;

const NO_QUEUE: u16 = u16::MAX;
/// How far ahead waiting packets are asked for.
const WAITING_AHEAD: usize = 16;

/// Identifies a queue of one traffic manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueNumber(u16);

/// A packet that started on its link: run egress on it with [`TrafficManager::meta`], then hand it to [`TrafficManager::delay`].
#[derive(Debug)]
pub struct Dequeued<P> {
    /// The packet.
    pub packet: P,
    /// Where it comes from; stays the same for all packets of (port, priority).
    pub queue: QueueNumber,
    /// When its last bit leaves the delay line.
    pub exit_ns: u64,
    /// The program manages the queue: if egress lets it pass, [`TrafficManager::spend`] says when it leaves.
    pub managed: bool,
}

/// A packet that waited and was dropped when another came.
#[derive(Debug)]
pub struct PushedOut<P> {
    /// Where it waited.
    pub queue: QueueNumber,
    /// Since when.
    pub enqueue_ns: u64,
    /// The other made it redundant; else it made room.
    pub redundant: bool,
    /// The packet.
    pub packet: P,
}

/// What became of an arriving packet.
#[derive(Debug)]
pub enum Admission<P> {
    /// There was no room: dropped and counted.
    Dropped(P),
    /// The policer dropped and counted it.
    Policed(P),
    /// There is no such port or queue; counted nowhere.
    NoQueue(P),
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
    /// By queue number, when the head of `fifo` starts. Once known that changes only with the link's rate.
    starts: Earliest,
    /// By queue number, when the next frame of its timer is due.
    ticks: Earliest,
    /// The earliest of them.
    next_tick_ns: u64,
    /// The program manages some queue.
    manages: bool,
    /// What a packet acknowledges.
    acks: fn(&P) -> Option<Ack>,
    /// Packets that were dropped as others came, and are to be counted.
    pushed_out: Vec<PushedOut<P>>,
    meta: EgressMeta,
    /// What follows from the heads of the lines of queues whose packets leave the switch.
    exits: Exits,
    loopbacks: Box<[bool; PORTS]>,
    /// By position of the port among those of `exits`.
    delays: Vec<Delay>,
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
            ticks: Earliest::default(),
            next_tick_ns: NEVER,
            manages: false,
            acks: |_| None,
            pushed_out: Vec::new(),
            meta: EgressMeta::default(),
            exits: Exits::new(),
            loopbacks: Box::new([false; PORTS]),
            delays: Vec::new(),
            held: 0,
            pool_limit,
        }
    }

    /// Says what packets acknowledge, for queues that filter acknowledgements.
    pub fn read_acks(&mut self, acks: fn(&P) -> Option<Ack>) {
        self.acks = acks;
    }

    /// Makes a port a loopback, before it has a queue.
    pub fn set_loopback(&mut self, port: u16) {
        if let Some(loopback) = self.loopbacks.get_mut(usize::from(port)) {
            *loopback = true;
        }
    }

    #[inline(always)]
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
        let exit_port = self.exits.add_queue(port, number as u16, self.loopbacks[usize::from(port)]);
        if exit_port == self.delays.len() {
            self.delays.push(Delay::default());
        }
        self.queues.push(Queue::new(port, priority, exit_port, &self.delays[exit_port], DEFAULT_LIMIT_PACKETS));
        self.starts.reserve(number + 1);
        number
    }

    /// What egress sees of the packet that started last; the timestamp is its start on the link, by the byte clock. It is
    /// written where egress reads it: as a part of [`Dequeued`] it would be copied twice on its way there.
    #[inline]
    pub fn meta(&self) -> &EgressMeta {
        &self.meta
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
        self.next_inside().into_iter().chain(self.next_exit()).min()
    }

    /// When the next packet starts on its link or comes in again.
    #[inline]
    pub fn next_inside(&self) -> Option<u64> {
        let next = self.starts.time().unwrap_or(NEVER).min(self.exits.next_return());
        (next != NEVER).then_some(next)
    }

    /// When the next packet that waits starts on its link.
    pub fn next_start(&self) -> Option<u64> {
        self.starts.time()
    }

    /// When the next packet leaves the switch.
    #[inline]
    pub fn next_exit(&self) -> Option<u64> {
        Some(self.exits.next()).filter(|next| *next != NEVER)
    }

    /// The short path of most packets: one of `length` bytes that arrives at `now_ns` (as for
    /// [`TrafficManager::enqueue`]) starts at once, at a link that is idle and whose delay does not vary. `flow` is
    /// only asked for where it matters. Error: the packet, which has to be enqueued; nothing has happened.
    #[inline(always)]
    pub fn start_idle(
        &mut self,
        now_ns: u64,
        (port, priority): (u16, u8),
        rid: u16,
        length: u32,
        flow: impl FnOnce(&P) -> Option<u32>,
        packet: P,
    ) -> Result<Dequeued<P>, P> {
        let number = Self::slot(port, priority).map_or(NO_QUEUE, |slot| self.index[slot]);
        let room = self.held < self.pool_limit;
        let Some(queue) = self.queues.get_mut(usize::from(number)).filter(|_| room) else {
            return Err(packet);
        };
        let Some(exit_ns) = queue.start_idle(now_ns, length, priority, || flow(&packet)) else {
            return Err(packet);
        };
        self.meta = queue.arriving(now_ns, rid);
        Ok(Dequeued { packet, queue: QueueNumber(number), exit_ns, managed: queue.management.is_some() })
    }

    /// A packet of `length` bytes arrives at `now_ns` (every event up to `now_ns` must have been polled). `rid` is its replica
    /// id, `flow` is what its drop would be accounted to.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        (port, priority): (u16, u8),
        rid: u16,
        length: u32,
        flow: Option<u32>,
        packet: P,
    ) -> Admission<P> {
        self.enqueue_or_mark(now_ns, (port, priority), rid, length, flow, (packet, |_| false))
    }

    /// The same of a packet that `mark` can mark: it is asked to where a policer marks what exceeds it, and says whether it has.
    #[inline(always)]
    pub fn enqueue_or_mark(
        &mut self,
        now_ns: u64,
        (port, priority): (u16, u8),
        rid: u16,
        length: u32,
        flow: Option<u32>,
        (mut packet, mark): (P, impl FnOnce(&mut P) -> bool),
    ) -> Admission<P> {
        let Some(number) = self.queue_number(port, priority) else {
            return Admission::NoQueue(packet);
        };
        let queue = &mut self.queues[number];
        let arrival = Arrival { now_ns, priority, rid, length, flow };
        let passes = queue.passes_policer(now_ns, length) || (queue.marks_excess() && mark(&mut packet));
        if !passes {
            queue.count_drop(length, flow, Refusal::Policer);
            return Admission::Policed(packet);
        }
        if queue.ack_filter().is_some() {
            self.filter_acks(number, arrival, &packet);
        }
        let queue = &mut self.queues[number];
        if !queue.admits(length) {
            if queue.pushes_out(length) {
                return self.push_out(number, arrival, packet);
            }
            queue.count_drop(length, flow, Refusal::Limit);
            return Admission::Dropped(packet);
        }
        if self.held >= self.pool_limit {
            queue.count_drop(length, flow, Refusal::Pool);
            return Admission::Dropped(packet);
        }
        queue.count_enqueue(length);
        if queue.is_empty() {
            let start_ns = queue.shaper.ready_ns(now_ns);
            if start_ns <= now_ns {
                queue.pass_idle(priority, || flow);
                self.meta = queue.arriving(now_ns, rid);
                let managed = queue.management.is_some();
                let exit_ns = if managed { NEVER } else { queue.start_link(now_ns, length, &mut self.delays) };
                let queue = QueueNumber(number as u16);
                return Admission::Started(Dequeued { packet, queue, exit_ns, managed });
            }
            self.starts.set(number, ever(start_ns));
        }
        queue.push_waiting(packet, arrival);
        self.held += 1;
        Admission::Queued
    }

    /// Spends the link's time on a packet of a managed queue that egress has let pass. Returns when it leaves the delay line.
    #[inline(always)]
    pub fn spend(&mut self, queue: QueueNumber, start_ns: u64, length: u32) -> u64 {
        let number = usize::from(queue.0);
        let queue = &mut self.queues[number];
        let exit_ns = queue.start_link(start_ns, length, &mut self.delays);
        // Where nothing waits, nothing starts: that was known when the packet was taken.
        if !queue.is_empty() {
            self.starts.set(number, queue.next_start());
        }
        self.settle_exits(number);
        exit_ns
    }

    /// The same of one that [`TrafficManager::start_idle`] has started; and the state of its queue, as
    /// [`TrafficManager::managed_idle`] says it.
    #[inline(always)]
    pub fn spend_idle(&mut self, queue: QueueNumber, start_ns: u64, length: u32) -> (u64, Option<(u32, u64)>) {
        let queue = &mut self.queues[usize::from(queue.0)];
        let exit_ns = queue.start_plain(start_ns, length);
        (exit_ns, queue.idle_state())
    }

    /// Counts a packet of a managed queue that egress has dropped. It has cost the link nothing.
    pub fn count_managed_drop(&mut self, queue: QueueNumber, length: u32, flow: Option<u32>) {
        self.queues[usize::from(queue.0)].count_managed_drop(length, flow);
        self.pass_over(queue);
    }

    /// A packet of a managed queue does not start: it may have been the last one that a burst could still have had.
    #[inline(always)]
    pub fn pass_over(&mut self, queue: QueueNumber) {
        let number = usize::from(queue.0);
        if self.queues[number].end_burst().is_some() {
            self.starts.set(number, self.queues[number].next_start());
            self.settle_exits(number);
        }
    }

    /// The packets of a burst know when they leave once it has ended.
    #[inline(always)]
    fn settle_exits(&mut self, number: usize) {
        let queue = &self.queues[number];
        if queue.aggregation().is_some() {
            self.exits.refresh(queue.exit_port, &self.queues);
        }
    }

    /// Drops what a packet makes redundant that is admitted then.
    #[cold]
    fn filter_acks(&mut self, number: usize, arrival: Arrival, packet: &P) {
        let Some(ack) = (self.acks)(packet).filter(|_| arrival.flow.is_some() && self.held < self.pool_limit) else {
            return;
        };
        let queue = &mut self.queues[number];
        let acks = self.acks;
        for waited in
            queue.take_redundant(arrival, |other| acks(other).is_some_and(|other| ack.makes_redundant(&other)))
        {
            self.held -= 1;
            let (queue, enqueue_ns) = (QueueNumber(number as u16), waited.enqueue_ns);
            self.pushed_out.push(PushedOut { queue, enqueue_ns, redundant: true, packet: waited.packet });
        }
    }

    /// A packet that finds no room takes the place of others.
    #[cold]
    fn push_out(&mut self, number: usize, arrival: Arrival, packet: P) -> Admission<P> {
        // Its link is busy, or closed: something waits.
        let queue = &mut self.queues[number];
        if self.held >= self.pool_limit {
            queue.count_drop(arrival.length, arrival.flow, Refusal::Pool);
            return Admission::Dropped(packet);
        }
        queue.count_enqueue(arrival.length);
        let (held, pushed_out) = (&mut self.held, &mut self.pushed_out);
        let mut drop = |waited: Queued<P>| {
            *held -= 1;
            let (queue, enqueue_ns) = (QueueNumber(number as u16), waited.enqueue_ns);
            pushed_out.push(PushedOut { queue, enqueue_ns, redundant: false, packet: waited.packet });
        };
        if queue.is_fair() {
            // The arriving packet counts when the longest queue is looked for.
            queue.push_waiting(packet, arrival);
            queue.push_out(0, 0, &mut drop);
        } else {
            queue.push_out(arrival.length, 1, &mut drop);
            queue.push_waiting(packet, arrival);
        }
        self.held += 1;
        self.starts.set(number, queue.next_start());
        Admission::Queued
    }

    /// A packet that was dropped as another came and is not yet counted, which [`TrafficManager::count_pushed_out`] does.
    #[inline]
    pub fn next_pushed_out(&mut self) -> Option<PushedOut<P>> {
        self.pushed_out.pop()
    }

    /// Counts a packet that was dropped as another came, which made it `redundant` or found no room.
    pub fn count_pushed_out(&mut self, queue: QueueNumber, redundant: bool, length: u32, flow: Option<u32>) {
        let queue = &mut self.queues[usize::from(queue.0)];
        if redundant {
            queue.count_drop(length, flow, Refusal::Redundant);
        } else {
            queue.count_pushed_out(length, flow);
        }
    }

    /// Bytes and packets that wait in a queue; none if there is no such queue.
    pub fn depth(&self, port: u16, priority: u8) -> (u64, u64) {
        let number = Self::slot(port, priority).map_or(NO_QUEUE, |slot| self.index[slot]);
        self.queues.get(usize::from(number)).map_or((0, 0), |queue| (queue.depth_bytes, queue.depth_packets()))
    }

    /// Puts a dequeued packet, processed by egress, on its way. It need not be put there if it is due already and nothing that
    /// is due on its port comes before it: see [`TrafficManager::has_exit`].
    #[inline(always)]
    pub fn delay(&mut self, queue: QueueNumber, exit_ns: u64, packet: P) {
        let Some(queue) = self.queues.get_mut(usize::from(queue.0)) else {
            return;
        };
        self.exits.pushed(queue.exit_port, exit_ns);
        queue.put(exit_ns, packet);
        self.held += 1;
    }

    /// Whether the packet of this queue that started last leaves its delay line twice, by the line's model: to be asked once.
    #[inline]
    pub fn doubles(&mut self, queue: QueueNumber) -> bool {
        let queue = self.queues.get(usize::from(queue.0)).filter(|queue| queue.varies);
        queue.is_some_and(|queue| self.delays[queue.exit_port].doubles())
    }

    /// When the copy of that packet leaves, which has been put on its way itself; `flow` is what the copy is accounted to.
    pub fn double(&mut self, queue: QueueNumber, length: u32, flow: Option<u32>) -> u64 {
        let queue = &mut self.queues[usize::from(queue.0)];
        queue.double(length, flow, &mut self.delays[queue.exit_port])
    }

    /// Whether a packet is due on the port of this queue at `now_ns` that was not taken yet.
    #[inline]
    pub fn has_exit(&self, now_ns: u64, queue: QueueNumber) -> bool {
        let queue = self.queues.get(usize::from(queue.0));
        queue.is_some_and(|queue| self.exits.head(queue.exit_port) <= now_ns)
    }

    /// The earliest packet to start on its link or to come in again at or before `now_ns`; at one instant in order of the
    /// queues' numbers.
    #[inline]
    pub fn poll_inside(&mut self, now_ns: u64) -> Option<Event<P>> {
        let due = self.next_inside().filter(|due| *due <= now_ns)?;
        let start = self.starts.first().filter(|(time, _)| *time == due);
        let exit = self.exits.first_return(&self.queues).filter(|(time, _)| *time == due);
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

    /// Whether a packet starts on its link at or before `now_ns`.
    #[inline]
    pub fn has_start(&self, now_ns: u64) -> bool {
        self.starts.until(now_ns).is_some()
    }

    /// The earliest packet to start on its link at or before `now_ns`.
    #[inline]
    pub fn poll_start(&mut self, now_ns: u64) -> Option<Dequeued<P>> {
        let (_, number) = self.starts.until(now_ns)?;
        let queue = self.queues.get_mut(number)?;
        // What is taken from a queue here, and not started, has cost its link no time: a queue that drops its head goes on with
        // the next one at the same instant.
        let waited = queue.pop()?;
        self.held -= 1;
        self.meta = queue.waited(&waited);
        let (managed, start_ns) = (queue.management.is_some(), self.meta.timestamp);
        let exit_ns = if managed { NEVER } else { queue.start_link(start_ns, waited.length, &mut self.delays) };
        self.starts.set(number, queue.next_start());
        self.settle_exits(number);
        Some(Dequeued { packet: waited.packet, queue: QueueNumber(number as u16), exit_ns, managed })
    }

    /// Takes all packets that leave their delay lines until `now_ns`: port, exit time and packet, of each port in order of
    /// time. Shows `upcoming` the packets that will be taken soon, and those after them.
    #[inline]
    pub fn take_exits(&mut self, now_ns: u64, upcoming: impl Fn([Option<&P>; 2]), mut take: impl FnMut(u16, u64, P)) {
        let held = &mut self.held;
        self.exits.take_due(&mut self.queues, now_ns, upcoming, |port, exit_ns, packet| {
            *held -= 1;
            take(port, exit_ns, packet);
        });
    }

    /// Packets that wait in a queue, at positions counted from the one to start next. It asks for those behind them meanwhile.
    #[inline]
    pub fn peek<const N: usize>(&self, queue: QueueNumber, positions: [usize; N]) -> [Option<&P>; N] {
        let queue = self.queues.get(usize::from(queue.0));
        if let Some(later) = queue.and_then(|queue| queue.peek(WAITING_AHEAD)) {
            narrows_pipeline::prefetch(later);
        }
        positions.map(|position| Some(&queue?.peek(position)?.packet))
    }
}

/// A time that will come.
#[inline]
fn ever(time_ns: u64) -> Option<u64> {
    (time_ns != NEVER).then_some(time_ns)
}
