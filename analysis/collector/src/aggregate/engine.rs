// SPDX-License-Identifier: Apache-2.0
//! Every time series and total, in one pass over the records in sequence order.

use std::collections::HashMap;

use super::bottleneck::{BottleneckRows, BottleneckState, Settled};
use super::counters::{Counters, Credit, Reading};
use super::flow::FlowState;
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

/// Reports that could not be used in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Reports whose cumulative counters contradicted those around them and were not used.
    pub implausible_counters: u64,
    /// Times the counters of a flow index began anew.
    pub counter_resets: u64,
    /// Reports of flows beyond [`MAX_FLOWS`].
    pub flows_overflow: u64,
    /// Flows whose counters were not zero when the source began, though they should have been.
    pub carried_in: u64,
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
        if outcome.ignored {
            self.doubts.implausible_counters += 1;
            bottleneck.distrust();
        }
        self.doubts.counter_resets += u64::from(outcome.reset);
        let segment = self.states[index].take(
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
        let counters = self.first_counters(bottleneck, record);
        if first == 0 {
            bottleneck.flows[usize::from(id.flow)] = index as u32 + 1;
            self.states.push(FlowState::new(id, counters, index as u32, false));
        } else {
            self.colliding.insert(id, index as u32);
            self.states[first as usize - 1].collision = true;
            self.states.push(FlowState::new(id, counters, first - 1, true));
        }
        Some(index)
    }

    /// Counters of a flow index whose first report is `record`.
    fn first_counters(&mut self, bottleneck: &BottleneckState, record: &Record) -> Counters {
        let from_zero = match self.settings.counters {
            CountersStart::Run => {
                // More departures than the bottleneck's in this run: earlier ones are included.
                let possible = u64::from(record.report.departures) <= 1 + bottleneck.unread();
                self.doubts.carried_in += u64::from(!possible);
                possible
            }
            CountersStart::Detect | CountersStart::Zero => bottleneck.counters_from_zero,
        };
        if from_zero {
            Counters::from_zero(Reading::default())
        } else {
            Counters::default()
        }
    }
}
