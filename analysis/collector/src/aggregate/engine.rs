// SPDX-License-Identifier: Apache-2.0
//! Every time series and total, in one pass over the records in sequence order.

use std::collections::HashMap;

use super::bottleneck::{BottleneckRows, BottleneckState, Settled};
use super::counters::{Counters, Credit, Reading};
use super::flow::{Collision, CounterDoubts, FlowState};
use super::settings::{CountersStart, EngineSettings};
use super::tables::{FlowArrivals, FlowSeries};
use super::tcp::HoleBudget;
use crate::flow_keys::FlowId;
use crate::intake::Sequencers;
use crate::sequencer::SequenceCounts;
use crate::wire::{Record, BOTTLENECKS};

/// Most flows that have their own state, which bounds memory at about 500 MB. Later ones count in their bottleneck only.
pub const MAX_FLOWS: usize = 1 << 18;

/// Most holes in all flows' sequence spaces together, which bounds memory at about 400 MB.
const MAX_HOLES: usize = 1 << 23;

/// What could not be used in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Those of flows whose index no flow of another bottleneck has.
    pub counters: CounterDoubts,
    /// Reports of flows beyond [`MAX_FLOWS`].
    pub flows_overflow: u64,
}

/// Flows and the rows of closed intervals.
pub struct Flows {
    settings: EngineSettings,
    pub states: Vec<FlowState>,
    /// Flows that share their index with an earlier one.
    colliding: HashMap<FlowId, u32>,
    pub series: FlowSeries,
    pub arrivals: FlowArrivals,
    pub doubts: Doubts,
    pub holes: HoleBudget,
}

/// The aggregation.
pub struct Engine {
    sequencers: Sequencers,
    placed: Placed,
}

/// Everything behind the sequencers.
pub struct Placed {
    pub bottlenecks: [Option<Box<BottleneckState>>; BOTTLENECKS],
    pub rows: BottleneckRows,
    pub flows: Flows,
    /// Start of interval 0, once there is a report.
    pub origin: Option<u64>,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(settings: EngineSettings) -> Self {
        let flows = Flows {
            settings,
            states: Vec::new(),
            colliding: HashMap::new(),
            series: FlowSeries::default(),
            arrivals: FlowArrivals::default(),
            doubts: Doubts::default(),
            holes: HoleBudget { left: MAX_HOLES, forgotten: 0 },
        };
        let placed = Placed {
            bottlenecks: [const { None }; BOTTLENECKS],
            rows: BottleneckRows::default(),
            flows,
            origin: settings.origin,
        };
        Engine { sequencers: Sequencers::default(), placed }
    }

    /// Takes records in the order of their arrival.
    pub fn take(&mut self, records: &[Record]) {
        let Engine { sequencers, placed } = self;
        for record in records {
            sequencers.push(record, &mut |record| placed.take(record));
        }
    }

    /// State with the rows of closed intervals, to be moved out from time to time.
    pub fn placed(&mut self) -> &mut Placed {
        &mut self.placed
    }

    /// A bottleneck whose sequence began anew.
    pub fn first_restart(&self) -> Option<u8> {
        self.sequencers.first_restart()
    }

    /// Closes every interval and returns the final state.
    pub fn finish(mut self) -> (Vec<(u8, SequenceCounts)>, Placed) {
        let placed = &mut self.placed;
        self.sequencers.finish(&mut |record| placed.take(record));
        placed.finish();
        (self.sequencers.counts(), self.placed)
    }
}

impl Placed {
    #[inline]
    fn take(&mut self, record: &Record) {
        let flows = &mut self.flows;
        let slot = &mut self.bottlenecks[usize::from(record.report.bottleneck) % BOTTLENECKS];
        let bottleneck = match slot {
            Some(bottleneck) => bottleneck,
            None => {
                let report = &record.report;
                let arrival = report.timestamp.saturating_sub(report.queue_delay);
                let origin = *self.origin.get_or_insert(arrival);
                slot.insert(Box::new(BottleneckState::new(record, &flows.settings, origin)))
            }
        };
        bottleneck.place(record, &mut self.rows, &mut |bottleneck, rows, settled| {
            flows.take(bottleneck, rows, settled);
        });
    }

    fn finish(&mut self) {
        let (flows, rows) = (&mut self.flows, &mut self.rows);
        for bottleneck in self.bottlenecks.iter_mut().flatten() {
            bottleneck.finish(rows, &mut |bottleneck, rows, settled| {
                flows.take(bottleneck, rows, settled);
            });
            bottleneck.close_interval(&mut rows.series);
        }
        for index in 0..flows.states.len() {
            let id = flows.states[index].id;
            let credit = flows.states[index].counters.finish();
            let bottleneck = &mut self.bottlenecks[usize::from(id.bottleneck) % BOTTLENECKS];
            if let (Some(credit), Some(bottleneck)) = (credit, bottleneck) {
                flows.credit(&credit, bottleneck, rows);
            }
        }
        for bottleneck in self.bottlenecks.iter_mut().flatten() {
            bottleneck.open_arrivals().close(&mut rows.arrivals);
        }
        for state in &mut flows.states {
            state.close_interval(&mut flows.series);
            state.close_arrivals(&mut flows.arrivals);
        }
        flows.find_shared();
    }
}

impl Flows {
    #[inline]
    fn take(&mut self, bottleneck: &mut BottleneckState, rows: &mut BottleneckRows, settled: &Settled<'_>) {
        let record = settled.record;
        let Some(index) = self.find(bottleneck, record) else {
            self.doubts.flows_overflow += 1;
            bottleneck.add(settled, 0);
            return;
        };
        let report = &record.report;
        let reading = Reading {
            arrivals: report.arrivals,
            departures: report.departures,
            loss_drops: report.loss_drops,
            aqm_drops: report.aqm_drops,
            unread: bottleneck.unread(),
            flow: index as u32,
            arrival: settled.arrival,
        };
        let at = self.states[index].counters_at as usize;
        let outcome = self.states[at].counters.read(reading);
        if let Some(credit) = outcome.increment {
            self.credit(&credit, bottleneck, rows);
        }
        let state = &mut self.states[index];
        if outcome.ignored {
            state.doubts.implausible += 1;
            bottleneck.distrust();
        }
        state.doubts.resets += u64::from(outcome.reset);
        let segment = state.take(
            record,
            settled.depth,
            settled.bin,
            settled.time,
            settled.flow_interval,
            &mut self.holes,
            &mut self.series,
        );
        bottleneck.add(settled, segment.retransmitted_bytes);
    }

    #[inline]
    fn credit(&mut self, credit: &Credit, bottleneck: &mut BottleneckState, rows: &mut BottleneckRows) {
        let (of_flows, of_bottlenecks) = bottleneck.arrival_intervals(credit.arrival);
        let increment = &credit.increment;
        self.states[credit.flow as usize].credit(increment, of_flows, &mut self.arrivals);
        bottleneck.open_arrivals().credit(of_bottlenecks, &increment.into(), &mut rows.arrivals);
    }

    /// Number of the record's flow; `None` if there is no room for another one.
    #[inline]
    fn find(&mut self, bottleneck: &mut BottleneckState, record: &Record) -> Option<usize> {
        let first = bottleneck.flows[usize::from(record.report.flow)];
        if first > 0 && self.states[first as usize - 1].id.signature == record.report.signature {
            return Some(first as usize - 1);
        }
        self.find_slowly(bottleneck, record, first)
    }

    #[cold]
    fn find_slowly(&mut self, bottleneck: &mut BottleneckState, record: &Record, first: u32) -> Option<usize> {
        let id = FlowId::of(&record.report);
        if let Some(&index) = self.colliding.get(&id) {
            return Some(index as usize);
        }
        if self.states.len() >= MAX_FLOWS {
            return None;
        }
        let index = self.states.len();
        let from_zero = match self.settings.counters {
            // More departures than the bottleneck's in this run: earlier ones are included.
            CountersStart::Run => u64::from(record.report.departures) <= 1 + bottleneck.unread(),
            CountersStart::Detect | CountersStart::Zero => bottleneck.counters_from_zero,
        };
        let counters = if from_zero { Counters::from_zero(Reading::default()) } else { Counters::default() };
        let mut state = FlowState::new(id, counters, index as u32);
        state.doubts.carried_in = u64::from(!from_zero && self.settings.counters == CountersStart::Run);
        if first == 0 {
            bottleneck.flows[usize::from(id.flow)] = index as u32 + 1;
        } else {
            self.colliding.insert(id, index as u32);
            self.states[first as usize - 1].collision = Collision::Here;
            (state.counters_at, state.collision) = (first - 1, Collision::Here);
        }
        self.states.push(state);
        Some(index)
    }

    /// Finds flows whose index a flow of another bottleneck has as well: both count in the same cells of the switch, and
    /// neither's reports show when the other one did. Doubts about such counters are none about the source.
    fn find_shared(&mut self) {
        let several = self.states.iter().any(|state| state.id.bottleneck != self.states[0].id.bottleneck);
        let mut places: HashMap<u16, Vec<u8>> = HashMap::new();
        for FlowState { id, .. } in &self.states {
            places.entry(id.flow).or_default().push(id.bottleneck);
        }
        for state in &mut self.states {
            let users = &places[&state.id.flow];
            // The index is flagged and its owner was never reported, so the owner's bottleneck is unknown.
            let unknown = several && users.len() == 1 && state.collision != Collision::None;
            if unknown || users.iter().any(|bottleneck| *bottleneck != state.id.bottleneck) {
                state.collision = Collision::Elsewhere;
            } else {
                self.doubts.counters.merge(&state.doubts);
            }
        }
    }
}
