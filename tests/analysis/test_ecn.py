# SPDX-License-Identifier: Apache-2.0
"""Warnings where ECN does not do what an experiment expects of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import analyze_run, load, write_report
from narrows_analysis.comparison.differences import as_frame, compare
from narrows_analysis.comparison.sides import read_sides
from narrows_analysis.gallery import figure
from narrows_analysis.report import units

NOT_ECT, ECT_1, ECT_0, CE = range(4)
CE_MARKED = 1
SENDERS = [
    synthetic.Sender("a", "dctcp", 0.0, 1.0, window=20, aimd=False),
    synthetic.Sender("b", "bbr", 0.0, 1.0, window=20, aimd=False),
]


def warnings(path: Path, fields: tuple[int, int], marked: bool = False, **changes: Any) -> dict[str, str]:
    """Of a run whose two flows arrive with these ECN fields at a queue of a kind."""
    synthetic.write_run(path, synthetic.Scenario(senders=SENDERS), files=1)
    file = next((path / "telemetry").glob("reports-*.parquet"))
    rows = {name: column.to_numpy() for name, column in zip(synthetic.REPORT_TYPES, pq.read_table(file), strict=True)}
    field = np.where(rows["flow"] == 1000, *fields)
    rows["flags"] = (field << 3) | (CE_MARKED if marked else 0)
    rows["ecn"] = np.full(len(field), CE) if marked else field
    synthetic.write_reports(file, rows)
    record = json.loads((path / "run.json").read_text())
    record["bottleneck"]["queue_management"] = {"kind": changes.get("kind", "dualpi2")}
    record["virtual_time"] = {"kernel": "k", "release": "7", "cca_versions": changes.get("versions", {})}
    record["flows"][0]["protocol"] = changes.get("protocol", 6)
    if "protocol" in changes:
        record["flows"][0]["cca"] = changes.get("cca")
    keys = path / "telemetry" / "flow_keys.parquet"
    table = pq.read_table(keys).to_pandas()
    table.loc[0, "protocol"] = changes.get("protocol", 6)
    table.to_parquet(keys)
    (path / "run.json").write_text(json.dumps(record))
    return {one["code"]: one["message"] for one in analyze_run(path)["warnings"]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ((ECT_0, ECT_0), "(a-1, b-1: ECT(0))"),
        ((ECT_0, NOT_ECT), "(a-1: ECT(0))"),
        ((NOT_ECT, NOT_ECT), "(no flow used"),
    ],
)
def test_an_empty_l4s_queue_of_dualpi2_is_warned_of(tmp_path: Path, fields: tuple[int, int], said: str) -> None:
    assert said in warnings(tmp_path, fields)["l4s_unused"]


@pytest.mark.parametrize("field", [ECT_1, CE])
def test_an_l4s_queue_that_one_flow_uses_is_no_warning(tmp_path: Path, field: int) -> None:
    """Also if all of its packets leave marked: what they arrived with decides."""
    assert "l4s_unused" not in warnings(tmp_path, (ECT_0, field), marked=True)


def test_another_queue_has_no_l4s_part(tmp_path: Path) -> None:
    assert "l4s_unused" not in warnings(tmp_path, (ECT_0, ECT_0), kind="pi2")


def test_marks_that_no_sender_heeds_are_warned_of(tmp_path: Path) -> None:
    heeded = warnings(tmp_path / "heeded", (ECT_0, ECT_0), marked=True, versions={"bbr": "BBRv3"})
    assert "marks_ignored" not in heeded
    assert "marks_ignored" not in warnings(tmp_path / "none", (ECT_0, ECT_0), versions={"bbr": "BBRv1"}, protocol=17)
    found = warnings(tmp_path / "deaf", (ECT_0, ECT_0), marked=True, versions={"bbr": "BBRv1"}, protocol=17)
    assert "a-1 (UDP at a set rate), b-1 (BBRv1)" in found["marks_ignored"]


def test_media_that_adapt_their_rate_heed_marks(tmp_path: Path) -> None:
    assert "marks_ignored" not in warnings(tmp_path, (ECT_0, ECT_0), marked=True, protocol=17, cca="nada")


@pytest.mark.parametrize("kind", ["dualpi2", "pi2"])
def test_each_queue_of_dualpi2_has_what_left_it(tmp_path: Path, kind: str) -> None:
    warnings(tmp_path, (ECT_0, ECT_1), kind=kind)
    file = next((tmp_path / "telemetry").glob("reports-*.parquet"))
    rows = {name: column.to_numpy() for name, column in zip(synthetic.REPORT_TYPES, pq.read_table(file), strict=True)}
    chance = np.random.default_rng(1)
    rows["queue"] = (rows["flow"] != 1000).astype(np.int64)
    rows["flags"] = rows["flags"] | chance.integers(0, 2, len(rows["flags"]))
    synthetic.write_reports(file, rows)
    found: Any = analyze_run(tmp_path)["bottleneck"]["queues"]
    assert [one["name"] for one in found] == (["classic", "low latency"] if kind == "dualpi2" else [])
    for number, one in enumerate(found):
        mine = rows["queue"] == number
        delays = np.sort(rows["queue_delay"][mine]) * 1e-9
        assert one["departures"] == mine.sum() > 100
        assert one["bytes"] == rows["packet_length"][mine].sum()
        assert one["ce_marks"] == (rows["flags"][mine] & CE_MARKED).sum()
        assert one["queue_delay_s"]["mean"] == pytest.approx(delays.mean())
        assert one["queue_delay_s"]["max"] == pytest.approx(delays[-1])
        for name, percent in (("p50", 50), ("p99", 99)):
            rank = -(-len(delays) * percent // 100)
            assert one["queue_delay_s"][name] == pytest.approx(delays[rank - 1], rel=2**-13)
    page = write_report(tmp_path).read_text()
    assert ('id="queues"' in page) == (kind == "dualpi2")


def test_depth_and_delay_of_each_queue_over_time(tmp_path: Path) -> None:
    """By definition: what came to a queue before a packet left it, and leaves later; reports are in several files."""
    warnings(tmp_path, (ECT_0, ECT_1))
    file = next((tmp_path / "telemetry").glob("reports-*.parquet"))
    rows = {name: column.to_numpy() for name, column in zip(synthetic.REPORT_TYPES, pq.read_table(file), strict=True)}
    rows["queue"] = (rows["flow"] != 1000).astype(np.int64)
    count = len(rows["queue"])
    rows["packet_length"] = np.random.default_rng(1).integers(64, 1515, count)
    file.unlink()
    for number, part in enumerate(np.array_split(np.arange(count), 50)):
        some = {name: values[part] for name, values in rows.items()}
        synthetic.write_reports(tmp_path / "telemetry" / f"reports-{number:05}.parquet", some)
    found: Any = analyze_run(tmp_path)["bottleneck"]["queues"]
    series = load(tmp_path).queues
    left = rows["timestamp"].astype(np.int64)
    arrived = left - rows["queue_delay"]
    order = np.arange(count)
    interval = ((left - load(tmp_path).run.clock_origin_ns) // 5_000_000).astype(np.int64)
    for number, name in enumerate(("classic", "low latency")):
        mine = rows["queue"] == number
        depth = np.array(
            [rows["packet_length"][mine & (arrived <= left[i]) & (order > i)].sum() for i in np.flatnonzero(mine)]
        )
        assert depth.max() > 5000
        assert found[number]["queue_bytes"]["mean"] == pytest.approx(depth.mean())
        assert found[number]["queue_bytes"]["max"] == depth.max()
        assert found[number]["queue_bytes"]["p99"] == pytest.approx(np.sort(depth)[-(-len(depth) * 99 // 100) - 1])
        own = series[series["queue"] == name].reset_index(drop=True)
        assert own["interval_s"].eq(0.005).all()
        assert own["departures"].sum() == mine.sum()
        for at in np.unique(interval[mine])[::20]:
            here = interval[mine] == at
            delays = rows["queue_delay"][mine][here] * 1e-9
            assert own["depth_mean_bytes"][at] == pytest.approx(depth[here].mean())
            assert (own["depth_min_bytes"][at], own["depth_max_bytes"][at]) == (depth[here].min(), depth[here].max())
            assert own["delay_mean_s"][at] == pytest.approx(delays.mean())
            assert own["delay_max_s"][at] == pytest.approx(delays.max())
            assert own["departures"][at] == here.sum()
    page = write_report(tmp_path).read_text()
    assert "Delay of each queue" in page and "Depth of each queue" in page
    for one in found:
        assert f"{one['name']} {units.duration(one['queue_delay_s']['mean'])}" in page
    # Its own figure has the low-latency queue alone.
    (line,) = figure(load(tmp_path), "low_latency_delay").axes[0].get_lines()
    low = series[series["queue"] == "low latency"]["delay_mean_s"].max() * 1e3
    assert np.nanmax(np.asarray(line.get_ydata())) == pytest.approx(low)


def test_queues_of_two_runs_are_compared(tmp_path: Path) -> None:
    for name in ("first", "second"):
        warnings(tmp_path / name, (ECT_0, ECT_1))
        file = next((tmp_path / name / "telemetry").glob("reports-*.parquet"))
        rows = {
            column: values.to_numpy()
            for column, values in zip(synthetic.REPORT_TYPES, pq.read_table(file), strict=True)
        }
        rows["queue"] = (rows["flow"] != 1000).astype(np.int64)
        if name == "second":
            rows["queue_delay"] = np.where(rows["queue"] == 1, 100_000, rows["queue_delay"])
        synthetic.write_reports(file, rows)
        analyze_run(tmp_path / name)
    found = as_frame(compare(*read_sides(tmp_path / "first", tmp_path / "second"))).set_index("quantity")
    shorter, same = found.loc["low_latency_delay_mean_s"], found.loc["classic_delay_mean_s"]
    assert shorter["second_mean"] == pytest.approx(100e-6)
    assert shorter["difference"] == pytest.approx(shorter["second_mean"] - shorter["first_mean"]) and shorter["clear"]
    assert not same["clear"]
