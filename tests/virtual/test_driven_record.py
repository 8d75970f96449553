# SPDX-License-Identifier: Apache-2.0
"""Results record what a driver did: in run.json, in the link's rate over time, and on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from narrows import api
from narrows.errors import InputError, RunError
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
MS = 10**6
# More than the link carries at any time: it is never idle.
EXPERIMENT: dict[str, Any] = {
    "name": "driven",
    "bottleneck": {"rate": "20Mbit", "buffer": "50packets", "rtt": "20ms", "delay": "4ms"},
    "hosts": {"jitter": "0s"},
    "flows": [
        {"name": "base", "udp": {"rate": "30Mbit", "payload": "1472B"}, "duration": "1s"},
        {"name": "guest", "udp": {"rate": "1Mbit", "payload": "125B"}, "duration": "1s"},
        {"name": "never", "udp": {"rate": "1Mbit", "payload": "125B"}, "duration": "1s"},
    ],
    "events": [{"at": "900ms", "stop": "base"}],
}


@pytest.mark.long
def test_what_a_driver_did_is_recorded(tmp_path: Path) -> None:
    """Refused changes are not recorded; a flow whose start lies beyond the end has not started."""
    out = tmp_path / "out"
    with api.testbed(
        EXPERIMENT, virtual=True, kernel=kernels.installed()[0].name, out=out, held=("guest", "never")
    ) as driven:
        driven.step("200ms")
        driven.start("guest", 300 * MS)
        driven.change(buffer="20packets", loss="1%")
        driven.step("300ms")
        driven.change(rate="40Mbit")
        driven.change(rate="5Mbit", delay="1ms")
        with pytest.raises(InputError):
            driven.change(rate="fast")
        driven.stop("guest-1", 600 * MS)
        driven.step("200ms")
        driven.change(buffer=30_000, loss=0)
        driven.start("never", 5_000 * MS)
        driven.step("400ms")
    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    asked = [(one["what"], one["at_ns"], one["timed_by"], one.get("asked_by")) for one in record["events"]]
    assert asked == [
        ("bottleneck: buffer 20packets, loss 0.01", 200 * MS, "software", "driver"),
        ("guest starts", 300 * MS, "host", "driver"),
        ("bottleneck: rate 40Mbit", 500 * MS, "software", "driver"),
        ("bottleneck: rate 5Mbit, delay 1ms", 500 * MS, "software", "driver"),
        ("guest-1 stops", 600 * MS, "host", "driver"),
        ("bottleneck: buffer 30kB, loss 0.0", 700 * MS, "software", "driver"),
        ("base stops", 900 * MS, "host", None),
        ("never starts", 5_000 * MS, "host", "driver"),
    ]
    late = [None if one["achieved_ns"] is None else one["achieved_ns"] - one["at_ns"] for one in record["events"]]
    assert [late[number] for number in (0, 2, 3, 5)] == [0] * 4 and late[-1] is None
    assert 0 <= (late[1] or 0) < 10_000 and all(-MS <= (late[number] or 0) < 10_000 for number in (4, 6))

    (link,) = (one for one in record["links"] if one["direction"] == "forward")
    assert link["rate_schedule"]["start_ns"] == [0, 500 * MS]
    assert link["rate_schedule"]["rate_bps"] == [20_000_000, 5_000_000]
    assert link["delay_steps"]["steps"] == [[0, 4 * MS], [500 * MS, MS]]
    # Of 20 Mbit/s it would be no more than two thirds.
    utilization = json.loads((out / "summary.json").read_text())["bottleneck"]["utilization"]
    assert utilization == pytest.approx(1, abs=0.01)
    page = (out / "report.html").read_text()
    for text in ("bottleneck: rate 5Mbit, delay 1ms", "guest-1 stops", "did not happen", "Rate of the link"):
        assert text in page


def test_a_driver_cannot_change_what_events_change(tmp_path: Path) -> None:
    events = [{"at": "1s", "link": "bottleneck", "rate": "5Mbit"}]
    driven = api.testbed(EXPERIMENT | {"events": events}, virtual=True, out=tmp_path / "out")
    with pytest.raises(InputError, match="link bottleneck: rate: events of the experiment change it; allowed: one"):
        driven.change(rate="10Mbit")


def test_a_driver_that_leaves_a_link_down_has_what_was_measured(tmp_path: Path) -> None:
    """20 Mbit/s were offered for 100 ms, and from the first arrival on, at once, all was used."""
    experiment = {**EXPERIMENT, "flows": EXPERIMENT["flows"][:1], "events": []}
    with (
        pytest.raises(RunError, match="the queue of bottleneck does not drain; its results are in"),
        api.testbed(experiment, virtual=True, kernel=kernels.installed()[0].name, out=tmp_path / "out") as driven,
    ):
        driven.step("100ms")
        driven.change(rate=0)
        driven.step("100ms")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["bottleneck"]["utilization"] == pytest.approx(1, abs=0.01)
