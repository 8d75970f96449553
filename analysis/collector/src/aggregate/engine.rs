// SPDX-License-Identifier: Apache-2.0
//! One pass over records in sequence order to every time series and total.

use std::collections::HashMap;

use super::bottleneck::BottleneckState;
use super::counters::{Counters, Reading};
use super::flow::FlowState;
use super::tables::{BottleneckSeries, FlowSeries};
use crate::flow_keys::FlowId;
use crate::intake::Sequencers;
use crate::sequencer::SequenceCounts;
use crate::wire::{Record, BOTTLENECKS};

/// Flows with a state of their own at most; bounds memory at about 500 MB. Later ones count in their bottleneck only.
pub const MAX_FLOWS: usize = 1 << 18;

/// What is aggregated, and how.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// Length of an interval in time units of the switch.
    pub interval_units: u64,
    /// All counters of the switch were zero before the first report, even if that report is missing.
    pub from_reset: bool,
}

/// Reports that could not be used in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Reports whose cumulative counters contradicted those around them and were not used.
    pub implausible_counters: u64,
    /// Times the counters of a flow index began anew.
    pub counter_resets: u64,
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
    pub doubts: Doubts,
}

/// The aggregation.
pub struct Engine {
    sequencers: Sequencers,
    placed: Placed,
}

/// Everything behind the sequencers.
pub struct Placed {
    pub bottlenecks: [Option<Box<BottleneckState>>; BOTTLENECKS],
    pub bottleneck_series: BottleneckSeries,
    pub flows: Flows,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(settings: EngineSettings) -> Self {
        let flows = Flows {
            settings,
            states: Vec::new(),
            colliding: HashMap::new(),
            series: FlowSeries::default(),
            doubts: Doubts::default(),
        };
        let placed = Placed {
            bottlenecks: [const { None }; BOTTLENECKS],
            bottleneck_series: BottleneckSeries::default(),
            flows,
        };
        Engine {
            sequencers: Sequencers::default(),
            placed,
        }
    }

    /// Takes records in the order of their arrival.
    pub fn take(&mut self, records: &[Record]) {
        let Engine { sequencers, placed } = self;
        for record in records {
            sequencers.push(record, &mut |record| placed.take(record));
        }
    }

    /// Rows of closed intervals, to be moved out from time to time.
    pub fn series(&mut self) -> (&mut BottleneckSeries, &mut FlowSeries) {
        (
            &mut self.placed.bottleneck_series,
            &mut self.placed.flows.series,
        )
    }

    /// A bottleneck whose sequence began anew.
    pub fn first_restart(&self) -> Option<u8> {
        self.sequencers.first_restart()
    }

    /// Closes every interval; answers the final state.
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
        let settings = flows.settings;
        let slot = &mut self.bottlenecks[usize::from(record.report.bottleneck) % BOTTLENECKS];
        let bottleneck = slot.get_or_insert_with(|| {
            Box::new(BottleneckState::new(
                record,
                settings.interval_units,
                settings.from_reset,
            ))
        });
        bottleneck.place(
            record,
            &mut self.bottleneck_series,
            &mut |bottleneck, record, time| {
                flows.take(bottleneck, record, time);
            },
        );
    }

    fn finish(&mut self) {
        let flows = &mut self.flows;
        for bottleneck in self.bottlenecks.iter_mut().flatten() {
            bottleneck.finish(
                &mut self.bottleneck_series,
                &mut |bottleneck, record, time| {
                    flows.take(bottleneck, record, time);
                },
            );
            bottleneck.close_interval(&mut self.bottleneck_series);
        }
        for index in 0..flows.states.len() {
            if let Some((flow, increment)) = flows.states[index].counters.finish() {
                flows.states[flow as usize].credit(&increment);
            }
        }
        for state in &mut flows.states {
            state.close_interval(&mut flows.series);
        }
    }
}

impl Flows {
    #[inline]
    fn take(&mut self, bottleneck: &mut BottleneckState, record: &Record, time: u64) {
        let Some(index) = self.find(bottleneck, record) else {
            self.doubts.flows_overflow += 1;
            bottleneck.add(record, time, 0);
            return;
        };
        let report = &record.report;
        let reading = Reading {
            arrivals: report.arrivals,
            departures: report.departures,
            loss_drops: report.loss_drops,
            unread: bottleneck.unread(),
            flow: index as u32,
        };
        let at = self.states[index].counters_at as usize;
        let outcome = self.states[at].counters.read(reading);
        if let Some((flow, increment)) = outcome.increment {
            self.states[flow as usize].credit(&increment);
        }
        if outcome.ignored {
            self.doubts.implausible_counters += 1;
            bottleneck.distrust();
        }
        self.doubts.counter_resets += u64::from(outcome.reset);
        let retransmitted =
            self.states[index].take(record, time, bottleneck.interval(), &mut self.series);
        bottleneck.add(record, time, retransmitted);
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
    fn find_slowly(
        &mut self,
        bottleneck: &mut BottleneckState,
        record: &Record,
        first: u32,
    ) -> Option<usize> {
        let id = FlowId::of(&record.report);
        if let Some(&index) = self.colliding.get(&id) {
            return Some(index as usize);
        }
        if self.states.len() >= MAX_FLOWS {
            return None;
        }
        let index = self.states.len();
        let counters = if bottleneck.counters_from_zero {
            Counters::from_zero(Reading::default())
        } else {
            Counters::default()
        };
        if first == 0 {
            bottleneck.flows[usize::from(id.flow)] = index as u32 + 1;
            self.states
                .push(FlowState::new(id, counters, index as u32, false));
        } else {
            self.colliding.insert(id, index as u32);
            self.states[first as usize - 1].collision = true;
            self.states
                .push(FlowState::new(id, counters, first - 1, true));
        }
        Some(index)
    }
}
