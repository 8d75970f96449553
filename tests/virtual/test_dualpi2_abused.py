# SPDX-License-Identifier: Apache-2.0
"""DualPI2 with flows in its low-latency queue that are not L4S's, beside CUBIC: what RFC 9332, section 4.2, bounds.

Open-loop overload of either queue is in tests/aqm/test_overload.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows_analysis.loading import load
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs(
    "stress", "programs-kernel", "default-kernel", "narrows-softswitch", "narrows-collector", "ip"
)

PROGRAM = Path(__file__).with_name("pretender.py")
RUN = "name: x\nbottleneck: {rate: 20Mbit, buffer: 1000packets, rtt: 20ms, queue: dualpi2}\nflows:\n"
CUBIC = "- {name: cubic, cca: cubic, duration: 10s}\n"
SETTLED_S = 3
# ECT(1) and CE (RFC 3168): what waits in the low-latency queue.
LOW_LATENCY = (1, 3)


def through(tmp_path: Path, other: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """The other flow's summary, and the reports once the flows have settled."""
    assert start(tmp_path, RUN + CUBIC + other).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    reports = load(tmp_path / "out").reports()
    settled = reports[(reports["time_s"] > SETTLED_S) & (reports["time_s"] < 10)]
    return summary["flows"][1], settled


def share(settled: pd.DataFrame, low: bool) -> float:
    """Part of the link that went to one of the two queues."""
    mine = settled["packet_bytes"][settled["ecn"].isin(LOW_LATENCY) == low]
    return float(mine.sum() * 8 / (20e6 * (10 - SETTLED_S)))


@pytest.mark.long
def test_an_unresponsive_flow_below_the_rate_takes_no_more_than_it_sends(tmp_path: Path) -> None:
    """15.5 Mbit/s of ECT(1): CUBIC has what is left, none of the datagrams is lost, and they do not wait.

    4.5 Mbit/s are 13 packets in 35 ms, for which p^2 has to be 1.5 / 13^2: coupled, 2 p = 0.19 of the datagrams are
    marked. One of them waits for a classic packet in service and, at each tenth, for one that the scheduler owes C.
    """
    flood, settled = through(
        tmp_path, "- {name: flood, udp: {rate: 15Mbit, payload: 1200B, ecn: ect1}, duration: 10s}\n"
    )
    assert flood["drops"] == 0
    low = settled[settled["ecn"].isin(LOW_LATENCY)]
    assert (low["time_s"] - low["arrival_s"]).quantile(0.99) < 0.002
    assert share(settled, low=True) == pytest.approx(0.776, abs=0.01)
    assert share(settled, low=False) > 0.9 * (1 - 0.776)


@pytest.mark.long
def test_cubic_that_calls_itself_l4s_harms_itself(tmp_path: Path) -> None:
    """It is marked with 2 p, and answers to each mark as to a loss: CUBIC in C, which loses p^2, has more, not less.

    By W = sqrt(1.5 / p) of both, 35 and 20 ms, their ratio is 0.57 sqrt(2 / p), which is above 1 for all p below 0.65.
    """
    client = f"[/usr/bin/python3, {PROGRAM}, client, '{{server}}', '{{port}}', '10']"
    server = f"[/usr/bin/python3, {PROGRAM}, server, '{{port}}']"
    other = f"- name: pretender\n  sends: client\n  client: {client}\n  server: {server}\n"
    _, settled = through(tmp_path, other)
    assert share(settled, low=False) > 0.5 > share(settled, low=True) > 0
    assert share(settled, low=False) + share(settled, low=True) > 0.95
