// SPDX-License-Identifier: Apache-2.0
//! Totals of every bottleneck and of every flow index, by the rules of the aggregation.

use std::collections::BTreeMap;

use narrows_drop_records::{Cause, DropRecord};

use crate::aggregate::{Counters, Credit, Histogram, Reading};
use crate::flow_keys::FlowId;
use crate::telemetry::columns::Columns;
use crate::wire::report::FLAG_CE_MARKED;

/// Bins an octave of the delay, as a power of two.
const DELAY_BITS: u32 = 2;
const FLOW_INDICES: usize = 1 << 16;

/// The units of a report's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Seconds in a time unit of the switch.
    pub time_unit_s: f64,
    /// `None`: a depth unit, such as a packet, has no fixed size.
    pub depth_unit_bytes: Option<u32>,
    /// Queue delay, in time units, that reports show while nothing waits; it is subtracted.
    pub empty_queue_delay: u64,
}

/// Packets of a flow index, up to its latest report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTotals {
    pub arrivals: u64,
    pub departures: u64,
    pub loss_drops: u64,
    /// Drops by queue management; `drops` includes them.
    pub aqm_drops: u64,
    /// Drops by a policer, where drops are recorded; `drops` includes them.
    pub policer_drops: u64,
    /// Acknowledgements that later ones made redundant, where drops are recorded; `drops` includes them.
    pub ack_filter_drops: u64,
    /// Drops by the ingress of a user's program, where drops are recorded; `drops` includes them.
    pub program_ingress_drops: u64,
    /// Those by its egress.
    pub program_egress_drops: u64,
    /// Reported packets that the queue marked CE.
    pub marks: u64,
    /// Bytes of the frames of reported packets.
    pub bytes: u64,
}

impl FlowTotals {
    /// Packets that arrived at the queue and had not left it when a later packet did.
    pub fn drops(&self) -> u64 {
        self.arrivals - self.departures
    }

    /// Adds another flow's packets.
    pub fn merge(&mut self, other: &FlowTotals) {
        // Destructured in full: a new field does not compile until it is added up here.
        let FlowTotals {
            arrivals,
            departures,
            loss_drops,
            aqm_drops,
            policer_drops,
            ack_filter_drops,
            program_ingress_drops,
            program_egress_drops,
            marks,
            bytes,
        } = *other;
        self.arrivals += arrivals;
        self.departures += departures;
        self.loss_drops += loss_drops;
        self.aqm_drops += aqm_drops;
        self.policer_drops += policer_drops;
        self.ack_filter_drops += ack_filter_drops;
        self.program_ingress_drops += program_ingress_drops;
        self.program_egress_drops += program_egress_drops;
        self.marks += marks;
        self.bytes += bytes;
    }

    fn credit(&mut self, credit: Option<Credit>) {
        let Some(Credit { increment, .. }) = credit else {
            return;
        };
        self.arrivals += u64::from(increment.arrivals);
        self.departures += u64::from(increment.departures);
        self.loss_drops += u64::from(increment.loss_drops);
        self.aqm_drops += u64::from(increment.aqm_drops);
    }
}

struct Flow {
    id: FlowId,
    counters: Counters,
    confirmed: FlowTotals,
    recorded: RecordedDrops,
}

/// Drops of a flow, from records.
#[derive(Clone, Copy, Default)]
struct RecordedDrops {
    loss: u64,
    management: u64,
    full: u64,
    policer: u64,
    ack_filter: u64,
    program_ingress: u64,
    program_egress: u64,
}

impl RecordedDrops {
    /// Replaces what reports tell of drops: they only tell of those before the latest one.
    fn correct(&self, totals: &mut FlowTotals) {
        let by_program = self.program_ingress + self.program_egress;
        let by_queue = self.management + self.full + self.policer + self.ack_filter;
        totals.arrivals = totals.departures + by_queue + by_program;
        totals.loss_drops = self.loss;
        totals.aqm_drops = self.management;
        totals.policer_drops = self.policer;
        totals.ack_filter_drops = self.ack_filter;
        totals.program_ingress_drops = self.program_ingress;
        totals.program_egress_drops = self.program_egress;
    }
}

/// One bottleneck. Flows are in the order of their first report, which never changes.
pub struct Bottleneck {
    flows: Vec<Flow>,
    /// Number of each flow index among `flows`, plus one; 0 = none.
    numbers: Vec<u32>,
    delay: Histogram<DELAY_BITS>,
    delay_sum: u64,
    depth: u32,
    position: u64,
    last_sequence: u32,
    /// Departures whose report's counters are trusted.
    read: u64,
    /// The switch records drops.
    drops_recorded: bool,
}

impl Bottleneck {
    fn new(sequence: u32) -> Self {
        Bottleneck {
            flows: Vec::new(),
            numbers: vec![0; FLOW_INDICES],
            delay: Histogram::default(),
            delay_sum: 0,
            depth: 0,
            position: u64::from(sequence),
            last_sequence: sequence,
            read: 0,
            drops_recorded: false,
        }
    }

    /// The flow with an index, which is `id` if it is new.
    fn flow(&mut self, id: FlowId, counters: impl FnOnce() -> Counters) -> &mut Flow {
        let number = &mut self.numbers[usize::from(id.flow)];
        if *number == 0 {
            let (confirmed, recorded) = (FlowTotals::default(), RecordedDrops::default());
            self.flows.push(Flow { id, counters: counters(), confirmed, recorded });
            *number = self.flows.len() as u32;
        }
        &mut self.flows[*number as usize - 1]
    }

    /// The flow indices in the order of their first reports, with the flow that sent that report.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, FlowTotals)> + '_ {
        self.flows.iter().map(|flow| {
            let (mut totals, mut counters) = (flow.confirmed, flow.counters);
            totals.credit(counters.finish());
            if self.drops_recorded {
                flow.recorded.correct(&mut totals);
            }
            (flow.id, totals)
        })
    }

    /// Buckets of the delay in time units that are not empty, with their largest value and count; and the sum of all values.
    pub fn delays(&self) -> (impl Iterator<Item = (u64, u64)> + '_, u64) {
        (self.delay.filled().map(|(_, next, count)| (next - 1, count)), self.delay_sum)
    }

    /// Depth that the latest packet left behind, in depth units.
    pub fn depth(&self) -> u32 {
        self.depth
    }
}

/// All bottlenecks that have sent a report.
pub struct Figures {
    pub units: Units,
    pub bottlenecks: BTreeMap<u8, Bottleneck>,
}

impl Figures {
    /// No bottleneck yet.
    pub fn new(units: Units) -> Self {
        Figures { units, bottlenecks: BTreeMap::new() }
    }

    /// The largest value of each bin of the delay, in time units.
    pub fn delay_edges() -> impl Iterator<Item = u64> {
        Histogram::<DELAY_BITS>::edges()
    }

    /// Takes rows in sequence order.
    pub fn take(&mut self, columns: &Columns) {
        for row in 0..columns.len() {
            self.take_row(columns, row);
        }
    }

    /// Counts a packet that was dropped.
    pub fn take_drop(&mut self, record: &DropRecord) {
        let &DropRecord { bottleneck, flow, signature, cause, .. } = record;
        let of = self.bottlenecks.entry(bottleneck).or_insert_with(|| Bottleneck::new(0));
        of.drops_recorded = true;
        // Its counters are zero before its first report.
        let from_zero = || Counters::from_zero(Reading::default());
        let recorded = &mut of.flow(FlowId { bottleneck, flow, signature }, from_zero).recorded;
        match cause {
            Cause::LossEmulation => recorded.loss += 1,
            Cause::Management => recorded.management += 1,
            Cause::Full => recorded.full += 1,
            Cause::Policer => recorded.policer += 1,
            Cause::AckFilter => recorded.ack_filter += 1,
            Cause::ProgramIngress => recorded.program_ingress += 1,
            Cause::ProgramEgress => recorded.program_egress += 1,
        }
    }

    fn take_row(&mut self, columns: &Columns, row: usize) {
        let (index, sequence) = (columns.bottleneck[row], columns.sequence[row]);
        let bottleneck = self.bottlenecks.entry(index).or_insert_with(|| Bottleneck::new(sequence));
        // Rows are in sequence order, so the sequence grows; if it is smaller, the switch began anew, without departures.
        let step = sequence.wrapping_sub(bottleneck.last_sequence) as i32;
        bottleneck.position += u64::try_from(step).unwrap_or(0);
        bottleneck.last_sequence = sequence;
        let delay = columns.queue_delay[row].saturating_sub(self.units.empty_queue_delay);
        bottleneck.delay.add(delay);
        bottleneck.delay_sum += delay;
        bottleneck.depth = columns.dequeue_depth[row];

        let reading = Reading {
            arrivals: columns.arrivals[row],
            departures: columns.departures[row],
            loss_drops: columns.loss_drops[row],
            aqm_drops: columns.aqm_drops[row],
            unread: bottleneck.position.saturating_sub(bottleneck.read),
            flow: 0,
            arrival: 0,
        };
        let id = FlowId { bottleneck: index, flow: columns.flow[row], signature: columns.signature[row] };
        let flow = bottleneck.flow(id, || {
            // As in `CountersStart::Run`: more departures than the bottleneck's include some before this run.
            let from_zero = u64::from(reading.departures) <= 1 + reading.unread;
            if from_zero {
                Counters::from_zero(Reading::default())
            } else {
                Counters::default()
            }
        });
        let outcome = flow.counters.read(reading);
        flow.confirmed.credit(outcome.increment);
        flow.confirmed.marks += u64::from(columns.flags[row] & FLAG_CE_MARKED);
        flow.confirmed.bytes += u64::from(columns.packet_length[row]);
        bottleneck.read += u64::from(!outcome.ignored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_later_flows_have_the_sum_of_each_count() {
        let counted = |by: u64| FlowTotals {
            arrivals: 100 * by,
            departures: 90 * by,
            loss_drops: 3 * by,
            aqm_drops: 4 * by,
            policer_drops: 2 * by,
            ack_filter_drops: 5 * by,
            program_ingress_drops: 7 * by,
            program_egress_drops: 8 * by,
            marks: 5 * by,
            bytes: 6 * by,
        };
        let (one, two) = (counted(1), counted(2));
        let (mut twice, mut together) = (one, FlowTotals::default());
        twice.merge(&one);
        assert_eq!(twice, two);
        together.merge(&two);
        assert_eq!(together, two);
        assert_eq!(together.drops() - together.aqm_drops, 12);
    }
}
