//! One FIFO of the traffic manager: limits, shaper, and the line of packets on their way to the interface.
// SPDX-License-Identifier: Apache-2.0
use std::collections::{HashMap, VecDeque};

use narrows_pipeline::EgressMeta;

use super::clock::ByteClock;

/// Packets and bytes of one flow that a queue dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets dropped.
    pub packets: u64,
    /// Bytes dropped.
    pub bytes: u64,
}

/// Counters of one queue. `enqueued = dequeued + flushed + waiting`, in packets and in bytes, at any instant.
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
    /// Admitted packets discarded by [`super::TrafficManager::flush`].
    pub flushed_packets: u64,
    /// Admitted bytes discarded by [`super::TrafficManager::flush`].
    pub flushed_bytes: u64,
    /// Most bytes that ever waited at once.
    pub peak_depth_bytes: u64,
    /// Most packets that ever waited at once.
    pub peak_depth_packets: u64,
}

/// A packet that waits, and what it found on arrival, as telemetry will carry it. As small as can be: a long queue has left the
/// processor's caches.
pub(super) struct Waiting<P> {
    pub packet: P,
    pub enqueue_ns: u64,
    pub length: u32,
    depth_bytes: u32,
    depth_packets: u32,
    epoch: u16,
    rid: u16,
}

/// Why an arriving packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Limit,
    Pool,
}

pub(super) struct Queue<P> {
    pub port: u16,
    pub priority: u8,
    /// Position of the port among those of [`super::exits::Exits`].
    pub exit_port: usize,
    /// The port's delay: the same in all its queues.
    pub delay_ns: u64,
    /// 0: no limit.
    pub limit_bytes: u64,
    /// 0: no limit.
    pub limit_packets: u64,
    epoch: u64,
    /// The epoch as telemetry carries it.
    stamp: u16,
    pub clock: ByteClock,
    waiting: VecDeque<Waiting<P>>,
    pub depth_bytes: u64,
    /// In service or delayed: exit time (ascending) and packet.
    pub line: VecDeque<(u64, P)>,
    /// Exit time given last: later packets never overtake, also when the delay shrinks.
    last_exit_ns: u64,
    /// Those of departures follow from the others: see [`Queue::counters`].
    counters: Counters,
    pub flow_drops: HashMap<u32, Drops>,
}

impl<P> Queue<P> {
    pub fn new(port: u16, priority: u8, exit_port: usize, delay_ns: u64, limit_packets: u64) -> Self {
        Queue {
            port,
            priority,
            exit_port,
            delay_ns,
            limit_bytes: 0,
            limit_packets,
            epoch: 1,
            stamp: telemetry_epoch(1),
            clock: ByteClock::default(),
            waiting: VecDeque::new(),
            depth_bytes: 0,
            line: VecDeque::new(),
            last_exit_ns: 0,
            counters: Counters::default(),
            flow_drops: HashMap::new(),
        }
    }

    #[inline]
    pub fn depth_packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Generation of the settings.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Settings have changed.
    pub fn start_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.stamp = telemetry_epoch(self.epoch);
        self.epoch
    }

    pub fn counters(&self) -> Counters {
        let all = self.counters;
        Counters {
            dequeued_packets: all.enqueued_packets - all.flushed_packets - self.depth_packets(),
            dequeued_bytes: all.enqueued_bytes - all.flushed_bytes - self.depth_bytes,
            ..all
        }
    }

    /// Tail drop decision for an arriving packet of `length` bytes.
    #[inline]
    pub fn admits(&self, length: u32) -> bool {
        let bytes_fit = self.limit_bytes == 0 || self.depth_bytes + u64::from(length) <= self.limit_bytes;
        let packets_fit = self.limit_packets == 0 || self.depth_packets() < self.limit_packets;
        bytes_fit && packets_fit
    }

    /// Whether a packet that arrives at `now_ns` starts at once.
    #[inline]
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.waiting.is_empty() && self.clock.finish_ns() <= now_ns
    }

    #[cold]
    pub fn count_drop(&mut self, length: u32, flow: Option<u32>, refusal: Refusal) {
        self.counters.dropped_packets += 1;
        self.counters.dropped_bytes += u64::from(length);
        if refusal == Refusal::Pool {
            self.counters.pool_dropped_packets += 1;
        }
        if let Some(flow) = flow {
            let drops = self.flow_drops.entry(flow).or_default();
            drops.packets += 1;
            drops.bytes += u64::from(length);
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

    /// A packet that found nothing waiting and the link idle starts.
    #[inline(always)]
    pub fn start_arriving(&mut self, now_ns: u64, length: u32, rid: u16) -> Start {
        let exit_ns = self.start_link(now_ns, length);
        let meta = EgressMeta {
            port: self.port,
            priority: self.priority,
            rid,
            timestamp: now_ns,
            enq_timestamp: now_ns as u32,
            epoch: self.stamp,
            ..EgressMeta::default()
        };
        Start { exit_ns, meta }
    }

    /// A packet that has waited starts.
    #[inline(always)]
    pub fn start_waiting(&mut self, waited: &Waiting<P>) -> Start {
        let start_ns = self.clock.finish_ns();
        let exit_ns = self.start_link(start_ns, waited.length);
        let meta = EgressMeta {
            port: self.port,
            priority: self.priority,
            rid: waited.rid,
            timestamp: start_ns,
            enq_timestamp: waited.enqueue_ns as u32,
            deq_timedelta: saturated(start_ns - waited.enqueue_ns),
            enq_qdepth: waited.depth_packets,
            deq_qdepth: telemetry_qdepth(self.depth_packets()),
            enq_depth_bytes: waited.depth_bytes,
            deq_depth_bytes: saturated(self.depth_bytes),
            epoch: waited.epoch,
        };
        Start { exit_ns, meta }
    }

    /// Returns when the packet leaves the delay line.
    #[inline(always)]
    fn start_link(&mut self, start_ns: u64, length: u32) -> u64 {
        self.clock.start(start_ns, length);
        self.last_exit_ns = (self.clock.finish_ns() + self.delay_ns).max(self.last_exit_ns);
        self.last_exit_ns
    }

    /// Puts a packet behind those that wait. True: it is the first one.
    #[inline(always)]
    pub fn push_waiting(&mut self, packet: P, length: u32, enqueue_ns: u64, rid: u16) -> bool {
        let depth_packets = self.depth_packets();
        self.waiting.push_back(Waiting {
            packet,
            enqueue_ns,
            length,
            depth_bytes: saturated(self.depth_bytes),
            depth_packets: telemetry_qdepth(depth_packets),
            epoch: self.stamp,
            rid,
        });
        self.depth_bytes += u64::from(length);
        self.counters.peak_depth_bytes = self.counters.peak_depth_bytes.max(self.depth_bytes);
        self.counters.peak_depth_packets = self.counters.peak_depth_packets.max(depth_packets + 1);
        depth_packets == 0
    }

    #[inline(always)]
    pub fn pop_waiting(&mut self) -> Option<Waiting<P>> {
        let waiting = self.waiting.pop_front()?;
        self.depth_bytes -= u64::from(waiting.length);
        Some(waiting)
    }

    /// A packet that waits, by its position counted from the one to start next.
    #[inline]
    pub fn waiting(&self, position: usize) -> Option<&Waiting<P>> {
        self.waiting.get(position)
    }
}

/// What is known of a packet that starts on its link.
pub(super) struct Start {
    pub exit_ns: u64,
    pub meta: EgressMeta,
}

/// v1model's queue depth fields are 19 bits wide.
#[inline]
fn telemetry_qdepth(packets: u64) -> u32 {
    packets.min((1 << 19) - 1) as u32
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
