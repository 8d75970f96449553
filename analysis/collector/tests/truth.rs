// SPDX-License-Identifier: Apache-2.0
//! Aggregations of synthetic captures against the truth of the model that made them.
#![allow(clippy::unwrap_used)] // a failed expectation is a failed test

mod common;

use common::{capture, column, read_table, Table};
use narrows_collector::aggregate::summary::BottleneckSummary;
use narrows_collector::aggregate::{aggregate, AggregateSettings, DepthShown};
use narrows_collector::generate::truth::Truth;
use narrows_collector::generate::Scenario;
use tempfile::TempDir;

struct Aggregated {
    directory: TempDir,
    truth: Truth,
    summary: narrows_collector::aggregate::summary::Summary,
}

fn run(scenario: Scenario, interval_s: f64) -> Aggregated {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source.pcap");
    let truth = capture(&scenario, &source);
    let settings = AggregateSettings {
        interval_s,
        queue_interval_s: interval_s,
        origin: Some(0),
        depth: DepthShown::Found,
        ..AggregateSettings::new(source, directory.path().join("out"), scenario.port)
    };
    let summary = aggregate(&settings).unwrap();
    Aggregated { directory, truth, summary }
}

impl Aggregated {
    fn table(&self, name: &str) -> Table {
        read_table(&self.directory.path().join("out").join(name))
    }

    /// Flow totals equal the truth, and the series add up to the totals.
    fn assert_flows_equal_the_truth(&self) {
        let totals = self.table("flow_totals.parquet");
        let series = self.table("flow_series.parquet");
        let arrived = self.table("flow_arrivals.parquet");
        let mut flows = 0;
        for bottleneck in &self.truth.bottlenecks {
            for flow in &bottleneck.flows {
                flows += 1;
                let key = [u64::from(bottleneck.index), u64::from(flow.flow), u64::from(flow.signature)];
                let expected = [
                    ("reports", flow.departures),
                    ("departures", flow.departures),
                    ("bytes", flow.bytes),
                    ("payload_bytes", flow.payload_bytes),
                    ("retransmitted_bytes", flow.retransmitted_bytes),
                    ("ce_marks", flow.ce_marks),
                    ("delay_sum", flow.delay_sum),
                    ("drops", flow.drops),
                    ("arrivals", flow.departures + flow.drops),
                    ("loss_drops", flow.loss_drops),
                ];
                for (name, value) in expected {
                    assert_eq!(totals.sum_where(name, key), value, "{name} of {key:?} in the totals");
                    let of_arrivals = ["drops", "arrivals", "loss_drops"].contains(&name);
                    let series = if of_arrivals { &arrived } else { &series };
                    assert_eq!(series.sum_where(name, key), value, "{name} of {key:?} in the series");
                }
                for (name, value) in [
                    ("delay_min", flow.delay_min),
                    ("delay_max", flow.delay_max),
                    ("first_timestamp", flow.first_timestamp),
                    ("last_timestamp", flow.last_timestamp),
                ] {
                    assert_eq!(totals.sum_where(name, key), value, "{name} of {key:?}");
                }
            }
        }
        assert_eq!(totals.rows(), flows);
    }
}

/// While it was never idle the link carried its rate; it was idle at times, so that less left over the whole trace.
fn assert_link_rate(run: &Aggregated, summary: &BottleneckSummary, rate_bps: u64) {
    let flows = run.truth.bottlenecks[0].flows.iter();
    let first = flows.clone().map(|flow| flow.first_timestamp).min().unwrap();
    let last = flows.map(|flow| flow.last_timestamp).max().unwrap();
    let rate = |bytes: u64, units: u64| bytes as f64 * 8e9 / units as f64 / rate_bps as f64;
    let busy = rate(summary.saturated_bytes, summary.saturated_units);
    assert!((busy - 1.0).abs() < 1e-3, "{busy}");
    assert!(rate(summary.bytes, last - first) < 0.998);
    assert!(summary.saturated_bytes > summary.bytes / 2);
}

#[test]
fn every_total_and_series_of_a_line_rate_trace_is_exact() {
    for rate_bps in [25_000_000_000, 100_000_000_000] {
        let scenario =
            Scenario { reports: 120_000, rate_bps, buffer_bytes: 2_000_000, loss_one_in: 500, ..Scenario::default() };
        let run = run(scenario, 0.001);
        run.assert_flows_equal_the_truth();
        let truth = &run.truth.bottlenecks[0];
        assert!(truth.flows.iter().map(|flow| flow.drops).sum::<u64>() > 100, "the scenario must drop packets");
        assert!(truth.flows.iter().map(|flow| flow.retransmitted_bytes).sum::<u64>() > 0);
        let summary = &run.summary.bottlenecks["0"];
        assert_eq!((summary.account.lost, summary.account.reports), (0, 120_000));
        assert_eq!((summary.departures, summary.bytes), (truth.departures, truth.bytes));
        assert_link_rate(&run, summary, rate_bps);
        assert_eq!((summary.delay.min, summary.delay.max), (truth.delay_min, truth.delay_max));
        assert_eq!(summary.depth.max, u64::from(truth.depth_max));
        assert!((summary.delay.mean - truth.delay_sum as f64 / truth.departures as f64).abs() < 1e-6);
        assert_eq!((summary.first_timestamp, summary.last_timestamp), (truth.first_timestamp, truth.last_timestamp));
    }
}

#[test]
fn several_bottlenecks_and_mixed_headers_are_kept_apart() {
    let scenario = Scenario {
        reports: 60_000,
        bottlenecks: 3,
        flows: 40,
        mixed_headers: true,
        buffer_bytes: 500_000,
        ..Scenario::default()
    };
    let run = run(scenario, 0.0005);
    run.assert_flows_equal_the_truth();
    assert_eq!(run.summary.bottlenecks.len(), 3);
    let keys = read_table(&run.directory.path().join("out/flow_keys.parquet"));
    assert_eq!(keys.rows(), 120);
}

#[test]
fn series_of_a_bottleneck_and_its_envelope_cover_every_report() {
    let scenario = Scenario { reports: 50_000, buffer_bytes: 1_000_000, ..Scenario::default() };
    let run = run(scenario, 0.000_1);
    let series = run.table("bottleneck_series.parquet");
    let truth = &run.truth.bottlenecks[0];
    assert_eq!(column(&series, "reports").iter().sum::<u64>(), 50_000);
    assert_eq!(column(&series, "departures").iter().sum::<u64>(), 50_000);
    assert_eq!(column(&series, "bytes").iter().sum::<u64>(), truth.bytes);
    assert_eq!(column(&series, "delay_max").iter().max(), Some(&truth.delay_max));
    assert_eq!(series.histogram_total(), 50_000);
    let intervals = column(&series, "interval");
    assert!(intervals.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(intervals[0], truth.first_timestamp / 100_000);
    let envelope = run.table("envelope.parquet");
    assert_eq!(column(&envelope, "reports").iter().sum::<u64>(), 50_000);
    let peak = u64::from(run.summary.bottlenecks["0"].depth_peak);
    assert_eq!(column(&envelope, "depth_max").iter().max(), Some(&peak));
    assert!((truth.depth_max + 60..=truth.depth_max + 1514).contains(&(peak as u32)));
    let arrived = run.table("bottleneck_arrivals.parquet");
    assert_eq!(column(&arrived, "depth_max").iter().max(), Some(&peak));
    assert_eq!(
        column(&arrived, "arrivals").iter().sum::<u64>(),
        50_000 + truth.flows.iter().map(|flow| flow.drops).sum::<u64>()
    );
    let histograms = run.table("histograms.parquet");
    assert_eq!(column(&histograms, "count").iter().sum::<u64>(), 100_000);
}

#[test]
fn sampled_reports_give_exact_drops_and_departures() {
    let scenario = Scenario { reports: 20_000, sample_shift: 3, buffer_bytes: 300_000, ..Scenario::default() };
    let run = run(scenario, 0.001);
    let totals = run.table("flow_totals.parquet");
    assert_eq!(column(&totals, "reports").iter().sum::<u64>(), 20_000);
    let truth = &run.truth.bottlenecks[0];
    // The last report is of any one of the last 8 departures.
    assert!((159_993..=160_000).contains(&run.summary.bottlenecks["0"].departures));
    assert_eq!(run.summary.bottlenecks["0"].account.lost, 0);
    // A flow's packets after its last report are not reported: at most a few tens with 16 flows.
    for flow in &truth.flows {
        let key = [0, u64::from(flow.flow), u64::from(flow.signature)];
        let departures = totals.sum_where("departures", key);
        assert!(departures <= flow.departures && departures + 200 > flow.departures);
        assert!(totals.sum_where("drops", key) <= flow.drops);
    }
    let drops = column(&totals, "drops").iter().sum::<u64>() as f64;
    let truth_drops = truth.flows.iter().map(|flow| flow.drops).sum::<u64>() as f64;
    assert!(drops > 0.99 * truth_drops, "{drops} of {truth_drops}");
}

#[test]
fn drops_beyond_half_of_a_counter_are_counted_on() {
    for drops_start in [(1 << 31) - 50, 1 << 31, u32::MAX - 50] {
        let scenario = Scenario {
            reports: 60_000,
            counters_start: 1 << 20,
            drops_start,
            buffer_bytes: 300_000,
            ..Scenario::default()
        };
        let run = run(scenario, 0.001);
        run.assert_flows_equal_the_truth();
        let most = run.truth.bottlenecks[0].flows.iter().map(|flow| flow.drops);
        assert!(most.max().unwrap() > 100, "no counter passed the mark");
        assert_eq!(run.summary.implausible_counters, 0);
    }
}

#[test]
fn counters_wrap_without_a_trace() {
    let scenario =
        Scenario { reports: 60_000, counters_start: u32::MAX - 2_000, buffer_bytes: 300_000, ..Scenario::default() };
    let run = run(scenario, 0.001);
    // The source begins in the middle of the counters, before anything was dropped.
    run.assert_flows_equal_the_truth();
    assert_eq!(run.summary.bottlenecks["0"].account.lost, 0);
    assert!(!run.summary.bottlenecks["0"].counters_from_zero);
}
