// SPDX-License-Identifier: Apache-2.0
//! The queue model: arrivals at a varying load, a byte clock, tail drop, retransmissions of what was dropped.

use std::collections::VecDeque;

use super::frame::{FrameOptions, Packet};
use super::random::Random;
use super::truth::{BottleneckTruth, FlowTruth};
use super::Scenario;
use crate::wire::report::{Report, FLAG_CE_MARKED, FLAG_ECN_SHIFT, VERSION};

/// Payload of a full segment; with IPv4 and timestamps the frame is 1514 bytes.
const SEGMENT: u64 = 1448;
/// This many arrivals at high load, then as many at low load.
const PHASE: u64 = 20_000;
const PICOSECONDS: u64 = 1000;
const TCP_ACK: u8 = 0x10;
const TCP_SYN: u8 = 0x02;
/// The ECN field with which every packet arrives (`FrameOptions::encode`).
const ECT_0: u8 = 2;

struct Flow {
    options: FrameOptions,
    /// Sequence number of the SYN.
    initial_sequence: u32,
    /// Segments first sent so far; segment 0 is the SYN.
    sent: u64,
    /// One more than the highest segment that departed.
    departed: u64,
    lost: VecDeque<u64>,
    arrivals: u64,
    departures: u64,
    loss_drops: u64,
    truth: FlowTruth,
}

/// One bottleneck of the model.
pub struct Bottleneck {
    scenario: Scenario,
    random: Random,
    flows: Vec<Flow>,
    /// Picosecond at which the link is free.
    free: u64,
    now: u64,
    arrivals: u64,
    /// Waiting packets: picosecond of their start of transmission, and bytes.
    waiting: VecDeque<(u64, u32)>,
    waiting_bytes: u64,
    departures: u64,
    /// Which one of the present row of 2^sample_shift departures is reported.
    sampled: u64,
    truth: BottleneckTruth,
    frame: Vec<u8>,
}

impl Bottleneck {
    pub fn new(scenario: &Scenario, index: u8) -> Self {
        let mut random = Random::new(scenario.seed.wrapping_add(u64::from(index) << 32));
        let flows = (0..scenario.flows).map(|flow| Flow::new(scenario, flow, &mut random)).collect();
        Bottleneck {
            scenario: *scenario,
            random,
            flows,
            free: 0,
            now: 1_000_000 * PICOSECONDS,
            arrivals: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            departures: 0,
            sampled: 0,
            truth: BottleneckTruth { index, delay_min: u64::MAX, ..BottleneckTruth::default() },
            frame: Vec::with_capacity(256),
        }
    }

    /// Lets one packet arrive; if it is queued and sampled, returns its egress time and report frame.
    pub fn next_arrival(&mut self) -> Option<(u64, &[u8])> {
        let scenario = self.scenario;
        let picoseconds_per_byte = (8_000_000_000_000 / scenario.rate_bps).max(1);
        let high_load = self.arrivals / PHASE % 2 == 0;
        let mean = 1500 * picoseconds_per_byte * if high_load { 10 } else { 14 } / 12;
        self.now += self.random.below(2 * mean);
        self.arrivals += 1;
        let index = self.random.below(self.flows.len() as u64) as usize;
        let flow = &mut self.flows[index];
        let (segment, packet) = flow.next_packet(&mut self.random, self.truth.index);
        let length = u32::from(flow.options.header_bytes() + packet.payload);
        if scenario.loss_one_in > 0 && self.random.below(u64::from(scenario.loss_one_in)) == 0 {
            flow.loss_drops += 1;
            flow.lost.push_back(segment);
            return None;
        }
        while self.waiting.front().is_some_and(|(start, _)| *start <= self.now) {
            self.waiting_bytes -= self.waiting.pop_front().map_or(0, |(_, bytes)| u64::from(bytes));
        }
        flow.arrivals += 1;
        let depth = self.waiting_bytes;
        if depth + u64::from(length) > scenario.buffer_bytes {
            flow.lost.push_back(segment);
            return None;
        }
        let start = self.now.max(self.free);
        self.free = start + u64::from(length) * picoseconds_per_byte;
        if start > self.now {
            self.waiting.push_back((start, length));
            self.waiting_bytes += u64::from(length);
        }
        self.departures += 1;
        let timestamp = start / PICOSECONDS;
        let delay = timestamp - self.now / PICOSECONDS;
        let marked = depth >= scenario.ecn_threshold_bytes;
        flow.depart(segment, &packet, length, timestamp, delay, marked);
        self.truth.count(length, timestamp, delay, depth as u32);

        let position = self.departures;
        let in_row = (position - 1) & ((1 << scenario.sample_shift) - 1);
        if in_row == 0 && scenario.sample_shift > 0 {
            self.sampled = self.random.below(1 << scenario.sample_shift);
        }
        if in_row != self.sampled {
            return None;
        }
        let base = scenario.counters_start;
        let flags = ECT_0 << FLAG_ECN_SHIFT | if marked { FLAG_CE_MARKED } else { 0 };
        let report = Report {
            version: VERSION,
            flags,
            bottleneck: self.truth.index,
            sample_shift: scenario.sample_shift,
            flow: flow.truth.flow,
            packet_length: length as u16,
            signature: flow.truth.signature,
            sequence: (base & !((1 << scenario.sample_shift) - 1)).wrapping_add(position as u32),
            arrivals: base.wrapping_add(scenario.drops_start).wrapping_add(flow.arrivals as u32),
            departures: base.wrapping_add(flow.departures as u32),
            loss_drops: base.wrapping_add(flow.loss_drops as u32),
            aqm_drops: 0,
            enqueue_depth: depth as u32,
            dequeue_depth: self.waiting_bytes.saturating_sub(u64::from(length)) as u32,
            queue_delay: delay,
            epoch: 1,
            timestamp,
            queue: 0,
        };
        flow.options.encode(&report, &packet, scenario.port, &mut self.frame);
        Some((timestamp, &self.frame))
    }

    pub fn into_truth(self) -> BottleneckTruth {
        let departed = self.flows.into_iter().filter(|flow| flow.departures > 0);
        BottleneckTruth { flows: departed.map(|flow| flow.truth).collect(), ..self.truth }
    }
}

impl BottleneckTruth {
    fn count(&mut self, length: u32, timestamp: u64, delay: u64, depth: u32) {
        if self.departures == 0 {
            self.first_timestamp = timestamp;
        }
        self.departures += 1;
        self.bytes += u64::from(length);
        self.last_timestamp = timestamp;
        self.delay_sum += delay;
        self.delay_min = self.delay_min.min(delay);
        self.delay_max = self.delay_max.max(delay);
        self.depth_max = self.depth_max.max(depth);
    }
}

impl Flow {
    fn new(scenario: &Scenario, flow: u16, random: &mut Random) -> Self {
        let kind = if scenario.mixed_headers { flow % 4 } else { 0 };
        Flow {
            options: FrameOptions {
                ipv6: kind == 1 || kind == 3,
                vlan_tags: if kind >= 2 { (kind - 1) as u8 } else { 0 },
                udp: flow % 8 == 7,
            },
            // Close to the wrap, so that long flows wrap.
            initial_sequence: u32::MAX - random.below(1 << 20) as u32,
            sent: 0,
            departed: 0,
            lost: VecDeque::new(),
            arrivals: 0,
            departures: 0,
            loss_drops: 0,
            truth: FlowTruth {
                // Spread over the index space, like hashes; an odd factor keeps them distinct.
                flow: flow.wrapping_mul(40_503),
                signature: random.next() as u32,
                delay_min: u64::MAX,
                ..FlowTruth::default()
            },
        }
    }

    /// The next packet, with its segment number: the SYN, a dropped segment again, or new data.
    fn next_packet(&mut self, random: &mut Random, bottleneck: u8) -> (u64, Packet) {
        let again = if random.below(4) == 0 { self.lost.pop_front() } else { None };
        let segment = again.unwrap_or_else(|| {
            self.sent += 1;
            self.sent - 1
        });
        let syn = segment == 0 && !self.options.udp;
        let payload = if syn { 0 } else { SEGMENT as u16 };
        // The SYN takes up one sequence number.
        let offset = if segment == 0 { 0 } else { 1 + (segment - 1) * SEGMENT };
        let packet = Packet {
            flow: self.truth.flow,
            bottleneck,
            payload,
            sequence: self.initial_sequence.wrapping_add(offset as u32),
            flags: if syn { TCP_SYN } else { TCP_ACK },
            timestamp: (self.arrivals / 16) as u32 + 1,
        };
        (segment, packet)
    }

    fn depart(&mut self, segment: u64, packet: &Packet, length: u32, timestamp: u64, delay: u64, marked: bool) {
        self.departures += 1;
        let truth = &mut self.truth;
        if truth.departures == 0 {
            truth.first_timestamp = timestamp;
        }
        truth.departures += 1;
        truth.bytes += u64::from(length);
        truth.payload_bytes += u64::from(packet.payload);
        truth.ce_marks += u64::from(marked);
        truth.delay_sum += delay;
        truth.delay_min = truth.delay_min.min(delay);
        truth.delay_max = truth.delay_max.max(delay);
        truth.drops = self.arrivals - self.departures;
        truth.loss_drops = self.loss_drops;
        truth.last_timestamp = timestamp;
        if segment < self.departed && !self.options.udp {
            truth.retransmitted_bytes += u64::from(packet.payload);
        }
        self.departed = self.departed.max(segment + 1);
    }
}
