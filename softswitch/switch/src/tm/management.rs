//! Queues that the program manages: what it sees of them, and when.
//!
//! Three things make an AQM possible that decides as its RFC says. Egress runs before the link's time is spent:
//! a packet that it drops costs none, and the next one comes at the same instant. The program's registers of the names in
//! [`QueueState`] hold what a queue is like at each instant, for ingress to read, as Tofino 2's ghost thread keeps them. And a timer
//! sends the program a frame at an interval, as Tofino's packet generator does; at one instant departures come first, then the
//! timer, then arrivals.
// SPDX-License-Identifier: Apache-2.0
use super::curve::NEVER;
use super::scheduler::{Scheduling, MAX_LINK_QUEUES};
use super::{QueueNumber, TrafficManager};

/// How the program manages a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Management {
    /// Where the registers have the queue: the bottleneck.
    pub index: u32,
    /// From one of the timer's frames to the next; 0: none come. The first one comes that long after the queue was configured.
    pub period_ns: u64,
    /// How several queues share the link.
    pub scheduling: Scheduling,
}

impl Management {
    /// Checks a setting. Errors: names the field that is out of range, and its range.
    pub fn new(index: u32, period_ns: u64, scheduling: Scheduling) -> Result<Self, String> {
        if (1..MIN_PERIOD_NS).contains(&period_ns) {
            return Err(format!("period_ns {period_ns}: allowed are 0 and {MIN_PERIOD_NS} or more"));
        }
        match scheduling {
            Scheduling::Coupled { classic_percent, .. } if classic_percent > 100 => {
                Err(format!("classic_percent {classic_percent}: allowed are 0 to 100"))
            }
            Scheduling::Fair { queues, .. } if !queues.is_power_of_two() || queues > MAX_LINK_QUEUES => {
                Err(format!("queues {queues}: allowed are powers of two up to {MAX_LINK_QUEUES}"))
            }
            Scheduling::Fair { quantum: 0, .. } => Err("quantum 0: allowed are 1 byte and more".to_owned()),
            Scheduling::Deficit { quanta } if quanta.iter().any(|&quantum| quantum < MIN_QUANTUM) => {
                Err(format!("quanta {quanta:?}: allowed are {MIN_QUANTUM} bytes and more"))
            }
            _ => Ok(Management { index, period_ns, scheduling }),
        }
    }
}

/// How packets are scheduled that are managed so, or not at all.
pub(super) fn scheduling_of(management: Option<Management>) -> Scheduling {
    management.map_or(Scheduling::Fifo, |management| management.scheduling)
}

/// With a smaller one a frame takes more turns than there is time for.
const MIN_QUANTUM: u32 = 64;

/// Shortest period of the timer: it is a run of the program each time, whether packets come or not.
const MIN_PERIOD_NS: u64 = 1_000;

/// What the registers of a managed queue hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Where.
    pub index: u32,
    /// Bytes that wait.
    pub depth_bytes: u64,
    /// Packets that wait.
    pub depth_packets: u64,
    /// When the link has sent what has started.
    pub link_free_ns: u64,
    /// When the packet arrived that starts next, of the link's first two queues; 0: none waits.
    pub heads_ns: [u64; 2],
}

/// A frame of a managed queue's timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Port of the queue.
    pub port: u16,
    /// Where the registers have it.
    pub index: u32,
    /// When.
    pub at_ns: u64,
}

impl<P> TrafficManager<P> {
    /// The program manages some queue.
    #[inline]
    pub fn manages(&self) -> bool {
        self.manages
    }

    /// The current state of the queue that this port and priority belong to, if the program manages it.
    pub fn managed(&self, port: u16, priority: u8) -> Option<QueueState> {
        let slot = Self::slot(port, priority)?;
        self.queues.get(usize::from(self.index[slot]))?.state()
    }

    /// Where the registers have a queue that the program manages and in which nothing waits, and when its link has sent what has
    /// started.
    #[inline(always)]
    pub fn managed_idle(&self, queue: QueueNumber) -> Option<(u32, u64)> {
        self.queues.get(usize::from(queue.0))?.idle_state()
    }

    /// The timer's frame that is due first at or before `now_ns`; the next one follows its period later.
    #[inline(always)]
    pub fn take_tick(&mut self, now_ns: u64) -> Option<Tick> {
        if self.next_tick_ns <= now_ns {
            self.take_due_tick(now_ns)
        } else {
            None
        }
    }

    #[inline(never)]
    fn take_due_tick(&mut self, now_ns: u64) -> Option<Tick> {
        let (at_ns, number) = self.ticks.until(now_ns)?;
        let queue = self.queues.get(number)?;
        let (port, Management { index, period_ns, .. }) = (queue.port, queue.management?);
        self.set_tick(number, Some(at_ns + period_ns));
        Some(Tick { port, index, at_ns })
    }

    fn set_tick(&mut self, number: usize, tick_ns: Option<u64>) {
        self.ticks.set(number, tick_ns);
        self.next_tick_ns = self.ticks.time().unwrap_or(NEVER);
    }

    /// Manages a queue otherwise from now on. Errors: packets wait in it whose order that would change, or the priority above it
    /// has a queue of its own.
    pub(super) fn manage(&mut self, number: usize, now_ns: u64, management: Option<Management>) -> Result<(), String> {
        let queue = &self.queues[number];
        let (port, priority) = (queue.port, queue.priority);
        if queue.management == management {
            return Ok(());
        }
        let (before, after) = (scheduling_of(queue.management), scheduling_of(management));
        if before != after && !queue.is_empty() {
            return Err(format!(
                "port {port}, queue {priority}: packets wait in it, so that their order cannot change"
            ));
        }
        let above = |count: u8| (1..count).map(move |more| priority + more);
        for other in above(after.priorities()) {
            let slot = Self::slot(port, other)
                .ok_or_else(|| format!("queue {priority}: there are no {} from it up", after.priorities()))?;
            if usize::from(self.index[slot]) < self.queues.len() && usize::from(self.index[slot]) != number {
                return Err(format!("port {port}, queue {other}: it is a queue of its own already"));
            }
        }
        for (count, of) in [(before.priorities(), super::NO_QUEUE), (after.priorities(), number as u16)] {
            above(count).filter_map(|other| Self::slot(port, other)).for_each(|slot| self.index[slot] = of);
        }
        self.queues[number].set_management(management);
        self.manages = self.queues.iter().any(|queue| queue.management.is_some());
        let period_ns = management.map_or(0, |management| management.period_ns);
        self.ticks.reserve(number + 1);
        self.set_tick(number, (period_ns > 0).then_some(now_ns + period_ns));
        Ok(())
    }
}
