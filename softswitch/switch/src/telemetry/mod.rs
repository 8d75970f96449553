//! Reports and counters of the flows of a program that makes none itself: made here, in the form that our own program has.
//!
//! A packet's flow is read from its bytes as it comes in, and what is known of it then goes through the queue with it, as a note.
//! When it has left egress, a report is made of the note and of what the queue measured. Deliberately absent: the queues.
// SPDX-License-Identifier: Apache-2.0
mod five_tuple;
mod flows;
mod report;

use narrows_drop_records::FieldRecord;
use narrows_pipeline::{EgressMeta, Note, Packet};

pub use five_tuple::FiveTuple;
use flows::Flows;
pub use flows::{Count, Flow};
pub use report::Collector;
use report::{Report, CE_MARKED, COLLISION, ECN_SHIFT, ENCAPSULATION_BYTES, NOT_IP};

use crate::tm::PORTS;

/// Bottleneck numbers are 6 bits wide.
const MAX_BOTTLENECKS: usize = 64;
const MAX_SAMPLE_SHIFT: u8 = 20;
const NO_BOTTLENECK: u8 = u8::MAX;

/// A port that is a bottleneck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bottleneck {
    /// Its number in reports, 0..63.
    pub index: u8,
    /// Egress port.
    pub port: u16,
    /// What comes in by these ports, and ingress drops, was for this bottleneck: of such a packet no egress port is known.
    pub ingress_ports: Vec<u16>,
    /// One departure of each 2^shift is reported.
    pub sample_shift: u8,
    /// Of which one that is.
    pub sample_seed: u32,
}

/// Whose a packet is that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its bottleneck.
    pub bottleneck: u8,
    /// Its flow index.
    pub flow: u16,
    /// Its signature.
    pub signature: u32,
}

/// How a packet was dropped before it had a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyDrop {
    /// As a loss that is emulated: it was not offered to the queue.
    Loss,
    /// By queue management, or for a reason that only the program knows.
    Offered,
}

#[derive(Debug, Clone, Copy, Default)]
struct Departures {
    sequence: u32,
    sample_shift: u8,
    sample_seed: u32,
}

/// The state of all bottlenecks whose packets are reported here.
#[derive(Debug)]
pub struct Telemetry {
    collector: Collector,
    bottlenecks: Vec<Bottleneck>,
    /// By egress port, and by ingress port for what is dropped before it has one.
    of_egress: Box<[u8; PORTS]>,
    of_ingress: Box<[u8; PORTS]>,
    departures: [Departures; MAX_BOTTLENECKS],
    flows: Flows,
    /// The flow of the frame that came in last.
    arriving: FiveTuple,
    /// The last report; kept for its memory.
    frame: Vec<u8>,
    /// What the watched fields had of the packet that egress saw last; without values if none is watched.
    watched: FieldRecord,
}

impl Telemetry {
    /// Nothing has been seen yet. Errors: names what cannot be, and what is allowed.
    pub fn new(collector: Collector, bottlenecks: Vec<Bottleneck>) -> Result<Self, String> {
        if usize::from(collector.length) < ENCAPSULATION_BYTES {
            return Err(format!("length {}: allowed are {ENCAPSULATION_BYTES} and more", collector.length));
        }
        let (mut of_egress, mut of_ingress) = (Box::new([NO_BOTTLENECK; PORTS]), Box::new([NO_BOTTLENECK; PORTS]));
        let mut departures = [Departures::default(); MAX_BOTTLENECKS];
        for (position, bottleneck) in bottlenecks.iter().enumerate() {
            let Bottleneck { index, port, sample_shift, sample_seed, .. } = *bottleneck;
            if bottlenecks[..position].iter().any(|other| other.index == index) {
                return Err(format!("bottleneck {index}: it is there twice"));
            }
            let of_index = departures.get_mut(usize::from(index));
            let of_index =
                of_index.ok_or_else(|| format!("bottleneck {index}: allowed are 0 to {}", MAX_BOTTLENECKS - 1))?;
            if sample_shift > MAX_SAMPLE_SHIFT {
                return Err(format!("sample_shift {sample_shift}: allowed are 0 to {MAX_SAMPLE_SHIFT}"));
            }
            *of_index = Departures { sequence: 0, sample_shift, sample_seed };
            take(&mut of_egress, port, index)?;
            for port in &bottleneck.ingress_ports {
                take(&mut of_ingress, *port, index)?;
            }
        }
        Ok(Telemetry {
            collector,
            bottlenecks,
            of_egress,
            of_ingress,
            departures,
            flows: Flows::new(),
            arriving: FiveTuple::default(),
            frame: Vec::new(),
            watched: FieldRecord::default(),
        })
    }

    /// Where reports go.
    pub fn collector(&self) -> &Collector {
        &self.collector
    }

    /// What is reported.
    pub fn bottlenecks(&self) -> &[Bottleneck] {
        &self.bottlenecks
    }

    /// All flows that were seen, in that order.
    pub fn flows(&self) -> &[Flow] {
        self.flows.list()
    }

    fn of_port(&self, port: u16) -> Option<u8> {
        self.of_egress.get(usize::from(port)).copied().filter(|index| *index != NO_BOTTLENECK)
    }

    /// A frame comes in, of which no program has seen anything yet.
    pub fn arrive(&mut self, frame: &[u8]) {
        self.arriving = FiveTuple::of(frame);
    }

    /// The packet that came in last, or a replica of it, is offered to the queue of an egress port: it gets its note.
    pub fn offer(&mut self, port: u16, priority: u8, packet: &mut Packet) {
        if let Some(bottleneck) = self.of_port(port) {
            let length = packet.length();
            let (flow, note) = self.note(bottleneck, u16::from(priority));
            flow.arrivals.add(length);
            let arrivals = flow.arrivals.wrapped();
            packet.set_note(Note { arrivals, ..note });
        }
    }

    /// The note of the packet that came in last, but for its arrival.
    fn note(&mut self, bottleneck: u8, queue: u16) -> (&mut Flow, Note) {
        let tuple = self.arriving;
        let (flow, signature, collides) = self.flows.find(&tuple, bottleneck);
        let flags = flag(NOT_IP, tuple.is_other()) | flag(COLLISION, collides) | tuple.ecn() << ECN_SHIFT;
        let (losses, drops) = (flow.losses.wrapped(), flow.ingress_drops.wrapped());
        let note = Note { bottleneck, flags, flow: flow.index, signature, arrivals: 0, losses, drops, queue };
        (flow, note)
    }

    /// The program's ingress has dropped the packet that came in last; returns whose it was, if it was for a bottleneck.
    pub fn drop_early(&mut self, ingress_port: u16, cause: EarlyDrop, length: u32) -> Option<Owner> {
        let bottleneck = *self.of_ingress.get(usize::from(ingress_port))?;
        if bottleneck == NO_BOTTLENECK {
            return None;
        }
        let (flow, Note { flow: index, signature, .. }) = self.note(bottleneck, 0);
        match cause {
            EarlyDrop::Loss => flow.losses.add(length),
            EarlyDrop::Offered => {
                flow.arrivals.add(length);
                flow.ingress_drops.add(length);
            }
        }
        Some(Owner { bottleneck, flow: index, signature })
    }

    /// Whose a packet is that was offered to the queue of this port.
    pub fn owner(&self, port: u16, packet: &Packet) -> Option<Owner> {
        self.of_port(port)?;
        let Note { bottleneck, flow, signature, .. } = *packet.note();
        Some(Owner { bottleneck, flow, signature })
    }

    /// The program's egress has dropped a packet.
    pub fn drop_late(&mut self, port: u16, packet: &Packet) {
        let owner = self.owner(port, packet);
        if let Some(flow) = owner.and_then(|owner| self.flows.get(owner.flow)) {
            flow.egress_drops.add(packet.length());
        }
    }

    /// Egress has seen a packet, and its watched fields have these values.
    #[inline]
    pub fn watch(&mut self, values: impl Iterator<Item = u64>) {
        self.watched.values.clear();
        self.watched.values.extend(values);
    }

    /// What the watched fields had of the packet that was reported last; `None` if none is watched.
    pub fn watched(&self) -> Option<&FieldRecord> {
        Some(&self.watched).filter(|record| !record.values.is_empty())
    }

    /// A packet leaves, as the program has put it together; `meta` is what its queue measured. Returns its report, if it has one.
    pub fn depart(&mut self, meta: &EgressMeta, packet: &Packet) -> Option<&[u8]> {
        self.of_port(meta.port)?;
        let note = packet.note();
        let flow = self.flows.get(note.flow)?;
        flow.departures.add(packet.length());
        let (departures, late_drops) = (flow.departures.wrapped(), flow.egress_drops.wrapped());
        let of_bottleneck = self.departures.get_mut(usize::from(note.bottleneck))?;
        of_bottleneck.sequence = of_bottleneck.sequence.wrapping_add(1);
        let Departures { sequence, sample_shift, .. } = *of_bottleneck;
        if !of_bottleneck.is_sampled() {
            return None;
        }
        let came_marked = note.flags >> ECN_SHIFT & 3 == 3;
        let is_marked = !came_marked && FiveTuple::of(packet.bytes()).is_marked();
        let report = Report {
            flags: note.flags | flag(CE_MARKED, is_marked),
            bottleneck: note.bottleneck,
            sample_shift,
            flow: note.flow,
            packet_length: packet.length() as u16,
            signature: note.signature,
            sequence,
            arrivals: note.arrivals,
            departures,
            loss_drops: note.losses,
            aqm_drops: note.drops.wrapping_add(late_drops),
            enqueue_depth: meta.enq_depth_bytes,
            dequeue_depth: meta.deq_depth_bytes,
            queue_delay: meta.queue_delay,
            epoch: meta.epoch,
            timestamp: meta.timestamp,
            queue: note.queue,
        };
        (self.watched.bottleneck, self.watched.sequence) = (note.bottleneck, sequence);
        self.watched.timestamp = meta.timestamp;
        report.encode(&self.collector, packet.bytes(), packet.frame_length() as usize, &mut self.frame);
        Some(&self.frame)
    }
}

fn flag(bit: u8, is_set: bool) -> u8 {
    if is_set {
        bit
    } else {
        0
    }
}

/// Gives a port to a bottleneck. Errors: the port cannot be, or is another one's.
fn take(by_port: &mut [u8; PORTS], port: u16, index: u8) -> Result<(), String> {
    match by_port.get_mut(usize::from(port)) {
        None => Err(format!("port {port}: allowed are 0 to {}", PORTS - 1)),
        Some(slot) if *slot != NO_BOTTLENECK => Err(format!("port {port}: it is another bottleneck's")),
        Some(slot) => {
            *slot = index;
            Ok(())
        }
    }
}

impl Departures {
    /// Whether the departure that was counted last is the one of its row that is reported: `SamplePosition` of
    /// `p4src/v1model/primitives.p4`.
    fn is_sampled(&self) -> bool {
        let mask = (1 << self.sample_shift) - 1;
        if mask == 0 {
            return true;
        }
        let row = self.sequence.wrapping_sub(1) & !mask;
        let mut mixed = (row ^ row >> 16).wrapping_mul(0x85eb_ca6b).wrapping_add(self.sample_seed);
        mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
        self.sequence & mask == (mixed ^ mixed >> 16) & mask
    }
}
