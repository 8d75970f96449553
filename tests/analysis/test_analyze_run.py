# SPDX-License-Identifier: Apache-2.0
"""analyze_run against simulated runs whose truth is known to the packet."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import AnalysisError, analyze_run, load, read_run, write_report
from narrows_analysis.aggregation.histogram import PRECISION_BITS
from narrows_analysis.metrics.fairness import jain_index
from narrows_analysis.records.json_files import read_json
from narrows_analysis.report.content import setting

Competition = tuple[Path, synthetic.Truth, Any]
# A flag of a report (p4src/common/headers.p4).
CE_MARKED = 0x01


def codes(summary: Any) -> set[str]:
    return {warning["code"] for warning in summary["warnings"]}


def edit_run_json(run_dir: Path, **changes: Any) -> None:
    path = run_dir / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_reports(run_dir: Path, change: Any) -> None:
    """Rewrite the report files as one, with `change` applied to the columns."""
    files = sorted((run_dir / "telemetry").glob("reports-*.parquet"))
    columns = {
        name: np.concatenate([pq.read_table(f)[name].to_numpy() for f in files]) for name in synthetic.REPORT_TYPES
    }
    for path in files:
        path.unlink()
    synthetic.write_reports(files[0], change(columns))


def rows(columns: dict[str, np.ndarray], index: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[index] for name, values in columns.items()}


def test_counts_equal_the_truth(competition: Competition) -> None:
    _, truth, summary = competition
    for number, flow in enumerate(summary["flows"]):
        assert flow["arrivals"] == truth.arrivals[number]
        assert flow["departures"] == truth.departures[number]
        assert flow["drops"] == truth.drops[number] > 0
        assert flow["bytes"] == truth.unique_bytes[number]
        assert flow["retransmit_ratio"] == pytest.approx(truth.retransmitted[number] / truth.data_packets[number])
        assert flow["loss_ratio"] == pytest.approx(truth.drops[number] / truth.arrivals[number])
    assert summary["bottleneck"]["loss_ratio"] == pytest.approx(sum(truth.drops) / sum(truth.arrivals))
    assert summary["warnings"] == []


def test_queue_distribution_equals_the_truth(competition: Competition) -> None:
    _, truth, summary = competition
    for section, values, maximum in (
        (summary["bottleneck"]["queue_delay_s"], truth.delays_ns / 1e9, truth.delays_ns.max() / 1e9),
        (summary["bottleneck"]["queue_bytes"], truth.depths_bytes, truth.peak_bytes),
    ):
        assert section["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert section["max"] == pytest.approx(maximum, rel=1e-12)
        for name, percent in (("p50", 50), ("p99", 99)):
            exact = np.percentile(values, percent, method="inverted_cdf")
            assert section[name] == pytest.approx(exact, rel=2.0**-PRECISION_BITS)


def test_rates_times_and_fairness(competition: Competition) -> None:
    run_dir, truth, summary = competition
    link = summary["bottleneck"]
    assert link["saturated_rate_bps"] == pytest.approx(link["rate_bps"], rel=1e-6)
    assert 0.99 < link["utilization"] <= 1.0005
    assert summary["flows"][1]["start_s"] == pytest.approx(1.0, abs=1e-6)
    window = summary["fairness"]["window_s"]
    frame = pd.read_parquet(run_dir / "flows.parquet")
    inside = frame[(frame["time_s"] >= window[0] - 1e-9) & (frame["time_s"] < window[1] - 1e-9)]
    means = inside.groupby("flow")["goodput_bps"].mean()
    assert summary["fairness"]["jain_index"] == pytest.approx(jain_index(means.to_numpy()))
    assert summary["fairness"]["jain_index"] < 0.95
    assert [group["share"] for group in summary["groups"]] == pytest.approx(list(means / means.sum()))
    assert summary["flows"][0]["rtt_s"]["min"] == pytest.approx(min(r for _, r in truth.rtt_ns[0]) / 1e9, abs=1e-6)


def test_the_queue_swings_with_the_flow_that_loses(competition: Competition) -> None:
    """The queue swings with the additive-increase flow's sawtooth, which alone loses packets."""
    run_dir, _, summary = competition
    dynamics = summary["dynamics"]
    drops = pd.read_parquet(run_dir / "flows.parquet").query("flow == 1 and drops > 0 and time_s > 3")["time_s"]
    assert dynamics["oscillation_period_s"] == pytest.approx(drops.diff().median(), rel=0.15)
    assert 4_000 < dynamics["oscillation_amplitude_bytes"] < 12_000
    assert dynamics["loss_synchronization"] == 0.5
    assert dynamics["rate_synchronization"] < -0.5
    assert 25_000 < summary["bottleneck"]["standing_queue_bytes"] < summary["bottleneck"]["queue_bytes"]["mean"]


def test_series_add_up_to_the_totals(competition: Competition) -> None:
    run_dir, truth, _ = competition
    flows = pd.read_parquet(run_dir / "flows.parquet")
    for number in (0, 1):
        mine = flows[flows["flow"] == number]
        assert mine["drops"].sum() == truth.drops[number]
        assert mine["arrivals"].sum() == truth.arrivals[number]
        assert (mine["goodput_bps"] * mine["interval_s"]).sum() / 8 == pytest.approx(truth.unique_bytes[number])
        assert (mine["throughput_bps"] * mine["interval_s"]).sum() / 8 == pytest.approx(truth.l2_bytes[number])
    queue = pd.read_parquet(run_dir / "queue.parquet")
    assert queue["departures"].sum() == sum(truth.departures)
    assert queue["depth_max_bytes"].max() == truth.peak_bytes
    assert queue["delay_max_s"].max() == pytest.approx(truth.delays_ns.max() / 1e9)
    seen = queue.dropna()
    assert (seen["depth_min_bytes"] <= seen["depth_mean_bytes"]).all()
    assert (seen["depth_mean_bytes"] <= seen["depth_max_bytes"]).all()


def test_the_last_packet_may_leave_as_an_interval_begins(tmp_path: Path) -> None:
    """Eight seconds and a tenth: of floats, that by 0.1 is less than 81."""
    senders = [synthetic.Sender("a", "reno", 0.0, 0.25, window=10, aimd=False)]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    exact_ns = 8_100_000_000
    assert exact_ns * 1e-9 / 0.1 < 81
    edit_run_json(tmp_path / "run", clock_origin_ns=int(truth.rows["timestamp"].max()) - exact_ns)
    analyze_run(tmp_path / "run")
    data = load(tmp_path / "run")
    assert data.flows["interval_s"].unique().tolist() == [0.1]
    assert data.flows["departures"].sum() == data.queue["departures"].sum() == sum(truth.departures)
    assert data.flows["time_s"].max() == pytest.approx(8.1)


def test_small_batches_give_the_same_summary(competition: Competition, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, _, summary = competition
    monkeypatch.setattr("narrows_analysis.aggregation.tables.BATCH_ROWS", 77)
    assert analyze_run(run_dir) == summary


def test_units_are_in_the_parquet_metadata(competition: Competition) -> None:
    schema = pq.read_schema(competition[0] / "queue.parquet")
    assert schema.field("depth_max_bytes").metadata[b"unit"] == b"bytes"


def test_microseconds_and_packets_are_converted(tmp_path: Path) -> None:
    """The same run as BMv2 would report it: time in us, depth in packets of 1514 bytes."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(5.0))

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name in ("timestamp", "queue_delay"):
            columns[name] = columns[name] // 1000
        for name in ("enqueue_depth", "dequeue_depth"):
            columns[name] = columns[name] // 1514
        return columns

    edit_reports(tmp_path / "run", change)
    profile = {"name": "bmv2", "time_unit_s": 1e-6, "depth_unit": "packets", "depth_unit_bytes": None}
    edit_run_json(tmp_path / "run", target_profile=profile)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["bottleneck"]["queue_bytes"]["max"] == truth.peak_bytes
    assert "depth_estimated" in codes(summary)
    assert summary["bottleneck"]["queue_delay_s"]["mean"] == pytest.approx(truth.delays_ns.mean() / 1e9, abs=2e-6)
    assert summary["flows"][1]["start_s"] == pytest.approx(1.0, abs=1e-4)


def test_waits_of_minutes_are_whole(tmp_path: Path) -> None:
    """The same run a thousand times slower: every wait is a thousand times as long, far beyond 2^32 ns."""
    scenario = synthetic.two_flows(5.0)
    truth = synthetic.write_run(tmp_path / "run", scenario)

    def slower(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        since = (columns["timestamp"].astype(np.int64) - scenario.origin_ns) % (1 << 48)
        timestamp = (scenario.origin_ns + 1000 * since) % (1 << 48)
        return columns | {"timestamp": timestamp, "queue_delay": 1000 * columns["queue_delay"]}

    edit_reports(tmp_path / "run", slower)
    flows: Any = read_json(tmp_path / "run", "run.json")["flows"]
    times = ("start_s", "duration_s")
    edit_run_json(tmp_path / "run", flows=[flow | {name: 1000 * flow[name] for name in times} for flow in flows])
    delay: Any = analyze_run(tmp_path / "run")["bottleneck"]["queue_delay_s"]
    assert truth.delays_ns.max() * 1000 > 1 << 34
    assert delay["max"] == pytest.approx(truth.delays_ns.max() / 1e6)
    assert delay["mean"] == pytest.approx(truth.delays_ns.mean() / 1e6)
    assert load(tmp_path / "run").reports()["queue_delay_s"].max() == delay["max"]


def test_reports_of_before_version_2_are_read(tmp_path: Path) -> None:
    """They have no columns of queue management, and 32 bits of delay, the highest of which is an ordinary value."""
    run_dir = tmp_path / "run"
    truth = synthetic.write_run(run_dir, synthetic.two_flows(5.0), files=1)
    summary = analyze_run(run_dir)
    (path,) = (run_dir / "telemetry").glob("reports-*.parquet")
    new = pq.read_table(path)
    delays = new["queue_delay"].to_numpy()
    older = new.drop_columns(["aqm_drops", "queue"])
    place = older.schema.get_field_index("queue_delay")
    pq.write_table(older.set_column(place, "queue_delay", pa.array(delays, pa.uint32())), path, compression="lz4")
    assert new.schema.field("queue_delay").type == pa.uint64() and analyze_run(run_dir) == summary

    capped = np.where(delays == truth.delays_ns.max(), (1 << 32) - 1, delays)
    pq.write_table(older.set_column(place, "queue_delay", pa.array(capped, pa.uint32())), path, compression="lz4")
    largest: Any = analyze_run(run_dir)["bottleneck"]["queue_delay_s"]["max"]
    assert largest == ((1 << 32) - 1) / 1e9


def test_what_an_empty_queue_takes_is_no_wait(tmp_path: Path) -> None:
    """Tofino's reports count its pipeline in; what was measured of it is taken off, but never more than there is."""
    run_dir, pipeline = tmp_path / "run", 700
    synthetic.write_run(run_dir, synthetic.two_flows(2.0))
    summary, waits = analyze_run(run_dir), load(run_dir).reports()["queue_delay_s"]

    def profile(delay: int) -> dict[str, object]:
        units = {"name": "soft", "time_unit_s": 1e-9, "depth_unit": "bytes", "depth_unit_bytes": 1}
        return {**units, "empty_queue_delay": delay}

    edit_reports(run_dir, lambda columns: columns | {"queue_delay": columns["queue_delay"] + pipeline})
    edit_run_json(run_dir, target_profile=profile(pipeline))
    assert analyze_run(run_dir)["bottleneck"] == summary["bottleneck"]
    np.testing.assert_array_equal(load(run_dir).reports()["queue_delay_s"], waits)

    edit_run_json(run_dir, target_profile=profile(0))
    more: Any = analyze_run(run_dir)["bottleneck"]["queue_delay_s"]["mean"]
    assert more - summary["bottleneck"]["queue_delay_s"]["mean"] == pytest.approx(pipeline * 1e-9)
    edit_run_json(run_dir, target_profile=profile(1 << 31))
    assert analyze_run(run_dir)["bottleneck"]["queue_delay_s"]["max"] == 0
    assert load(run_dir).reports()["queue_delay_s"].max() == 0


def test_clock_and_counters_wrap(tmp_path: Path) -> None:
    scenario = synthetic.two_flows(5.0)
    scenario.origin_ns = (1 << 48) - 2_000_000_000
    truth = synthetic.write_run(tmp_path / "run", scenario)

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns["sequence"] = (columns["sequence"].astype(np.int64) + (1 << 32) - 500) % (1 << 32)
        return columns

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["telemetry"]["lost"] == 0
    assert [flow["drops"] for flow in summary["flows"]] == truth.drops
    assert summary["flows"][1]["end_s"] == pytest.approx(5.0, abs=0.1)


def test_lost_reports_keep_counts_exact(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(5.0))
    lost: list[int] = []

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        keep = np.ones(len(columns["flow"]), bool)
        keep[1000:1020] = False
        lost.append(int((~keep).sum()))
        return rows(columns, keep)

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["telemetry"]["lost"] == lost[0]
    assert "reports_missing" in codes(summary)
    for number, flow in enumerate(summary["flows"]):
        assert (flow["arrivals"], flow["departures"]) == (truth.arrivals[number], truth.departures[number])
        assert flow["bytes"] == pytest.approx(truth.unique_bytes[number], rel=0.002)
    assert summary["fairness"]["jain_index"] is not None


def test_no_fairness_above_one_percent_missing(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(5.0))
    edit_reports(tmp_path / "run", lambda columns: rows(columns, np.arange(len(columns["flow"])) % 50 != 7))
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["fairness"]["jain_index"] is None and summary["fairness"]["convergence_s"] is None
    assert summary["fairness"]["reason"] == "more than 1% of the telemetry reports are missing"
    assert summary["warnings"][0]["code"] == "reports_missing" and summary["warnings"][0]["severity"] == "error"
    assert "2.0% of the telemetry reports are missing" in summary["warnings"][0]["message"]


def test_reports_that_all_came_twice_are_not_missing(tmp_path: Path) -> None:
    """As where a capture has two of the interfaces that they pass."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(5.0))
    plain = analyze_run(tmp_path / "run")
    edit_reports(tmp_path / "run", lambda columns: rows(columns, np.repeat(np.arange(len(columns["flow"])), 2)))
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["telemetry"]["duplicates"] == summary["telemetry"]["reports"]
    assert summary["telemetry"]["lost"] == 0 and "reports_missing" not in codes(summary)
    assert summary["fairness"] == plain["fairness"] and summary["fairness"]["jain_index"] is not None


def test_duplicates_and_reordering_change_nothing(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(5.0))
    plain = analyze_run(tmp_path / "run")

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        order = np.arange(len(columns["flow"]))
        order[100:130] = order[100:130][::-1]
        return rows(columns, np.insert(order, 500, [450, 451, 499]))

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["telemetry"]["duplicates"] == 3 and "reports_skipped" in codes(summary)
    for section in ("bottleneck", "fairness", "groups", "flows"):
        assert summary[section] == plain[section]


def test_counts_of_sampled_reports_are_exact(tmp_path: Path) -> None:
    scenario = synthetic.two_flows(8.0)
    scenario.sample_shift = 3
    truth = synthetic.write_run(tmp_path / "run", scenario)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["telemetry"]["sample"] == 8 and summary["telemetry"]["lost"] == 0
    assert "sampled" in codes(summary)
    for number, flow in enumerate(summary["flows"]):
        assert flow["drops"] == pytest.approx(truth.drops[number], abs=8)
        assert flow["departures"] == pytest.approx(truth.departures[number], abs=60)
        assert flow["bytes"] == pytest.approx(truth.unique_bytes[number], rel=0.01)


def test_loss_emulation_is_counted_apart(tmp_path: Path) -> None:
    scenario = synthetic.two_flows(6.0)
    scenario.loss = 0.01
    truth = synthetic.write_run(tmp_path / "run", scenario)
    summary: Any = analyze_run(tmp_path / "run")
    emulated = [flow["loss_emulation_drops"] for flow in summary["flows"]]
    assert emulated == pytest.approx(truth.loss_drops, abs=1) and sum(emulated) > 20
    assert [flow["drops"] for flow in summary["flows"]] == truth.drops


def test_flow_completion_time(tmp_path: Path) -> None:
    sender = synthetic.Sender("short", "reno", start_s=0.5, duration_s=10.0, window=4, size_bytes=200 * 1448)
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[sender]))
    flow: Any = analyze_run(tmp_path / "run")["flows"][0]
    assert flow["bytes"] == truth.unique_bytes[0] == 200 * 1448
    rows_ = truth.rows
    started = (rows_["timestamp"][0] - rows_["queue_delay"][0]) / 1e9
    assert flow["fct_s"] == pytest.approx(rows_["timestamp"][-1] / 1e9 - started)


def test_no_completion_time_of_packets_that_are_in_no_report(tmp_path: Path) -> None:
    """A sample has neither a flow's first nor its last packet for sure: a time between two others is not its own."""
    sender = synthetic.Sender("short", "reno", start_s=0.5, duration_s=10.0, window=4, size_bytes=200 * 1448)
    synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[sender], sample_shift=2))
    flow: Any = analyze_run(tmp_path / "run")["flows"][0]
    assert (flow["fct_s"], flow["fct_reason"]) == (None, "not every packet of the flow is in a report")


def test_marks_are_estimated_from_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth packet is marked, every fourth reported: a fifth of the reports is marked, each for four packets."""
    simulate = synthetic.simulate

    def marked(scenario: synthetic.Scenario) -> synthetic.Truth:
        truth = simulate(scenario)
        truth.rows["flags"][::5] |= CE_MARKED
        return truth

    monkeypatch.setattr(synthetic, "simulate", marked)
    for shift in (0, 2):
        scenario = synthetic.two_flows(4.0)
        scenario.sample_shift = shift
        truth = synthetic.write_run(tmp_path / f"{shift}", scenario)
        summary: Any = analyze_run(tmp_path / f"{shift}")
        marks = -(-len(truth.rows["flags"]) // 5)
        link, flows = summary["bottleneck"], summary["flows"]
        errors = [one["standard_errors"]["ce_marks"] for one in (link, *flows)] if shift else [0.0] * (1 + len(flows))
        assert link["ce_marks"] == pytest.approx(marks, abs=3 * errors[0])
        assert sum(flow["ce_marks"] for flow in flows) == pytest.approx(marks, abs=3 * math.hypot(*errors[1:]))
        # A fifth of n reports: sqrt(0.8 / 0.2 / n) of their number.
        assert errors[0] == pytest.approx(2 * marks / math.sqrt(summary["telemetry"]["reports"]) * bool(shift), rel=0.2)


def test_data_packets_are_estimated_from_a_sample(tmp_path: Path) -> None:
    """All packets of the senders have payload, so that those of a sample stand for all that left; what two flows that
    share a full link give up and take cannot be told from the packets of an interval that a sample happens to have."""
    scenario = synthetic.two_flows(4.0)
    scenario.sample_shift = 2
    truth = synthetic.write_run(tmp_path / "run", scenario)
    summary: Any = analyze_run(tmp_path / "run")
    series = pd.read_parquet(tmp_path / "run" / "flows.parquet")
    sums = series[series["flow"] >= 0].groupby("flow")[["departures", "data_packets", "retransmitted_packets"]].sum()
    assert sums["data_packets"].to_list() == pytest.approx(truth.data_packets, rel=0.02)
    assert sums["retransmitted_packets"].sum() == pytest.approx(sum(truth.retransmitted), rel=0.3)
    # Departures are counted up to an interval's last report, and each report stands for as many of them.
    assert (series["data_packets"] <= series["departures"] + 2 * 4).all()
    assert summary["dynamics"]["rate_synchronization"] is None
    assert summary["bottleneck"]["saturated_rate_reason"] == "sampled reports do not tell which packets left in a row"


def test_a_flow_with_few_reports_has_no_estimates(tmp_path: Path) -> None:
    """Three of four packets are in no report: neither its bytes nor its times can be given; shares of others can."""
    scenario = synthetic.two_flows(4.0)
    scenario.senders.append(synthetic.Sender("short", "reno", start_s=1.0, window=4, size_bytes=11 * 1448))
    scenario.sample_shift = 2
    synthetic.write_run(tmp_path / "run", scenario)
    summary: Any = analyze_run(tmp_path / "run")
    *bulk, short = summary["flows"]
    assert all(short[name] is None for name in ("bytes", "goodput_bps", "throughput_bps", "share", "start_s", "end_s"))
    assert all(flow[name] is not None for flow in bulk for name in ("bytes", "goodput_bps", "share"))
    assert summary["groups"][-1]["goodput_bps"] is None
    assert summary["fairness"]["reason"] == "fewer than 39 of the sampled reports are of one of the flows"
    found = {warning["code"]: warning["message"] for warning in summary["warnings"]}
    assert found["few_reports"].startswith(
        "Fewer than 39 reports, or none for more than 5% of their time: short-1; they "
    )
    assert "flow_unseen" not in found


def test_one_sampled_report_is_not_all_of_a_flow(tmp_path: Path) -> None:
    """The fourth packet of the link is the first of a flow of six: that one packet has left by then proves nothing."""
    early = synthetic.Sender("early", "reno", window=3, size_bytes=3 * 1448)
    late = synthetic.Sender("late", "reno", start_s=0.1, window=1, aimd=False, size_bytes=6 * 1448)
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[early, late], sample_shift=2, sampled=3))
    assert (truth.rows["flow"] == 1007).sum() == 6 and truth.rows["sequence"][truth.rows["flow"] == 1007][0] % 4 == 0
    summary: Any = analyze_run(tmp_path / "run")
    assert [summary["flows"][1][name] for name in ("departures", "bytes", "goodput_bps", "end_s")] == [
        5,
        None,
        None,
        None,
    ]
    # Nor are two reports a link.
    section = summary["bottleneck"]
    assert section["drops"] == 0 and section["utilization"] is section["queue_delay_s"]["mean"] is None
    assert section["saturated_rate_reason"] == "fewer than 39 sampled reports"
    assert "few_reports" in codes(summary) and write_report(tmp_path / "run").is_file()


def test_a_flow_that_is_in_no_report_for_long_has_no_estimates(tmp_path: Path) -> None:
    """A report is of each N-th packet of the link: of a slow flow there may be none for half of its life."""
    scenario = synthetic.two_flows(4.0)
    scenario.sample_shift = 2
    synthetic.write_run(tmp_path / "run", scenario)
    assert all(flow["goodput_bps"] for flow in analyze_run(tmp_path / "run")["flows"])

    def without_beginning(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        early = columns["timestamp"] < columns["timestamp"].min() + 1_500_000_000
        return rows(columns, np.flatnonzero(~(early & (columns["flow"] == 1007))))

    edit_reports(tmp_path / "run", without_beginning)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    edit_run_json(tmp_path / "run", flows=[{**flow, "started_s": flow["start_s"]} for flow in record["flows"]])
    first, second = analyze_run(tmp_path / "run")["flows"]
    assert first["goodput_bps"] is not None and second["goodput_bps"] is second["start_s"] is None
    assert second["end_s"] is None
    # The link's reports are of nearly all of the time; of less than that there would be no utilization.
    edit_run_json(tmp_path / "run", flows=[{**flow, "started_s": 0.0, "ended_s": 5.0} for flow in record["flows"]])
    section: Any = analyze_run(tmp_path / "run")["bottleneck"]
    assert section["utilization"] is None and section["queue_delay_s"]["mean"] is not None
    assert "not of all of the time" in section["down_reason"]


def test_a_fin_ends_no_flow_whose_data_have_not_left(tmp_path: Path) -> None:
    """Data that were lost in front of the FIN are sent again later, or not before the run ends."""
    sender = synthetic.Sender("short", "reno", duration_s=0.2, window=4, size_bytes=2000 * 1448)
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[sender]))
    assert truth.unique_bytes[0] < 2000 * 1448 and truth.rows["tcp_flags"][-1] & 1
    flow: Any = analyze_run(tmp_path / "run")["flows"][0]
    assert (flow["fct_s"], flow["fct_reason"]) == (None, "the flow did not end during the run")


def test_collision_withholds_drops(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns["flags"] = columns["flags"] | np.where(columns["flow"] == 1007, 2, 0).astype(np.uint8)
        return columns

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert "collision" in codes(summary)
    assert summary["flows"][1]["drops"] is None and summary["flows"][1]["loss_ratio"] is None
    assert summary["flows"][0]["drops"] is not None and summary["groups"][1]["loss_ratio"] is None


def test_disagreement_with_the_traffic_manager_is_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    edit_run_json(tmp_path / "run", traffic_manager={"flow_drops": [{"flow": 1000, "packets": 1, "bytes": 1514}]})
    assert "drops_disagree" in codes(analyze_run(tmp_path / "run"))


def test_a_late_start_is_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    flows = json.loads((tmp_path / "run" / "run.json").read_text())["flows"]
    for late_s, warned in ((0.009, False), (0.25, True)):
        flows[1]["started_s"] = flows[1]["start_s"] + late_s
        edit_run_json(tmp_path / "run", flows=flows)
        found = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "late_start"]
        assert [message.endswith(" 0.250 s.") for message in found] == [True] * warned


def test_a_jitter_of_hosts_that_shows_in_rtts_is_reported(tmp_path: Path) -> None:
    """From 5 % of the base RTT on, here 20 ms; the page's header has it always."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    assert "jitter" not in setting(read_run(tmp_path / "run"))
    for jitter_ns, said in ((12_112, "12.11 \N{MICRO SIGN}s"), (1_000_000, "1 ms"), (1_001_000, "1.001 ms")):
        edit_run_json(tmp_path / "run", virtual_time={"hosts": {"jitter_ns": {"2": 0, "3": jitter_ns}}})
        found = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "host_jitter"]
        assert len(found) == (jitter_ns > 1_000_000)
        assert f"host jitter up to {said}" in setting(read_run(tmp_path / "run"))
    assert found[0].startswith("Senders take up to 1.001ms for each frame, more than 5% of the base RTT of 20ms: ")


def test_flows_of_which_nothing_was_delivered_are_named_with_what_became_of_them(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    pairs = [{"flows": [f"f{number}", "g", "h", "i"], "found": ["3 packets came", "none left"]} for number in range(5)]
    edit_run_json(tmp_path / "run", undelivered=pairs)
    found = [one for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "undelivered"]
    assert {one["severity"] for one in found} == {"error"}
    *named, others = [one["message"] for one in found]
    assert named == [
        f"f{number}, g, h and 1 more: nothing was delivered. In the whole run, 3 packets came; none left."
        for number in range(3)
    ]
    assert others == "Of 8 further flows nothing was delivered (run.json, undelivered)."


def test_a_host_whose_link_holds_what_several_flows_send_is_named(tmp_path: Path) -> None:
    """From 5 % on of what is shortest: the RTT, 20 ms, or a full queue, 50 kB at 20 Mbit/s, which is the same."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    host = {"host": "sender0", "flows": 2, "packets": 5000, "held": 1200}
    for link, held_s, warned in (({}, 0.001, 0), ({}, 0.0011, 1), ({"buffer_bytes": 5000}, 0.00011, 1)):
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        shared = [{**host, "longest_held_s": held_s}]
        edit_run_json(tmp_path / "run", shared_hosts=shared, bottleneck={**record["bottleneck"], **link})
        found = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "shared_host"]
        assert len(found) == warned
    assert found[0].startswith(
        "2 flows share the host sender0, whose link held 1,200 of 5,000 packets, for up to 0.11 ms"
    )


def test_the_header_says_whose_clock_and_kernel_it_was(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    assert "virtual time" not in setting(read_run(tmp_path / "run"))
    versions = {"bbr": "BBRv1", "bbr2": "BBRv2"}
    edit_run_json(tmp_path / "run", virtual_time={"release": "7.3.4", "cca_versions": versions})
    assert "target soft · virtual time · Linux 7.3.4, BBRv1" in setting(read_run(tmp_path / "run"))
    edit_run_json(tmp_path / "run", virtual_time={"release": "6.1.0", "cca_versions": None})
    assert "target soft · virtual time · Linux 6.1.0" in setting(read_run(tmp_path / "run"))


def test_the_header_says_how_many_hosts_send(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    assert " 2 flows from 2 hosts " in setting(read_run(tmp_path / "run"))
    flows = json.loads((tmp_path / "run" / "run.json").read_text())["flows"]
    edit_run_json(tmp_path / "run", flows=[flows[0], {**flows[1], "src": flows[0]["src"]}])
    assert " 2 flows from 1 host " in setting(read_run(tmp_path / "run"))
    edit_run_json(tmp_path / "run", source="a.pcap")
    assert " 2 flows \N{MIDDLE DOT}" in setting(read_run(tmp_path / "run"))


def test_packets_lost_outside_the_queue_are_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    rows = [{"place": "in front of the program", "entered": 5000, "left": 5000, "lost": 0}]
    edit_run_json(tmp_path / "run", balances=rows)
    assert "lost_elsewhere" not in codes(analyze_run(tmp_path / "run"))
    edit_run_json(tmp_path / "run", balances=[{**rows[0], "left": 4997, "lost": 3}])
    (warning,) = [item for item in analyze_run(tmp_path / "run")["warnings"] if item["code"] == "lost_elsewhere"]
    assert warning["message"].startswith("3 packets of 5,000 lost in front of the program")
    # What else sends there may come out as well.
    edit_run_json(tmp_path / "run", balances=[{**rows[0], "left": 5008, "lost": -8}])
    (warning,) = [item for item in analyze_run(tmp_path / "run")["warnings"] if item["code"] == "lost_elsewhere"]
    assert warning["message"].startswith("8 packets too many came out in front of the program, where 5,000 went in")


def test_a_link_that_carries_more_than_its_rate_has_another(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    summary = analyze_run(tmp_path / "run")
    used = summary["bottleneck"]["utilization"]
    assert used is not None and "above_rate" not in codes(summary)
    link = json.loads((tmp_path / "run" / "run.json").read_text())["bottleneck"]
    edit_run_json(tmp_path / "run", bottleneck={**link, "rate_bps": round(link["rate_bps"] * used / 1.05)})
    assert "above_rate" in codes(analyze_run(tmp_path / "run"))


def test_a_switch_that_does_not_keep_up_is_reported(tmp_path: Path) -> None:
    """The same telemetry, once for the buffer that it was made with and once for one that is half as large."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    assert "late_service" not in codes(analyze_run(tmp_path / "run"))
    bottleneck = json.loads((tmp_path / "run" / "run.json").read_text())["bottleneck"]
    half = {**bottleneck, "buffer_bytes": bottleneck["buffer_bytes"] // 2}
    edit_run_json(tmp_path / "run", bottleneck=half)
    assert {"late_service", "queue_above_buffer"} <= codes(analyze_run(tmp_path / "run"))
    # Its events made it as deep as it was, or packets of a queue may wait while others go first.
    edit_run_json(tmp_path / "run", bottleneck={**half, "later_buffers_bytes": [bottleneck["buffer_bytes"]]})
    assert not {"late_service", "queue_above_buffer"} & codes(analyze_run(tmp_path / "run"))
    edit_run_json(tmp_path / "run", bottleneck={**half, "queue_management": {"kind": "dualpi2"}})
    assert "late_service" not in codes(analyze_run(tmp_path / "run"))
    edit_run_json(tmp_path / "run", bottleneck={**half, "scheduling": "strict"})
    assert "late_service" not in codes(analyze_run(tmp_path / "run"))


def test_drops_after_the_last_report_are_no_disagreement(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    link = "bottleneck"
    drops = [{"flow": 1000 + 7 * n, "packets": count + 2} for n, count in enumerate(truth.drops)]
    edit_run_json(tmp_path / "run", traffic_manager={"flow_drops": {link: drops}})
    assert "drops_disagree" in codes(analyze_run(tmp_path / "run"))
    after = [{"flow": row["flow"], "after_last_report": 2} for row in drops]
    edit_run_json(tmp_path / "run", drop_cross_check={link: {"flows_with_drops": after}})
    assert not {"drops_disagree", "late_drops"} & codes(analyze_run(tmp_path / "run"))


def test_counts_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    rows = [{"flow": 1000, "packets": "x" * 5000, "after_last_report": []}, {"flow": None}, {"flow": "y"}, 5]
    tampered = {"flow_drops": {"bottleneck": rows}}
    edit_run_json(
        tmp_path / "run", traffic_manager=tampered, drop_cross_check={"bottleneck": {"flows_with_drops": rows}}
    )
    summary = analyze_run(tmp_path / "run")
    assert "drops_disagree" in codes(summary) and summary["flows"][0]["drops"] == truth.drops[0]


@pytest.mark.parametrize(("share", "named"), [(0.04, False), (0.2, True)])
def test_many_drops_that_no_report_tells_of_are_named(tmp_path: Path, share: float, named: bool) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(20.0))
    later = round(sum(truth.drops) * share / (1 - share))
    checked = {"bottleneck": {"flows_with_drops": [{"flow": 1000, "after_last_report": later}]}}
    assert analyze_run(tmp_path / "run")["bottleneck"]["drops_after_reports"] is None, "counters were not compared"
    edit_run_json(tmp_path / "run", drop_cross_check=checked)
    summary = analyze_run(tmp_path / "run")
    assert summary["bottleneck"]["drops_after_reports"] == later
    assert f"and {later} after the last report of their flow" in write_report(tmp_path / "run").read_text()
    found = {one["code"]: one["message"] for one in summary["warnings"]}
    assert ("late_drops" in found) == named
    assert not named or found["late_drops"].startswith(f"{later} of {later + sum(truth.drops)} drops came after ")


def test_counters_that_were_not_zero(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, add in (("sequence", 5000), ("arrivals", 900), ("departures", 800)):
            columns[name] = columns[name] + np.uint32(add)
        return columns

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert "counters_carried_in" in codes(summary)
    assert summary["flows"][0]["drops"] == truth.drops[0]


@pytest.mark.parametrize("status", ["partial", "failed"])
def test_an_incomplete_run_is_analysed_with_a_warning(tmp_path: Path, status: str) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    edit_run_json(tmp_path / "run", status=status, reason="interrupted")
    last = tmp_path / "run" / "telemetry" / "reports-00001.parquet"
    last.write_bytes(last.read_bytes()[:5000])
    summary: Any = analyze_run(tmp_path / "run")
    assert {f"run_{status}", "file_unreadable"} <= codes(summary)
    assert "interrupted" in summary["warnings"][0]["message"]
    assert summary["telemetry"]["reports"] > 0


def test_no_telemetry_at_all(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    for path in (tmp_path / "run" / "telemetry").iterdir():
        path.unlink()
    summary: Any = analyze_run(tmp_path / "run")
    assert "no_telemetry" in codes(summary)
    assert summary["bottleneck"]["utilization"] is None and summary["flows"][0]["drops"] is None
    assert len(pd.read_parquet(tmp_path / "run" / "flows.parquet")) == 0


def test_ports_are_found_in_senders_records(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    raw = json.loads((tmp_path / "run" / "run.json").read_text())
    for flow in raw["flows"]:
        flow["src_port"] = None
    edit_run_json(tmp_path / "run", flows=raw["flows"])
    # A connection between the same hosts that was opened later must not be taken for the flow.
    path = tmp_path / "run" / "telemetry" / "flow_keys.parquet"
    keys = pq.read_table(path).to_pylist()
    later = keys[0] | {"flow": 9, "signature": 9, "src_port": 50_000, "first_timestamp": 1 << 40}
    pq.write_table(pa.Table.from_pylist([*keys, later]), path)
    summary: Any = analyze_run(tmp_path / "run")
    assert [flow["arrivals"] for flow in summary["flows"]] == truth.arrivals
    assert "flow_guessed" not in codes(summary)


def test_what_senders_say_is_parsed_once_for_summary_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    parsed = []

    def counted(directory: Path, name: str) -> dict[str, Any]:
        parsed.append(Path(name).name)
        return read_json(directory, name)

    monkeypatch.setattr("narrows_analysis.records.connection.read_json", counted)
    run = read_run(tmp_path / "run")
    analyze_run(run)
    write_report(run)
    assert parsed == ["flow0.json", "flow1.json"]


def test_a_flow_whose_data_never_came(tmp_path: Path) -> None:
    """A connection that is made only when the flow's time is over: its SYN crosses the link, and nothing else."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0), files=1)
    second = truth.rows["flow"] == 1007
    rows = {**truth.rows, "payload_length": np.where(second, 0, truth.rows["payload_length"])}
    synthetic.write_reports(tmp_path / "run" / "telemetry" / "reports-00000.parquet", rows)
    summary: Any = analyze_run(tmp_path / "run")
    (said,) = (one["message"] for one in summary["warnings"] if one["code"] == "flow_without_data")
    assert said == f"{summary['flows'][1]['name']}: no data left, only {second.sum():,} packets without payload."
    assert summary["flows"][1]["goodput_bps"] == 0
    # What programs send may cross the links as acknowledgements.
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["flows"][1]["by_addresses"] = True
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    summary = analyze_run(tmp_path / "run")
    (said,) = (one["message"] for one in summary["warnings"] if one["code"] == "flow_without_data")
    assert said.endswith("Where the client of a program sends the data, its group needs `sends: client`.")
    # Where half a per cent of the packets have payload, they are the acknowledgements of what went the other way.
    few = second & (np.cumsum(second) <= second.sum() // 200)
    rows["payload_length"] = np.where(second & ~few, 0, truth.rows["payload_length"])
    synthetic.write_reports(tmp_path / "run" / "telemetry" / "reports-00000.parquet", rows)
    summary = analyze_run(tmp_path / "run")
    (said,) = (one["message"] for one in summary["warnings"] if one["code"] == "flow_without_data")
    assert f"only {100 * few.sum() / second.sum():.2f} % of its packets had payload. Where" in said


def test_a_flow_that_never_came(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    raw = json.loads((tmp_path / "run" / "run.json").read_text())
    raw["flows"][1]["dst"] = "10.9.9.9"
    edit_run_json(tmp_path / "run", flows=raw["flows"])
    summary: Any = analyze_run(tmp_path / "run")
    assert {"flow_unseen", "other_traffic"} <= codes(summary)
    assert summary["flows"][1]["goodput_bps"] is None and summary["fairness"]["jain_index"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bottleneck": {"rate_bps": -1}}, r"run.json: links.0.rate_bps: '-1' is not a number of 0 or more"),
        ({"target_profile": None}, r"run.json: target_profile: nothing is of the wrong kind; allowed: a mapping"),
        ({"status": "done"}, r"status: 'done' is not one of the choices; allowed: complete, partial, failed"),
        (
            {"flows": [{"src": "10.0.0.1"}]},
            r"flows.0.dst: is missing; fields here: ack_links, application, by_addresses, bytes_sent, cca",
        ),
        ({"clock_origin_ns": 1.5}, r"clock_origin_ns: '1.5' is of the wrong kind; allowed: a whole number"),
    ],
)
def test_bad_run_json_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    edit_run_json(tmp_path / "run", **change)
    with pytest.raises(AnalysisError, match=message):
        analyze_run(tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()


def test_what_the_collector_lost_is_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    figures = {"kernel_ring_drops": 3, "rows_not_stored": 1, "bad": {"version": 2, "short": 0}, "error": "disk full"}
    figures |= {"flow_keys_overflow": 0, "bottlenecks": {"0": {"restarts": 1}}}
    (tmp_path / "run" / "telemetry" / "collector.json").write_text(json.dumps(figures))
    summary: Any = analyze_run(tmp_path / "run")
    expected = {"collector_drops", "collector_not_stored", "collector_bad", "collector_error", "restarted"}
    assert codes(summary) == expected
    messages = " ".join(warning["message"] for warning in summary["warnings"])
    assert "ring dropped 3 reports" in messages and "2 broken reports (version 2)" in messages
    # More than a counter of 64 bits holds is not the collector's.
    (tmp_path / "run" / "telemetry" / "collector.json").write_text(json.dumps({"kernel_ring_drops": 10**400}))
    (warning,) = analyze_run(tmp_path / "run")["warnings"]
    assert warning["code"] == "collector" and "does not fit into 64 bits" in warning["message"]
    (tmp_path / "run" / "telemetry" / "collector.json").write_text("{")
    assert codes(analyze_run(tmp_path / "run")) == {"collector"}


def test_peak_depth_counts_waiting_packets_only(tmp_path: Path) -> None:
    """One packet at a time never waits; a burst of ten behind it waits whole before the first of them leaves."""
    alone = synthetic.Sender("a", "reno", 0.0, 1.0, window=1, aimd=False)
    synthetic.write_run(tmp_path / "alone", synthetic.Scenario(senders=[alone]))
    assert analyze_run(tmp_path / "alone")["bottleneck"]["queue_bytes"]["max"] == 0
    burst = synthetic.Sender("b", "reno", 0.0001, 0.001, window=10, aimd=False)
    truth = synthetic.write_run(tmp_path / "burst", synthetic.Scenario(senders=[alone, burst]))
    assert truth.peak_bytes == 10 * 1514 > truth.depths_bytes.max()
    assert analyze_run(tmp_path / "burst")["bottleneck"]["queue_bytes"]["max"] == truth.peak_bytes


@pytest.mark.parametrize("kind", ["head-drop", "fq", "fq_codel"])
def test_a_packet_that_pushes_others_out_does_not_wait_beside_them(tmp_path: Path, kind: str) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(4.0))
    bottleneck = json.loads((tmp_path / "run" / "run.json").read_text())["bottleneck"]
    limit = truth.peak_bytes - 100
    edit_run_json(
        tmp_path / "run", bottleneck={**bottleneck, "buffer_bytes": limit, "queue_management": {"kind": kind}}
    )
    summary = analyze_run(tmp_path / "run")
    assert summary["bottleneck"]["queue_bytes"]["max"] == limit and "queue_above_buffer" not in codes(summary)


def test_a_starved_flow_counts_as_running(tmp_path: Path) -> None:
    """A flow none of whose packets gets through in the second half is not fair to its competitor there."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(8.0))

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        cut = columns["timestamp"].min() + np.uint64(4_000_000_000)
        kept = rows(columns, (columns["flow"] != 1007) | (columns["timestamp"] < cut))
        kept["sequence"] = np.arange(1, len(kept["flow"]) + 1)
        return kept

    edit_reports(tmp_path / "run", change)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["fairness"]["window_s"] == pytest.approx([1.0, 8.0])
    assert summary["groups"][1]["share"] < 0.15
    frame = pd.read_parquet(tmp_path / "run" / "flows.parquet").query("flow == 1")
    assert frame["time_s"].max() == pytest.approx(7.9, abs=0.11)
    assert (frame[frame["time_s"] > 4.1]["goodput_bps"] == 0).all()
    # Its goodput is over all of the time that it was to run: seven seconds, in more than half of which it got none.
    flow = summary["flows"][1]
    assert (flow["start_s"], flow["end_s"]) == pytest.approx((1.0, 8.0), abs=0.01)
    assert flow["goodput_bps"] == pytest.approx(flow["bytes"] * 8 / 7, rel=0.002)
    assert flow["goodput_bps"] == pytest.approx(frame["goodput_bps"].mean(), rel=0.02)


@pytest.mark.parametrize(("until_s", "said"), [(7.5, False), (4.0, True)])
def test_a_link_that_nothing_leaves_any_more_is_reported(tmp_path: Path, until_s: float, said: bool) -> None:
    """As with loss emulation that takes every packet from then on: there is no report of it."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(8.0))

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return rows(columns, columns["timestamp"] < columns["timestamp"].min() + np.uint64(until_s * 1e9))

    edit_reports(tmp_path / "run", change)
    messages = {one["code"]: one["message"] for one in analyze_run(tmp_path / "run")["warnings"]}
    assert ("silent_end" in messages) is said
    assert not said or "left after 4 s, though they were to send until 8 s" in messages["silent_end"]
    edit_run_json(tmp_path / "run", status="partial")
    assert "silent_end" not in codes(analyze_run(tmp_path / "run"))


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"run\.json: no such file"):
        analyze_run(tmp_path)


@pytest.mark.parametrize("start_s", [1.02, 3.5])
def test_a_time_together_that_is_shorter_than_an_interval_is_not_called_none(tmp_path: Path, start_s: float) -> None:
    """150 ms of a flow beside another, or after it; no interval of 0.1 s that begins at a multiple of it is within."""
    senders = [
        synthetic.Sender("a", "a", 0.0, 3.0),
        synthetic.Sender("b", "b", start_s, 0.15, window=4, aimd=False),
    ]
    synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    fairness = analyze_run(tmp_path / "run")["fairness"]
    assert (fairness["jain_index"], fairness["interval_s"]) == (None, 0.1)
    assert fairness["reason"] == "the flows were never all running for a whole interval of 0.1 s"
