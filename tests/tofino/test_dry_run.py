# SPDX-License-Identifier: Apache-2.0
"""``narrows plan`` against what the same experiment really writes on a switch: write by write, bit by bit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakeswitch.fixtures import fresh_counters, inventory, kind, make_experiment, switch
from fakeswitch.server import FakeSwitch
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.client import Operation
from narrows_tofino.bfrt.schema import Schema
from narrows_tofino.bfrt.values import encode_data, encode_key
from narrows_tofino.planner import plan
from narrows_tofino.readings.counters import counting_table
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.planned import PlannedWrite

__all__ = ["fresh_counters", "inventory", "kind", "switch"]

TYPES = {"insert": pb.Update.INSERT, "modify": pb.Update.MODIFY, "delete": pb.Update.DELETE}
Written = tuple[Any, int, int, str, bool, str]

EXPERIMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "slow and shallow": {"rate": "1Mbit", "buffer": "10kB", "rtt": "100ms"},
    "fast and deep": {"rate": "98Gbit", "buffer": "15MB"},
    "beyond the driver's cap": {"rate": "20Gbit", "buffer": "19MB"},
    "in L1, by time": {"rate": "100Gbit", "rate_layer": "l1", "buffer": "1ms"},
    "by BDP, with loss and marking": {"rate": "1Gbit", "buffer": "2bdp", "loss": 0.01, "ecn_threshold": "100kB"},
    "by packets": {"rate": "25Gbit", "buffer": "500packets", "rtt": "1ms"},
}


def planned(write: PlannedWrite, schema: Schema) -> Written:
    """A planned write as it has to arrive."""
    if write.operation is Operation.CLEAR and write.key is None:
        return (pb.Update.DELETE, counting_table(schema, write.table).id, write.pipe, "", False, "")
    table = schema.table(write.table)
    kind_of = TYPES["modify" if write.operation is Operation.CLEAR else str(write.operation)]
    key = "" if write.key is None else str(_ordered(encode_key(table, write.key)))
    data = str(_ordered(encode_data(table, write.data, write.action)))
    return (kind_of, table.id, write.pipe, key, write.key is None, data)


def arrived(update: pb.Update, pipe: int) -> Written:
    """What did arrive."""
    entry = update.entity.table_entry
    key, data = str(_ordered(entry.key)), str(_ordered(entry.data))
    return (update.type, entry.table_id, pipe, key, entry.is_default_entry, data)


def _ordered(message: Any) -> Any:
    """Fields in the order of their ids: clients send them in one of their own."""
    fields = sorted(message.fields, key=lambda field: int(field.field_id))
    del message.fields[:]
    message.fields.extend(fields)
    return message


@pytest.mark.parametrize("bottleneck", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_the_plan_is_what_a_run_writes(
    switch: FakeSwitch, inventory: Inventory, tmp_path: Path, bottleneck: dict[str, Any]
) -> None:
    experiment: Experiment = make_experiment(**bottleneck)
    target = TofinoTarget(inventory, tmp_path / "audit.jsonl")

    async def run() -> list[tuple[pb.Update, int]]:
        bound = target.bind_to_target(make_plan(experiment))
        await target.start()
        await target.configure(bound)
        done = list(switch.written)
        await target.queues()
        await target.unexpected_losses(bound)
        # Nothing else until the switch is given back.
        assert switch.written == done
        await target.stop()
        return done

    written = asyncio.run(run())
    wanted = [planned(write, switch.schema) for write in plan(experiment, inventory)]
    assert [arrived(update, pipe) for update, pipe in written] == wanted
    assert len(wanted) > 130
