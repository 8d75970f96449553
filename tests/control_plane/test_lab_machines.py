# SPDX-License-Identifier: Apache-2.0
"""A lab's machines are checked and set up the same whatever switch is between them: here one that is not a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.lab import preflight
from narrows.hosts.lab.inventory import Lab, Machine, Nic
from narrows.hosts.lab.machines import SshTestbed, machines_of
from narrows.hosts.lab.preflight import Preflight
from narrows.hosts.lab.ssh import HOST_SCRIPT
from pydantic import ValidationError


class Cables(Lab):
    """Machines on a switch that has nothing to say but the speeds of its ports."""

    speeds: dict[str, int]

    def speed_bps(self, machine: Nic) -> int:
        assert isinstance(machine, Machine)
        return self.speeds[machine.port]


def machine(name: str, port: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": port, "interface": f"nic{number}", "mac": f"02:00:00:00:00:0{number}"}


def lab_data() -> dict[str, Any]:
    """A sender at 10 Gbit/s, a receiver at 25, and the collector."""
    return {
        "speeds": {"a": 10_000_000_000, "b": 25_000_000_000, "c": 1_000_000_000},
        "senders": [machine("alice", "a", 1)],
        "receiver": machine("carol", "b", 3),
        "collector": machine("dave", "c", 4),
    }


def plan_of() -> Plan:
    link = {"rate": "100Mbit", "buffer": "1bdp", "rtt": "10ms"}
    flows = [{"cca": "reno", "duration": "1s"}]
    return make_plan(Experiment.model_validate({"name": "lab", "bottleneck": link, "flows": flows}))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("receiver", machine("alice", "b", 3), "two machines have the name 'alice'"),
        ("receiver", machine("carol", "b", 1), "two machines have the mac '02:00:00:00:00:01'"),
        ("receiver", machine("carol", "a", 3), "alice shares the receiver's port 'a'"),
        ("receiver", None, "has neither receiver nor receivers"),
        ("collector", machine("dave", "a", 4), "alice shares the collector's port 'a'"),
        ("collector", machine("dave", "c", 4) | {"ssh": {"host": "dave"}}, "reports are collected where Narrows runs"),
    ],
)
def test_machines_that_cannot_be_distinguished_are_refused(field: str, value: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Cables.model_validate(lab_data() | {field: value})


def test_a_nic_is_set_up_for_its_own_speed() -> None:
    """From 25 Gbit/s on: the receiver's, not the sender's."""
    plan, lab = plan_of(), Cables.model_validate(lab_data())
    testbed = SshTestbed(plan, lab, Path("unused"), 1500)
    fast = {machine.name for host, machine in machines_of(plan, lab).items() if "nic=fast" in testbed.settings(host)}
    assert fast == {"carol"}


def test_each_machine_is_asked_once_for_what_it_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def run(machine: Nic, arguments: list[str], *, text: str) -> str:
        assert text == HOST_SCRIPT.read_text()
        asked.append((machine.name, tuple(arguments[5:])))
        if machine.name == "carol":
            raise RunError("carol: no netem")
        return ""

    monkeypatch.setattr(preflight, "run", run)
    plan, check = plan_of(), Preflight(Cables.model_validate(lab_data()))
    assert check.problems(plan) == check.problems(plan) == ["carol: no netem"]
    assert sorted(asked) == [
        ("alice", ("python=3.8", "mac=02:00:00:00:00:01", "cca=reno")),
        ("carol", ("python=3.8", "netem=yes", "mac=02:00:00:00:00:03", "cca=reno")),
        ("dave", ("mac=02:00:00:00:00:04", "cca=")),
    ]
