# SPDX-License-Identifier: Apache-2.0
"""The entries that make our P4 program the bottleneck of a plan, on any P4Runtime target.

Objects are named by the last part of their P4Info name (``NarrowsEgress.bottleneck.delay_bins`` is ``delay_bins``),
so that this file reads like the program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from finsy import P4CloneSessionEntry, P4CounterEntry, P4Schema, P4TableAction, P4TableEntry, P4TableMatch

from narrows.errors import RunError
from narrows.p4runtime import P4RuntimeSession, Writable
from narrows.plan import Plan
from narrows.targets.base import FlowTotals, TargetProfile

COLLECTOR_SESSION = 1
ECN_OFF = 0xFFFFFFFF
FIRST_PRIORITY = 1000
DELAY_BITS = 32
BINS_AN_OCTAVE = 4
READ_BATCH = 256


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
    for number, path in enumerate(plan.paths):
        # A ternary key that is given as a plain value must match in all its bits.
        match = {"ingress_port": path.ingress_port, "dst_mac": path.dst_mac}
        if path.bottleneck is None:
            action, parameters = "wire", {"port": path.egress_port}
        else:
            queue = plan.bottleneck.queue
            action, parameters = "bottleneck", {"index": path.bottleneck, "port": path.egress_port, "queue": queue}
        found.append(names.entry("cross_connect", match, action, parameters, priority=FIRST_PRIORITY + number))
    return found


def _bottleneck(plan: Plan, profile: TargetProfile, names: _Names) -> list[Writable]:
    bottleneck = plan.bottleneck
    collector = plan.collector
    key = {"bottleneck": bottleneck.index}
    found: list[Writable] = []
    if bottleneck.loss:
        found.append(names.entry("loss", key, "set_loss", {"threshold": loss_threshold(bottleneck.loss)}))
    observe = {
        "threshold": ecn_threshold(plan, profile),
        "mask": (1 << bottleneck.sample_shift) - 1,
        "shift": bottleneck.sample_shift,
        "epoch": 0,
        "mirror": COLLECTOR_SESSION,
    }
    found.append(names.entry("bottleneck", key, "observe", observe))
    encapsulate = {
        "src_mac": collector.src_mac,
        "dst_mac": collector.dst_mac,
        "src_ip": collector.src_address,
        "dst_ip": collector.dst_address,
        "src_port": collector.src_port,
        "dst_port": collector.dst_port,
        "length": collector.report_length,
    }
    found.append(names.entry("collector", key, "encapsulate", encapsulate))
    return found


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
    counters = {name.rpartition(".flows")[0].rpartition(".")[2]: name for name in _counter_names(session.schema)}
    arrivals = _lookup(counters, "arrival_counter", "counter")
    departures = _lookup(counters, "departure_counter", "counter")
    found = {arrivals: dict.fromkeys(flows, 0), departures: dict.fromkeys(flows, 0)}
    wanted = [P4CounterEntry(counter, index=flow) for counter in found for flow in flows]
    for start in range(0, len(wanted), READ_BATCH):
        async for entry in session.read(wanted[start : start + READ_BATCH]):
            if isinstance(entry, P4CounterEntry) and entry.data is not None and entry.index is not None:
                name = next(name for name in found if name.endswith(entry.counter_id))
                found[name][entry.index] = entry.data.packet_count
    return [FlowTotals(flow, found[arrivals][flow], found[departures][flow]) for flow in sorted(flows)]


def _counter_names(schema: P4Schema) -> Iterator[str]:
    return (counter.name for counter in schema.counters)


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
