# SPDX-License-Identifier: Apache-2.0
"""Programs as flows in real time: a download and datagrams beside CUBIC, and programs that fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import RunError
from narrows.experiment.loader import load
from narrows.run.runner import Outcome, check, execute
from narrows.targets.registry import target_factory
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from rich.console import Console

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR, "iperf3")

BOTTLENECK = {"rate": "20Mbit", "rtt": "20ms", "buffer": "1bdp"}
UDP = {
    "name": "udp",
    "start": "500ms",
    "sends": "client",
    "client": ["iperf3", "-c", "{server}", "-p", "{port}", "-u", "-b", "12M", "-l", "1200", "-t", "2", "-J"],
    "server": ["iperf3", "-s", "-p", "{port}", "-1"],
}


def run(tmp_path: Path, *groups: dict[str, Any]) -> Outcome:
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump({"name": "x", "bottleneck": BOTTLENECK, "flows": list(groups)}))
    experiment = load(file)
    checked = check(experiment, target_factory("soft")(experiment), str(file))
    return execute(checked, tmp_path / "out", Console(quiet=True), "x")


def test_datagrams_that_the_program_missed_are_those_that_the_switch_dropped(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"cca": "cubic", "duration": "3s"}, UDP)
    assert (outcome.status, outcome.reason) == ("complete", "")
    summary = json.loads((outcome.directory / "summary.json").read_text())
    flow = next(one for one in summary["flows"] if one["group"] == "udp")
    printed = json.loads((outcome.directory / "hosts/udp-1/client.stdout").read_text())["end"]["sum"]
    (datagrams,) = (one for one in flow["connections"] if one["protocol"] == 17)
    (control,) = (one for one in flow["connections"] if one["protocol"] == 6)
    assert datagrams["rtt_s"] == {"min": None, "mean": None}
    assert 0.02 <= control["rtt_s"]["min"] <= control["rtt_s"]["mean"] < 1
    run_record = json.loads((outcome.directory / "run.json").read_text())
    # What the program was too slow to read, on a busy machine, it misses as well.
    not_read = run_record["host"]["testbed"]["kernel_counters"]["receiver"].get("UdpRcvbufErrors", 0)
    assert datagrams["drops"] == printed["lost_packets"] - not_read > 0
    # iperf3 sends one before the test, by which the server learns the client's port.
    assert datagrams["arrivals"] == printed["packets"] + 1
    assert flow["arrivals"] == sum(one["arrivals"] for one in flow["connections"])
    assert summary["bottleneck"]["other_share"] == 0
    told_of = run_record["flows"][1]["application"]
    assert told_of["user"] != 0 and told_of["client"]["exit_code"] == 0


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (["sh", "-c", "echo no luck >&2; exit 3"], "its client (sh) ended with exit code 3:\nno luck"),
        pytest.param(["sh", "-c", "kill -SEGV $$"], "its client (sh) ended with SIGSEGV", marks=pytest.mark.long),
    ],
)
def test_a_program_that_fails_is_a_failed_run(tmp_path: Path, client: list[str], reason: str) -> None:
    outcome = run(tmp_path, {"cca": "cubic", "duration": "2s"}, {"name": "bad", "client": client})
    assert (outcome.status, outcome.reason) == ("failed", f"flow bad-1: {reason}")


def test_a_server_that_ends_or_is_never_ready_is_named_before_traffic(tmp_path: Path) -> None:
    group = {"name": "bad", "client": ["true"], "server": ["sh", "-c", "echo sorry; exit 4"], "ready": {"tcp": 99}}
    with pytest.raises(RunError, match=r"its server \(sh\) ended with exit code 4:\nsorry"):
        run(tmp_path, group)
    with pytest.raises(RunError, match=r"its server \(true\) ended before it was ready"):
        run(tmp_path, {**group, "server": ["true"]})


@pytest.mark.long
def test_nothing_is_left_of_programs_that_hide(tmp_path: Path) -> None:
    """In the background, in a session of its own, deaf to SIGTERM."""
    hide = "trap '' TERM; setsid sleep 4141 & while :; do sleep 1; done"
    outcome = run(tmp_path, {"name": "bad", "duration": "1s", "client": ["sh", "-c", hide]})
    assert "4141" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    application = json.loads((outcome.directory / "run.json").read_text())["flows"][0]["application"]
    assert application["client"]["killed"] and "SIGTERM" in application["notes"][0]
    assert outcome.notes == (f"bad-1: {application['notes'][0]}",)
