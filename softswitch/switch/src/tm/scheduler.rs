//! Several queues that share one link: which of them sends next.
// SPDX-License-Identifier: Apache-2.0
use std::collections::VecDeque;

use super::queued::{telemetry_qdepth, Queued};
use super::PRIORITIES;

/// Queues of one link, at most.
pub const MAX_LINK_QUEUES: u32 = 1_024;

/// How queues share a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// One queue.
    Fifo,
    /// Two queues, of this priority and the next one, by a credit of bytes (Linux's `dualpi2`): the second goes first until it has
    /// sent so much that the first one gets `classic_percent` of the link.
    Coupled {
        /// Share of the first queue while both have packets, 0 to 100.
        classic_percent: u8,
        /// Frame that the first packet of a busy time is taken to be.
        mtu: u32,
    },
    /// Deficit round robin with a list of new queues (RFC 8290, section 4.2); a packet's queue is its flow modulo their number.
    Fair {
        /// A power of two.
        queues: u32,
        /// Bytes that a queue may send in its turn.
        quantum: u32,
        /// Where there is no room, the longest queue loses half of its packets, but at most this many packets.
        batch: u32,
    },
    /// All queues of the port, which is that of priority 0 and those above it: the highest that has packets goes first.
    Strict,
    /// The same queues by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
    Deficit {
        /// Bytes that the queue of each priority may send in its turn.
        quanta: [u32; PRIORITIES],
    },
}

impl Scheduling {
    /// How many priorities, from the link's first one up, have a queue of this link.
    pub(super) fn priorities(self) -> u8 {
        match self {
            Scheduling::Fifo | Scheduling::Fair { .. } => 1,
            Scheduling::Coupled { .. } => 2,
            Scheduling::Strict | Scheduling::Deficit { .. } => PRIORITIES as u8,
        }
    }
}

/// Packets of several queues, in the order in which they start.
pub(super) struct Scheduler<P> {
    queues: Vec<LinkQueue<P>>,
    length: usize,
    order: Order,
}

struct LinkQueue<P> {
    packets: VecDeque<Queued<P>>,
    bytes: u64,
    /// It was to send, and had nothing, since its last packet came.
    asked_in_vain: bool,
    /// Of queues that have turns: what it may send in this one, and whether it is on one of the lists.
    deficit: i64,
    listed: bool,
}

enum Order {
    Coupled {
        credit: i64,
        first_credit: i64,
        classic_percent: i64,
        /// Both had packets when the last one was taken, and which queue that came from.
        taken: Option<usize>,
    },
    Fair {
        quantum: i64,
        new: VecDeque<usize>,
        old: VecDeque<usize>,
        taken: usize,
    },
    Strict {
        taken: usize,
    },
    Deficit {
        quanta: [u32; PRIORITIES],
        /// Those that have packets, the one whose turn it is first.
        active: VecDeque<usize>,
        /// It has its quantum for this turn.
        begun: bool,
        taken: usize,
    },
}

impl<P> LinkQueue<P> {
    /// It was to send, had nothing, and is on no list any more.
    fn forget(&mut self) {
        (self.listed, self.asked_in_vain) = (false, true);
    }
}

impl<P> Scheduler<P> {
    /// `None`: one queue needs none.
    pub fn new(scheduling: Scheduling) -> Option<Self> {
        let (count, order) = match scheduling {
            Scheduling::Fifo => return None,
            Scheduling::Coupled { classic_percent, mtu } => {
                let classic_percent = i64::from(classic_percent);
                let first_credit = i64::from(mtu) * (2 * classic_percent - 100);
                (2, Order::Coupled { credit: first_credit, first_credit, classic_percent, taken: None })
            }
            Scheduling::Fair { queues, quantum, .. } => {
                let (new, old) = (VecDeque::new(), VecDeque::new());
                (queues, Order::Fair { quantum: i64::from(quantum), new, old, taken: 0 })
            }
            Scheduling::Strict => (PRIORITIES as u32, Order::Strict { taken: 0 }),
            Scheduling::Deficit { quanta } => {
                (PRIORITIES as u32, Order::Deficit { quanta, active: VecDeque::new(), begun: false, taken: 0 })
            }
        };
        let empty =
            |_| LinkQueue { packets: VecDeque::new(), bytes: 0, asked_in_vain: true, deficit: 0, listed: false };
        Some(Scheduler { queues: (0..count).map(empty).collect(), length: 0, order })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// When the head of a queue arrived.
    pub fn head_ns(&self, queue: usize) -> Option<u64> {
        self.queues.get(queue)?.packets.front().map(|queued| queued.enqueue_ns)
    }

    /// When the packet arrived that has waited longest.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| queue.packets.front()).map(|queued| queued.enqueue_ns).min()
    }

    /// The queue of a packet: `above` is its priority above that of the link's first queue.
    pub fn queue_of(&self, above: u8, flow: Option<u32>) -> usize {
        match &self.order {
            Order::Coupled { .. } => usize::from(above & 1),
            Order::Fair { .. } => flow.unwrap_or(0) as usize & (self.queues.len() - 1),
            Order::Strict { .. } | Order::Deficit { .. } => usize::from(above) % self.queues.len(),
        }
    }

    /// The only packet passes its queue: none waits, and it does not. The link was idle when it came: it had asked for a packet in
    /// vain, so that what queues owe each other is forgotten.
    pub fn pass(&mut self, above: u8, flow: Option<u32>) {
        let passed = self.queue_of(above, flow);
        match &mut self.order {
            Order::Coupled { credit, first_credit, taken, .. } => (*credit, *taken) = (*first_credit, None),
            Order::Fair { quantum, new, old, taken } => {
                // As a rule only the one is listed that a packet has passed before.
                if new.len() != 1 || !old.is_empty() {
                    let others = new.drain(..).chain(old.drain(..));
                    others.for_each(|queue| self.queues[queue].forget());
                    new.push_back(passed);
                }
                if let Some(only) = new.front_mut() {
                    self.queues[*only].forget();
                    *only = passed;
                }
                *taken = passed;
                let queue = &mut self.queues[passed];
                (queue.listed, queue.deficit) = (true, *quantum);
            }
            Order::Strict { taken } | Order::Deficit { taken, .. } => *taken = passed,
        }
        self.queues[passed].asked_in_vain = false;
    }

    /// What egress sees as the depth that a packet found, in packets: those in its own queue and 1 more; 0 if that had been
    /// asked for a packet and found none, which CoDel of one of several queues has to know.
    fn found_packets(&self, queue: usize) -> u64 {
        match &self.queues[queue] {
            LinkQueue { asked_in_vain: true, .. } => 0,
            queue => queue.packets.len() as u64 + 1,
        }
    }

    pub fn push(&mut self, above: u8, flow: Option<u32>, mut queued: Queued<P>) {
        let number = self.queue_of(above, flow);
        queued.depth_packets = telemetry_qdepth(self.found_packets(number));
        let queue = &mut self.queues[number];
        queue.asked_in_vain = false;
        queue.bytes += u64::from(queued.length);
        queue.packets.push_back(queued);
        self.length += 1;
        match &mut self.order {
            Order::Fair { quantum, new, .. } if !queue.listed => {
                (queue.listed, queue.deficit) = (true, *quantum);
                new.push_back(number);
            }
            Order::Deficit { active, .. } if !queue.listed => {
                queue.listed = true;
                active.push_back(number);
            }
            _ => {}
        }
    }

    /// What waits in a queue.
    pub fn waiting(&self, number: usize) -> &VecDeque<Queued<P>> {
        &self.queues[number].packets
    }

    /// Takes a packet out of a queue, into which another one follows at once: it stays where it is among the others.
    pub fn remove(&mut self, number: usize, position: usize) -> Option<Queued<P>> {
        let queue = &mut self.queues[number];
        let queued = queue.packets.remove(position)?;
        queue.bytes -= u64::from(queued.length);
        self.length -= 1;
        Some(queued)
    }

    /// The packet to start next. It costs its queue nothing before [`Scheduler::charge`].
    pub fn pop(&mut self) -> Option<Queued<P>> {
        let queue = self.next_queue()?;
        self.pop_from(queue)
    }

    fn next_queue(&mut self) -> Option<usize> {
        match &mut self.order {
            Order::Coupled { credit, taken, .. } => {
                let [classic, low] = [0, 1].map(|queue: usize| !self.queues[queue].packets.is_empty());
                let queue = usize::from(low && (!classic || *credit <= 0));
                *taken = (classic && low).then_some(queue);
                Some(queue)
            }
            Order::Fair { quantum, new, old, taken } => loop {
                let of_new = !new.is_empty();
                let number = *if of_new { new.front() } else { old.front() }?;
                let queue = &mut self.queues[number];
                if queue.deficit <= 0 {
                    queue.deficit += *quantum;
                } else if !queue.packets.is_empty() {
                    *taken = number;
                    return Some(number);
                } else {
                    queue.asked_in_vain = true;
                    if !of_new {
                        old.pop_front();
                        queue.listed = false;
                        continue;
                    }
                }
                if of_new {
                    new.pop_front()
                } else {
                    old.pop_front()
                };
                old.push_back(number);
            },
            Order::Strict { taken } => {
                *taken = self.queues.iter().rposition(|queue| !queue.packets.is_empty())?;
                Some(*taken)
            }
            Order::Deficit { quanta, active, begun, taken } => loop {
                let number = *active.front()?;
                let queue = &mut self.queues[number];
                if !*begun {
                    queue.deficit += i64::from(quanta[number]);
                    *begun = true;
                }
                if queue.packets.front().is_some_and(|head| i64::from(head.length) <= queue.deficit) {
                    *taken = number;
                    return Some(number);
                }
                active.rotate_left(1);
                *begun = false;
            },
        }
    }

    /// Packets in the queue that the last one was taken from.
    pub fn left_packets(&self) -> usize {
        let queue = match &self.order {
            Order::Coupled { taken, .. } => taken.unwrap_or(0),
            Order::Fair { taken, .. } | Order::Strict { taken } | Order::Deficit { taken, .. } => *taken,
        };
        self.queues[queue].packets.len()
    }

    /// The packet that was taken last starts on the link.
    pub fn charge(&mut self, length: u32) {
        let length = i64::from(length);
        match &mut self.order {
            Order::Coupled { credit, classic_percent, taken: Some(queue), .. } => {
                let weight = if *queue == 1 { *classic_percent } else { *classic_percent - 100 };
                *credit += length * weight;
            }
            Order::Coupled { .. } | Order::Strict { .. } => {}
            Order::Fair { taken, .. } => self.queues[*taken].deficit -= length,
            Order::Deficit { taken, .. } => {
                let queue = &mut self.queues[*taken];
                // One that has sent its last packet keeps nothing.
                queue.deficit -= if queue.listed { length } else { 0 };
            }
        }
    }

    /// The queue with most bytes, the first of several, and the packets in it.
    pub fn longest(&self) -> (usize, usize) {
        let longest = (0..self.queues.len()).max_by_key(|queue| (self.queues[*queue].bytes, std::cmp::Reverse(*queue)));
        let longest = longest.unwrap_or(0);
        (longest, self.queues[longest].packets.len())
    }

    /// The first queue with packets, which is the last to send of those that are served by priority.
    pub fn lowest(&self) -> usize {
        self.queues.iter().position(|queue| !queue.packets.is_empty()).unwrap_or(0)
    }

    /// The oldest packet of a queue.
    pub fn pop_from(&mut self, number: usize) -> Option<Queued<P>> {
        let queue = &mut self.queues[number];
        let queued = queue.packets.pop_front()?;
        queue.bytes -= u64::from(queued.length);
        self.length -= 1;
        if let (Order::Deficit { active, begun, .. }, true) = (&mut self.order, queue.packets.is_empty()) {
            *begun &= active.front() != Some(&number);
            active.retain(|&listed| listed != number);
            (queue.listed, queue.deficit) = (false, 0);
        }
        Some(queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(scheduling: Scheduling) -> Scheduler<usize> {
        Scheduler::new(scheduling).expect("several queues")
    }

    fn served(scheduler: &mut Scheduler<usize>, count: usize) -> Vec<usize> {
        let next = |_| {
            let queued = scheduler.pop().expect("something waits");
            scheduler.charge(queued.length);
            queued.packet
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_new_queue_goes_before_old_ones_and_shares_are_by_bytes() {
        let mut fair = scheduler(Scheduling::Fair { queues: 4, quantum: 1_000, batch: 1 });
        for _ in 0..8 {
            fair.push(0, Some(0), Queued::of(0, 1_000));
            fair.push(0, Some(1), Queued::of(1, 500));
        }
        // Both are new: each sends until its quantum is spent, and is old then.
        assert_eq!(served(&mut fair, 6), [0, 1, 1, 0, 1, 1]);
        fair.push(0, Some(2), Queued::of(2, 100));
        assert_eq!(served(&mut fair, 2), [2, 0]);
        // What is longest loses its oldest: 5,000 bytes of queue 0 against 2,000.
        assert_eq!(fair.longest().0, 0);
        assert_eq!(fair.pop_from(0).map(|queued| queued.packet), Some(0));
        assert_eq!(fair.len(), 4 + 4);
    }

    #[test]
    fn the_highest_priority_with_packets_goes_first() {
        let mut strict = scheduler(Scheduling::Strict);
        for (packet, priority) in [3, 0, 7, 3, 0, 7].into_iter().enumerate() {
            strict.push(priority, None, Queued::of(packet, 100));
        }
        assert_eq!(strict.lowest(), 0);
        assert_eq!(served(&mut strict, 3), [2, 5, 0]);
        strict.push(7, None, Queued::of(6, 100));
        assert_eq!(served(&mut strict, 4), [6, 3, 1, 4]);
        assert!(strict.pop().is_none());
    }

    /// Deficit round robin as the paper has it: what each service serves, in order, of arrivals (queue, length) and services (none).
    fn as_the_paper_has_it(quanta: [u32; PRIORITIES], happens: &[Option<(u8, u32)>]) -> Vec<(u8, u32)> {
        let (mut queues, mut counters) = (vec![Vec::new(); PRIORITIES], [0u32; PRIORITIES]);
        let (mut active, mut visited, mut served) = (Vec::new(), None, Vec::new());
        for event in happens {
            if let Some((queue, length)) = *event {
                queues[usize::from(queue)].push(length);
                if !active.contains(&queue) {
                    active.push(queue);
                }
                continue;
            }
            while let Some(&queue) = active.first() {
                let place = usize::from(queue);
                if visited != Some(queue) {
                    counters[place] += quanta[place];
                    visited = Some(queue);
                }
                if queues[place][0] > counters[place] {
                    active.remove(0);
                    active.push(queue);
                    visited = None;
                    continue;
                }
                let length = queues[place].remove(0);
                counters[place] -= length;
                served.push((queue, length));
                if queues[place].is_empty() {
                    counters[place] = 0;
                    active.remove(0);
                    visited = None;
                }
                break;
            }
        }
        served
    }

    #[test]
    fn deficit_round_robin_is_that_of_its_paper() {
        let quanta = [1_500, 3_000, 500, 64, 1_514, 9_000, 100, 700];
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Queues fill, and run empty again and again.
        let happens: Vec<Option<(u8, u32)>> = (0..40_000)
            .map(|at| {
                let is_arrival = draw(100) < if at / 2_000 % 2 == 0 { 60 } else { 35 };
                is_arrival.then(|| (draw(8) as u8, 64 + draw(1_451) as u32))
            })
            .collect();
        let mut deficit = scheduler(Scheduling::Deficit { quanta });
        let mut found = Vec::new();
        for event in &happens {
            match *event {
                Some((queue, length)) => deficit.push(queue, None, Queued::of(usize::from(queue), length)),
                None => {
                    if let Some(queued) = deficit.pop() {
                        deficit.charge(queued.length);
                        found.push((queued.packet as u8, queued.length));
                    }
                }
            }
        }
        assert!(found.len() > 15_000);
        assert_eq!(found, as_the_paper_has_it(quanta, &happens));
    }

    #[test]
    fn queues_that_always_have_packets_get_their_quanta_to_a_packet() {
        let quanta = [500, 1_000, 2_000, 0, 0, 0, 0, 0].map(|quantum: u32| quantum.max(1));
        let mut deficit = scheduler(Scheduling::Deficit { quanta });
        for packet in 0..9_000usize {
            let (queue, length) = (packet % 3, [1_500, 300, 1_100][packet % 3]);
            deficit.push(queue as u8, None, Queued::of(queue, length));
        }
        let mut sent = [0i64; 3];
        for _ in 0..2_000 {
            let queued = deficit.pop().expect("all have packets");
            deficit.charge(queued.length);
            sent[queued.packet] += i64::from(queued.length);
        }
        // Lemma 2 of the paper: in m rounds a queue sends m quanta, but for less than a packet.
        let rounds = sent[2] / 2_000;
        for (bytes, quantum) in sent.into_iter().zip([500, 1_000, 2_000]) {
            assert!((bytes - rounds * quantum).abs() <= 1_500 + 2 * quantum, "{sent:?}");
        }
    }

    #[test]
    fn coupled_queues_share_by_their_weight_while_both_have_packets() {
        let mut coupled = scheduler(Scheduling::Coupled { classic_percent: 10, mtu: 1_500 });
        for _ in 0..1_000 {
            coupled.push(0, None, Queued::of(0, 1_500));
            coupled.push(1, None, Queued::of(1, 1_500));
        }
        let classic = served(&mut coupled, 1_000).iter().filter(|queue| **queue == 0).count();
        // The first credit, -1.2 MTU x 100, is worth eight of ten packets to the second queue.
        assert!((92..=100).contains(&classic), "{classic}");
    }
}
