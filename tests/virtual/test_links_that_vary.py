# SPDX-License-Identifier: Apache-2.0
"""Links whose rate varies, end to end in virtual time: every packet leaves when an independent model says."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows_formats.programs import COLLECTOR
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
MS = 1_000_000
SECOND = 1000 * MS


def run(tmp_path: Path, rate: str, more: str = "") -> tuple[pd.DataFrame, dict[str, Any]]:
    """Reports in the order of departures, times from the experiment's start, and the summary's link."""
    text = f"name: vary\nbottleneck: {{rate: {rate}, buffer: 60kB, rtt: 20ms{more}}}\n"
    text += "flows: [{cca: cubic, duration: 4s}]\nmtu: 1400\n"
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert all(check["holds"] for check in record["drop_cross_check"].values())
    parts = [pd.read_parquet(path) for path in sorted((tmp_path / "out/telemetry").glob("reports-*.parquet"))]
    reports = pd.concat(parts)
    reports = reports[reports["bottleneck"] == 0]
    left = reports["timestamp"].astype("int64") - record["clock_origin_ns"]
    reports = reports.assign(left=left, came=left - reports["queue_delay"].astype("int64"))
    return reports, json.loads((tmp_path / "out/summary.json").read_text())["bottleneck"]


def delivered(stamps_ms: list[int], packets: list[tuple[int, int]]) -> Iterator[int]:
    """When the first byte of each packet passes, as Mahimahi's link_queue.cc has it, opportunity by opportunity.

    Args:
        stamps_ms: the trace.
        packets: when each came, in ns, and its IP length and 4 bytes.
    """
    moments = ((lap * stamps_ms[-1] + stamp) * MS for lap in range(10**6) for stamp in stamps_ms)
    moment, room = next(moments), 1504
    for came, size in packets:
        begins, needed = None, size
        while needed:
            # What came at the very millisecond is too late for it, and what is not taken is lost.
            while moment <= came or not room:
                moment, room = next(moments), 1504
            begins = moment if begins is None else begins
            taken = min(room, needed)
            room, needed = room - taken, needed - taken
        assert begins is not None
        yield begins


@pytest.mark.long
def test_packets_leave_at_the_opportunities_of_a_trace(tmp_path: Path) -> None:
    stamps = sorted([0, 1, 1, 1, *range(3, 200, 2), *[210] * 40, *range(400, 600), 777, 777, 1000])
    (tmp_path / "trace").write_text("".join(f"{stamp}\n" for stamp in stamps))
    reports, link = run(tmp_path, "{trace: {file: trace, format: mahimahi}}")
    assert len(reports) > 1000
    packets = list(zip(reports["came"], reports["packet_length"].astype("int64") - 10, strict=True))
    assert list(delivered(stamps, packets)) == reports["left"].tolist()
    assert (link["saturated_rate_reason"], link["down_s"]) == ("the rate varies", None)
    assert link["down_reason"].startswith("delivery opportunities")
    assert link["saturated_rate_bps"] is None and 0.5 < link["utilization"] <= 1


def test_a_packet_in_service_when_the_rate_changes_ends_as_the_integral_says(tmp_path: Path) -> None:
    """The rate halves, doubles, and is 0 for a second: gaps between packets of one busy period are integrals."""
    text = "{at: 0s, rate: 8Mbit}, {at: 1s, rate: 4Mbit}, {at: 1500ms, rate: 0bit}, {at: 2500ms, rate: 16Mbit}"
    reports, link = run(tmp_path, f"{{steps: [{text}]}}")
    starts, rates = [0, SECOND, 1500 * MS, 2500 * MS], [8_000_000, 4_000_000, 0, 16_000_000]
    sums = [Fraction(0)]
    for begin, end, rate in zip(starts, starts[1:], rates, strict=False):
        sums.append(sums[-1] + Fraction(rate * (end - begin), SECOND))

    def integral(time_ns: int) -> Fraction:
        place = bisect_right(starts, time_ns) - 1
        return sums[place] + Fraction(rates[place] * (time_ns - starts[place]), SECOND)

    columns = (reports[name].astype("int64").tolist() for name in ("came", "left", "packet_length"))
    behind = free = Fraction(0)
    waited = 0
    for came, left, length in zip(*columns, strict=True):
        begun = max(integral(came), free)
        if free > integral(came):
            # It waited: it starts when the packet before it is through, stamped with the nanosecond that has begun.
            assert integral(left) <= free < integral(left + 1)
            waited += 1
        free, behind = begun + 8 * length, begun
    assert waited > 1000 and behind < integral(4 * SECOND + SECOND)
    gaps = reports["left"].diff()
    assert SECOND - 3 * MS < gaps.max() < SECOND + 3 * MS
    assert (link["rate_least_bps"], link["rate_most_bps"], link["down_s"]) == (0, 16_000_000, 1.0)
    assert 0.9 < link["utilization"] <= 1


@pytest.mark.long
def test_a_trace_on_one_of_two_links_with_a_reverse(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0.0 6\n0.5 2\n1.0 9\n")
    trace = "{trace: {file: trace, format: pensieve, holds: from}}"
    text = "name: two\nlinks:\n"
    text += f"  cell: {{rate: {trace}, buffer: 60kB, rtt: 20ms, reverse: {{rate: 1Mbit, buffer: 30kB}}}}\n"
    text += "  core: {rate: 20Mbit, buffer: 100kB, rtt: 10ms}\n"
    text += "flows: [{cca: cubic, duration: 3s, path: [core, cell]}]\n"
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    links = {link["name"]: link for link in json.loads((tmp_path / "out/summary.json").read_text())["links"]}
    assert links["cell"]["rate_most_bps"] == 6_000_000 and links["cell"]["rate_least_bps"] == 2_000_000
    assert links["core"]["rate_most_bps"] == links["core"]["rate_least_bps"] == 20_000_000
    assert 0.8 < links["cell"]["utilization"] <= 1
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert all(check["holds"] for check in record["drop_cross_check"].values())
