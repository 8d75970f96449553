# SPDX-License-Identifier: Apache-2.0
"""The entries that make our P4 program the bottleneck of a plan, on any P4Runtime target.

Objects are named by the last part of their P4Info name (``NarrowsEgress.bottleneck.delay_bins`` is ``delay_bins``),
so that this file reads like the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from finsy import (
    P4CloneSessionEntry,
    P4CounterData,
    P4CounterEntry,
    P4Schema,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
)
from narrows_formats.target_profile import TargetProfile

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.paths import compiled_program
from narrows.switch.p4runtime import P4RuntimeSession, Writable
from narrows.switch.readings import FlowTotals

COLLECTOR_SESSION = 1
# Nobody limits the queue of the way back.
ACK_QUEUE = 0
ECN_OFF = 0xFFFFFFFF
FIRST_PRIORITY = 1000
DELAY_BITS = 32
BINS_AN_OCTAVE = 4
READ_BATCH = 256
# The program's digest: {bottleneck, index, signature, 5-tuple} of a flow that it has not seen before.
NEW_FLOW = "new_flow_t"


@dataclass(frozen=True)
class DelayBin:
    """A bin of the queue-delay histogram: delays whose first ``prefix_length`` of 32 bits are those of ``lowest``."""

    number: int
    lowest: int
    prefix_length: int


def delay_bins() -> Iterator[DelayBin]:
    """All 124 bins: one each for the delays 0 to 3, then four equal ones for every octave ``2^o .. 2^(o+1) - 1``."""
    for delay in range(BINS_AN_OCTAVE):
        yield DelayBin(delay, delay, DELAY_BITS)
    for octave in range(2, DELAY_BITS):
        for quarter in range(BINS_AN_OCTAVE):
            number = BINS_AN_OCTAVE * (octave - 1) + quarter
            lowest = (BINS_AN_OCTAVE + quarter) << (octave - 2)
            yield DelayBin(number, lowest, DELAY_BITS - (octave - 2))


def loss_threshold(loss: float) -> int:
    """A packet is lost when 32 random bits are below this: the loss ratio in units of 2^-32."""
    return round(loss * 2**32)


def entities(plan: Plan, profile: TargetProfile, schema: P4Schema) -> list[Writable]:
    """Table entries and the clone session of a plan, in the order in which they are installed.

    Raises:
        RunError: the program does not have what this needs (it is another program or version).
    """
    names = _Names(schema)
    found: list[Writable] = [
        P4CloneSessionEntry(COLLECTOR_SESSION, replicas=[plan.collector.port]),
    ]
    for bin_ in delay_bins():
        prefix = f"{bin_.lowest:#x}/{bin_.prefix_length}"
        found.append(names.entry("delay_bins", {"queue_delay": prefix}, "set_bin", {"bin": bin_.number}))
    found += _bottleneck(plan, profile, names)
    if plan.ack_bottleneck is not None:
        found += _observed(plan, plan.ack_bottleneck, ECN_OFF, 0, names)
    for number, path in enumerate(plan.paths):
        # A ternary key that is given as a plain value must match in all its bits.
        match = {"ingress_port": path.ingress_port, "dst_mac": path.dst_mac}
        if path.bottleneck is None:
            action, parameters = "wire", {"port": path.egress_port}
        else:
            queue = plan.bottleneck.queue if path.bottleneck == plan.bottleneck.index else ACK_QUEUE
            action, parameters = "bottleneck", {"index": path.bottleneck, "port": path.egress_port, "queue": queue}
        found.append(names.entry("cross_connect", match, action, parameters, priority=FIRST_PRIORITY + number))
    return found


def wires(cables: Collection[tuple[int, str | None, int]], schema: P4Schema) -> list[Writable]:
    """Entries that connect ports with nothing in between; what they do not name is discarded.

    Args:
        cables: ingress port, destination MAC (None for any) and egress port of each direction.
        schema: the program.

    Raises:
        RunError: the program does not have what this needs (it is another program or version).
    """
    names = _Names(schema)
    found: list[Writable] = []
    for number, (ingress, dst_mac, egress) in enumerate(cables):
        match: dict[str, Any] = {"ingress_port": ingress}
        if dst_mac is not None:
            match["dst_mac"] = dst_mac
        found.append(names.entry("cross_connect", match, "wire", {"port": egress}, priority=FIRST_PRIORITY + number))
    return found


def program_digests() -> dict[str, str]:
    """SHA-256 of the compiled v1model program's files, so that a result can be traced to what ran."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in compiled_program("v1model")}


def _bottleneck(plan: Plan, profile: TargetProfile, names: _Names) -> list[Writable]:
    bottleneck = plan.bottleneck
    found: list[Writable] = []
    if bottleneck.loss:
        threshold = {"threshold": loss_threshold(bottleneck.loss)}
        found.append(names.entry("loss", {"bottleneck": bottleneck.index}, "set_loss", threshold))
    return found + _observed(plan, bottleneck.index, ecn_threshold(plan, profile), bottleneck.sample_shift, names)


def _observed(plan: Plan, index: int, threshold: int, sample_shift: int, names: _Names) -> list[Writable]:
    """What makes the switch report the packets of a bottleneck."""
    collector = plan.collector
    key = {"bottleneck": index}
    observe = {
        "threshold": threshold,
        "mask": (1 << sample_shift) - 1,
        "shift": sample_shift,
        "epoch": 0,
        "mirror": COLLECTOR_SESSION,
    }
    encapsulate = {
        "src_mac": collector.src_mac,
        "dst_mac": collector.dst_mac,
        "src_ip": collector.src_address,
        "dst_ip": collector.dst_address,
        "src_port": collector.src_port,
        "dst_port": collector.dst_port,
        "length": collector.report_length,
    }
    return [
        names.entry("bottleneck", key, "observe", observe),
        names.entry("collector", key, "encapsulate", encapsulate),
    ]


def ecn_threshold(plan: Plan, profile: TargetProfile) -> int:
    """The ECN threshold in the target's depth units, rounded up; `ECN_OFF` without one."""
    threshold = plan.bottleneck.ecn_threshold_bytes
    if threshold is None:
        return ECN_OFF
    unit = profile.depth_unit_bytes or plan.frame_bytes
    return min(-(-threshold // unit), ECN_OFF - 1)


async def read_flow_totals(session: P4RuntimeSession, flows: Collection[int]) -> list[FlowTotals]:
    """The program's packet counters of some flow indices.

    Raises:
        RunError: the program has no such counters, or the switch cannot read them.
    """
    arrivals = await _read_packets(session, "arrival_counter", flows)
    departures = await _read_packets(session, "departure_counter", flows)
    return [FlowTotals(flow, arrivals[flow], departures[flow]) for flow in sorted(flows)]


async def read_packet_sum(session: P4RuntimeSession, counter: str) -> int:
    """Packets of all flows in ``arrival_counter``, ``departure_counter`` or ``loss_counter``.

    Raises:
        RunError: the program has no such counter, or the switch cannot read it.
    """
    name = _counter_name(session.schema, counter)
    total = 0
    async for entry in session.read([P4CounterEntry(name)]):
        if isinstance(entry, P4CounterEntry) and entry.data is not None:
            total += entry.data.packet_count
    return total


async def read_departed_bytes(session: P4RuntimeSession, flows: Collection[int]) -> dict[int, int]:
    """L2 bytes of some flow indices that have left the bottleneck's queue.

    Raises:
        RunError: the program has no such counter, or the switch cannot read it.
    """
    return {flow: data.byte_count for flow, data in (await _read_counter(session, "departure_counter", flows)).items()}


async def _read_packets(session: P4RuntimeSession, counter: str, flows: Collection[int]) -> dict[int, int]:
    return {flow: data.packet_count for flow, data in (await _read_counter(session, counter, flows)).items()}


async def _read_counter(session: P4RuntimeSession, counter: str, flows: Collection[int]) -> dict[int, P4CounterData]:
    name = _counter_name(session.schema, counter)
    found = dict.fromkeys(flows, P4CounterData())
    wanted = [P4CounterEntry(name, index=flow) for flow in flows]
    for start in range(0, len(wanted), READ_BATCH):
        async for entry in session.read(wanted[start : start + READ_BATCH]):
            if isinstance(entry, P4CounterEntry) and entry.data is not None and entry.index is not None:
                found[entry.index] = entry.data
    return found


def register_name(schema: P4Schema, register: str) -> str:
    """Full name of the array that the program calls ``register`` (``...bottleneck_departures.totals``).

    Raises:
        RunError: the program has no such register.
    """
    names = {item.name.rpartition(".")[0].rpartition(".")[2]: item.name for item in schema.registers}
    return _lookup(names, register, "register")


def _counter_name(schema: P4Schema, counter: str) -> str:
    """Full name of the flow counter that the program calls ``counter`` (``...arrival_counter.flows``)."""
    names = {item.name.rpartition(".flows")[0].rpartition(".")[2]: item.name for item in schema.counters}
    return _lookup(names, counter, "counter")


class _Names:
    """Full names of the program's tables and actions by their last part."""

    def __init__(self, schema: P4Schema) -> None:
        self._tables = _by_last_part(table.name for table in schema.tables)
        self._actions = {table.name: _by_last_part(action.name for action in table.actions) for table in schema.tables}

    def entry(
        self, table: str, match: dict[str, Any], action: str, parameters: dict[str, Any], priority: int = 0
    ) -> P4TableEntry:
        """A table entry; ``priority`` only for tables with ternary keys."""
        table_name = _lookup(self._tables, table, "table")
        action_name = _lookup(self._actions[table_name], action, f"action of {table_name}")
        return P4TableEntry(
            table_name, match=P4TableMatch(match), action=P4TableAction(action_name, **parameters), priority=priority
        )


def _by_last_part(names: Iterator[str]) -> dict[str, str]:
    return {name.rpartition(".")[2]: name for name in names}


def _lookup(names: dict[str, str], name: str, kind: str) -> str:
    if name not in names:
        raise RunError(f"the P4 program has no {kind} '{name}'; it has {', '.join(sorted(names.values()))}")
    return names[name]
