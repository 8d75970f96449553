//! When the next packet leaves each port: the delay lines of the port's queues, merged by time.
// SPDX-License-Identifier: Apache-2.0
use super::queue::Queue;

/// No packet is on its way.
pub(super) const NEVER: u64 = u64::MAX;

/// A port, and where the lines are that end in it.
struct Port {
    number: u16,
    /// Queue numbers, ascending.
    queues: Vec<u16>,
}

/// All ports that have a queue, by position in order of their first queue.
///
/// Nothing that waits in a queue depends on what is on its way already, so exits need not be merged with the starts of all
/// queues by time: it is enough that those of one port are in order, and they can be taken in batches.
pub(super) struct Exits {
    ports: Vec<Port>,
    /// Exit time of each port's next packet.
    heads: Vec<u64>,
    /// The earliest of `heads`.
    next: u64,
}

impl Exits {
    pub fn new() -> Self {
        Exits { ports: Vec::new(), heads: Vec::new(), next: NEVER }
    }

    /// Adds a queue; returns the position of its port.
    pub fn add_queue(&mut self, port: u16, queue: u16) -> usize {
        let known = self.ports.iter().position(|known| known.number == port);
        let position = known.unwrap_or_else(|| {
            self.ports.push(Port { number: port, queues: Vec::new() });
            self.heads.push(NEVER);
            self.ports.len() - 1
        });
        self.ports[position].queues.push(queue);
        position
    }

    /// When the next packet of any port leaves.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When the next packet of this port leaves.
    #[inline]
    pub fn head(&self, port: usize) -> u64 {
        self.heads[port]
    }

    /// A packet that leaves at `exit_ns` was put at the end of a line of the port.
    #[inline]
    pub fn pushed(&mut self, port: usize, exit_ns: u64) {
        self.heads[port] = self.heads[port].min(exit_ns);
        self.next = self.next.min(exit_ns);
    }

    /// Takes all packets that are due at `now_ns`, of each port in order of time and then of queue number.
    #[inline]
    pub fn take_due<P>(&mut self, queues: &mut [Queue<P>], now_ns: u64, mut take: impl FnMut(u16, u64, P)) {
        if self.next > now_ns {
            return;
        }
        self.next = NEVER;
        for (port, head) in self.ports.iter().zip(&mut self.heads) {
            if *head <= now_ns {
                *head = drain(port, queues, now_ns, &mut take);
            }
            self.next = self.next.min(*head);
        }
    }

    /// Exit time and queue number of the next packet.
    pub fn first<P>(&self, queues: &[Queue<P>]) -> Option<(u64, usize)> {
        let due = self.ports.iter().zip(&self.heads).filter(|(_, head)| **head == self.next && self.next != NEVER);
        due.filter_map(|(port, _)| first(port, queues)).min()
    }

    /// Takes the next packet of a queue's line.
    pub fn pop<P>(&mut self, queues: &mut [Queue<P>], queue: usize) -> Option<(u64, P)> {
        let position = queues[queue].exit_port;
        let taken = queues[queue].line.pop_front();
        self.heads[position] = first(&self.ports[position], queues).map_or(NEVER, |(exit_ns, _)| exit_ns);
        self.next = self.heads.iter().copied().min().unwrap_or(NEVER);
        taken
    }
}

/// Exit time and queue number of a port's next packet.
#[inline]
fn first<P>(port: &Port, queues: &[Queue<P>]) -> Option<(u64, usize)> {
    let numbers = port.queues.iter().map(|number| usize::from(*number));
    numbers.filter_map(|number| Some((queues[number].line.front()?.0, number))).min()
}

/// Takes what is due; returns when the next packet leaves the port.
#[inline(always)]
fn drain<P>(port: &Port, queues: &mut [Queue<P>], now_ns: u64, take: &mut impl FnMut(u16, u64, P)) -> u64 {
    loop {
        let next = match port.queues[..] {
            [only] => queues[usize::from(only)].line.front().map(|(exit_ns, _)| (*exit_ns, usize::from(only))),
            _ => first(port, queues),
        };
        let Some((exit_ns, queue)) = next else {
            return NEVER;
        };
        if exit_ns > now_ns {
            return exit_ns;
        }
        if let Some((exit_ns, packet)) = queues[queue].line.pop_front() {
            take(port.number, exit_ns, packet);
        }
    }
}
