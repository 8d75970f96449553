# SPDX-License-Identifier: Apache-2.0
"""What Narrows takes for granted of its P4 program, against the schema it compiles to and its sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakeswitch.fixtures import inventory_data, make_experiment
from fakeswitch.program_schema import program_schema
from narrows_tofino.bfrt.schema import Schema
from narrows_tofino.bfrt.values import encode_data, encode_key
from narrows_tofino.chip.depth import IN_MEMORY_OVERHEAD_BYTES
from narrows_tofino.planner import plan
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.entries import TABLES
from narrows_tofino.writes.mirror import MIRROR_HEADER_BYTES

SOURCES = Path(__file__).resolve().parents[2] / "p4src"
REGISTERS = (
    "flow_arrivals",
    "flow_departures",
    "flow_loss_drops",
    "flow_owner",
    "bottleneck_departures",
    "high_watermark",
    "bad_states",
)
COUNTERS = ("delay_histogram", "arrival_counter", "departure_counter")


@pytest.fixture(params=["tofino", "tofino2", "tofino-managed", "tofino2-managed"])
def schema(request: pytest.FixtureRequest) -> Schema:
    return Schema.parse(program_schema(request.param))


@pytest.mark.parametrize("loss", [0.1, {"gilbert_elliott": {"p": "1%", "r": "20%"}}], ids=["by chance", "in bursts"])
def test_every_planned_entry_fits_the_program(loss: float | dict[str, dict[str, str]], schema: Schema) -> None:
    for chip in ("tofino", "tofino2"):
        data = inventory_data(chip)
        # In the pipe of the other sender, as loss in bursts needs it.
        data["ports"][3]["dev_port"] = 140
        for write in plan(make_experiment(loss=loss, ecn_threshold="100kB"), Inventory.model_validate(data)):
            if write.table not in TABLES:
                continue
            table = schema.table(write.table)
            assert write.key is not None and write.action is not None
            encode_key(table, write.key)
            encode_data(table, write.data, write.action)
            parameters = {field.name for field in table.action(write.action).fields}
            assert parameters == set(write.data), write.table
            spelt = {field.name for field in table.keys if field.mandatory or field.name == "$MATCH_PRIORITY"}
            assert spelt <= set(write.key)


def test_registers_and_counters_are_there(schema: Schema) -> None:
    for name in REGISTERS:
        table = schema.part(name, "Register")
        assert [field.bits for field in table.fields] == [32] and "Sync" in table.operations
    for name in COUNTERS:
        fields = [field.name for field in schema.part(name, "Counter").fields]
        assert "$COUNTER_SPEC_PKTS" in fields
    (digest,) = schema.digests.values()
    assert {"bottleneck", "index", "signature"} <= {field.name for field in digest.fields}


def source() -> str:
    return (SOURCES / "tofino" / "narrows.p4").read_text()


def test_what_a_packet_carries_through_the_queue_is_what_the_program_says() -> None:
    assert f"#define COUNTED_BEHIND_QUEUE {IN_MEMORY_OVERHEAD_BYTES}\n" in source()


def test_the_mirror_header_is_as_long_as_the_session_allows_for() -> None:
    body = re.search(r"header mirror_t \{(.*?)\}", source(), re.DOTALL)
    assert body is not None
    widths = [int(width) for width in re.findall(r"bit<(\d+)>", body.group(1))]
    # bottleneck_index_t has six bits.
    assert "bottleneck_index_t" in body.group(1) and (sum(widths) + 6) / 8 == MIRROR_HEADER_BYTES


def test_names_are_those_of_the_sources() -> None:
    text = "".join(path.read_text() for path in [*SOURCES.glob("common/*.p4"), *SOURCES.glob("tofino/*.p4")])
    # The compiler names what is a port's.
    for name in {*TABLES, *REGISTERS, *COUNTERS} - {"$PORT_METADATA"}:
        assert re.search(rf"(table {name} |\) {name};|\b{name};)", text), name
