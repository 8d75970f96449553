# SPDX-License-Identifier: Apache-2.0
"""A run that is driven in real time: flows come and go, reports are read, and nothing is left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from narrows import api
from narrows.errors import InputError
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("root", "narrows-softswitch", COLLECTOR, "ip")
MS = 10**6
EXPERIMENT: dict[str, Any] = {
    "name": "driven",
    "bottleneck": {"rate": "10Mbit", "buffer": "50packets", "rtt": "20ms"},
    "flows": [
        {"cca": "cubic", "duration": "4s"},
        {"name": "late", "cca": "reno", "duration": "4s"},
        {"name": "guest", "udp": {"rate": "1Mbit", "payload": "125B"}, "duration": "4s"},
        {"name": "asks", "cca": "cubic", "duration": "1s", "to": "user", "requests": {"size": "3kB", "gaps": "50ms"}},
    ],
}
# A busy machine starts a flow's process, and wakes it, later than it was asked to.
LATE_S = 0.5


def namespaces() -> set[str]:
    return set(subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.long
def test_flows_and_reports_in_real_time(tmp_path: Path) -> None:
    before, out, shown = namespaces(), tmp_path / "out", []
    with api.testbed(EXPERIMENT, out=out, held=("late", "guest", "asks"), reports=True) as driven:
        driven.step("300ms")
        asked = {name: driven.start(name) for name in ("late", "guest", "asks")}
        assert all(0 < at - driven.time_ns < 2_000 * MS for at in asked.values())
        with pytest.raises(InputError, match="is past, or too soon"):
            driven.stop("guest", driven.time_ns)
        driven.step("800ms")
        stopped = {name: driven.stop(name) for name in ("late", "guest")}
        for _ in range(4):
            driven.step("200ms")
            shown.append(driven.reports())
    assert not namespaces() - before and not list(tmp_path.rglob("*.arrows"))
    assert driven.result.run.status == "complete"
    live = pa.concat_tables(shown)
    stored = pd.concat(pd.read_parquet(path) for path in sorted((out / "telemetry").glob("reports-*.parquet")))
    assert len(stored) > live.num_rows > 500
    for name in live.schema.names[3:]:
        assert live[name].to_pylist() == stored[name].to_list()[: live.num_rows], name
    flows = {flow.name: flow for flow in driven.result.run.flows}
    for name, at in asked.items():
        started_s = flows[f"{name}-1"].started_s
        assert started_s is not None and 0 <= started_s - at / 1e9 < LATE_S
        assert flows[f"{name}-1"].start_s == at / 1e9
    for name, at in stopped.items():
        ended_s = flows[f"{name}-1"].ended_s
        # A sender of datagrams ends with the last of them, of which there is one a millisecond.
        assert ended_s is not None and -0.001 <= ended_s - at / 1e9 < LATE_S


@pytest.mark.long
def test_nothing_is_left_of_a_driver_that_fails(tmp_path: Path) -> None:
    """But what it had done until then."""
    before = namespaces()
    with (
        pytest.raises(ZeroDivisionError),
        api.testbed(EXPERIMENT, out=tmp_path / "out", held=("guest", "late", "asks"), reports=True) as driven,
    ):
        began_ns = driven.start("guest")
        driven.step("200ms")
        changed_ns = driven.change(rate="5Mbit", buffer="20packets")
        assert 1 / 0
    record = json.loads((tmp_path / "out/run.json").read_text())
    start, change = record["events"]
    assert (start["what"], start["at_ns"], start["asked_by"]) == ("guest starts", began_ns, "driver")
    assert (change["what"], change["achieved_ns"]) == ("bottleneck: rate 5Mbit, buffer 20packets", changed_ns)
    assert 200 * MS <= change["at_ns"] < changed_ns < change["at_ns"] + LATE_S * 1e9
    assert [link["rate_schedule"]["start_ns"] for link in record["links"] if "rate_schedule" in link] == [
        [0, changed_ns]
    ]
    assert not namespaces() - before and not list(tmp_path.rglob("*.arrows"))
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True).stdout
