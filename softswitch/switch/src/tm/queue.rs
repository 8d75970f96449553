//! One FIFO of the traffic manager: limits, shaper, and the line of packets on their way to the interface.
// SPDX-License-Identifier: Apache-2.0
use std::collections::{HashMap, VecDeque};

use narrows_pipeline::EgressMeta;

use super::aggregation::{Aggregation, AggregationSettings};
use super::curve::NEVER;
use super::framing::Framing;
use super::management::{scheduling_of, Management, QueueState};
use super::policer::{Policer, PolicerSettings};
use super::queued::{telemetry_qdepth, Queued};
use super::scheduler::{Scheduler, Scheduling};
use super::shaper::Shaper;
use crate::line::Delay;

/// Packets and bytes of one flow that a queue dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets dropped.
    pub packets: u64,
    /// Bytes dropped.
    pub bytes: u64,
}

/// Packets by flow. A flow is a field of the program of up to 32 bits, so what they take is bounded here.
#[derive(Debug, Default)]
pub(super) struct ByFlow {
    known: HashMap<u32, Drops>,
    /// A packet was left out: it was of one more flow than are counted.
    overflown: bool,
}

/// Flows of a queue whose packets are counted separately, at most: some 50 MiB for each cause.
pub const MAX_DROPPED_FLOWS: usize = 1 << 20;

impl ByFlow {
    fn count(&mut self, flow: Option<u32>, length: u32) {
        let Some(flow) = flow else {
            return;
        };
        if self.known.len() >= MAX_DROPPED_FLOWS && !self.known.contains_key(&flow) {
            self.overflown = true;
            return;
        }
        let drops = self.known.entry(flow).or_default();
        drops.packets += 1;
        drops.bytes += u64::from(length);
    }

    /// All flows, in no order; `None` if some were left out.
    pub fn all(&self) -> Option<Vec<(u32, Drops)>> {
        (!self.overflown).then(|| self.known.iter().map(|(flow, drops)| (*flow, *drops)).collect())
    }
}

/// Counters of one queue. `enqueued = dequeued + flushed + pushed out + redundant + managed drops + waiting`, in packets and in
/// bytes, at any instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Admitted packets.
    pub enqueued_packets: u64,
    /// Admitted bytes.
    pub enqueued_bytes: u64,
    /// Packets started on the link.
    pub dequeued_packets: u64,
    /// Bytes started on the link.
    pub dequeued_bytes: u64,
    /// Packets dropped on arrival, for whatever reason.
    pub dropped_packets: u64,
    /// Bytes dropped on arrival, for whatever reason.
    pub dropped_bytes: u64,
    /// Part of `dropped_packets` that the full packet pool caused.
    pub pool_dropped_packets: u64,
    /// Part of `dropped_packets` that the policer caused.
    pub policed_packets: u64,
    /// Their bytes.
    pub policed_bytes: u64,
    /// Acknowledgements that waited and became redundant; part of `dropped_packets`.
    pub redundant_packets: u64,
    /// Their bytes.
    pub redundant_bytes: u64,
    /// Packets that waited and were dropped, to make room for others or with the whole head of the queue; part of
    /// `dropped_packets`.
    pub pushed_out_packets: u64,
    /// Their bytes.
    pub pushed_out_bytes: u64,
    /// Packets that the program dropped before the link's time was spent.
    pub managed_drop_packets: u64,
    /// Their bytes.
    pub managed_drop_bytes: u64,
    /// Admitted packets discarded by [`super::TrafficManager::flush`].
    pub flushed_packets: u64,
    /// Admitted bytes discarded by [`super::TrafficManager::flush`].
    pub flushed_bytes: u64,
    /// Most bytes that ever waited at once.
    pub peak_depth_bytes: u64,
    /// Most packets that ever waited at once.
    pub peak_depth_packets: u64,
    /// Packets that left the delay line twice.
    pub duplicated_packets: u64,
}

/// Causes by which each flow's packets are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowCause {
    /// There was no room: the queue was full, or the pool.
    Tail,
    /// Dropped by the program before the link's time was spent.
    Managed,
    /// Dropped by the policer before the queue.
    Policed,
    /// Acknowledgements that later ones made redundant.
    Redundant,
    /// Left the delay line twice.
    Duplicate,
}

/// A packet as it arrives at a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub now_ns: u64,
    pub priority: u8,
    pub rid: u16,
    pub length: u32,
    pub flow: Option<u32>,
}

/// Why an arriving packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Limit,
    Pool,
    Policer,
    /// It was not refused, but another has come that says all that it does.
    Redundant,
}

pub(super) struct Queue<P> {
    pub port: u16,
    pub priority: u8,
    /// Position of the port among those of [`super::exits::Exits`].
    pub exit_port: usize,
    /// The port's delay, as long as it does not vary: the same in all its queues.
    pub delay_ns: u64,
    /// It varies, or did when packets came into the line that leave after the next one: see [`Delay`].
    pub varies: bool,
    /// 0: no limit.
    pub limit_bytes: u64,
    /// 0: no limit.
    pub limit_packets: u64,
    epoch: u64,
    /// The epoch as telemetry carries it.
    telemetry_epoch: u16,
    pub shaper: Shaper,
    /// What frames take on the link.
    pub framing: Framing,
    /// A full queue drops its oldest packets, not the newest.
    pub head_drop: bool,
    /// Acknowledgements that arrive make others redundant; so many of these stay.
    ack_filter: Option<u64>,
    /// In front of the queue.
    policer: Option<Box<Policer>>,
    /// What waits leaves in bursts.
    aggregation: Option<Box<Aggregation>>,
    /// The program manages it.
    pub management: Option<Management>,
    fifo: VecDeque<Queued<P>>,
    /// Holds what waits in its place, where several queues share the link.
    scheduler: Option<Box<Scheduler<P>>>,
    pub depth_bytes: u64,
    /// In service or delayed: exit time (ascending) and packet.
    pub delay_line: VecDeque<(u64, P)>,
    /// The packet that started last, and when its last bit has passed the link.
    last: Placed,
    finish_ns: u64,
    /// Its copy, if it leaves twice.
    copy: Option<Placed>,
    /// Those of departures follow from the others: see [`Queue::counters`].
    counters: Counters,
    flow_drops: ByFlow,
    flow_managed_drops: ByFlow,
    flow_policed: ByFlow,
    flow_redundant: ByFlow,
    flow_duplicates: ByFlow,
}

/// A packet's place in the delay line.
#[derive(Debug, Clone, Copy, Default)]
struct Placed {
    /// When it leaves. Later packets never overtake, also when the delay shrinks, unless the line reorders.
    exit_ns: u64,
    jitter_ns: i64,
    /// It has been put there.
    there: bool,
}

#[cfg(test)]
impl<P> Queued<P> {
    pub fn of(packet: P, length: u32) -> Self {
        Queued { packet, enqueue_ns: 0, length, depth_bytes: 0, depth_packets: 0, epoch: 0, rid: 0 }
    }
}

impl<P> Queue<P> {
    pub fn new(port: u16, priority: u8, exit_port: usize, delay: &Delay, limit_packets: u64) -> Self {
        Queue {
            port,
            priority,
            exit_port,
            delay_ns: delay.delay_ns,
            varies: delay.varies(),
            limit_bytes: 0,
            limit_packets,
            epoch: 1,
            telemetry_epoch: telemetry_epoch(1),
            shaper: Shaper::default(),
            framing: Framing::default(),
            head_drop: false,
            ack_filter: None,
            policer: None,
            aggregation: None,
            management: None,
            fifo: VecDeque::new(),
            scheduler: None,
            depth_bytes: 0,
            delay_line: VecDeque::new(),
            last: Placed::default(),
            finish_ns: 0,
            copy: None,
            counters: Counters::default(),
            flow_drops: ByFlow::default(),
            flow_managed_drops: ByFlow::default(),
            flow_policed: ByFlow::default(),
            flow_redundant: ByFlow::default(),
            flow_duplicates: ByFlow::default(),
        }
    }

    #[inline]
    pub fn depth_packets(&self) -> u64 {
        match &self.scheduler {
            None => self.fifo.len() as u64,
            Some(scheduler) => scheduler.len() as u64,
        }
    }

    /// Packets left in the queue, of several the one, that the last packet came from.
    fn left_packets(&self) -> u64 {
        match &self.scheduler {
            None => self.depth_packets(),
            Some(scheduler) => scheduler.left_packets() as u64,
        }
    }

    /// Generation of the settings.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Settings have changed.
    pub fn start_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.telemetry_epoch = telemetry_epoch(self.epoch);
        self.epoch
    }

    pub fn counters(&self) -> Counters {
        let all = self.counters;
        let other_packets =
            all.flushed_packets + all.pushed_out_packets + all.redundant_packets + all.managed_drop_packets;
        let other_bytes = all.flushed_bytes + all.pushed_out_bytes + all.redundant_bytes + all.managed_drop_bytes;
        Counters {
            dequeued_packets: all.enqueued_packets - other_packets - self.depth_packets(),
            dequeued_bytes: all.enqueued_bytes - other_bytes - self.depth_bytes,
            ..all
        }
    }

    /// Polices what arrives from `now_ns` on, with full buckets; or no more.
    pub fn set_policer(&mut self, settings: Option<PolicerSettings>, now_ns: u64) {
        self.policer = settings.map(|settings| Box::new(Policer::new(settings, now_ns)));
    }

    /// What the policer in front of the queue lets pass.
    pub fn policer(&self) -> Option<PolicerSettings> {
        self.policer.as_ref().map(|policer| policer.settings())
    }

    /// Whether the policer, if there is one, lets a packet pass.
    #[inline(always)]
    pub fn passes_policer(&mut self, now_ns: u64, length: u32) -> bool {
        self.policer.as_mut().is_none_or(|policer| policer.passes(now_ns, length))
    }

    /// Whether what the policer does not let pass is to be marked.
    pub fn marks_excess(&self) -> bool {
        self.policer().is_some_and(|policer| policer.marks)
    }

    /// Acknowledgements that arrive from now on drop those that they make redundant, but for so many; or none.
    pub fn set_ack_filter(&mut self, keep: Option<u64>) {
        self.ack_filter = keep;
    }

    /// How many of those stay; `None`: all.
    pub fn ack_filter(&self) -> Option<u64> {
        self.ack_filter
    }

    /// Takes out what an arriving packet makes redundant, the oldest first, if that finds room then. It is to be put there at once.
    pub fn take_redundant(&mut self, arrival: Arrival, is_redundant: impl Fn(&P) -> bool) -> Vec<Queued<P>> {
        let above = arrival.priority - self.priority;
        let link_queue = self.scheduler.as_ref().map_or(0, |all| all.queue_of(above, arrival.flow));
        let waiting = match &self.scheduler {
            None => &self.fifo,
            Some(scheduler) => scheduler.waiting(link_queue),
        };
        let found = waiting.iter().enumerate().filter(|(_, queued)| is_redundant(&queued.packet));
        let mut positions: Vec<(usize, u32)> = found.map(|(position, queued)| (position, queued.length)).collect();
        let keep = usize::try_from(self.ack_filter.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        positions.truncate(positions.len().saturating_sub(keep));
        let taken_bytes: u64 = positions.iter().map(|(_, length)| u64::from(*length)).sum();
        if !self.has_room_without((positions.len() as u64, taken_bytes), arrival.length, 1) {
            return Vec::new();
        }
        let mut taken = Vec::with_capacity(positions.len());
        // From the last on, so that the others stay where they are.
        for (position, length) in positions.into_iter().rev() {
            let queued = match &mut self.scheduler {
                None => self.fifo.remove(position),
                Some(scheduler) => scheduler.remove(link_queue, position),
            };
            self.depth_bytes -= u64::from(length);
            taken.extend(queued);
        }
        taken
    }

    /// What waits leaves in such bursts from now on; or packet by packet. No burst is on the link.
    pub fn set_aggregation(&mut self, settings: Option<AggregationSettings>) {
        self.aggregation = settings.map(|settings| Box::new(Aggregation::new(settings)));
    }

    /// The bursts in which what waits leaves.
    pub fn aggregation(&self) -> Option<AggregationSettings> {
        self.aggregation.as_ref().map(|aggregation| aggregation.settings())
    }

    /// Tail drop decision for an arriving packet of `length` bytes.
    #[inline]
    pub fn admits(&self, length: u32) -> bool {
        self.has_room(length, 1)
    }

    /// Whether a packet that does not fit drops others that wait. One that never fits drops none.
    pub fn pushes_out(&self, length: u32) -> bool {
        let fits = self.limit_bytes == 0 || u64::from(length) <= self.limit_bytes;
        (self.head_drop || self.is_fair()) && fits && !self.is_empty()
    }

    /// Several queues share the link in turn.
    pub fn is_fair(&self) -> bool {
        matches!(scheduling_of(self.management), Scheduling::Fair { .. })
    }

    /// Whether there is room for that much more.
    #[inline]
    fn has_room(&self, bytes: u32, packets: u64) -> bool {
        self.has_room_without((0, 0), bytes, packets)
    }

    /// The same if so many packets and bytes that wait did not.
    #[inline]
    fn has_room_without(&self, (less_packets, less_bytes): (u64, u64), bytes: u32, packets: u64) -> bool {
        let (depth_packets, depth_bytes) = (self.depth_packets() - less_packets, self.depth_bytes - less_bytes);
        (self.limit_bytes == 0 || depth_bytes + u64::from(bytes) <= self.limit_bytes)
            && (self.limit_packets == 0 || depth_packets + packets <= self.limit_packets)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.depth_packets() == 0
    }

    #[cold]
    pub fn count_drop(&mut self, length: u32, flow: Option<u32>, refusal: Refusal) {
        self.counters.dropped_packets += 1;
        self.counters.dropped_bytes += u64::from(length);
        match refusal {
            Refusal::Policer => {
                self.counters.policed_packets += 1;
                self.counters.policed_bytes += u64::from(length);
                return self.flow_policed.count(flow, length);
            }
            Refusal::Redundant => {
                self.counters.redundant_packets += 1;
                self.counters.redundant_bytes += u64::from(length);
                return self.flow_redundant.count(flow, length);
            }
            Refusal::Pool => self.counters.pool_dropped_packets += 1,
            Refusal::Limit => {}
        }
        self.flow_drops.count(flow, length);
    }

    /// A packet that waited was dropped to make room.
    pub fn count_pushed_out(&mut self, length: u32, flow: Option<u32>) {
        self.count_drop(length, flow, Refusal::Limit);
        self.counters.pushed_out_packets += 1;
        self.counters.pushed_out_bytes += u64::from(length);
    }

    /// The program dropped the packet that was to start next.
    pub fn count_managed_drop(&mut self, length: u32, flow: Option<u32>) {
        self.counters.managed_drop_packets += 1;
        self.counters.managed_drop_bytes += u64::from(length);
        self.flow_managed_drops.count(flow, length);
    }

    /// Packets and bytes by flow.
    pub fn flows(&self, cause: FlowCause) -> &ByFlow {
        match cause {
            FlowCause::Tail => &self.flow_drops,
            FlowCause::Managed => &self.flow_managed_drops,
            FlowCause::Policed => &self.flow_policed,
            FlowCause::Redundant => &self.flow_redundant,
            FlowCause::Duplicate => &self.flow_duplicates,
        }
    }

    #[inline]
    pub fn count_enqueue(&mut self, length: u32) {
        self.counters.enqueued_packets += 1;
        self.counters.enqueued_bytes += u64::from(length);
    }

    pub fn count_flushed(&mut self, length: u32) {
        self.counters.flushed_packets += 1;
        self.counters.flushed_bytes += u64::from(length);
    }

    /// What egress sees of a packet that found nothing waiting and the link idle.
    #[inline(always)]
    pub fn arriving(&self, now_ns: u64, rid: u16) -> EgressMeta {
        EgressMeta {
            port: self.port,
            priority: self.priority,
            rid,
            timestamp: now_ns,
            enq_timestamp: now_ns as u32,
            epoch: self.telemetry_epoch,
            ..EgressMeta::default()
        }
    }

    /// The same of a packet that has waited, and is to start now.
    #[inline(always)]
    pub fn waited(&self, waited: &Queued<P>) -> EgressMeta {
        let start_ns = self.free_ns();
        EgressMeta {
            port: self.port,
            priority: self.priority,
            rid: waited.rid,
            timestamp: start_ns,
            enq_timestamp: waited.enqueue_ns as u32,
            deq_timedelta: saturated(start_ns - waited.enqueue_ns),
            enq_qdepth: waited.depth_packets,
            deq_qdepth: telemetry_qdepth(self.left_packets()),
            enq_depth_bytes: waited.depth_bytes,
            deq_depth_bytes: saturated(self.depth_bytes),
            queue_delay: start_ns - waited.enqueue_ns,
            epoch: waited.epoch,
        }
    }

    /// Spends the link's time on a packet. Returns when that leaves the delay line.
    #[inline(always)]
    pub fn start_link(&mut self, start_ns: u64, length: u32, delays: &mut [Delay]) -> u64 {
        if self.varies {
            self.serve(start_ns, length);
            return self.place_varying(&mut delays[self.exit_port]);
        }
        if self.aggregation.is_some() {
            return self.start_in_burst(start_ns, length);
        }
        self.start_plain(start_ns, length)
    }

    /// The same where packets leave in bursts; [`NEVER`]: others may still be added to this one.
    #[cold]
    fn start_in_burst(&mut self, start_ns: u64, length: u32) -> u64 {
        let first = self.aggregation.as_mut().and_then(|aggregation| aggregation.add(start_ns, length));
        if let Some(overhead_ns) = first {
            self.shaper.occupy(start_ns, overhead_ns);
        }
        self.serve(start_ns, length);
        self.end_burst().unwrap_or(NEVER)
    }

    /// Ends the burst that is open, if nothing that waits still belongs to it. Returns when it leaves the delay line.
    pub fn end_burst(&mut self) -> Option<u64> {
        // The next one of several queues is not known; their bursts have no limit in bytes.
        let next = self.fifo.front().map(|queued| queued.length);
        let next = next.or((!self.is_empty()).then_some(0));
        if !self.aggregation.as_mut()?.ends_before(next) {
            return None;
        }
        let exit_ns = self.place(self.finish_ns);
        let members = self.delay_line.iter_mut().rev().take_while(|(exit_ns, _)| *exit_ns == NEVER);
        members.for_each(|(member_ns, _)| *member_ns = exit_ns);
        Some(exit_ns)
    }

    /// The same where its delay does not vary.
    #[inline(always)]
    pub fn start_plain(&mut self, start_ns: u64, length: u32) -> u64 {
        self.serve(start_ns, length);
        self.place(self.finish_ns)
    }

    #[inline(always)]
    fn serve(&mut self, start_ns: u64, length: u32) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.charge(length);
        }
        self.finish_ns = self.shaper.serve(start_ns, self.framing.bytes(length));
        self.last.there = false;
    }

    /// When a packet leaves a delay line that does not vary.
    #[inline(always)]
    fn place(&mut self, finish_ns: u64) -> u64 {
        self.last.exit_ns = finish_ns.saturating_add(self.delay_ns).max(self.last.exit_ns);
        self.last.exit_ns
    }

    /// The short path of most packets, all of what [`super::TrafficManager::enqueue`] does for one that finds nothing
    /// waiting and the link idle: returns when it leaves the delay line, [`NEVER`] of a managed queue. `None`: it has
    /// to take the long path, and nothing has happened.
    #[inline(always)]
    pub fn start_idle(
        &mut self,
        now_ns: u64,
        length: u32,
        priority: u8,
        flow: impl FnOnce() -> Option<u32>,
    ) -> Option<u64> {
        let fits = self.limit_bytes == 0 || u64::from(length) <= self.limit_bytes;
        if self.varies || !self.fifo.is_empty() || !fits || self.policer.is_some() || self.aggregation.is_some() {
            return None;
        }
        if self.management.is_some() {
            if !self.shaper.is_idle(now_ns) || !self.is_empty() {
                return None;
            }
            self.count_enqueue(length);
            self.pass_idle(priority, flow);
            return Some(NEVER);
        }
        self.finish_ns = self.shaper.serve_idle(now_ns, self.framing.bytes(length))?;
        self.count_enqueue(length);
        self.last.there = false;
        Some(self.place(self.finish_ns))
    }

    #[cold]
    fn place_varying(&mut self, delay: &mut Delay) -> u64 {
        let before_ns = self.copy.take().map_or(0, |copy| copy.exit_ns).max(self.last.exit_ns);
        self.last.jitter_ns = delay.jitter_ns();
        self.last.exit_ns = exit_ns(delay, self.finish_ns, self.last.jitter_ns, before_ns);
        // Packets that leave later may be there from a time when the line reordered.
        let overtakes = self.delay_line.back().is_some_and(|(last_ns, _)| *last_ns > self.last.exit_ns);
        self.varies = delay.varies() || overtakes;
        self.last.exit_ns
    }

    /// The packet that started last leaves twice: counts its copy, and returns when that leaves.
    pub fn double(&mut self, length: u32, flow: Option<u32>, delay: &mut Delay) -> u64 {
        let jitter_ns = delay.jitter_ns();
        let exit_ns = exit_ns(delay, self.finish_ns, jitter_ns, self.last.exit_ns);
        self.copy = Some(Placed { exit_ns, jitter_ns, there: false });
        self.counters.duplicated_packets += 1;
        self.flow_duplicates.count(flow, length);
        exit_ns
    }

    /// Puts the packet that started last, or its copy, into the delay line.
    #[inline(always)]
    pub fn put(&mut self, exit_ns: u64, packet: P) {
        if self.varies {
            return self.put_varying(exit_ns, packet);
        }
        self.last.there = true;
        self.delay_line.push_back((exit_ns, packet));
    }

    #[cold]
    fn put_varying(&mut self, exit_ns: u64, packet: P) {
        // A copy is made when its original has been put there, or has left.
        match &mut self.copy {
            Some(copy) => copy.there = true,
            None => self.last.there = true,
        }
        insert(&mut self.delay_line, exit_ns, packet);
    }

    /// The delay has changed, of which the packet in service has seen nothing yet.
    pub fn change_delay(&mut self, now_ns: u64, delay: &Delay) {
        self.delay_ns = delay.delay_ns;
        // Where it does no more, the next packet to start is the last to be treated so, or a later one.
        self.varies |= delay.varies();
        if self.finish_ns > now_ns {
            self.move_service(self.finish_ns, delay);
        }
    }

    /// The packet in service passes the link at another time: it moves in the delay line, and its copy with it.
    pub fn move_service(&mut self, finish_ns: u64, delay: &Delay) {
        self.finish_ns = finish_ns;
        let copy = self.copy.as_mut().map(|copy| (take_out(&mut self.delay_line, copy), copy));
        let packet = take_out(&mut self.delay_line, &self.last);
        let mut before_ns = self.delay_line.back().map_or(0, |(exit_ns, _)| *exit_ns);
        self.last.exit_ns = exit_ns(delay, finish_ns, self.last.jitter_ns, before_ns);
        before_ns = before_ns.max(self.last.exit_ns);
        if let Some(packet) = packet {
            insert(&mut self.delay_line, self.last.exit_ns, packet);
        }
        if let Some((packet, copy)) = copy {
            copy.exit_ns = exit_ns(delay, finish_ns, copy.jitter_ns, before_ns);
            if let Some(packet) = packet {
                insert(&mut self.delay_line, copy.exit_ns, packet);
            }
        }
    }

    /// The program manages the queue otherwise. It is empty where packets are scheduled otherwise.
    pub fn set_management(&mut self, management: Option<Management>) {
        if scheduling_of(self.management) != scheduling_of(management) {
            self.scheduler = Scheduler::new(scheduling_of(management)).map(Box::new);
        }
        self.management = management;
    }

    /// What the program sees of a managed queue.
    pub fn state(&self) -> Option<QueueState> {
        let Management { index, .. } = self.management?;
        let heads = match &self.scheduler {
            None => [self.fifo.front().map(|queued| queued.enqueue_ns), None],
            Some(scheduler) => [scheduler.head_ns(0), scheduler.head_ns(1)],
        };
        Some(QueueState {
            index,
            depth_bytes: self.depth_bytes,
            depth_packets: self.depth_packets(),
            link_free_ns: self.shaper.free_ns(),
            heads_ns: heads.map(Option::unwrap_or_default),
        })
    }

    /// When the packet arrived that has waited longest; `None`: nothing waits.
    pub fn oldest_ns(&self) -> Option<u64> {
        match &self.scheduler {
            None => self.fifo.front().map(|queued| queued.enqueue_ns),
            Some(scheduler) => scheduler.oldest_ns(),
        }
    }

    /// Where the program sees a managed queue in which nothing waits, and when its link has sent what has started.
    #[inline(always)]
    pub fn idle_state(&self) -> Option<(u32, u64)> {
        Some((self.management?.index, self.shaper.free_ns()))
    }

    /// When the packet starts that has waited longest.
    #[inline]
    pub fn next_start(&self) -> Option<u64> {
        let start_ns = self.free_ns();
        (!self.is_empty() && start_ns != NEVER).then_some(start_ns)
    }

    /// When the link takes the next packet: at once, if that belongs to the burst that starts.
    #[inline(always)]
    fn free_ns(&self) -> u64 {
        let open = self.aggregation.as_ref().and_then(|aggregation| aggregation.open_ns());
        open.unwrap_or(self.shaper.free_ns())
    }

    /// Puts a packet behind those that wait.
    #[inline(always)]
    pub fn push_waiting(&mut self, packet: P, arrival: Arrival) {
        let depth_packets = self.depth_packets();
        let queued = self.queued_from_now(packet, arrival);
        match &mut self.scheduler {
            None => self.fifo.push_back(queued),
            Some(scheduler) => scheduler.push(arrival.priority - self.priority, arrival.flow, queued),
        }
        let length = arrival.length;
        self.depth_bytes += u64::from(length);
        self.counters.peak_depth_bytes = self.counters.peak_depth_bytes.max(self.depth_bytes);
        self.counters.peak_depth_packets = self.counters.peak_depth_packets.max(depth_packets + 1);
    }

    /// A packet that found nothing waiting and the link idle is the next one of any order.
    #[inline(always)]
    pub fn pass_idle(&mut self, priority: u8, flow: impl FnOnce() -> Option<u32>) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.pass(priority - self.priority, flow());
        }
    }

    #[inline(always)]
    fn queued_from_now(&self, packet: P, Arrival { now_ns, length, rid, .. }: Arrival) -> Queued<P> {
        Queued {
            packet,
            enqueue_ns: now_ns,
            length,
            depth_bytes: saturated(self.depth_bytes),
            depth_packets: telemetry_qdepth(self.depth_packets()),
            epoch: self.telemetry_epoch,
            rid,
        }
    }

    /// Drops what waits until there is room for that much more: the oldest packets, of fair queues those of the longest one (RFC
    /// 8290, section 4.1).
    pub fn push_out(&mut self, bytes: u32, packets: u64, mut dropped: impl FnMut(Queued<P>)) {
        let scheduling = scheduling_of(self.management);
        while !self.has_room(bytes, packets) && !self.is_empty() {
            let (from, count) = match (&self.scheduler, scheduling) {
                (Some(scheduler), Scheduling::Fair { batch, .. }) => {
                    let (longest, packets) = scheduler.longest();
                    (longest, (packets / 2).clamp(1, batch.max(1) as usize))
                }
                (Some(scheduler), Scheduling::Deficit { .. }) => (scheduler.longest().0, 1),
                (Some(scheduler), _) => (scheduler.lowest(), 1),
                (None, _) => (0, 1),
            };
            for _ in 0..count {
                let queued = match &mut self.scheduler {
                    None => self.fifo.pop_front(),
                    Some(scheduler) => scheduler.pop_from(from),
                };
                if let Some(queued) = queued {
                    self.depth_bytes -= u64::from(queued.length);
                    dropped(queued);
                }
            }
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Queued<P>> {
        let queued = match &mut self.scheduler {
            None => self.fifo.pop_front(),
            Some(scheduler) => scheduler.pop(),
        }?;
        self.depth_bytes -= u64::from(queued.length);
        Some(queued)
    }

    /// A packet that waits, by its position counted from the one to start next; not known of several queues.
    #[inline]
    pub fn peek(&self, position: usize) -> Option<&Queued<P>> {
        self.fifo.get(position)
    }
}

/// When a packet leaves that must not leave before `before_ns`, unless the line reorders.
fn exit_ns(delay: &Delay, finish_ns: u64, jitter_ns: i64, before_ns: u64) -> u64 {
    let exit_ns = delay.exit_ns(finish_ns, jitter_ns);
    if delay.reorders() {
        exit_ns
    } else {
        exit_ns.max(before_ns)
    }
}

/// Puts a packet into a line, behind those that leave at the same time.
fn insert<P>(line: &mut VecDeque<(u64, P)>, exit_ns: u64, packet: P) {
    let position = line.partition_point(|(other_ns, _)| *other_ns <= exit_ns);
    line.insert(position, (exit_ns, packet));
}

/// Takes a packet out of a line that came there last of all that leave at its time.
fn take_out<P>(line: &mut VecDeque<(u64, P)>, placed: &Placed) -> Option<P> {
    let behind = line.partition_point(|(other_ns, _)| *other_ns <= placed.exit_ns);
    let position = behind.checked_sub(1).filter(|_| placed.there)?;
    line.remove(position).map(|(_, packet)| packet)
}

/// The epoch as telemetry carries it: 16 bits, never 0 (0 says that nothing counts bytes and epochs).
fn telemetry_epoch(epoch: u64) -> u16 {
    match u16::try_from(epoch) {
        Ok(epoch @ 1..) => epoch,
        _ => (epoch.wrapping_sub(1) % 0xffff + 1) as u16,
    }
}

#[inline]
fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
