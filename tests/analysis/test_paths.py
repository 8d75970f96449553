# SPDX-License-Identifier: Apache-2.0
"""Flows over several links: behind the simulated link a second one, which holds each packet for a known time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import analyze_run, load, write_report
from narrows_analysis.report import units
from narrows_analysis.report.content import parameters, verdict
from narrows_analysis.report.figures import RunFigures
from narrows_formats import columns as columns_of_files

HOP_NS = 5_000_000


# Other flow indices than at the first link.
OTHERS = 5_000
COLLISION = 0x02


def add_link(run_dir: Path, held_ns: int, flows: list[int], apart: int = OTHERS) -> None:
    """A link ``second`` that the given flows cross as well: nothing is dropped there, and all wait for ``held_ns``.

    Their flow indices there are by ``apart`` greater than at the first link.
    """
    reports = joined(sorted((run_dir / "telemetry").glob("reports-*.parquet")))
    columns: dict[str, Any] = {name: reports[name].to_numpy() for name in reports.column_names}
    kept = [index for index, flow in enumerate(columns["flow"]) if (int(flow) - 1000) // 7 in flows]
    columns = {name: values[kept] for name, values in columns.items()}
    columns |= {
        "bottleneck": columns["bottleneck"] + 1,
        "flow": columns["flow"] + apart,
        "signature": columns["signature"] + 1,
        "timestamp": columns["timestamp"] + HOP_NS + held_ns,
        "arrivals": columns["departures"],
        "queue_delay": columns["queue_delay"] * 0 + held_ns,
        "sequence": columns["sequence"] * 0 + range(len(kept)),
    }
    synthetic.write_reports(run_dir / "telemetry" / "reports-00002.parquet", columns)
    path = run_dir / "telemetry" / "flow_keys.parquet"
    keys = pq.read_table(path).to_pylist()
    more = [
        {
            **keys[flow],
            "bottleneck": 1,
            "flow": keys[flow]["flow"] + apart,
            "signature": keys[flow]["signature"] + 1,
            "first_timestamp": keys[flow]["first_timestamp"] + HOP_NS,
        }
        for flow in flows
    ]
    pq.write_table(pa.Table.from_pylist(keys + more), path)
    run = json.loads((run_dir / "run.json").read_text())
    first = {"name": "first", "index": 0, **run.pop("bottleneck", {}), **(run.pop("links", [{}])[0])}
    run["links"] = [{**first, "name": "first"}, {**first, "name": "second", "index": 1}]
    for number, flow in enumerate(run["flows"]):
        flow["links"] = ["first", "second"] if number in flows else ["first"]
    manager = run["traffic_manager"]
    drops = manager["flow_drops"]
    manager["flow_drops"] = {"first": drops["bottleneck"] if isinstance(drops, dict) else drops, "second": []}
    (run_dir / "run.json").write_text(json.dumps(run))


def joined(files: list[Path]) -> pa.Table:
    """The tables of some files, one behind the other."""
    return pa.concat_tables([pq.read_table(file) for file in files])


@pytest.mark.parametrize(("held_ns", "limiting"), [(0, "first"), (100_000_000, "second")])
def test_a_flow_is_offered_at_its_first_link_and_delivered_at_its_last(
    tmp_path: Path, held_ns: int, limiting: str
) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(6.0))
    add_link(tmp_path / "run", held_ns, [1])
    analyze_run(tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    links = {link["name"]: {flow["name"]: flow for flow in link["flows"]} for link in summary["links"]}
    only, both = summary["flows"]
    assert set(links["first"]) == {only["name"], both["name"]} and set(links["second"]) == {both["name"]}
    # What the second link is offered is what has left the first.
    there = links["second"][both["name"]]
    assert (there["drops"], there["arrivals"]) == (0, links["first"][both["name"]]["departures"])
    assert there["queue_delay_mean_s"] == pytest.approx(held_ns / 1e9)
    for number, flow in enumerate((only, both)):
        assert (flow["departures"], flow["bytes"]) == (truth.departures[number], truth.unique_bytes[number])
        assert flow["arrivals"] == links["first"][flow["name"]]["arrivals"]
        assert flow["drops"] == links["first"][flow["name"]]["drops"]
        assert flow["loss_ratio"] == pytest.approx(flow["drops"] / flow["arrivals"])
    assert only["limited_by"] == {} and both["links"] == ["first", "second"]
    # The simulated queue holds 50 kB at 20 Mbit/s: a wait of up to 20 ms.
    assert both["limited_by"][limiting] == max(both["limited_by"].values()) > 0.5
    assert summary["bottleneck"]["utilization"] is None and summary["fairness"]["jain_index"] is None
    # Sharing is at the first link; over paths, shares are of what the flows had behind their last links.
    assert sum(flow["share"] for flow in links["first"].values()) == pytest.approx(1)
    assert links["second"][both["name"]]["share"] == pytest.approx(1)
    assert only["share"] + both["share"] == pytest.approx(1)
    assert both["share"] == pytest.approx(links["first"][both["name"]]["share"], abs=0.02)


def test_the_page_tells_the_settings_of_each_link(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    add_link(tmp_path / "run", HOP_NS, [0, 1])
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["links"][1] |= {"rate_bps": 50_000_000, "buffer_bytes": 123_000, "bdp_bytes": 45_000}
    for flow in record["flows"]:
        flow["group"] = "both"
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    readings = {column.name: [1.0] for column in columns_of_files.SOCKETS} | {"flow": [0], "time_s": [1.0]}
    pd.DataFrame(readings).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    analyze_run(tmp_path / "run")
    run = load(tmp_path / "run")
    shown = dict(parameters(run.run, run.summary))
    rate = "Rate (L2: Ethernet frames without preamble, gap and FCS)"
    assert (shown[f"first: {rate}"], shown[f"second: {rate}"]) == ("20 Mbit/s", "50 Mbit/s")
    assert shown["second: Buffer"] == "123 kB" and shown["second: Bandwidth-delay product"] == "45 kB"
    assert "Buffer" not in shown and rate not in shown
    begin_s, end_s = run.summary["run_window_s"] or [0.0, 0.0]
    goodput = units.rate(sum(truth.unique_bytes) * 8 / (end_s - begin_s))
    assert (
        verdict(run.run, run.summary)
        == f"Over the whole run (0 to {end_s:.3f} s), 2 both flows had {goodput} of goodput."
    )
    figures = RunFigures(run)
    for chart in (figures.cwnd(), figures.inflight(), figures.pacing()):
        assert chart is not None and chart.references == []


def test_reports_of_every_link_have_their_flows_number(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    add_link(tmp_path / "run", HOP_NS, [1])
    summary = analyze_run(tmp_path / "run")
    run = load(tmp_path / "run")
    reports = run.reports()
    counted = reports.groupby(["bottleneck", "flow"]).size().to_dict()
    first, second = ({flow["name"]: flow["departures"] for flow in link["flows"]} for link in summary["links"])
    names = [flow["name"] for flow in summary["flows"]]
    assert counted == {(0, 0): first[names[0]], (0, 1): first[names[1]], (1, 1): second[names[1]]}
    pd.testing.assert_frame_equal(run.dask_reports().compute(scheduler="synchronous").reset_index(drop=True), reports)
    # Of one link, flows are numbered as if there were no other.
    there = run.at("second").reports()
    assert there[there["bottleneck"] == 1]["flow"].unique().tolist() == [0]
    assert there[there["bottleneck"] == 0]["flow"].unique().tolist() == [-1]


def test_flows_that_never_ran_together_are_compared_over_the_whole_run(tmp_path: Path) -> None:
    """As at one link, and as it is defined: over its own time a short flow would have the rate of a long one."""
    senders = [
        synthetic.Sender("long", "reno", 0.0, 4.0, window=30, aimd=False),
        synthetic.Sender("short", "reno", 5.0, 0.3, window=30, aimd=False),
    ]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    alone = analyze_run(tmp_path / "run")["groups"]
    add_link(tmp_path / "run", HOP_NS, [0, 1])
    groups = analyze_run(tmp_path / "run")["groups"]
    for one, group, size in zip(alone, groups, truth.unique_bytes, strict=True):
        assert group["share"] == pytest.approx(size / sum(truth.unique_bytes))
        assert group["goodput_bps"] == pytest.approx(one["goodput_bps"], rel=0.01)
    page = write_report(tmp_path / "run").read_text()
    assert page.count("ver the whole run (0 to 5.") == 2
    assert "in which all flows were running" not in page and "of all goodput of the flows: over the whole run" in page


def share_counters(run_dir: Path, index: int) -> None:
    """Count as the switch does where flows of both links have this index: each in the other's counters, too."""
    files = sorted((run_dir / "telemetry").glob("reports-*.parquet"))
    reports = joined(files).to_pandas()
    for path in files[1:]:
        path.unlink()
    came = reports["timestamp"].astype("int64") - reports["queue_delay"].astype("int64")
    here = [(reports["flow"] == index) & (reports["bottleneck"] == link) for link in (0, 1)]
    before = reports.copy()
    for mine, others in (here, here[::-1]):
        for counter, time in (("arrivals", came), ("departures", reports["timestamp"].astype("int64"))):
            times = np.sort(time[others].to_numpy())
            counts = np.concatenate(([0], np.sort(before.loc[others, counter].to_numpy())))
            moments = time[mine].to_numpy()
            reports.loc[mine, counter] += counts[np.searchsorted(times, moments, side="right")].astype(np.uint32)
    reports.loc[here[1], "flags"] |= COLLISION
    columns = {name: reports[name].to_numpy() for name in synthetic.REPORT_TYPES}
    synthetic.write_reports(files[0], columns)


def test_flows_of_two_links_that_count_in_the_same_cells_have_no_losses(tmp_path: Path) -> None:
    """What each of them was offered cannot be told, nor what these links lost; all else is as before."""
    summaries: dict[str, Any] = {}
    for name, apart in (("apart", OTHERS), ("shared", 0)):
        truth = synthetic.write_run(tmp_path / name, synthetic.two_flows(6.0))
        add_link(tmp_path / name, HOP_NS, [1], apart)
        if not apart:
            share_counters(tmp_path / name, 1007)
        summaries[name] = analyze_run(tmp_path / name)
    apart, shared = summaries["apart"], summaries["shared"]
    assert [(one["code"], one["severity"]) for one in shared["warnings"]] == [("collision", "error")] * 2
    assert all("of another link" in one["message"] for one in shared["warnings"])
    only, both = shared["flows"]
    assert only == apart["flows"][0] and only["drops"] == truth.drops[0] > 0
    lost = ("arrivals", "drops", "loss_ratio", "aqm_drops", "loss_emulation_drops", "policer_drops", "ack_filter_drops")
    assert [both[name] for name in lost] == [None] * len(lost)
    assert {name: both[name] for name in both if name not in lost} == {
        name: value for name, value in apart["flows"][1].items() if name not in lost
    }
    unknown = (*lost[1:], "total_loss_ratio", "probe_drops")
    for one, other in zip(shared["links"], apart["links"], strict=True):
        assert [one[name] for name in unknown] == [None] * len(unknown)
        kept = [name for name in one if name not in (*unknown, "flows", "dynamics")]
        assert {name: one[name] for name in kept} == {name: other[name] for name in kept}
    flows, queue = (pd.read_parquet(tmp_path / "shared" / f"{name}.parquet") for name in ("flows", "queue"))
    mine = flows[flows["flow"] == 1]
    assert mine[["arrivals", "drops", "loss_ratio"]].isna().all(axis=None) and queue["drops"].isna().all()
    assert mine.groupby("link")["departures"].sum().tolist() == [truth.departures[1]] * 2
    assert flows[flows["flow"] == 0]["drops"].sum() == truth.drops[0]
    assert write_report(tmp_path / "shared").is_file()


def test_over_several_links_there_are_no_shares_beside_traffic_of_others(tmp_path: Path) -> None:
    """Which of it is the same at two links is unknown; each link has its own shares."""
    senders = [synthetic.Sender(name, "reno", 0.0, 5.0, window=30, aimd=False) for name in ("mine", "theirs")]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    add_link(tmp_path / "run", 0, [0])
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    del record["flows"][1]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    summary = analyze_run(tmp_path / "run")
    (flow,), (group,) = summary["flows"], summary["groups"]
    assert (flow["share"], group["share"]) == (None, None)
    assert flow["goodput_bps"] is not None and group["goodput_bps"] is not None
    first, second = summary["links"]
    ours = truth.unique_bytes[0] / sum(truth.unique_bytes)
    assert ours == pytest.approx(0.5, abs=0.05)
    assert first["flows"][0]["share"] == pytest.approx(ours, abs=0.01)
    assert first["other_share"] == pytest.approx(1 - ours, abs=0.01)
    assert (second["other_share"], second["flows"][0]["share"]) == (0, 1)
    assert write_report(tmp_path / "run").is_file()
