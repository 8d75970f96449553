# SPDX-License-Identifier: Apache-2.0
"""The program's registers and counters, with what each pipe holds put together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from narrows.switch.readings import FlowTotals
from narrows.targets.tofino.bfrt.client import Client, Operation
from narrows.targets.tofino.bfrt.schema import Schema, Table
from narrows.targets.tofino.bfrt.values import Data, per_pipe
from narrows.targets.tofino.writes.planned import PlannedWrite, number

WRAP = 1 << 32
HISTOGRAM_BINS = 128
REGISTER = "Register"
COUNTER = "Counter"
_ZEROED = {
    "flow_arrivals": REGISTER,
    "flow_departures": REGISTER,
    "flow_loss_drops": REGISTER,
    "flow_owner": REGISTER,
    "bottleneck_departures": REGISTER,
    "high_watermark": REGISTER,
    "delay_histogram": COUNTER,
    "arrival_counter": COUNTER,
    "departure_counter": COUNTER,
}
# Above this many flows one bulk transfer is quicker than single reads.
BULK_FROM = 512


@dataclass(frozen=True)
class FlowState:
    """One flow index. ``signatures`` has more than one element when several flows met there, one a pipe."""

    flow: int
    arrivals: int
    departures: int
    loss_drops: int
    signatures: frozenset[int]

    @property
    def drops(self) -> int:
        """Packets dropped by the queue; those that still wait in it are counted as well."""
        return (self.arrivals - self.departures) % WRAP

    @property
    def collided(self) -> bool:
        """Whether flows that entered by different pipes share this index."""
        return len(self.signatures) > 1


def clear_writes() -> list[PlannedWrite]:
    """Zeroes everything that is counted by flow or bottleneck, in all pipes, before a run begins."""
    return [PlannedWrite(Operation.CLEAR, name, None, {}, "what an earlier run has counted") for name in _ZEROED]


def counting_table(schema: Schema, name: str) -> Table:
    """The register or counter of a clearing write.

    Raises:
        SchemaError: the program has none of this name.
    """
    return schema.part(name, _ZEROED[name])


class Counters:
    """Reads registers and counters. Bulk reads copy whole tables by DMA; the data plane is not held up by either."""

    def __init__(self, client: Client) -> None:
        """Find the tables.

        Raises:
            SchemaError: the program has none of these names.
        """
        self._client = client
        schema = client.schema
        self._arrivals = schema.part("flow_arrivals", REGISTER)
        self._departures = schema.part("flow_departures", REGISTER)
        self._loss_drops = schema.part("flow_loss_drops", REGISTER)
        self._signatures = schema.part("flow_owner", REGISTER)
        self._bottlenecks = schema.part("bottleneck_departures", REGISTER)
        self._watermark = schema.part("high_watermark", REGISTER)
        self._histogram = schema.part("delay_histogram", COUNTER)
        self._arrived = schema.part("arrival_counter", COUNTER)
        self._departed = schema.part("departure_counter", COUNTER)

    def flows(self, indices: Collection[int] | None = None) -> list[FlowState]:
        """State of some flow indices, or of all that have seen a packet.

        Arrivals and loss are counted in the pipe where a flow comes in, departures where it leaves: sums over pipes,
        modulo 2^32 as in the reports.
        """
        arrivals = self._values(self._arrivals, indices)
        departures = self._values(self._departures, indices)
        loss_drops = self._values(self._loss_drops, indices)
        signatures = self._values(self._signatures, indices)
        return [
            FlowState(
                flow,
                sum(arrivals[flow]) % WRAP,
                sum(departures[flow]) % WRAP,
                sum(loss_drops[flow]) % WRAP,
                frozenset(one for one in signatures[flow] if one),
            )
            for flow in sorted(arrivals)
            if indices is not None or any(signatures[flow])
        ]

    def totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """Arrivals and departures of some flow indices."""
        return [FlowTotals(one.flow, one.arrivals, one.departures) for one in self.flows(flows)]

    def bytes(self, flows: Collection[int]) -> tuple[int, int]:
        """Bytes offered to the queue and bytes that left it, of some flow indices together."""
        return sum(self._bytes(self._arrived, flows).values()), sum(self._bytes(self._departed, flows).values())

    def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """Bytes that left the queue, by flow index."""
        return self._bytes(self._departed, flows)

    def bottleneck_departures(self, bottleneck: int) -> int:
        """Packets that have left a bottleneck's queue, modulo 2^32."""
        return sum(self._values(self._bottlenecks, [bottleneck])[bottleneck]) % WRAP

    def high_watermark(self, bottleneck: int) -> int:
        """The deepest queue that a packet has found, in cells: the largest over the pipes."""
        return max(self._values(self._watermark, [bottleneck])[bottleneck])

    def delay_histogram(self, bottleneck: int) -> list[int]:
        """Departures by bin of queue delay (`narrows.switch.entries.delay_bins`)."""
        table = self._histogram
        self._client.execute(table, "Sync")
        first = bottleneck * HISTOGRAM_BINS
        index = table.keys[0].name
        return [
            number(self._client.read(table, {index: first + bin_}), "$COUNTER_SPEC_PKTS")
            for bin_ in range(HISTOGRAM_BINS)
        ]

    def _bytes(self, table: Table, flows: Collection[int]) -> dict[int, int]:
        index = table.keys[0].name
        if len(flows) < BULK_FROM:
            return {flow: number(self._client.read(table, {index: flow}), "$COUNTER_SPEC_BYTES") for flow in flows}
        self._client.execute(table, "Sync")
        entries = self._client.read_all(table, from_hw=False)
        found = {int(str(entry.key[index])): number(entry, "$COUNTER_SPEC_BYTES") for entry in entries}
        return {flow: found[flow] for flow in flows}

    def _values(self, table: Table, indices: Collection[int] | None) -> dict[int, list[int]]:
        index = table.keys[0].name
        if indices is not None and len(indices) < BULK_FROM:
            return {one: _register(self._client.read(table, {index: one}).data) for one in indices}
        self._client.execute(table, "Sync")
        entries = self._client.read_all(table, from_hw=False)
        found = {int(str(entry.key[index])): _register(entry.data) for entry in entries}
        return found if indices is None else {one: found[one] for one in indices}


def _register(data: Data) -> list[int]:
    """A register has one data field; its name repeats the register's."""
    return per_pipe(next(iter(data.values())))
