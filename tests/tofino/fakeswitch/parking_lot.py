# SPDX-License-Identifier: Apache-2.0
"""A testbed and an experiment of three links in a row: four senders, three receivers, two loopback ports."""

from __future__ import annotations

from typing import Any

from narrows.experiment.model import Experiment
from narrows_tofino.testbed.inventory import Inventory

from fakeswitch.fixtures import COLLECTOR_PORT, inventory_data, machine

# Pipe 2 has the first link's queue, pipe 1 the other two.
LOOPBACKS = (280, 152)
SENDERS = (136, 264, 8, 392)
RECEIVERS = (128, 160, 288)
RATES_BPS = {"left": 10 * 10**9, "mid": 5 * 10**9, "right": 8 * 10**9}
FRAME = 1514


def parking_lot_data(chip: str = "tofino", address: str = "127.0.0.1:50052", **switch: Any) -> dict[str, Any]:
    """The testbed, all of it at 100 Gbit/s."""
    data = inventory_data(chip, address, **switch)
    ports = (*SENDERS, *RECEIVERS, *LOOPBACKS, COLLECTOR_PORT)
    data["ports"] = [{"name": f"p{port}", "dev_port": port, "speed": "100G"} for port in ports]
    data["senders"] = [machine(f"sender{n}", f"p{port}", 10 + n) for n, port in enumerate(SENDERS)]
    del data["receiver"]
    data["receivers"] = [machine(f"receiver{n}", f"p{port}", 20 + n) for n, port in enumerate(RECEIVERS)]
    data["collector"]["port"] = f"p{COLLECTOR_PORT}"
    data["loopback"] = [f"p{port}" for port in LOOPBACKS]
    return data


def parking_lot_inventory(chip: str = "tofino", address: str = "127.0.0.1:50052", **switch: Any) -> Inventory:
    """`parking_lot_data`, checked."""
    return Inventory.model_validate(parking_lot_data(chip, address, **switch))


def parking_lot(**links: dict[str, Any]) -> Experiment:
    """A flow across all links, and one across each; ``links`` are settings that some have beside the usual ones."""
    settings = {
        name: {"rate": f"{rate}bit", "buffer": "1MB", "rtt": "1ms", **links.get(name, {})}
        for name, rate in RATES_BPS.items()
    }
    paths = [list(settings), *([name] for name in settings)]
    flows = [{"cca": "reno", "duration": "10s", "path": path} for path in paths]
    return Experiment.model_validate({"name": "lot", "links": settings, "flows": flows})
