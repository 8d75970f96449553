# SPDX-License-Identifier: Apache-2.0
"""Measures of runs whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from narrows_analysis import RunData, analyze_run
from narrows_formats.run_record import LinkRecord
from narrows_studies.bbr import bbr_state, loss_by_estimate, send_budget_bytes
from narrows_studies.measures import Measures, measure_run, turns
from narrows_studies.probes import probe_gap_s, probe_synchrony, probe_times
from narrows_studies.ware import expect


def made(path: Path, scenario: synthetic.Scenario) -> tuple[RunData, synthetic.Truth]:
    truth = synthetic.write_run(path / "run", scenario)
    analyze_run(path / "run")
    return RunData(path / "run"), truth


@pytest.fixture(scope="module")
def competition(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunData, synthetic.Truth]:
    return made(tmp_path_factory.mktemp("study"), synthetic.two_flows(12.0))


def value(measures: Measures, name: str) -> float:
    found = measures[name]
    assert found is not None, name
    return found


def test_a_whole_run_has_the_measures_of_its_truth(competition: tuple[RunData, synthetic.Truth]) -> None:
    run, truth = competition
    measures = measure_run(run, (0.0, 1.0), life_of="bbr")
    arrivals, drops = sum(truth.arrivals), sum(truth.drops)
    assert value(measures, "loss_ratio") == pytest.approx(drops / arrivals, rel=1e-6)
    assert value(measures, "share.bbr") == pytest.approx(truth.unique_bytes[0] / sum(truth.unique_bytes), rel=0.02)
    assert value(measures, "share.bbr") + value(measures, "share.cubic") == pytest.approx(1)
    assert value(measures, "retransmit_ratio.bbr") == pytest.approx(
        truth.retransmitted[0] / truth.data_packets[0], rel=0.05
    )
    assert value(measures, "queue_max_bdp") == pytest.approx(truth.peak_bytes / (20e6 * 0.02 / 8), rel=0.01)
    assert value(measures, "queue_max_fill") == pytest.approx(truth.peak_bytes / 50_000, rel=0.01)
    assert value(measures, "rtt_ratio") == pytest.approx(1 + truth.delays_ns.mean() / 1e9 / 0.02, rel=0.05)
    assert value(measures, "utilization") == pytest.approx(
        sum(truth.l2_bytes) * 8 / 20e6 / (value(measures, "window_end_s") - value(measures, "window_begin_s")), rel=0.02
    )
    assert 0 < value(measures, "lossy_windows") <= 1
    low, high = run.summary["fairness"]["window_s"] or (0.0, 0.0)
    assert value(measures, "common_s") == pytest.approx(high - low)
    # The queue is full once, from the first loss on, and the flows are unfair for all of their few seconds or never.
    assert value(measures, "fillings") >= 1
    assert value(measures, "convergences") == 0
    length = value(measures, "window_end_s") - value(measures, "window_begin_s")
    assert value(measures, "window_rtts") == pytest.approx(length / (value(measures, "rtt_ratio") * 0.02))
    halves = [value(measures, f"goodput_{half}_half.bbr") for half in ("first", "second")]
    assert np.mean(halves) == pytest.approx(value(measures, "goodput_fraction.bbr"), rel=0.02)
    assert value(measures, "loss_max") >= value(measures, "loss_ratio")


def test_the_window_is_a_part_of_the_common_time(competition: tuple[RunData, synthetic.Truth]) -> None:
    run, _ = competition
    low, high = run.summary["fairness"]["window_s"] or (0.0, 0.0)
    measures = measure_run(run, (0.25, 0.75))
    assert measures["window_begin_s"] == pytest.approx(low + (high - low) / 4)
    assert measures["window_end_s"] == pytest.approx(low + (high - low) * 3 / 4)
    assert measures["jain"] is not None
    assert "probe_gap_s" not in measures  # the sockets were not sampled


def test_fairness_by_the_number_of_flows(competition: tuple[RunData, synthetic.Truth]) -> None:
    run, _ = competition
    measures = measure_run(run, (0.0, 1.0))
    # The second flow starts a second after the first and both end together: two run all of the common time.
    assert value(measures, "jain_of_2") == pytest.approx(value(measures, "jain"), rel=0.02)
    assert "jain_of_1" not in measures


def test_the_model_is_that_of_the_run(competition: tuple[RunData, synthetic.Truth]) -> None:
    run, _ = competition
    # 50 kB at 20 Mbit/s and 20 ms: just 1 BDP, of which the model says nothing.
    assert measure_run(run)["model_share"] is None


@pytest.mark.parametrize(
    ("in_bdp", "flows", "expected"),
    [(2, 1, 0.78), (4, 1, 0.63), (8, 1, 0.55), (16, 1, 0.49), (32, 1, 0.44), (64, 1, 0.37), (2, 4, 0.96), (8, 4, 0.59)],
)
def test_the_model_of_ware_gives_share_and_least_rtt(in_bdp: int, flows: int, expected: float) -> None:
    found = expect(flows, 10e6, 0.04, in_bdp * 50_000, 1500)
    assert found.share == pytest.approx(expected, abs=0.006)
    # The part p of the queue and 4N packets: half of what exceeds a BDP.
    assert found.least_rtt_s == pytest.approx(0.04 * (1 + (in_bdp - 1) / 2))


def test_turns_are_looked_for_until_the_flows_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, _ = made(tmp_path, synthetic.two_flows(12.0))
    looked_at: list[tuple[float, float]] = []

    def turns(flows: pd.DataFrame) -> Measures:
        looked_at.append((float(flows["time_s"].min()), float(flows["time_s"].max())))
        return {}

    monkeypatch.setattr("narrows_studies.measures.turns", turns)
    measures = measure_run(run, (0.25, 0.5))
    low, high = run.summary["fairness"]["window_s"] or (0.0, 0.0)
    assert value(measures, "window_end_s") == pytest.approx((low + high) / 2)
    ((begin, end),) = looked_at
    assert begin == pytest.approx(low + (high - low) / 4, abs=0.3)
    assert end == pytest.approx(high, abs=0.3)


def test_two_groups_take_turns() -> None:
    times = np.arange(0, 100, 0.5)
    shares = 0.5 + 0.4 * np.sin(2 * np.pi * times / 20)
    rows = [
        {"time_s": time, "group": group, "goodput_bps": 1e6 * part}
        for time, share in zip(times, shares, strict=True)
        for group, part in (("bbr", share), ("cubic", 1 - share))
    ]
    found = turns(pd.DataFrame(rows))
    assert value(found, "turn_period_s") == pytest.approx(20, abs=0.5)
    assert value(found, "turn_correlation") > 0.9
    steady = pd.DataFrame([{**row, "goodput_bps": 5e5} for row in rows])
    assert turns(steady) == {"turn_period_s": None, "turn_correlation": 0.0}


def test_completion_times_and_slowdown_by_size_class(tmp_path: Path) -> None:
    small = synthetic.Sender("web", "cubic", 0.0, 5.0, window=20, size_bytes=50_000)
    big = synthetic.Sender("web", "cubic", 0.0, 5.0, window=20, size_bytes=2_000_000)
    run, _ = made(tmp_path, synthetic.Scenario(senders=[small, big]))
    measures = measure_run(run, life_of="web")
    times = [flow["fct_s"] for flow in run.summary["flows"] if flow["fct_s"] is not None]
    assert len(times) == len(run.summary["flows"])
    assert value(measures, "fct_s.web") == pytest.approx(np.mean(times))
    assert value(measures, "completions.web") == 2
    # An RTT and the frames back to back: 35 and 1,382 of 1,448 bytes of payload and 66 of headers.
    assert value(measures, "slowdown_small.web") == pytest.approx(times[0] / (0.02 + (50_000 + 35 * 66) * 8 / 20e6))
    assert value(measures, "slowdown_large.web") == pytest.approx(times[1] / (0.02 + (2e6 + 1382 * 66) * 8 / 20e6))
    assert "slowdown_medium.web" not in measures


def sockets(*windows: list[tuple[float, int]]) -> pd.DataFrame:
    """Sockets of BBR flows, from their windows in packets over time."""
    rows = [
        {"flow": flow, "time_s": time, "cwnd_bytes": packets * 1448.0, "bbr_bandwidth_bps": 1e6}
        for flow, own in enumerate(windows)
        for time, packets in own
    ]
    return pd.DataFrame(rows)


def test_a_probe_is_a_pause_at_four_packets() -> None:
    first = [(0.0, 4), (0.5, 4), (2.0, 40), (10.0, 4), (10.1, 4), (10.2, 4), (11, 40), (20.1, 4), (30.1, 4)]
    second = [(0.0, 40), (10.4, 4), (11.0, 40), (15.0, 4), (29.5, 4)]
    probes = probe_times(sockets(first, second))
    assert probes == [[10.0, 20.1, 30.1], [10.4, 15.0, 29.5]]
    assert probe_gap_s(probes) == pytest.approx(10.05)
    assert probe_synchrony(probes) == pytest.approx(4 / 6)
    assert probe_gap_s([[1.0]]) is None
    assert probe_synchrony(probes[:1]) is None


LINK = LinkRecord(rate_bps=16e6, buffer_bytes=100_000, rtt_s=0.025, bdp_bytes=50_000)
BBR = {
    "flow": 0, "bbr_bandwidth_bps": 8e6, "bbr_min_rtt_s": 0.025, "bbr_cwnd_gain": 2.0, "cwnd_bytes": 70_000.0,
    "pacing_rate_bps": 8e6, "inflight_bytes": 60_000.0,
}  # fmt: skip


def test_bbr_s_window_is_taken_apart() -> None:
    probing = {**BBR, "cwnd_bytes": 4 * 1448.0}
    found = bbr_state(pd.DataFrame([BBR, {**BBR, "flow": 1}]), LINK)
    wire = 1514 / 1448
    assert found["bbr_bandwidth_sum"] == pytest.approx(wire)
    assert found["bbr_pacing_sum"] == pytest.approx(wire)
    assert found["bbr_window_sum_bdp"] == pytest.approx(2.8 * wire)
    assert found["bbr_model_window_bdp"] == pytest.approx(2 * wire)
    # 8 Mbit/s is 976 bytes in a 1024th of a second: two segments at once, three times, and 1.25 for rounding.
    assert found["bbr_budget_bdp"] == pytest.approx(2 * 7.25 * 1514 / 50_000)
    assert found["bbr_aggregation_bdp"] == pytest.approx(0.8 * wire - 2 * 7.25 * 1514 / 50_000)
    assert found["bbr_inflight_sum_bdp"] == pytest.approx(2.4 * wire)
    assert found["bbr_min_rtt_s"] == pytest.approx(0.025)
    assert bbr_state(pd.DataFrame([BBR, {**BBR, "flow": 1}, {**probing, "flow": 1}]), LINK)["bbr_min_rtt_s"] == 0.025
    assert bbr_state(pd.DataFrame([probing]), LINK) == {}


def test_a_flow_that_lives_half_as_long_counts_half() -> None:
    found = bbr_state(pd.DataFrame([BBR, BBR, {**BBR, "flow": 1}]), LINK)
    assert found["bbr_bandwidth_sum"] == pytest.approx(0.75 * 1514 / 1448)


def test_the_sender_s_budget() -> None:
    rates = np.array([1e6, 8e6, 100e6, 20e9])
    # One segment below 1.2 Mbit/s, two at least above; 12.2 kB at 100 Mbit/s; 64 kB at most.
    segments = np.array([1, 2, 8, 45])
    assert send_budget_bytes(rates, 1448) == pytest.approx((3 * segments + 1.25) * 1448)


def test_loss_after_wrong_probes() -> None:
    times = np.arange(0, 4, 0.1)
    estimates = np.where(times < 2, 0.04, 0.025)
    readings = pd.DataFrame([{**BBR, "time_s": t, "bbr_min_rtt_s": e} for t, e in zip(times, estimates, strict=True)])
    flows = pd.DataFrame({"time_s": times, "arrivals": 100, "drops": np.where(times < 2, 6, 1)})
    found = loss_by_estimate(readings, flows, 0.025)
    assert found == {
        "loss_after_wrong_probe": pytest.approx(0.06),
        "loss_after_right_probe": pytest.approx(0.01),
    }
    assert loss_by_estimate(readings, flows, 0.05) == {}
    assert loss_by_estimate(readings.assign(bbr_bandwidth_bps=0.0), flows, 0.025) == {}
