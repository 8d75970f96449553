// SPDX-License-Identifier: Apache-2.0
//! The metrics as Prometheus reads them.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_drop_records::DropRecord;
use narrows_metrics::{Endpoint, Labels, Page};

use super::figures::{Bottleneck, Figures, FlowTotals};
use crate::flow_keys::{FlowId, FlowKey};
use crate::sequencer::SequenceCounts;
use crate::telemetry::columns::Columns;
use crate::telemetry::observer::Observer;

/// The buckets of the delay: four for each power of two of time units, from a microsecond to a minute.
const BUCKETS_S: std::ops::Range<f64> = 1e-6..60.0;

/// What observers, the receiving thread and the page share.
#[derive(Clone)]
pub struct Shared {
    state: Arc<Mutex<State>>,
}

struct State {
    figures: Figures,
    counts: Vec<(u8, SequenceCounts)>,
    keys: HashMap<FlowId, FlowKey>,
    new_keys: Receiver<(FlowId, FlowKey)>,
    /// The most flows of a bottleneck that have their own samples.
    most_flows: usize,
}

impl Shared {
    /// Without any report. `new_keys` yields the keys of new flows.
    pub fn new(figures: Figures, new_keys: Receiver<(FlowId, FlowKey)>, most_flows: usize) -> Self {
        let state = State { figures, counts: Vec::new(), keys: HashMap::new(), new_keys, most_flows };
        Shared { state: Arc::new(Mutex::new(state)) }
    }

    /// What is known about the sequence of each bottleneck.
    pub fn set_counts(&self, counts: Vec<(u8, SequenceCounts)>) {
        self.lock().counts = counts;
    }

    /// Counts a packet that was dropped.
    pub fn add_drop(&self, record: &DropRecord) {
        self.lock().figures.take_drop(record);
    }

    /// The page as it is now.
    pub fn page(&self) -> Page {
        self.lock().page()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A thread that panicked can have left numbers incomplete, but nothing unsafe.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Shared {
    fn observe(&mut self, columns: &Columns) {
        self.lock().figures.take(columns);
    }
}

/// Serves the page until the program ends.
///
/// # Errors
/// If no thread can be started.
pub fn serve(endpoint: Endpoint, shared: Shared) -> io::Result<()> {
    endpoint.serve(move || {
        let text = shared.page().text();
        // Writing into memory does not fail.
        std::future::ready(text.unwrap_or_default())
    })
}

impl State {
    fn page(&mut self) -> Page {
        self.keys.extend(self.new_keys.try_iter());
        let mut page = Page::default();
        self.add_sequences(&mut page);
        let State { figures, keys, most_flows, .. } = self;
        let all = || figures.bottlenecks.iter();
        let labelled = |index: &u8| of_bottleneck(*index);
        let depth = |bottleneck: &Bottleneck| {
            figures.units.depth_unit_bytes.map(|unit| f64::from(bottleneck.depth()) * f64::from(unit))
        };
        page.gauges(
            "narrows_link_queue_depth_bytes",
            "Bytes that the latest reported packet left behind in the queue",
            all().filter_map(|(index, bottleneck)| Some((labelled(index), depth(bottleneck)?))),
        );
        page.histograms(
            "narrows_link_queue_delay_seconds",
            "Time that reported packets waited in the queue",
            all().map(|(index, bottleneck)| {
                let (buckets, sum) = buckets(bottleneck, figures.units.time_unit_s);
                (labelled(index), sum, buckets)
            }),
        );
        page.gauges(
            "narrows_link_flows",
            "Flow indices that have sent a report, or of which a drop is recorded",
            all().map(|(index, bottleneck)| (labelled(index), bottleneck.flows().count() as f64)),
        );
        add_flows(&mut page, figures, keys, *most_flows);
        page
    }

    fn add_sequences(&self, page: &mut Page) {
        let all = || self.counts.iter();
        let count =
            |of: fn(&SequenceCounts) -> u64| all().map(move |(index, counts)| (of_bottleneck(*index), of(counts)));
        page.counters("narrows_reports", "Reports in sequence", count(|counts| counts.reports));
        page.counters("narrows_reports_lost", "Reports missing in the sequence", count(|counts| counts.lost));
        page.counters("narrows_reports_restarts", "Times the sequence began anew", count(|counts| counts.restarts));
        page.counters(
            "narrows_reports_discarded",
            "Reports received and not used",
            all().flat_map(|(index, counts)| {
                let reasons =
                    [("duplicate", counts.duplicates), ("late", counts.late), ("implausible", counts.implausible)];
                reasons.map(|(reason, value)| (with(of_bottleneck(*index), "reason", reason), value))
            }),
        );
    }
}

/// The first flows one by one, and all later ones summed up.
fn add_flows(page: &mut Page, figures: &Figures, keys: &HashMap<FlowId, FlowKey>, most: usize) {
    let mut flows: Vec<(Labels, FlowTotals)> = Vec::new();
    for (index, bottleneck) in &figures.bottlenecks {
        let mut rest: Option<FlowTotals> = None;
        for (number, (id, totals)) in bottleneck.flows().enumerate() {
            if number < most {
                flows.push((of_flow(&id, keys.get(&id)), totals));
            } else {
                rest.get_or_insert_default().merge(&totals);
            }
        }
        let other = |totals| (with(of_bottleneck(*index), "flow", "other"), totals);
        flows.extend(rest.map(other));
    }
    let values = |of: fn(&FlowTotals) -> u64| flows.iter().map(move |(labels, totals)| (labels.clone(), of(totals)));
    page.counters(
        "narrows_flow_arrivals_packets",
        "Packets that came to the queue, up to the latest report",
        values(|totals| totals.arrivals),
    );
    page.counters(
        "narrows_flow_departures_packets",
        "Packets that left the queue, up to the latest report",
        values(|totals| totals.departures),
    );
    page.counters(
        "narrows_flow_drops_packets",
        "Packets dropped; without records of drops, up to the arrival of the latest reported one",
        flows.iter().flat_map(|(labels, totals)| {
            let FlowTotals { aqm_drops, policer_drops, ack_filter_drops, loss_drops, .. } = *totals;
            let FlowTotals { program_ingress_drops, program_egress_drops, .. } = *totals;
            let by_program = program_ingress_drops + program_egress_drops;
            let tail = totals.drops().saturating_sub(aqm_drops + policer_drops + ack_filter_drops + by_program);
            let causes = [
                ("tail", tail),
                ("aqm", aqm_drops),
                ("policer", policer_drops),
                ("ack-filter", ack_filter_drops),
                ("program-ingress", program_ingress_drops),
                ("program-egress", program_egress_drops),
                ("loss", loss_drops),
            ];
            causes.map(|(cause, value)| (with(labels.clone(), "cause", cause), value))
        }),
    );
    page.counters(
        "narrows_flow_marks_packets",
        "Reported packets that the queue marked CE",
        values(|totals| totals.marks),
    );
    page.counters("narrows_flow_reported_bytes", "Bytes of reported packets", values(|totals| totals.bytes));
}

fn of_bottleneck(index: u8) -> Labels {
    vec![("bottleneck", index.to_string())]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.into()));
    labels
}

/// The labels of a flow: its index, and the addresses of the flow that used it first.
fn of_flow(id: &FlowId, key: Option<&FlowKey>) -> Labels {
    let mut labels = with(of_bottleneck(id.bottleneck), "flow", &id.flow.to_string());
    if let Some(tuple) = key.and_then(|key| key.tuple) {
        labels.extend([
            ("src", tuple.src.to_string()),
            ("src_port", tuple.src_port.to_string()),
            ("dst", tuple.dst.to_string()),
            ("dst_port", tuple.dst_port.to_string()),
            ("protocol", tuple.protocol.to_string()),
        ]);
    }
    labels
}

/// The buckets of a bottleneck's delay, always the same ones, and its sum in seconds.
fn buckets(bottleneck: &Bottleneck, time_unit_s: f64) -> (Vec<(f64, u64)>, f64) {
    let (delays, sum) = bottleneck.delays();
    let mut delays = delays.peekable();
    let shown = Figures::delay_edges().filter(|edge| BUCKETS_S.contains(&(*edge as f64 * time_unit_s)));
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for edge in shown {
        let mut count = 0;
        while let Some((_, more)) = delays.next_if(|(most, _)| *most <= edge) {
            count += more;
        }
        buckets.push((edge as f64 * time_unit_s, count));
    }
    buckets.push((f64::INFINITY, delays.map(|(_, count)| count).sum()));
    (buckets, sum as f64 * time_unit_s)
}
