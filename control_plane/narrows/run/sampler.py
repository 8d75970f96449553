# SPDX-License-Identifier: Apache-2.0
"""Computes rates from counters that are read from time to time: the arithmetic of the live view."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from narrows_formats.digest import NewFlow
from narrows_formats.flow_names import possible_ends
from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Link, Plan
from narrows.onhost.wire import message
from narrows.run.driver import FlowState
from narrows.switch.readings import QueueStats

# Rates are means over about this time: long enough to be read, short enough to show what a flow does.
WINDOW_S = 1.0
# The cost of a poll stays bounded: flow indices that are read at most, in turn if more are busy. Those that have
# been idle for a while are looked after a few at a time.
MAX_BUSY = 128
MAX_IDLE = 8
IDLE_S = 3.0
# A link's index and a flow index.
Key = tuple[int, int]
# Other traffic below this part of the link's rate cannot be distinguished from the skew of two readings.
MIN_OTHER = 0.05


@dataclass(frozen=True)
class Reading:
    """Counters at a time (seconds since the experiment's start).

    ``queues`` are those of the links, by name. ``departed_bytes`` are by flow index, of the last link that a flow's
    data cross; what is not in it was not read. ``drops`` (packets) are by link and flow index. Either is None where the
    target cannot tell.
    """

    time_s: float
    queues: Mapping[str, QueueStats]
    departed_bytes: Mapping[int, int] | None
    drops: Mapping[Key, int] | None


@message
@dataclass(frozen=True)
class FlowRate:
    """A flow or a group: L2 rate behind its last queue (None before there are two readings), drops so far."""

    name: str
    group: str
    cca: str | None
    rate_bps: float | None
    drops: int | None


@message
@dataclass(frozen=True)
class LinkSnapshot:
    """A link at a moment: its rate, and the L2 rate of everything that left its queue; its queue; drops so far.

    ``other_bps`` is what of it is not the plan's flows'; ``filled`` is the part of the buffer that is taken, of which
    ``limit_bytes`` is the size, None where it counts packets. ``ce_marks`` are packets, by the collector. None is what
    is not known (yet).
    """

    name: str
    link_bps: int
    rate_bps: float | None
    other_bps: float | None
    queue_bytes: int | None
    filled: float | None
    limit_bytes: int | None
    departed_packets: int
    drops: int | None
    ce_marks: int | None = None


@message
@dataclass(frozen=True)
class Snapshot:
    """What the live view shows at a moment. None is what is not known (yet). A guest sends it."""

    time_s: float
    remaining_s: float | None
    active: int
    links: Sequence[LinkSnapshot]
    flows: Sequence[FlowRate]
    groups: Sequence[FlowRate]

    def with_marks(self, marks: Mapping[str, int]) -> Snapshot:
        """The same with the packets that links have marked CE, by the link's name."""
        return replace(self, links=tuple(replace(link, ce_marks=marks.get(link.name)) for link in self.links))

    def as_json(self) -> dict[str, Any]:
        """Plain data for the page: what is here, and of each flow and group the colour that it has in the report."""
        # Imported by who has a page: a guest has none.
        from narrows_analysis.colors import flow_colors

        data = asdict(self)
        for rows in (data["flows"], data["groups"]):
            for row, color in zip(rows, flow_colors([row["group"] for row in rows]), strict=True):
                row |= {"color": f"c{color.index}", "tint": color.tint}
        return data


class Sampler:
    """Turns readings into snapshots, for the flows of one plan."""

    def __init__(self, plan: Plan) -> None:
        """Know the plan's flows; `learn` says which index each has."""
        self._plan = plan
        self._owner: dict[Key, int] = {}
        self._links = {link.name: link for link in plan.reported}
        self._by_server = {(flow.dst, flow.dst_port): number for number, flow in enumerate(plan.flows)}
        self._ports = [
            frozenset(flow.client_ports) if flow.port_overrides else flow.client_ports for flow in plan.flows
        ]
        self._by_host_pair = {flow.ends: number for number, flow in enumerate(plan.flows) if flow.match_by_host_pair}
        self._readings: deque[Reading] = deque()
        # Of the last link of each flow: whose index it is, and what is known of it.
        self._ends: dict[int, int] = {}
        self._totals: dict[int, int] = {}
        self._moved_at: dict[int, float] = {}
        self._read_at: dict[int, float] = {}

    def learn(self, new: NewFlow) -> None:
        """Note who owns an index, of a record of the program's digest of new flows.

        What is not a flow of the plan (control connections, acknowledgements) is left out.
        """
        number = self._number(new)
        if number is None:
            return
        index, link = new.flow, new.bottleneck
        self._owner[link, index] = number
        if link != self._links[self._plan.flows[number].links[-1]].index:
            return
        self._ends[index] = number
        self._totals[index] = 0
        self._moved_at[index] = self._readings[-1].time_s if self._readings else 0.0
        self._read_at[index] = -1.0

    @property
    def owners(self) -> dict[Key, str]:
        """The name of the flow that each index is of."""
        return {key: self._plan.flows[number].name for key, number in self._owner.items()}

    def _number(self, new: NewFlow) -> int | None:
        """Which flow of the plan a record is of."""
        for ends in possible_ends(new.src, new.dst):
            if (number := self._by_host_pair.get(ends)) is not None:
                return number
        number = self._by_server.get((new.dst, new.dst_port))
        if number is None:
            return None
        flow = self._plan.flows[number]
        known = new.protocol == flow.protocol and new.src == flow.src and new.src_port in self._ports[number]
        return number if known else None

    @property
    def indices(self) -> Collection[int]:
        """The flow indices behind the last link of each flow that is known."""
        return self._ends.keys()

    def counts(self, departed_bytes: Mapping[int, int], drops: Mapping[Key, int]) -> dict[str, FlowState]:
        """Sums of readings of indices by the name of the flow; none of a flow that is not known yet."""
        departed = [0] * len(self._plan.flows)
        for index, total in departed_bytes.items():
            departed[self._ends[index]] += total
        dropped = self._sums(drops)
        return {flow.name: FlowState(departed[number], dropped[number]) for number, flow in enumerate(self._plan.flows)}

    def to_read(self, time_s: float) -> list[int]:
        """The flow indices to be read now, those first that have waited longest."""
        busy: list[int] = []
        idle: list[int] = []
        for index, moved_at in self._moved_at.items():
            (busy if time_s - moved_at < IDLE_S else idle).append(index)
        waiting = self._read_at.__getitem__
        return heapq.nsmallest(MAX_BUSY, busy, waiting) + heapq.nsmallest(MAX_IDLE, idle, waiting)

    def take(self, reading: Reading, active: int) -> Snapshot:
        """Add a reading (later than the one before) and tell what is to be shown; ``active`` are running flows."""
        for index, total in (reading.departed_bytes or {}).items():
            self._read_at[index] = reading.time_s
            if total != self._totals[index]:
                self._totals[index], self._moved_at[index] = total, reading.time_s
        known = None if reading.departed_bytes is None else dict(self._totals)
        self._readings.append(replace(reading, departed_bytes=known))
        while len(self._readings) > 2 and reading.time_s - self._readings[1].time_s >= WINDOW_S:
            self._readings.popleft()
        before = self._readings[0]
        elapsed = reading.time_s - before.time_s
        rates = self._rates(before, elapsed)
        drops = self._drops(reading)
        flows = tuple(
            FlowRate(
                flow.name,
                flow.group,
                flow.cca,
                None if rates is None else rates[number],
                None if drops is None else drops[number],
            )
            for number, flow in enumerate(self._plan.flows)
        )
        end = self._plan.end_ns
        return Snapshot(
            time_s=reading.time_s,
            remaining_s=None if end is None else max(0.0, end / NANOSECONDS - reading.time_s),
            active=active,
            links=tuple(self._state(link, before, reading, rates) for link in self._plan.links),
            flows=flows,
            groups=_groups(flows),
        )

    def _state(self, link: Link, before: Reading, now: Reading, rates: list[float] | None) -> LinkSnapshot:
        queue, elapsed = now.queues[link.name], now.time_s - before.time_s
        ending = [number for number, flow in enumerate(self._plan.flows) if link.name == flow.links[-1]]
        flows = None if rates is None else sum(rates[number] for number in ending)
        # A target that counts no bytes at the queue has those of the flows that it ends.
        rate, other = flows, None
        earlier = before.queues[link.name].dequeued_bytes
        if elapsed > 0 and queue.dequeued_bytes is not None and earlier is not None:
            rate = (queue.dequeued_bytes - earlier) * 8 / elapsed
            if self._only_ends(link, len(ending)):
                other = self._other(rate, flows)
        return LinkSnapshot(
            name=link.name,
            link_bps=_offered_bps(link, before, now),
            rate_bps=rate,
            other_bps=other,
            queue_bytes=queue.depth_bytes,
            filled=_filled(queue),
            limit_bytes=queue.limit_bytes or None,
            departed_packets=queue.dequeued_packets,
            drops=queue.dropped_packets,
        )

    def _rates(self, before: Reading, elapsed: float) -> list[float] | None:
        """L2 bit/s of each flow of the plan."""
        if elapsed <= 0 or before.departed_bytes is None:
            return None
        moved = [0] * len(self._plan.flows)
        for index, total in self._totals.items():
            # An index that was not known before is new, and had counted nothing.
            moved[self._ends[index]] += total - before.departed_bytes.get(index, 0)
        return [octets * 8 / elapsed for octets in moved]

    def _only_ends(self, link: Link, ending: int) -> bool:
        """Whether all that the plan sends across a link are data of flows that end there, whose rates are known."""
        crossing = sum(link.name in (*flow.links, *flow.ack_links) for flow in self._plan.flows)
        return crossing == ending

    def _other(self, rate: float, flows: float | None) -> float | None:
        """L2 bit/s of traffic that is not the plan's; None where the flows were not all read both times.

        Queue and flows are read one after the other: a difference that is not larger than that counts as none.
        """
        if flows is None or len(self._totals) > MAX_BUSY:
            return None
        other = rate - flows
        return other if other > MIN_OTHER * rate else 0.0

    def _drops(self, reading: Reading) -> list[int] | None:
        return None if reading.drops is None else self._sums(reading.drops)

    def _sums(self, drops: Mapping[Key, int]) -> list[int]:
        """Packets by flow of the plan."""
        found = [0] * len(self._plan.flows)
        for key, packets in drops.items():
            if key in self._owner:
                found[self._owner[key]] += packets
        return found


def _filled(queue: QueueStats) -> float | None:
    """The part of a queue's limit that is taken, in its own unit."""
    if queue.limit_bytes:
        return None if queue.depth_bytes is None else queue.depth_bytes / queue.limit_bytes
    return (
        queue.depth_packets / queue.limit_packets if queue.limit_packets and queue.depth_packets is not None else None
    )


def _offered_bps(link: Link, before: Reading, now: Reading) -> int:
    """The link's rate; of one that varies what it was on average between two readings."""
    begin, end = (round(reading.time_s * NANOSECONDS) for reading in (before, now))
    if link.schedule is None or end <= begin:
        return link.rate_bps
    return round(link.schedule.bits(begin, end) * NANOSECONDS / (end - begin))


def _groups(flows: tuple[FlowRate, ...]) -> tuple[FlowRate, ...]:
    members: dict[str, list[FlowRate]] = defaultdict(list)
    for flow in flows:
        members[flow.group].append(flow)
    return tuple(
        FlowRate(
            name,
            name,
            own[0].cca,
            None if own[0].rate_bps is None else sum(flow.rate_bps or 0.0 for flow in own),
            None if own[0].drops is None else sum(flow.drops or 0 for flow in own),
        )
        for name, own in members.items()
    )
