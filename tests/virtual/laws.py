# SPDX-License-Identifier: Apache-2.0
"""What holds for every run through a FIFO with one rate, whatever was asked for; read packet by packet."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

# A departure's time is in whole nanoseconds, so that two differ from what the rate says by less than one each.
NS = 1_000_000_000
# Of a binomial count: one run in 3.5 million is farther from its mean.
SIGMAS = 5


def check(run_dir: Path) -> int:
    """Raise AssertionError where a run breaks a law; returns how many packets were looked at."""
    run, summary = (json.loads((run_dir / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete", run["reason"]
    assert summary["telemetry"]["lost"] == 0 and run["losses_elsewhere"] == []
    files = sorted((run_dir / "telemetry").glob("reports-*.parquet"))
    reports = pd.concat([pd.read_parquet(file) for file in files])
    reports = reports[reports["bottleneck"] == 0].sort_values("sequence", kind="stable")
    link = run["links"][0]
    conservation(run, summary)
    buffer_bytes = link["buffer_bytes"] or link["buffer_packets"] * link["mtu_frame_bytes"]
    link_and_queue(reports, link["rate_bps"], buffer_bytes, link["mtu_frame_bytes"])
    figures(summary, link, int(reports["packet_length"].min()))
    return len(reports)


def conservation(run: dict[str, Any], summary: dict[str, Any]) -> None:
    """What arrived left or was dropped, flow by flow; reports and the switch's own counters agree."""
    cross_check = run["drop_cross_check"]["bottleneck"]
    assert cross_check["holds"] and cross_check["problems"] == []
    assert cross_check["sum_of_flows"] == cross_check["port_drops"]
    for flow in summary["flows"]:
        assert flow["arrivals"] - flow["departures"] == flow["drops"] >= 0, flow["name"]
    assert sum(flow["drops"] for flow in summary["flows"]) <= cross_check["port_drops"]
    loss = run["links"][0]["loss"]
    lost = sum(flow["loss_emulation_drops"] for flow in summary["flows"])
    offered = lost + sum(flow["arrivals"] for flow in summary["flows"])
    # Losses are those of `offered` independent packets, but the last packets of a flow may not be reported.
    assert abs(lost - loss * offered) <= SIGMAS * math.sqrt(offered * loss * (1 - loss)) + 2 * len(summary["flows"])


def link_and_queue(reports: pd.DataFrame, rate_bps: int, buffer_bytes: int, frame_bytes: int) -> None:
    """The link never carries more than its rate, and exactly that while packets wait; a wait is depth / rate."""
    free = None  # when the link has sent what went before: in units of 1 / rate ns nothing is rounded
    for time_ns, delay_ns, length, depth in zip(
        *(reports[name].tolist() for name in ("timestamp", "queue_delay", "packet_length", "enqueue_depth")),
        strict=True,
    ):
        assert length <= frame_bytes and depth + length <= buffer_bytes
        # The wait is for what was found, and for the rest of one frame.
        waited, found = delay_ns * rate_bps, depth * 8 * NS
        assert found - rate_bps < waited < found + frame_bytes * 8 * NS + rate_bps, (time_ns, delay_ns, depth)
        start = time_ns * rate_bps
        if free is not None:
            assert start > free - rate_bps, f"faster than the link at {time_ns}"
            if delay_ns > 0:
                assert start < free + rate_bps, f"the link was idle at {time_ns} though a packet waited"
        # A start is some nanosecond's; while packets wait, what is left of it is not lost.
        free = (free if free is not None and delay_ns > 0 else start) + length * 8 * NS


def figures(summary: dict[str, Any], link: dict[str, Any], shortest_bytes: int) -> None:
    """Nothing is above the link's rate, and the rate while the link is busy is that rate."""
    rate_bps, seen = link["rate_bps"], summary["bottleneck"]
    assert 0 < seen["utilization"] <= 1 + 1e-9
    assert 0 <= seen["loss_ratio"] < 1
    if seen["saturated_rate_bps"] is not None:
        # Each busy spell is measured between two whole nanoseconds, and is as long as its shortest frame at least.
        busy_ns = 8 * NS * shortest_bytes / rate_bps
        assert abs(seen["saturated_rate_bps"] / rate_bps - 1) < max(1e-6, 2 / busy_ns)
    frame_bits = 8 * link["mtu_frame_bytes"]
    for flow in summary["flows"]:
        if flow["start_s"] is None:
            continue
        # Between the first arrival and the start of the last frame: that one frame's bits are carried later.
        most = rate_bps + frame_bits / max(flow["end_s"] - flow["start_s"], 1e-9)
        assert (flow["goodput_bps"] or 0) <= (flow["throughput_bps"] or 0) <= most * (1 + 1e-9), flow["name"]
        if flow["fct_s"] is not None:
            assert flow["fct_s"] >= (flow["bytes"] * 8 - frame_bits) / rate_bps, flow["name"]
