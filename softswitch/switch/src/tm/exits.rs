//! When the next packet leaves each port: the delay lines of the port's queues, merged by time.
// SPDX-License-Identifier: Apache-2.0
use super::curve::NEVER;
use super::queue::Queue;

/// Positions in a line, from the packet that is taken: how far ahead others are asked for.
const EXPECTED: [usize; 2] = [3, 6];
/// Packets of a line that the processor's caches hold.
const NEAR: usize = 128;

/// A port, and where the lines are that end in it.
struct Port {
    number: u16,
    /// Queue numbers, ascending.
    queues: Vec<u16>,
    /// A loopback: what leaves comes in again.
    returns: bool,
}

/// All ports that have a queue, by position in order of their first queue.
///
/// Nothing that waits in a queue depends on what is on its way out of the switch, so exits need not be merged with the starts
/// of all queues by time: it is enough that those of one port are in order, and they can be taken in batches. What leaves a
/// loopback port comes in again, and has its place among the starts.
pub(super) struct Exits {
    ports: Vec<Port>,
    /// Exit time of each port's next packet.
    heads: Vec<u64>,
    /// The earliest of `heads`, of ports that lead out of the switch, and of loopbacks.
    next: [u64; 2],
}

impl Exits {
    pub fn new() -> Self {
        Exits { ports: Vec::new(), heads: Vec::new(), next: [NEVER; 2] }
    }

    /// Adds a queue of a port, which is a loopback or not; returns the position of the port.
    pub fn add_queue(&mut self, port: u16, queue: u16, returns: bool) -> usize {
        let known = self.ports.iter().position(|known| known.number == port);
        let position = known.unwrap_or_else(|| {
            self.ports.push(Port { number: port, queues: Vec::new(), returns });
            self.heads.push(NEVER);
            self.ports.len() - 1
        });
        self.ports[position].queues.push(queue);
        position
    }

    /// When the next packet leaves the switch.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next[0]
    }

    /// When the next packet comes in again.
    #[inline]
    pub fn next_return(&self) -> u64 {
        self.next[1]
    }

    /// When the next packet of this port leaves.
    #[inline]
    pub fn head(&self, port: usize) -> u64 {
        self.heads[port]
    }

    /// A packet that leaves at `exit_ns` was put into a line of the port.
    #[inline]
    pub fn pushed(&mut self, port: usize, exit_ns: u64) {
        self.heads[port] = self.heads[port].min(exit_ns);
        let next = &mut self.next[usize::from(self.ports[port].returns)];
        *next = exit_ns.min(*next);
    }

    /// Takes all packets that leave the switch until `now_ns`, of each port in order of time and then of queue number; those that
    /// will be taken soon and those after them are shown to `upcoming`.
    #[inline]
    pub fn take_due<P>(
        &mut self,
        queues: &mut [Queue<P>],
        now_ns: u64,
        upcoming: impl Fn([Option<&P>; 2]),
        mut take: impl FnMut(u16, u64, P),
    ) {
        // Not even at the end of time does a packet leave that a link has stopped for.
        let now_ns = now_ns.min(NEVER - 1);
        if self.next[0] > now_ns {
            return;
        }
        self.next[0] = NEVER;
        for (port, head) in self.ports.iter().zip(&mut self.heads).filter(|(port, _)| !port.returns) {
            if *head <= now_ns {
                *head = drain(port, queues, now_ns, &upcoming, &mut take);
            }
            self.next[0] = self.next[0].min(*head);
        }
    }

    /// When the next packet comes in again, and its queue number.
    pub fn first_return<P>(&self, queues: &[Queue<P>]) -> Option<(u64, usize)> {
        let next = self.next[1];
        let ports = self.ports.iter().zip(&self.heads).filter(|(port, _)| port.returns);
        let due = ports.filter(|(_, head)| **head == next && next != NEVER);
        due.filter_map(|(port, _)| first(port, queues)).min()
    }

    /// Takes the next packet of a queue's line.
    pub fn pop<P>(&mut self, queues: &mut [Queue<P>], queue: usize) -> Option<(u64, P)> {
        let position = queues[queue].exit_port;
        let taken = queues[queue].delay_line.pop_front();
        self.refresh(position, queues);
        taken
    }

    /// The lines of the port have changed otherwise.
    pub fn refresh<P>(&mut self, port: usize, queues: &[Queue<P>]) {
        self.heads[port] = first(&self.ports[port], queues).map_or(NEVER, |(exit_ns, _)| exit_ns);
        let returns = self.ports[port].returns;
        let alike = self.ports.iter().zip(&self.heads).filter(|(other, _)| other.returns == returns);
        self.next[usize::from(returns)] = alike.map(|(_, head)| *head).min().unwrap_or(NEVER);
    }
}

/// Exit time and queue number of a port's next packet.
#[inline]
fn first<P>(port: &Port, queues: &[Queue<P>]) -> Option<(u64, usize)> {
    let numbers = port.queues.iter().map(|number| usize::from(*number));
    numbers.filter_map(|number| Some((queues[number].delay_line.front()?.0, number))).min()
}

/// Takes what is due; returns when the next packet leaves the port.
#[inline(always)]
fn drain<P>(
    port: &Port,
    queues: &mut [Queue<P>],
    now_ns: u64,
    upcoming: &impl Fn([Option<&P>; 2]),
    take: &mut impl FnMut(u16, u64, P),
) -> u64 {
    loop {
        let next = match port.queues[..] {
            [only] => queues[usize::from(only)].delay_line.front().map(|(exit_ns, _)| (*exit_ns, usize::from(only))),
            _ => first(port, queues),
        };
        let Some((exit_ns, queue)) = next else {
            return NEVER;
        };
        if exit_ns > now_ns {
            return exit_ns;
        }
        let line = &mut queues[queue].delay_line;
        if line.len() > NEAR {
            upcoming(EXPECTED.map(|position| line.get(position).map(|(_, packet)| packet)));
        }
        if let Some((exit_ns, packet)) = line.pop_front() {
            take(port.number, exit_ns, packet);
        }
    }
}
