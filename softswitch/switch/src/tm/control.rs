//! Settings of the queues, and what is known of them.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use super::curve::{Curve, Rate, Schedule, NEVER};
use super::management::scheduling_of;
use super::queue::{Counters, Drops, FlowCause, MAX_DROPPED_FLOWS};
use super::{
    AggregationSettings, Framing, Management, PolicerSettings, Scheduling, TrafficManager, MAX_DELAY_NS, MAX_RATE_BPS,
    PORTS, PRIORITIES,
};
use crate::line::{Delay, DelaySteps, Variation};

/// Settings to change; `None` leaves one as it is.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// A constant rate; a schedule ends, unless one is given, too.
    pub rate: Option<Rate>,
    /// What the link offers from an epoch on.
    pub schedule: Option<RateSchedule>,
    /// Bytes that pass at once after silence, with a full bucket then; 0 = none.
    pub burst_bytes: Option<u64>,
    /// Bytes that may wait; 0 = no limit.
    pub limit_bytes: Option<u64>,
    /// Packets that may wait; 0 = no limit.
    pub limit_packets: Option<u64>,
    /// A constant delay of the whole port in nanoseconds; a schedule ends, unless one is given, too.
    pub delay_ns: Option<u64>,
    /// How the delay of the whole port differs from a constant one.
    pub delay: DelayChange,
    /// Whether a full queue drops its oldest packets, not the newest.
    pub head_drop: Option<bool>,
    /// The policer in front of the queue, whose buckets are full then; `Some(None)`: none.
    pub policer: Option<Option<PolicerSettings>>,
    /// What frames take on the link, from the next one on.
    pub framing: Option<Framing>,
    /// Acknowledgements that arrive make others redundant, and so many of these stay; `Some(None)`: all.
    pub ack_filter: Option<Option<u64>>,
    /// The bursts in which what waits leaves; `Some(None)`: packet by packet.
    pub aggregation: Option<Option<AggregationSettings>>,
    /// How the program manages the queue; `Some(None)`: it does not.
    pub management: Option<Option<Management>>,
}

impl Changes {
    /// Whether they have packets on the link leave at another time.
    fn moves_packets(&self) -> bool {
        let of_rate = self.rate.is_some() || self.schedule.is_some() || self.burst_bytes.is_some();
        of_rate || self.delay_ns.is_some() || self.delay.steps.is_some() || self.delay.variation.is_some()
    }
}

/// A schedule and when it begins.
#[derive(Debug, Clone)]
pub struct RateSchedule {
    /// What the link offers.
    pub schedule: Schedule,
    /// When it begins, in switch time; `None`: when [`TrafficManager::start_schedules`] says so.
    pub epoch_ns: Option<u64>,
}

/// Changes of a port's delay.
#[derive(Debug, Clone, Default)]
pub struct DelayChange {
    /// Steps, and when they begin; `None`: when [`TrafficManager::start_schedules`] says so.
    pub steps: Option<(Arc<DelaySteps>, Option<u64>)>,
    /// What differs from packet to packet.
    pub variation: Option<Variation>,
}

/// Settings, depth and counters of one queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus {
    /// Egress port.
    pub port: u16,
    /// Priority.
    pub priority: u8,
    /// What the link offers.
    pub curve: Curve,
    /// Bytes that pass at once after silence; 0 = none.
    pub burst_bytes: u64,
    /// Bytes that may wait; 0 = no limit.
    pub limit_bytes: u64,
    /// Packets that may wait; 0 = no limit.
    pub limit_packets: u64,
    /// Constant delay of the port in nanoseconds.
    pub delay_ns: u64,
    /// What takes its place.
    pub delay_steps: Option<Arc<DelaySteps>>,
    /// When that does, in switch time; [`NEVER`]: that has not been said yet.
    pub delay_epoch_ns: u64,
    /// What differs from packet to packet behind the queue.
    pub variation: Variation,
    /// A full queue drops its oldest packets.
    pub head_drop: bool,
    /// The policer in front of the queue.
    pub policer: Option<PolicerSettings>,
    /// What frames take on the link.
    pub framing: Framing,
    /// How many acknowledgements stay that others make redundant; `None`: all.
    pub ack_filter: Option<u64>,
    /// The bursts in which what waits leaves.
    pub aggregation: Option<AggregationSettings>,
    /// How the program manages it.
    pub management: Option<Management>,
    /// Generation of the settings.
    pub epoch: u64,
    /// Bytes waiting.
    pub depth_bytes: u64,
    /// Packets waiting.
    pub depth_packets: u64,
    /// When the packet arrived that has waited longest; `None`: nothing waits.
    pub oldest_ns: Option<u64>,
    /// Counters.
    pub counters: Counters,
}

impl<P> TrafficManager<P> {
    /// Changes settings of a queue at `now_ns` (every event up to then must have been polled). Returns its new epoch.
    ///
    /// A new rate and a new delay hold at once, also for the packet in service; a new limit from the next arrival. Errors: the name of the setting that is out of range, and its range; nothing is changed then.
    pub fn configure(&mut self, (port, priority): (u16, u8), now_ns: u64, changes: Changes) -> Result<u64, String> {
        if let Some(rate) = changes.rate.and_then(Rate::bps).filter(|rate| *rate > MAX_RATE_BPS) {
            return Err(format!("rate_bps {rate}: allowed are 0 to {MAX_RATE_BPS}"));
        }
        if let Some(delay) = changes.delay_ns.filter(|delay| *delay > MAX_DELAY_NS) {
            return Err(format!("delay_ns {delay}: allowed are 0 to {MAX_DELAY_NS}"));
        }
        let of_rate = changes.schedule.as_ref().and_then(|schedule| schedule.epoch_ns);
        let of_delay = changes.delay.steps.as_ref().and_then(|(_, epoch_ns)| *epoch_ns);
        of_rate.into_iter().chain(of_delay).try_for_each(|epoch_ns| not_past(epoch_ns, now_ns))?;
        let number = self.queue_number(port, priority).ok_or_else(|| no_such_queue(port, priority))?;
        let shaper = &self.queues[number].shaper;
        let burst_bytes = changes.burst_bytes.unwrap_or(shaper.burst_bytes());
        let mut curve = shaper.curve().clone();
        if changes.rate.is_some() || changes.schedule.is_some() {
            curve = Curve::constant(changes.rate.unwrap_or(curve.rate));
        }
        if let Some(RateSchedule { schedule, epoch_ns }) = &changes.schedule {
            curve = Curve { schedule: Some(schedule.clone()), epoch_ns: epoch_ns.unwrap_or(NEVER), ..curve };
        }
        check_burst(burst_bytes, &curve)?;
        check_framing(changes.framing.unwrap_or(self.queues[number].framing), &curve)?;
        self.check_aggregation(number, now_ns, &changes, (&curve, burst_bytes))?;
        if let Some(management) = changes.management {
            self.manage(number, now_ns, management)?;
        }
        let shaper = &self.queues[number].shaper;
        if curve != *shaper.curve() || burst_bytes != shaper.burst_bytes() {
            self.change_rate(number, now_ns, curve, burst_bytes);
        }
        let exit_port = self.queues[number].exit_port;
        if changes.delay_ns.is_some() || changes.delay.steps.is_some() || changes.delay.variation.is_some() {
            let delay = &mut self.delays[exit_port];
            change_delay(delay, changes.delay_ns, changes.delay);
            for (other, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| queue.port == port) {
                queue.change_delay(now_ns, delay);
                if other != number {
                    queue.start_epoch();
                }
            }
            self.exits.refresh(exit_port, &self.queues);
        }
        let queue = &mut self.queues[number];
        if let Some(limit) = changes.limit_bytes {
            queue.limit_bytes = limit;
        }
        if let Some(limit) = changes.limit_packets {
            queue.limit_packets = limit;
        }
        if let Some(head_drop) = changes.head_drop {
            queue.head_drop = head_drop;
        }
        if let Some(policer) = changes.policer {
            queue.set_policer(policer, now_ns);
        }
        if let Some(framing) = changes.framing {
            queue.framing = framing;
        }
        if let Some(ack_filter) = changes.ack_filter {
            queue.set_ack_filter(ack_filter);
        }
        if let Some(aggregation) = changes.aggregation {
            queue.set_aggregation(aggregation);
        }
        Ok(queue.start_epoch())
    }

    /// Bursts have one rate and one delay from their beginning to their end. Errors: names what else they would have.
    fn check_aggregation(
        &self,
        number: usize,
        now_ns: u64,
        changes: &Changes,
        (curve, burst_bytes): (&Curve, u64),
    ) -> Result<(), String> {
        let queue = &self.queues[number];
        let aggregation = changes.aggregation.unwrap_or(queue.aggregation());
        let others = self.queues.iter().filter(|other| other.port == queue.port);
        let aggregating = others.filter(|other| other.aggregation().is_some());
        let busy = aggregating.clone().any(|other| other.shaper.free_ns() > now_ns);
        if busy && (changes.moves_packets() || aggregation != queue.aggregation()) {
            return Err(format!("port {}: a burst is on its link, whose rate and delay cannot change", queue.port));
        }
        if aggregation.is_some() || aggregating.count() > 0 {
            let delay = &self.delays[queue.exit_port];
            let steps = changes.delay.steps.is_some() || (changes.delay_ns.is_none() && delay.steps.is_some());
            let variation = changes.delay.variation.as_ref().unwrap_or(delay.variation());
            if steps || variation.varies() || queue.varies {
                return Err("aggregation: allowed on a port whose delay does not vary".into());
            }
        }
        let Some(AggregationSettings { bytes, .. }) = aggregation else {
            return Ok(());
        };
        if !matches!(curve, Curve { rate: Rate::Bps(1..), schedule: None, .. }) || burst_bytes > 0 {
            return Err("aggregation: allowed where a link has a constant rate above 0, and no burst_bytes".into());
        }
        let management = changes.management.unwrap_or(queue.management);
        if bytes > 0 && scheduling_of(management) != Scheduling::Fifo {
            return Err(format!("aggregation: bytes {bytes}: allowed is 0 where several queues share the link"));
        }
        Ok(())
    }

    /// Lets all schedules begin that wait for it, at `epoch_ns`. Returns how many queues and delay lines have one.
    /// Errors: that is past; nothing has begun then.
    pub fn start_schedules(&mut self, now_ns: u64, epoch_ns: u64) -> Result<usize, String> {
        not_past(epoch_ns, now_ns)?;
        let mut begun = 0;
        for number in 0..self.queues.len() {
            let shaper = &self.queues[number].shaper;
            if shaper.curve().schedule.is_some() && shaper.curve().epoch_ns == NEVER {
                let (curve, burst_bytes) = (Curve { epoch_ns, ..shaper.curve().clone() }, shaper.burst_bytes());
                self.change_rate(number, now_ns, curve, burst_bytes);
                begun += 1;
            }
        }
        for delay in self.delays.iter_mut().filter(|delay| delay.steps.is_some() && delay.epoch_ns == NEVER) {
            delay.epoch_ns = epoch_ns;
            begun += 1;
        }
        Ok(begun)
    }

    fn change_rate(&mut self, number: usize, now_ns: u64, curve: Curve, burst_bytes: u64) {
        let queue = &mut self.queues[number];
        let exit_port = queue.exit_port;
        if let Some(finish_ns) = queue.shaper.change(now_ns, curve, burst_bytes) {
            queue.move_service(finish_ns, &self.delays[exit_port]);
        }
        self.starts.set(number, self.queues[number].next_start());
        self.exits.refresh(exit_port, &self.queues);
    }

    /// Every queue that was configured or has seen a packet, in order of port and priority.
    pub fn status(&self) -> Vec<QueueStatus> {
        let statuses = self.queues.iter().map(|queue| QueueStatus {
            port: queue.port,
            priority: queue.priority,
            curve: queue.shaper.curve().clone(),
            burst_bytes: queue.shaper.burst_bytes(),
            limit_bytes: queue.limit_bytes,
            limit_packets: queue.limit_packets,
            delay_ns: queue.delay_ns,
            delay_steps: self.delays[queue.exit_port].steps.clone(),
            delay_epoch_ns: self.delays[queue.exit_port].epoch_ns,
            variation: self.delays[queue.exit_port].variation().clone(),
            head_drop: queue.head_drop,
            policer: queue.policer(),
            framing: queue.framing,
            ack_filter: queue.ack_filter(),
            aggregation: queue.aggregation(),
            management: queue.management,
            epoch: queue.epoch(),
            depth_bytes: queue.depth_bytes,
            depth_packets: queue.depth_packets(),
            oldest_ns: queue.oldest_ns(),
            counters: queue.counters(),
        });
        let mut all: Vec<QueueStatus> = statuses.collect();
        all.sort_by_key(|status| (status.port, status.priority));
        all
    }

    /// Packets of a queue by flow, in no order: what was dropped or doubled. Errors: no such port or priority in v1model;
    /// more flows than are counted separately.
    pub fn flows(&self, port: u16, priority: u8, cause: FlowCause) -> Result<Vec<(u32, Drops)>, String> {
        let slot = Self::slot(port, priority).ok_or_else(|| no_such_queue(port, priority))?;
        let Some(queue) = self.queues.get(usize::from(self.index[slot])) else {
            return Ok(Vec::new());
        };
        queue.flows(cause).all().ok_or_else(|| {
            format!("port {port}, queue {priority}: packets of more than {MAX_DROPPED_FLOWS} flows, the most that are counted")
        })
    }

    /// Discards what waits at some ports (counted as flushed) and returns it; what egress has seen stays on its way.
    pub fn flush(&mut self, at: impl Fn(u16) -> bool) -> Vec<P> {
        let mut flushed = Vec::new();
        for (number, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| at(queue.port)) {
            self.starts.set(number, None);
            while let Some(queued) = queue.pop() {
                queue.count_flushed(queued.length);
                self.held -= 1;
                flushed.push(queued.packet);
            }
        }
        flushed
    }
}

fn change_delay(delay: &mut Delay, delay_ns: Option<u64>, change: DelayChange) {
    if let Some(variation) = change.variation {
        delay.vary(variation);
    }
    if let Some(delay_ns) = delay_ns {
        (delay.delay_ns, delay.steps) = (delay_ns, None);
    }
    if let Some((steps, epoch_ns)) = change.steps {
        (delay.steps, delay.epoch_ns) = (Some(steps), epoch_ns.unwrap_or(NEVER));
    }
}

/// A bucket is filled at a rate. Errors: the link has none.
fn check_burst(burst_bytes: u64, curve: &Curve) -> Result<(), String> {
    let rated = curve.rate != Rate::Unlimited && !matches!(curve.schedule, Some(Schedule::Opportunities(_)));
    match burst_bytes == 0 || rated {
        true => Ok(()),
        false => {
            Err(format!("burst_bytes {burst_bytes}: allowed is 0 where a link has no rate, or delivery opportunities"))
        }
    }
}

/// Delivery opportunities count frames in a way of their own. Errors: the link has some.
fn check_framing(framing: Framing, curve: &Curve) -> Result<(), String> {
    match framing != Framing::default() && matches!(curve.schedule, Some(Schedule::Opportunities(_))) {
        true => Err("framing: allowed is none where a link has delivery opportunities".into()),
        false => Ok(()),
    }
}

fn not_past(epoch_ns: u64, now_ns: u64) -> Result<(), String> {
    match epoch_ns < now_ns || epoch_ns == NEVER {
        true => Err(format!("epoch_ns {epoch_ns}: allowed is {now_ns} (now) or later")),
        false => Ok(()),
    }
}

fn no_such_queue(port: u16, priority: u8) -> String {
    format!("port {port}, queue {priority}: allowed are ports 0 to {} and queues 0 to {}", PORTS - 1, PRIORITIES - 1)
}
