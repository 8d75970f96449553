//! One FIFO of the traffic manager: limits, shaper, and the line of packets on their way to the interface.
// SPDX-License-Identifier: Apache-2.0
use std::collections::{HashMap, VecDeque};

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

/// What is known of a packet that waits, and what it found on arrival.
pub(super) struct Arrival {
    pub length: u32,
    pub enqueue_ns: u64,
    pub depth_bytes: u64,
    pub depth_packets: u64,
    pub epoch: u64,
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
    /// 0: no limit.
    pub limit_bytes: u64,
    /// 0: no limit.
    pub limit_packets: u64,
    pub epoch: u64,
    pub clock: ByteClock,
    pub waiting: VecDeque<(P, Arrival)>,
    pub depth_bytes: u64,
    /// In service or delayed: exit time (ascending) and packet.
    pub line: VecDeque<(u64, P)>,
    /// Exit time given last: later packets never overtake, also when the delay shrinks.
    pub last_exit_ns: u64,
    pub counters: Counters,
    pub flow_drops: HashMap<u32, Drops>,
}

impl<P> Queue<P> {
    pub fn new(port: u16, priority: u8, exit_port: usize, limit_packets: u64) -> Self {
        Queue {
            port,
            priority,
            exit_port,
            limit_bytes: 0,
            limit_packets,
            epoch: 1,
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

    #[inline]
    pub fn count_dequeue(&mut self, length: u32) {
        self.counters.dequeued_packets += 1;
        self.counters.dequeued_bytes += u64::from(length);
    }

    #[inline]
    pub fn push_waiting(&mut self, packet: P, length: u32, enqueue_ns: u64) {
        let (depth_bytes, depth_packets) = (self.depth_bytes, self.depth_packets());
        self.waiting.push_back((packet, Arrival { length, enqueue_ns, depth_bytes, depth_packets, epoch: self.epoch }));
        self.depth_bytes += u64::from(length);
        self.counters.peak_depth_bytes = self.counters.peak_depth_bytes.max(self.depth_bytes);
        self.counters.peak_depth_packets = self.counters.peak_depth_packets.max(self.depth_packets());
    }

    #[inline]
    pub fn pop_waiting(&mut self) -> Option<(P, Arrival)> {
        let (packet, arrival) = self.waiting.pop_front()?;
        self.depth_bytes -= u64::from(arrival.length);
        Some((packet, arrival))
    }
}
