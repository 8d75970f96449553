# SPDX-License-Identifier: Apache-2.0
"""What the tests of this directory share: a fake switch of each generation, a testbed, an experiment."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt.client import Client, Endpoint
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.binding import bind
from narrows_tofino.programming.audit import AuditLog
from narrows_tofino.programming.programmer import Programmer
from narrows_tofino.readings import checks
from narrows_tofino.testbed.inventory import Inventory

from fakeswitch.server import PROGRAM, FakeSwitch

# Tests that take the fixture `kind` run once with each BF Runtime client that there is.
SDE = importlib.util.find_spec("bfrt_grpc") is not None
KINDS = ("own", "sde") if SDE else ("own",)

SENDER_PORT = 136
SECOND_SENDER_PORT = 264
RECEIVER_PORT = 128
COLLECTOR_PORT = 144
PIPE = 1


def machine(name: str, port: str, number: int) -> dict[str, Any]:
    """A server of the testbed."""
    return {
        "name": name,
        **({} if name == "dave" else {"ssh": {"host": f"{name}.example"}}),
        "port": port,
        "interface": "ens1f0",
        "mac": f"02:00:00:00:00:{number:02x}",
        "address": f"10.0.0.{number}/24",
        "address6": f"2001:db8::{number}/64",
    }


def inventory_data(chip: str = "tofino", address: str = "127.0.0.1:50052", **switch: Any) -> dict[str, Any]:
    """A testbed with two senders, a receiver and a collector, at 100 Gbit/s."""
    return {
        "switch": {"chip": chip, "address": address, "client": "own", "keep_ports": False, **switch},
        "ports": [
            {"name": "1/0", "dev_port": RECEIVER_PORT, "speed": "100G", "fec": "rs"},
            {"name": "2/0", "dev_port": SENDER_PORT, "speed": "100G", "fec": "rs"},
            {"name": "3/0", "dev_port": COLLECTOR_PORT, "speed": "25G"},
            {"name": "17/0", "dev_port": SECOND_SENDER_PORT, "speed": "100G"},
        ],
        "senders": [machine("alice", "2/0", 1), machine("bob", "17/0", 2)],
        "receiver": machine("carol", "1/0", 3),
        "collector": {**machine("dave", "3/0", 4), "reports_s": 20_000_000},
    }


def make_inventory(chip: str = "tofino", address: str = "127.0.0.1:50052", **switch: Any) -> Inventory:
    """`inventory_data`, checked."""
    return Inventory.model_validate(inventory_data(chip, address, **switch))


def make_experiment(**bottleneck: Any) -> Experiment:
    """Two groups of one flow over 10 Gbit/s with a queue of 1 MB."""
    return Experiment.model_validate(
        {
            "name": "test",
            "bottleneck": {"rate": "10Gbit", "buffer": "1MB", "rtt": "10ms", **bottleneck},
            "flows": [{"cca": "cubic", "duration": "10s"}, {"cca": "reno", "duration": "10s"}],
        }
    )


def bound_plan(inventory: Inventory, **bottleneck: Any) -> Plan:
    """The plan of `make_experiment` on a testbed."""
    return bind(make_plan(make_experiment(**bottleneck)), inventory)


def _running(chip: str, *, managed: bool = False) -> Iterator[FakeSwitch]:
    fake = FakeSwitch(chip, managed=managed)
    yield fake
    fake.stop()


# `make test-long` tries on the second one what is not of one generation.
@pytest.fixture(params=["tofino", pytest.param("tofino2", marks=pytest.mark.long)])
def switch(request: pytest.FixtureRequest) -> Iterator[FakeSwitch]:
    """A fake switch of each generation."""
    yield from _running(request.param)


@pytest.fixture(params=["tofino", "tofino2"])
def managed_switch(request: pytest.FixtureRequest) -> Iterator[FakeSwitch]:
    """A fake switch of each generation, with the program that manages queues."""
    yield from _running(request.param, managed=True)


@pytest.fixture
def tofino2_switch() -> Iterator[FakeSwitch]:
    """One of the generation that has L1 nodes, with the program that manages queues."""
    yield from _running("tofino2", managed=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client talks to the switch."""
    return str(request.param)


@pytest.fixture
def inventory(switch: FakeSwitch, kind: str) -> Inventory:
    """A testbed around the fake switch."""
    return make_inventory(switch.chip, switch.address, client=kind)


@pytest.fixture
def client(switch: FakeSwitch, kind: str) -> Iterator[Client]:
    """A connected client."""
    one = connect(Endpoint(switch.address, PROGRAM, timeout_s=5), prefer=(kind,))
    assert one.kind == kind
    yield one
    one.close()


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake's counters are never old."""
    monkeypatch.setattr("narrows_tofino.target.COUNTER_AGE_S", 0)
    assert checks.COUNTER_AGE_S >= 2


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[AuditLog]:
    """An audit log in a temporary directory."""
    log = AuditLog(tmp_path / "audit.jsonl")
    yield log
    log.close()


@pytest.fixture
def programmer(client: Client, audit: AuditLog) -> Programmer:
    """A programmer of the fake switch."""
    return Programmer(client, audit)
