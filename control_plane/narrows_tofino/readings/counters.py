# SPDX-License-Identifier: Apache-2.0
"""The program's registers and counters, with what each pipe holds put together."""

from __future__ import annotations

from collections.abc import Collection

from narrows.switch.readings import FlowTotals

from narrows_tofino.bfrt.client import Client, Operation
from narrows_tofino.bfrt.errors import SchemaError
from narrows_tofino.bfrt.schema import Schema, Table
from narrows_tofino.bfrt.values import per_pipe
from narrows_tofino.writes.planned import PlannedWrite, number

REGISTER_BITS = 32
REGISTER = "Register"
COUNTER = "Counter"
PACKETS = "$COUNTER_SPEC_PKTS"
BYTES = "$COUNTER_SPEC_BYTES"
_ZEROED = {
    "flow_arrivals": REGISTER,
    "flow_departures": REGISTER,
    "flow_loss_drops": REGISTER,
    "flow_owner": REGISTER,
    "bottleneck_departures": REGISTER,
    "high_watermark": REGISTER,
    "bad_states": REGISTER,
    "taken_in": REGISTER,
    "next_out": REGISTER,
    "delay_histogram": COUNTER,
    "arrival_counter": COUNTER,
    "departure_counter": COUNTER,
}
# What the program that manages queues counts besides (p4src/tofino/queue_management).
_ZEROED_MANAGED = {
    "flow_enqueue_drops": REGISTER,
    "flow_dequeue_drops": REGISTER,
    "latest_delay": REGISTER,
    "enqueue_drops": COUNTER,
    "dequeue_drops": COUNTER,
}
# Cells of a bottleneck in `latest_delay` (p4src/tofino/queue_management/departure.p4).
QUEUES = 2
# Above this many flows one bulk transfer is quicker than single reads.
BULK_FROM = 512


def clear_writes(managed: bool) -> list[PlannedWrite]:
    """Zeroes everything that is kept by flow or bottleneck, in all pipes, before a run begins.

    ``managed``: the program manages queues.
    """
    why = "what an earlier run has left"
    return [PlannedWrite(Operation.CLEAR, name, None, {}, why) for name in _counted(managed)]


def _counted(managed: bool) -> dict[str, str]:
    """Names and types of what the program counts in."""
    return _ZEROED | _ZEROED_MANAGED if managed else _ZEROED


def counting_table(schema: Schema, name: str) -> Table:
    """The register or counter of a clearing write.

    Raises:
        SchemaError: the program has none of this name.
    """
    return schema.part(name, _counted(managed=True)[name])


class Unwrapped:
    """A count that goes on where its register begins anew: right if it is read at least once in 2^32 packets.

    At 100 Gbit/s in full-size frames that is every 500 s; a run reads twice a second.
    """

    def __init__(self) -> None:
        """It begins at 0, as the register does."""
        self._total = 0

    def read(self, register: int) -> int:
        """The count, from what the register shows now."""
        self._total += (register - self._total) % (1 << REGISTER_BITS)
        return self._total


class Counters:
    """Reads registers and counters. Bulk reads copy whole tables by DMA; the data plane is not held up by either."""

    def __init__(self, client: Client, managed: bool) -> None:
        """Find the tables; ``managed``: the program manages queues.

        Raises:
            SchemaError: the program has none of these names.
        """
        self._client = client
        schema = client.schema
        for name in _counted(managed):
            counting_table(schema, name)
        self._latest_delays = counting_table(schema, "latest_delay") if managed else None
        self._aqm_drops = [counting_table(schema, name) for name in ("enqueue_drops", "dequeue_drops") if managed]
        self._bottlenecks = schema.part("bottleneck_departures", REGISTER)
        self._lines = [schema.part(name, REGISTER) for name in ("taken_in", "next_out")]
        self._arrived = schema.part("arrival_counter", COUNTER)
        self._departed = schema.part("departure_counter", COUNTER)
        self._departures: dict[int, Unwrapped] = {}

    def totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """Arrivals and departures of some flow indices, from counters of 64 bits."""
        arrived = self._read(self._arrived, PACKETS, flows)
        departed = self._read(self._departed, PACKETS, flows)
        return [FlowTotals(flow, arrived[flow], departed[flow]) for flow in sorted(flows)]

    def bytes(self, flows: Collection[int]) -> tuple[int, int]:
        """Bytes offered to the queue and bytes that left it, of some flow indices together."""
        arrived, departed = (self._read(table, BYTES, flows) for table in (self._arrived, self._departed))
        return sum(arrived.values()), sum(departed.values())

    def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """Bytes that left the queue, by flow index."""
        return self._read(self._departed, BYTES, flows)

    def bottleneck_departures(self, bottleneck: int) -> int:
        """Packets that have left a bottleneck's queue since its register was zeroed."""
        register = self._register(self._bottlenecks, bottleneck)
        return self._departures.setdefault(bottleneck, Unwrapped()).read(register)

    def held(self, line: int) -> int:
        """Frames that a line has taken in and not let out again, of those whose base RTT the switch makes."""
        taken_in, next_out = (self._register(table, line) for table in self._lines)
        return (taken_in - next_out) % (1 << REGISTER_BITS)

    def latest_departure(self, bottleneck: int, queue: int) -> tuple[int, int]:
        """How long the packet waited that left a queue last, in ns, and how many have left it.

        The wait includes the chip's own latency; the number wraps at 32 bits. ``queue`` is 0, or 1 for that of L4S.
        """
        table = self._latest_delays
        if table is None:
            raise SchemaError("the program manages no queues")
        data = self._client.read(table, {table.keys[0].name: bottleneck * QUEUES + queue}).data
        # Fields of a register's cell are named after the register. A bottleneck's queues are in one of the pipes.
        cell = {name.rpartition(".")[2]: sum(per_pipe(value)) for name, value in data.items()}
        return cell["delay"], cell["packets"]

    def aqm_drops(self, bottleneck: int) -> int | None:
        """Packets that a bottleneck's AQM has dropped, before its queue and behind it; None where there are no AQMs."""
        if not self._aqm_drops:
            return None
        return sum(self._read(table, PACKETS, [bottleneck])[bottleneck] for table in self._aqm_drops)

    def _register(self, table: Table, index: int) -> int:
        """A cell, added over pipes: a bottleneck's queue is in one of them."""
        data = self._client.read(table, {table.keys[0].name: index}).data
        # A register has one data field, whose name repeats the register's.
        return sum(per_pipe(next(iter(data.values()))))

    def _read(self, table: Table, field: str, flows: Collection[int]) -> dict[int, int]:
        index = table.keys[0].name
        if len(flows) < BULK_FROM:
            return {flow: number(self._client.read(table, {index: flow}), field) for flow in flows}
        self._client.execute(table, "Sync")
        entries = self._client.read_all(table, from_hw=False)
        found = {int(str(entry.key[index])): number(entry, field) for entry in entries}
        return {flow: found[flow] for flow in flows}
