# SPDX-License-Identifier: Apache-2.0
"""What P4Runtime writes and reads of our P4 program: entries and counters, by the last part of their P4Info names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from zlib import crc32

from finsy import (
    P4CloneSessionEntry,
    P4CounterData,
    P4CounterEntry,
    P4Schema,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
)
from narrows_formats.file_digest import file_digest
from narrows_formats.target_profile import TargetProfile

from narrows.errors import RunError
from narrows.experiment.plan import Link, Plan, ReportedLink
from narrows.paths import compiled_program
from narrows.switch.entries import (
    COLLECTOR_SESSION,
    ECN_OFF,
    Observation,
    Prefix,
    ProgramEntry,
    Range,
    link_entries,
    program_entries,
)
from narrows.switch.p4runtime import P4RuntimeSession, Writable
from narrows.switch.readings import FlowTotals

READ_BATCH = 256
# The program's digest: {bottleneck, index, signature, 5-tuple} of a flow that it has not seen before.
NEW_FLOW = "new_flow_t"


def entities(plan: Plan, profile: TargetProfile, schema: P4Schema) -> list[Writable]:
    """Table entries and the clone session of a plan, in the order in which they are installed.

    Raises:
        RunError: the program does not have what this needs (it is another program or version).
    """
    session = P4CloneSessionEntry(COLLECTOR_SESSION, replicas=[plan.collector.port])
    return [session, *table_entries(plan_entries(plan, profile), schema)]


def plan_entries(plan: Plan, profile: TargetProfile) -> Iterator[ProgramEntry]:
    """Table entries of a plan in the program's own words, in the order in which they are installed."""
    unit = profile.depth_unit_bytes or plan.frame_bytes

    def observation(link: ReportedLink) -> Observation:
        marked = link.ecn_threshold
        in_packets = marked is not None and marked.in_packets
        return Observation(
            ecn_threshold(link, unit),
            "packets" if in_packets else profile.depth_unit,
            {"counts_packets": int(in_packets), "seed": sample_seed(plan.seed, link)},
        )

    return program_entries(plan, observation)


def sample_seed(seed: int, link: ReportedLink) -> int:
    """32 bits by which the program chooses what it samples of a link: others for each link and each run."""
    return crc32(f"{seed} {link.index}".encode())


def table_entries(entries: Iterable[ProgramEntry], schema: P4Schema) -> list[Writable]:
    """Table entries as P4Runtime has them.

    Raises:
        RunError: the program does not have what this needs (it is another program or version).
    """
    tables = _by_last_part(table.name for table in schema.tables)
    actions = {table.name: _by_last_part(action.name for action in table.actions) for table in schema.tables}
    found: list[Writable] = []
    for entry in entries:
        table = _lookup(tables, entry.table, "table")
        action = _lookup(actions[table], entry.action, f"action of {table}")
        # A ternary key that is given as a plain value must match in all its bits.
        match = {name: _match(part) for name, part in entry.key.items()}
        found.append(
            P4TableEntry(
                table,
                match=P4TableMatch(match),
                action=P4TableAction(action, **entry.data),
                priority=entry.priority or 0,
            )
        )
    return found


async def change_link(session: P4RuntimeSession, before: Link, after: Link, frame_bytes: int) -> None:
    """Give the program a link's other settings; read back.

    Raises:
        RunError: the switch refuses them, or they read back differently.
    """
    old, new = ({_place(entry): entry for entry in link_entries(link, frame_bytes)} for link in (before, after))
    gone = [entry for place, entry in old.items() if place not in new]
    added = [entry for place, entry in new.items() if place not in old]
    changed = [entry for place, entry in new.items() if place in old and entry != old[place]]
    for write, entries in ((session.delete, gone), (session.insert, added), (session.modify, changed)):
        if entries:
            await write(table_entries(entries, session.schema))
    if added or changed:
        await session.require(table_entries([*added, *changed], session.schema))


def _place(entry: ProgramEntry) -> tuple[str, frozenset[tuple[str, int | Prefix | Range]]]:
    """What no two entries have in common: table and key."""
    return entry.table, frozenset(entry.key.items())


def _match(part: int | Prefix | Range) -> int | str:
    """A key as finsy writes it."""
    if isinstance(part, Prefix):
        return f"{part.value:#x}/{part.length}"
    return f"{part.first}...{part.last}" if isinstance(part, Range) else part


def program_digests(program: str = "v1model") -> dict[str, str]:
    """SHA-256 of a compiled program's files, so that a result can be traced to what ran."""
    return {path.name: file_digest(path) for path in compiled_program(program)}


def ecn_threshold(link: ReportedLink, unit_bytes: int) -> int:
    """A link's ECN threshold in packets, or in depth units of that many bytes, rounded up; `ECN_OFF` without one."""
    marked = link.ecn_threshold
    if marked is None:
        return ECN_OFF
    return marked.amount if marked.in_packets else min(-(-marked.amount // unit_bytes), ECN_OFF - 1)


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
    return {flow: data.byte_count for flow, data in (await read_counter(session, "departure_counter", flows)).items()}


async def _read_packets(session: P4RuntimeSession, counter: str, flows: Collection[int]) -> dict[int, int]:
    return {flow: data.packet_count for flow, data in (await read_counter(session, counter, flows)).items()}


async def read_counter(session: P4RuntimeSession, counter: str, flows: Collection[int]) -> dict[int, P4CounterData]:
    """Packets and bytes of some flow indices in a counter of the program.

    Raises:
        RunError: the program has no such counter, or the switch cannot read it.
    """
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


def _by_last_part(names: Iterator[str]) -> dict[str, str]:
    return {name.rpartition(".")[2]: name for name in names}


def _lookup(names: dict[str, str], name: str, kind: str) -> str:
    if name not in names:
        raise RunError(f"the P4 program has no {kind} '{name}'; it has {', '.join(sorted(names.values()))}")
    return names[name]
