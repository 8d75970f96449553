# SPDX-License-Identifier: Apache-2.0
"""What a switch holds wherever a run writes: ``driver_state.py INVENTORY EXPERIMENT`` prints it, entry by entry.

Whole entries, not only the fields that the run is about. For ports that are not there, before a run and after it.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import yaml
from narrows.experiment.model import Experiment
from narrows_tofino.bfrt.client import Client, Operation, describe
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import SwitchRefused
from narrows_tofino.planner import plan
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.planned import PlannedWrite
from narrows_tofino.writes.reader import LiveReader

# The driver takes a queue's guaranteed cells when its port is deleted, and gives them when one is added: of a port that
# was never there they are others than of one that has been.
OF_PORTS = {"tm.queue.buffer": "guaranteed_cells"}


def state(client: Client, writes: list[PlannedWrite]) -> dict[str, object]:
    """What is at each of the entries now; of one that the switch does not show, why."""
    reader, found = LiveReader(client), dict[str, object]()
    for write in writes:
        if write.operation is Operation.CLEAR:
            continue
        name = describe(client.schema.table(write.table), write.key, write.pipe)
        try:
            entry = reader.entry(write.table, write.key, write.pipe)
            hidden = OF_PORTS.get(write.table.partition(".")[2])
            data = None if entry is None else {key: value for key, value in entry.data.items() if key != hidden}
            found[name] = None if entry is None else [entry.action, data]
        except SwitchRefused as error:
            found[name] = sorted(error.codes)
    return found


def main(inventory: Path, experiment: Path) -> None:
    """Read all of it, and print it as JSON."""
    lab = Inventory.load(inventory)
    writes = plan(Experiment.model_validate(yaml.safe_load(experiment.read_text())), lab)
    with closing(connect(lab.endpoint(), prefer=("own",))) as client:
        print(json.dumps(state(client, writes), indent=1, sort_keys=True, default=str))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
