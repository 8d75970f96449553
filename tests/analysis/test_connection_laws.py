# SPDX-License-Identifier: Apache-2.0
"""Laws of the connections of a program: each from its own packets' lives, dropped ones too, and its own socket."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import packet_lives as truth
import pandas as pd
import pytest
from narrows_analysis import analyze_run
from packet_cases import departed, dropped, over_experiments
from packet_lives import BY_LINK, LOST, NS, TCP, Experiment, Life

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

ENDS = {"src": "10.0.0.1", "dst": "10.1.0.1"}
SOCKET_SOURCE = "the hosts (sockets, TCP_INFO)"


def at_one_link(experiment: Experiment) -> Experiment:
    """The same packets at one link."""
    first = experiment.links[0]
    flows = [replace(flow, path=(first.name,)) for flow in experiment.flows]
    sent = [replace(one, lost_at=one.lost_at[:1], doubled_at=(False,), delay=(0,)) for one in experiment.sent]
    return replace(experiment, links=(first,), flows=tuple(flows), sent=tuple(sent))


def of_one_program(experiment: Experiment, directory: Path) -> None:
    """Make all flows the connections of one program, which has the addresses of a whole host."""
    record = json.loads((directory / "run.json").read_text())
    (program,) = record["flows"][:1]
    program |= {**ENDS, "name": "web-1", "group": "web", "cca": None, "by_addresses": True, "size_bytes": None,
                "src_port": None, "dst_port": None, "start_s": 0.0, "duration_s": None, "record": None}  # fmt: skip
    record["flows"] = [program]
    (directory / "run.json").write_text(json.dumps(record))
    for name in ("learned_flows", "flow_keys"):
        path = directory / "telemetry" / f"{name}.parquet"
        if path.exists():
            pd.read_parquet(path).assign(**ENDS).to_parquet(path)


def readings(experiment: Experiment, chance: random.Random) -> pd.DataFrame:
    """What sockets of TCP connections said ten times a second, some of them before they had measured anything."""
    rows = []
    for number, flow in enumerate(experiment.flows):
        if flow.protocol != TCP:
            continue
        for tenth in range(chance.randint(0, 4), chance.randint(5, 12)):
            known = chance.random() < 0.8
            rows.append(
                {"time_s": tenth / 10, "flow": 0, "src_port": 40_000 + number, "dst_port": 5_201,
                 "rtt_s": chance.uniform(0.02, 0.2) if known else None,
                 "min_rtt_s": chance.uniform(0.01, 0.02) if known else None,
                 "inflight_bytes": chance.randrange(100_000), "acked_bytes": tenth * 1_000 + number,
                 "busy_s": 1.0, "buffer_limited_s": 0.0}
            )  # fmt: skip
    return pd.DataFrame(rows)


def said(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """RTT and bytes in flight of readings; sockets that are read at one time have them together."""
    measured = [row for row in rows if row["rtt_s"] == row["rtt_s"] and row["rtt_s"] is not None]
    together: dict[float, int] = {}
    for row in rows:
        together[row["time_s"]] = together.get(row["time_s"], 0) + row["inflight_bytes"]
    return {
        "rtt_s": {"min": pytest.approx(min(row["min_rtt_s"] for row in measured)),
                  "mean": pytest.approx(fmean(row["rtt_s"] for row in measured))}
        if measured else {"min": None, "mean": None},
        "inflight_bytes": {"mean": pytest.approx(fmean(together.values())), "max": max(together.values())}
        if together else {"mean": None, "max": None},
    }  # fmt: skip


def expected(protocol: int, payload: int, lives: list[Life]) -> dict[str, Any]:
    """What lives say of a connection: from its first packet that was offered to its last that left or was dropped."""
    left, drops = departed(lives), dropped(lives, *BY_LINK)
    waits = [((life.started or 0) - life.offered) / NS for life in left]
    return {
        "protocol": protocol,
        "start_s": pytest.approx(min(life.offered for life in lives) / NS, abs=1e-9),
        "end_s": pytest.approx(max(life.started or life.dropped or 0 for life in lives) / NS, abs=1e-9),
        "payload_bytes": len(left) * payload,
        "arrivals": len(lives) - len(dropped(lives, LOST)),
        "departures": len(left),
        "drops": len(drops),
        "ce_marks": sum(life.marked for life in left),
        "queue_delay_mean_s": pytest.approx(fmean(waits), abs=1e-9) if waits else None,
        "queue_delay_max_s": pytest.approx(max(waits), abs=1e-9) if waits else None,
    }


@over_experiments
def test_connections(experiment: Experiment) -> None:
    experiment = at_one_link(experiment)
    if not truth.reported(experiment):
        return
    lives, sockets = truth.lives(experiment)["a"], readings(experiment, random.Random(len(experiment.sent)))
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "run")
        truth.write(experiment, {"a": lives}, directory)
        of_one_program(experiment, directory)
        if len(sockets):
            sockets.to_parquet(directory / "hosts" / "sockets.parquet")
        (program,) = analyze_run(directory)["flows"]
    rows = {one["src_port"] - 40_000: one for one in program["connections"] or ()}
    offered = {number for number, flow in enumerate(experiment.flows) if any(one.flow == flow.name for one in lives)}
    assert rows.keys() == offered
    assert [one["start_s"] for one in rows.values()] == sorted(one["start_s"] for one in rows.values())
    for number, one in rows.items():
        flow = experiment.flows[number]
        right = expected(flow.protocol, flow.payload, [life for life in lives if life.flow == flow.name])
        mine = sockets[sockets["src_port"] == 40_000 + number].to_dict("records") if len(sockets) else []
        assert dict(one) == {
            **right, **said([{str(key): value for key, value in row.items()} for row in mine]), **ENDS,
            "src_port": 40_000 + number, "dst_port": 5_201,
        }, flow.name  # fmt: skip
    if len(sockets):
        of_all = said([{str(key): value for key, value in row.items()} for row in sockets.to_dict("records")])
        assert program["inflight_bytes"] == of_all["inflight_bytes"] and program["inflight_source"] == SOCKET_SOURCE
        if of_all["rtt_s"]["min"] is not None:
            assert program["rtt_s"] == of_all["rtt_s"] and program["rtt_source"] == SOCKET_SOURCE
