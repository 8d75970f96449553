# SPDX-License-Identifier: Apache-2.0
"""What a switch answers to every write of a plan, and to taking it back: recorded of the driver, the same of the fake.

`conversations.py ADDRESS PROGRAM FILE` records the plans of a program with the driver of a Tofino 1 without ports. The
file has only what the driver said; what was asked is planned anew.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fakeswitch.fixtures import inventory_data, machine, make_experiment, make_inventory
from fakeswitch.parking_lot import parking_lot, parking_lot_inventory
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt.client import Endpoint
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.binding import bind
from narrows_tofino.planner import plan_switch, used_ports
from narrows_tofino.programming.audit import AuditLog, Change, read_audit
from narrows_tofino.programming.programmer import Programmer
from narrows_tofino.testbed.calibration import Calibration
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import LiveReader

RECORDED = Path(__file__).parent / "recorded"
PROGRAM = "narrows"
# A driver with its model on a busy machine takes its time.
ANSWER_S = 300.0
# Of a driver as fast as none: laws whose probabilities software updates need one.
CALIBRATION = {
    **{"date": "2026-11-29", "chip": "tofino", "sku": "model", "pipes": 4, "shaper_bytes": 0, "overshoot_cells": 0},
    **{"latency_ns": 0, "rate_step_ns": 1_000_000},
}
PLANS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "slow and shallow": {"rate": "1Mbit", "buffer": "10kB", "rtt": "100ms"},
    "odd": {"rate": "123456789bit", "buffer": "123457B", "ecn_threshold": "54321B"},
    "as fast as the port": {"rate": "98Gbit", "buffer": "15MB"},
    "in L1, by time": {"rate": "100Gbit", "rate_layer": "l1", "buffer": "1ms"},
    "with loss and marking": {"rate": "1Gbit", "buffer": "2bdp", "loss": 0.01, "ecn_threshold": "100kB"},
}
MANAGED: Mapping[str, Mapping[str, Any]] = {
    "step": {"queue": {"kind": "step", "threshold": "1ms"}},
    "red": {"rate": "100Mbit", "queue": {"kind": "red", "min": "100kB", "max": "300kB", "probability": 0.1}},
    "pi2": {"queue": "pi2"},
    "pie": {"queue": "pie"},
    "dualpi2": {"rate": "100Mbit", "buffer": "200kB", "queue": "dualpi2"},
}
# Of an entry's change: what was there, and what is there after it.
Answer = tuple[str, Any, Any]


def plans(program: str, address: str) -> Iterable[tuple[str, Experiment, Inventory]]:
    """The plans that a program is asked for, by name."""
    calibration = Calibration.model_validate(CALIBRATION)
    lab = make_inventory(address=address, program=program).calibrated(calibration)
    for name, settings in (MANAGED if program == MANAGED_PROGRAM else PLANS).items():
        yield name, make_experiment(**settings), lab
    if program == PROGRAM:
        yield "three links", parking_lot(), parking_lot_inventory(address=address)
        data = inventory_data(address=address)
        data["ports"].append({"name": "6/0", "dev_port": 152, "speed": "100G"})
        data["delay"] = {"at": "switch", "port": "6/0"}
        data["senders"] = [machine("alice", "2/0", 1), machine("bob", "2/0", 2)]
        data["vlans"] = {"alice": 101, "bob": 102, "carol": 103}
        bursts = make_experiment(rtt="20ms", loss={"gilbert_elliott": {"p": 0.001, "r": 0.1}})
        yield "hosts in VLANs, base RTTs by recirculation, loss in bursts", bursts, Inventory.model_validate(data)


def converse(experiment: Experiment, lab: Inventory, log: Path) -> list[Answer]:
    """Make all writes of a plan, take them back, and return what the switch answered."""
    client, audit = connect(Endpoint(lab.switch.address, lab.switch.program, timeout_s=ANSWER_S)), AuditLog(log)
    try:
        programmer, reader, plan = Programmer(client, audit), LiveReader(client), bind(make_plan(experiment), lab)
        programmer.apply(port_writes(lab, used_ports(lab, plan), reader))
        programmer.apply(plan_switch(lab, plan, reader).writes)
        problems = programmer.undo()
    finally:
        client.close()
        audit.close()
    assert problems == [], problems
    return [_answer(change) for change in read_audit(log) if change.phase != "intent"]


def _answer(change: Change) -> Answer:
    written = change.as_json()
    for entry in (written["old"], written["got"]):
        if entry is not None:
            # How soon a link is up is a matter of time.
            entry["data"].pop("$PORT_UP", None)
    return f"{change.phase} {change.operation} {change.entry}", written["old"], written["got"]


def file_of(program: str) -> Path:
    """Where a program's conversations are."""
    return RECORDED / f"{program}.json.xz"


def recorded(program: str) -> dict[str, list[Any]]:
    """What the driver answered, by plan."""
    found: dict[str, list[Any]] = json.loads(lzma.decompress(file_of(program).read_bytes()))
    return found


def main(address: str, program: str, path: str) -> None:
    """Record what a driver answers."""
    said: dict[str, list[Answer]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, experiment, lab) in enumerate(plans(program, address)):
            said[name] = converse(experiment, lab, Path(scratch) / str(number))
            print(f"{name}: {len(said[name])} answers")
    content = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
    Path(path).write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(*sys.argv[1:])
