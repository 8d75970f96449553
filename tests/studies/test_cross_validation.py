# SPDX-License-Identifier: Apache-2.0
"""The controls that replace the switch by another link: what they run, and what is made of sockets and link."""

from __future__ import annotations

import asyncio
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import Flow
from narrows.experiment.planning import make_plan
from narrows.flows.kinds import read_group
from narrows.traffic.connection import Connection
from narrows.virtual import kernels
from narrows_analysis.metrics.completion import ideal_completion_time
from narrows_analysis.metrics.throughput import goodput_limit
from narrows_analysis.study_results import MeasuredPoint, Results, read_variants, write_results
from narrows_studies.page import results_path
from narrows_studies.running.senders import this_machine

RATE_BPS = 10_000_000
EXPERIMENT = validate(
    {
        "name": "through-a-link",
        "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "2bdp"},
        "flows": [{"name": "bbr", "cca": "bbr", "duration": "4s"}, {"name": "cubic", "cca": "cubic", "duration": "4s"}],
    },
    "test",
)
PLAN = make_plan(EXPERIMENT)
BDP = RATE_BPS * 0.02 / 8


@pytest.fixture(scope="module")
def script() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("cross_validation")


def passage(script: Any, probe_depth: float = 0.0) -> Any:
    """Ten seconds: BBR has three quarters of the link and probes for the RTT at 5 s; the queue is 1 BDP else."""
    time = np.arange(0, 10, 0.1)
    sockets = pd.concat(
        pd.DataFrame(
            {
                "time_s": time,
                "flow": flow,
                "cwnd_bytes": np.where((time >= 5) & (time < 5.2), 4 * 1448, 50_000),
                "acked_bytes": (RATE_BPS / 8 * share * time).astype(int),
                "data_packets": (1000 * time).astype(int),
                "retransmits": (lost * 1000 * time).astype(int),
                "bbr_bandwidth_bps": bandwidth,
            }
        )
        for flow, share, lost, bandwidth in ((0, 0.75, 0.02, 1e7), (1, 0.25, 0.0, np.nan))
    )
    reading = np.arange(0, 10, 0.05)
    probing = (reading >= 5) & (reading < 5.2)
    queue = pd.DataFrame(
        {
            "time_s": reading,
            "depth_bytes": np.where(probing, probe_depth * BDP, BDP),
            "bytes": 0.9 * RATE_BPS / 8 * reading,
            "packets": 900 * reading,
            # Nothing is lost but in one half second.
            "drops": np.where(reading >= 6.5, 50.0, np.clip((reading - 6) * 100, 0, 50)),
        }
    )
    connections = [Connection(flow, 0, 0.0, ended_s=10.0) for flow in PLAN.flows]
    return script.Passage(connections, sockets.reset_index(drop=True), queue)


def test_what_passed_the_tbf_has_the_measures_of_a_run(script: Any) -> None:
    found = script.measure(passage(script), EXPERIMENT, PLAN, (0.0, 10.0))
    assert found["share.bbr"] == pytest.approx(0.75, abs=1e-3)
    assert found["jain"] == pytest.approx(1 / (2 * (0.75**2 + 0.25**2)), abs=1e-3)
    assert found["jain_of_2"] == pytest.approx(found["jain"], abs=1e-3)
    assert found["retransmit_ratio.bbr"] == pytest.approx(0.02, abs=1e-3)
    assert found["retransmit_ratio.cubic"] == 0
    assert found["utilization"] == pytest.approx(0.9)
    assert found["loss_max"] == pytest.approx(50 / (50 + 450), abs=1e-3)
    assert found["loss_ratio"] == pytest.approx(50 / (50 + 9000), rel=0.01)
    assert found["queue_bdp"] == pytest.approx(0.98, abs=0.005)
    assert found["rtt_ratio"] == pytest.approx(1.98, abs=0.005)
    assert found["queue_max_fill"] == pytest.approx(0.5, abs=0.01)
    assert found["probes_not_draining"] == 0
    # Steady rates, of which the fair share is half of the link.
    assert found["rate_mean.bbr"] == pytest.approx(1.5, rel=0.06)
    assert found["rate_iqr.bbr"] == pytest.approx(0.0, abs=1e-6)
    assert found["model_share"] is not None
    # Three quarters and one quarter are more than 25 % from the fair share.
    assert found.get("convergence_s") is None
    assert found["common_s"] == 10.0


def test_goodput_is_of_the_time_that_was_read(script: Any) -> None:
    """Of ten seconds the last tenth has no reading: what was acknowledged is no less of the limit."""
    found = script.measure(passage(script), EXPERIMENT, PLAN, (0.0, 10.0))
    limit = goodput_limit(RATE_BPS, PLAN.frame_bytes) / RATE_BPS
    assert found["goodput_fraction.bbr"] == pytest.approx(0.75 / limit)
    assert found["goodput_fraction.cubic"] == pytest.approx(0.25 / limit)


def test_flows_that_share_equally_converge(script: Any) -> None:
    """One of two flows is alone for four of ten seconds; rates are means over the second before."""
    time = np.arange(0.0, 10.05, 0.1)
    acked = [time * 1e6, np.where(time < 4, 0.0, (time - 4) * 1e6)]
    sockets = pd.concat([pd.DataFrame({"flow": n, "time_s": time, "acked_bytes": one}) for n, one in enumerate(acked)])
    found = script._convergence(sockets, [(0.0, 10.0), (0.0, 10.0)])
    assert found["common_s"] == 10.0
    assert found["convergence_s"] == pytest.approx(4.6, abs=0.2)


def test_a_probe_that_leaves_a_queue(script: Any) -> None:
    found = script.measure(passage(script, probe_depth=0.2), EXPERIMENT, PLAN, (0.0, 10.0))
    assert found["probes_not_draining"] == 1


def sized_flow(size: int) -> Flow:
    group = read_group({"name": "bbr", "cca": "reno", "size": f"{size}B"})
    return make_plan(EXPERIMENT.model_copy(update={"flows": (group,)})).flows[0]


def test_completions_are_of_sized_flows(script: Any) -> None:
    sized = sized_flow(1_000_000)
    made = passage(script)
    times = [(0.0, 1.0), (2.0, 5.0), (6.0, None)]
    made.connections[:] = [Connection(sized, number, time[0], ended_s=time[1]) for number, time in enumerate(times)]
    found = script._of_completions(made, 100e6, 1514)
    # As a switch sees it: what is before the first packet is there, and after the last one, is a round trip.
    rtt_s = sized.rtt_ns / 1e9
    assert found.pop("fct_p95_s.bbr") == pytest.approx(2.9 - rtt_s)
    # 1 MB is 691 frames with 66 bytes of headers each, at 100 Mbit/s, and a round trip for the handshake.
    ideal_s = ideal_completion_time(1_000_000, 100e6, rtt_s, 1514)
    assert ideal_s == pytest.approx((1_000_000 + 691 * 66) * 8 / 100e6 + rtt_s)
    slowdowns = [(1 - rtt_s) / ideal_s, (3 - rtt_s) / ideal_s]
    # 1 MB is large, and long.
    assert found.pop("slowdown_large.bbr") == pytest.approx(sum(slowdowns) / 2)
    assert found.pop("slowdown_long.bbr") == pytest.approx(sum(slowdowns) / 2)
    expected = {"fct_s.bbr": 2.0 - rtt_s, "fct_sd_s.bbr": 1.0, "fct_cv.bbr": 1 / (2 - rtt_s), "completions.bbr": 2.0}
    assert found == pytest.approx(expected)


def test_no_byte_of_a_train_is_lost(script: Any) -> None:
    """Ten connections of 0.25 s, each read at 0.1 and 0.2 s: the first reading was dropped, and the last bytes."""
    sized = sized_flow(250_000)
    rows = [
        {"time_s": number + part, "flow": number, "acked_bytes": int(part * 1e6), "data_packets": 70, "retransmits": 0}
        for number in range(10)
        for part in (0.1, 0.2)
    ]
    connections = [Connection(sized, number, float(number), ended_s=number + 0.25) for number in range(10)]
    made = script.Passage(connections, pd.DataFrame(rows), pd.DataFrame())
    read = script.readings(made)
    per_flow = read.groupby("flow")["acked_bytes"].agg(["first", "last", "size"])
    assert per_flow.to_numpy().tolist() == [[0, 250_000, 4]] * 10
    found = script._of_flows(made, 10e6, (0.0, 10.0))
    assert found["goodput_fraction.bbr"] == pytest.approx(10 * 250_000 * 8 / (10e6 * 10))


def test_only_the_points_of_its_statements_are_run(script: Any) -> None:
    study = script.find_study("hock2017")
    (control,) = script._controls(study, "tbf", "alone", None)
    points = script._wanted(study, control, None)
    assert {point.parameters["flows.all.cca"] for point in points} == {"bbr"}
    assert sorted(point.parameters["bottleneck.buffer"] for point in points) == ["0.8bdp"] * 3 + ["8bdp"] * 3
    for statement in control.statements:
        of_one = script._wanted(study, control, statement)
        assert of_one and all(point in points for point in of_one), statement
    assert not script._wanted(study, control, "no-such-statement")


def test_results_of_points_that_are_no_more_are_dropped(script: Any, tmp_path: Path) -> None:
    study = script.find_study("hurtig2018")
    parameters = [{"bottleneck.buffer": buffer, "flows.rival.cca": "cubic"} for buffer in ("0.5bdp", "2bdp", "4bdp")]
    shallow, deep, gone = (MeasuredPoint("through-tbf-equals", one, 1, {"fct_s.subject": 1.0}) for one in parameters)
    path = results_path(study, tmp_path)
    path.parent.mkdir()
    write_results(path, Results("hurtig2018", "tbf", (shallow, deep, gone), {}, {"kernel": "6.1", "target": "x"}))
    again = replace(shallow, measures={"fct_s.subject": 2.0})
    sender = replace(this_machine(), release="7.3.4")
    script.Record(study, "tbf", [sender], tmp_path).take(again)
    (found,) = read_variants(path)
    # The quick variant has no buffer of 4 BDP.
    assert found.points == (deep, again)
    assert found.machine["kernel"] == "6.1, 7.3.4"


@pytest.mark.long
def test_a_run_that_is_ended_early_loses_nothing(script: Any, tmp_path: Path) -> None:
    """Each point is written at once, beside those of others at work; one that was there stays until then."""
    study, sender = script.find_study("hurtig2018"), replace(this_machine(), release="7.3.4")
    parameters = {"bottleneck.buffer": "2bdp", "flows.rival.cca": "cubic"}
    first, second = (
        MeasuredPoint("through-tbf-equals", parameters, number, {"fct_s.subject": 1.0}) for number in (1, 2)
    )
    for record, point in [(script.Record(study, "tbf", [sender], tmp_path), one) for one in (first, second)]:
        record.take(point)
    path = results_path(study, tmp_path)
    assert read_variants(path)[0].points == (first, second)
    again = replace(first, measures={"fct_s.subject": 2.0})
    script.Record(study, "tbf", [sender], tmp_path).take(again)
    assert read_variants(path)[0].points == (second, again)


@pytest.mark.long
def test_a_control_of_the_full_variant_has_its_points(script: Any) -> None:
    study = script.find_study("zeynali2024")
    (full,) = script._controls(study, "tbf", "staggered", "full")
    assert not [control for control in script._controls(study, "tbf", "five-flows", None) if control.of == "full"]
    points = script._wanted(study, full, None)
    assert {point.point.experiment.flows[0].duration for point in points} == {300 * 10**9}
    assert {point.parameters["bottleneck.buffer"] for point in points} == {"16bdp"}


def test_an_experiment_without_the_control_is_refused(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["hock2017", "--experiment", "rtt-fairness", "--publish", str(tmp_path)]) == 2
    assert "no control through tbf of rtt-fairness; it has: alone, against-cubic" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_mm_link_s_log_is_a_queue(script: Any) -> None:
    log = "\n".join(
        (
            "# mahimahi mm-link (Downlink) [trace] > log",
            "# command line: mm-link",
            "# queue: droptail [bytes=3008]",
            "# init timestamp: 5000",
            "# base timestamp: 2",
            "10 + 1504",
            "10 + 1504",
            "10 + 1504",
            "10 d 1 1504",
            "11 # 1504",
            "11 - 1504 1",
            "13 # 1504",
            "13 - 1504 3",
        )
    )
    found = importlib.import_module("mahimahi").queue_of(log, clock_offset_s=1.0)
    assert list(found["time_s"]) == pytest.approx([4.01, 4.011, 4.012, 4.013])
    # Frames as the plan counts them, in each millisecond.
    assert list(found["depth_bytes"]) == [2 * 1514, 1514, 1514, 0]
    assert list(found["bytes"]) == [0, 1514, 1514, 2 * 1514]
    assert list(found["packets"]) == [0, 1, 1, 2]
    assert list(found["drops"]) == [1, 1, 1, 1]


def test_a_trace_has_the_rate(script: Any) -> None:
    module = importlib.import_module("mahimahi")
    lines = [int(line) for line in module.opportunities(1000 / 3).split()]
    assert lines[:4] == [3, 6, 9, 12] and lines[-1] == module.TRACE_MS
    assert len(lines) == module.TRACE_MS // 3


@pytest.mark.long
@pytest.mark.needs("bridge-kernel")
@pytest.mark.parametrize("link", ["tbf", "tbf_chain"])
def test_real_flows_through_tbf(script: Any, link: str) -> None:
    check_real_flows(script, link)


@pytest.mark.needs("mahimahi")
def test_real_flows_through_mahimahi(script: Any) -> None:
    check_real_flows(script, "mahimahi")


def check_real_flows(script: Any, link: str) -> None:
    kernel = kernels.find(script._senders([], link)[0].name)
    found = asyncio.run(script.send_through(link, EXPERIMENT, PLAN, kernel))
    measures = script.measure(found, EXPERIMENT, PLAN, (1.0, 4.0))
    # The link counts the frames that the plan's rate counts, and all of them are accounted to a flow.
    assert measures["goodput_fraction.bbr"] + measures["goodput_fraction.cubic"] == pytest.approx(1.0, abs=0.05)
    # What mm-link has begun to send is not in its queue any more, but has not left either.
    in_transit = PLAN.frame_bytes if link == "mahimahi" else 0
    assert found.queue["depth_bytes"].max() <= PLAN.bottleneck.limit_bytes + in_transit
    assert measures["utilization"] == pytest.approx(1.0, abs=0.02)
    assert measures["queue_max_fill"] > 0.8
    assert found.sockets["rtt_s"].min() > 0.02
