//! Settings of the queues, and what is known of them.
// SPDX-License-Identifier: Apache-2.0
use super::queue::{Counters, Drops};
use super::{TrafficManager, MAX_DELAY_NS, MAX_RATE_BPS, PORTS, PRIORITIES};

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

impl<P> TrafficManager<P> {
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
            for (other, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| queue.port == port) {
                queue.delay_ns = delay_ns;
                if other != number {
                    queue.start_epoch();
                }
            }
        }
        let queue = &mut self.queues[number];
        if let Some(rate_bps) = changes.rate_bps {
            queue.clock.set_rate(rate_bps);
        }
        if let Some(limit) = changes.limit_bytes {
            queue.limit_bytes = limit;
        }
        if let Some(limit) = changes.limit_packets {
            queue.limit_packets = limit;
        }
        Ok(queue.start_epoch())
    }

    /// Every queue that was configured or has seen a packet, in order of port and priority.
    pub fn status(&self) -> Vec<QueueStatus> {
        let statuses = self.queues.iter().map(|queue| QueueStatus {
            port: queue.port,
            priority: queue.priority,
            rate_bps: queue.clock.rate_bps(),
            limit_bytes: queue.limit_bytes,
            limit_packets: queue.limit_packets,
            delay_ns: queue.delay_ns,
            epoch: queue.epoch(),
            depth_bytes: queue.depth_bytes,
            depth_packets: queue.depth_packets(),
            counters: queue.counters(),
        });
        let mut all: Vec<QueueStatus> = statuses.collect();
        all.sort_by_key(|status| (status.port, status.priority));
        all
    }

    /// Drops of a queue by flow, in no order. Errors: no such port or priority in v1model.
    pub fn flow_drops(&self, port: u16, priority: u8) -> Result<Vec<(u32, Drops)>, String> {
        let slot = Self::slot(port, priority).ok_or_else(|| no_such_queue(port, priority))?;
        let Some(queue) = self.queues.get(usize::from(self.index[slot])) else {
            return Ok(Vec::new());
        };
        Ok(queue.flow_drops.iter().map(|(flow, drops)| (*flow, *drops)).collect())
    }

    /// Discards what waits (counted as flushed) and returns it; what egress has seen stays on its way.
    pub fn flush(&mut self) -> Vec<P> {
        let mut flushed = Vec::new();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            self.starts.set(number, None);
            while let Some(waiting) = queue.pop_waiting() {
                queue.count_flushed(waiting.length);
                self.held -= 1;
                flushed.push(waiting.packet);
            }
        }
        flushed
    }
}

fn no_such_queue(port: u16, priority: u8) -> String {
    format!("port {port}, queue {priority}: allowed are ports 0 to {} and queues 0 to {}", PORTS - 1, PRIORITIES - 1)
}
