# SPDX-License-Identifier: Apache-2.0
"""The same experiment by both clocks, at a rate at which this machine's is accurate: the answers are the same.

docs/virtual-time.md has the table with repetitions; here one run each shows what no chance decides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("root", "default-kernel", SOFTSWITCH, COLLECTOR, "ip")

RATE_BPS, RTT_S = 80_000_000, 0.025
SHALLOW = """\
name: clocks
bottleneck: {rate: 80Mbit, buffer: 0.5bdp, rtt: 25ms}
flows: [{cca: bbr, count: 4, duration: 6s}]
"""


def summary(tmp_path: Path, virtual: bool) -> dict[str, Any]:
    """summary.json of a run by one of the clocks; nothing is missing from it."""
    tmp_path.mkdir()
    # Another kernel's `bbr` may be another version of it.
    options = ("--kernel", kernels.DEFAULT) if virtual else ()
    process = start(tmp_path, SHALLOW, virtual=virtual, options=options)
    assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record, found = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert record["drop_cross_check"]["bottleneck"]["holds"] and found["telemetry"]["lost"] == 0
    assert (record.get("virtual_time") is not None) == virtual
    assert all(flow["arrivals"] - flow["departures"] == flow["drops"] for flow in found["flows"])
    return dict(found)


@pytest.mark.long
def test_the_answers_are_those_of_real_time(tmp_path: Path) -> None:
    virtual, real = (summary(tmp_path / name, name == "virtual") for name in ("virtual", "real"))
    for found in (virtual, real):
        assert found["bottleneck"]["saturated_rate_bps"] == pytest.approx(RATE_BPS, rel=1e-3)
        # A packet's own time on the link, and what a host adds. Where all that is acknowledged was sent twice, TCP
        # takes the RTT from timestamps (RFC 7323, RTTM), which count whole milliseconds: then there is nothing of it.
        above_us = [round((flow["rtt_s"]["min"] - RTT_S) * 1e6) for flow in found["flows"]]
        assert min(above_us) >= 0 and max(above_us) < 3000, above_us
        # BBR's two BDP in flight do not fit into half a BDP of buffer.
        assert found["bottleneck"]["loss_ratio"] > 0.02
        assert found["bottleneck"]["utilization"] > 0.9
    # Chance, and what else this machine does, decide how much it is in real time.
    assert 0.5 < virtual["bottleneck"]["loss_ratio"] / real["bottleneck"]["loss_ratio"] < 2
