# SPDX-License-Identifier: Apache-2.0
"""Were packets dropped anywhere but in the queues of links, and is each queue as deep as it was set?

Drop counts of the traffic manager are the driver's copies, up to about two seconds old for ports and priority groups
and far older for queues: queue counters are never used, and a last reading waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from narrows_tofino.bfrt.client import ALL_PIPES, Client, Operation
from narrows_tofino.bfrt.values import Key
from narrows_tofino.chip.model import pipe_of
from narrows_tofino.testbed.calibration import Calibration
from narrows_tofino.writes.planned import PlannedWrite, number
from narrows_tofino.writes.traffic_manager import BottleneckQueue, TrafficManager

# Counters wider than 32 bits are copied every other second.
COUNTER_AGE_S = 2.5
DROPS = "drop_count_packets"
# Share of its limit that a queue may be deeper by, for packets that were admitted and not yet counted, where that
# has not been measured.
UNDER_WAY = 0.05


@dataclass(frozen=True)
class Counter:
    """One drop counter, and what it means when it moves."""

    table: str
    key: Key | None
    pipe: int
    field: str
    meaning: str

    @property
    def name(self) -> str:
        """As a calibration names it: without the generation, and for all ports and pipes."""
        return f"{self.table.partition('.')[2]}.{self.field}"


class DropGuard:
    """Remembers all drop counters at the start of a run and tells which have moved."""

    def __init__(
        self,
        client: Client,
        prefix: str,
        manager: TrafficManager,
        pools: Sequence[str],
        calibration: Calibration | None = None,
    ) -> None:
        """Read all counters. The watermarks were cleared before (`watermark_writes`).

        Args:
            client: the switch.
            prefix: of its generation's tables.
            manager: the queues that are guarded, and the ports around them.
            pools: buffer pools of the queues' own.
            calibration: what was measured of the chip, where that was done.
        """
        self._client = client
        self._prefix = prefix
        self._calibration = calibration
        self._bottlenecks = manager.bottlenecks
        inputs, outputs = manager.input_ports, manager.other_outputs
        pipes = {pipe_of(port) for port in (*inputs, *outputs)} | {one.queue.pipe for one in self._bottlenecks}
        full = "the bottleneck's queue was" if len(self._bottlenecks) == 1 else "a link's queue was"
        self._full = full
        self._wrong = [
            *(
                Counter(f"{prefix}.tm.counter.{table}", {"dev_port": port}, ALL_PIPES, DROPS, meaning)
                for port in inputs
                for table, meaning in (
                    ("ig_port", f"dropped at ingress of port {port}, before {full} full"),
                    ("dpg", f"dropped by the ingress limit of port {port}, before {full} full"),
                )
            ),
            *(
                Counter(f"{prefix}.tm.counter.pipe", None, pipe, field, f"dropped in pipe {pipe} {why}")
                for pipe in sorted(pipes)
                for field, why in (
                    ("total_buffer_full_drop_packets", "because the switch's whole memory was in use"),
                    ("ig_buf_full_drop_packets", "by the limits of ingress"),
                )
            ),
            *(self._at_port(port, f"dropped at port {port}, where no link ends") for port in outputs),
        ]
        self._pools = pools
        mirrors = sorted({one.queue.pipe for one in self._bottlenecks})
        collector = manager.plan.collector.port
        self._reports = [
            *(
                Counter(f"{prefix}.tm.counter.mirror_dpg", None, pipe, DROPS, f"in the mirror buffer of pipe {pipe}")
                for pipe in mirrors
            ),
            self._at_port(collector, f"at port {collector}, the collector's"),
        ]
        queues = (self._tail_drops(one) for one in self._bottlenecks)
        self._start = {counter_id(counter): self._read(counter) for counter in (*self._wrong, *self._reports, *queues)}

    def misplaced(self) -> list[str]:
        """Drops since the start that were not tail drops of links, in words; a run with any has failed."""
        dropped = sum(self.egress_drops(one) for one in self._bottlenecks)
        usual = () if self._calibration is None else self._calibration.tail_drop_counters
        found = [
            f"{count} packets {counter.meaning}"
            for counter in self._wrong
            # One that moves with the queue's drops on this chip means nothing up to their number.
            if (count := self._moved(counter)) > (dropped if counter.name in usual else 0)
        ]
        wrong = [words for one in self._bottlenecks for words in self._wrong_depth(one)]
        return [*found, *self._full_pools(), *wrong]

    def moved(self) -> dict[str, int]:
        """Drop counters that are not the queue's and have moved since the start, by name, and how far at most."""
        found: dict[str, int] = {}
        for counter in self._wrong:
            if count := self._moved(counter):
                found[counter.name] = max(count, found.get(counter.name, 0))
        return found

    def lost_reports(self) -> dict[str, int]:
        """Reports dropped since the start, by place: what is missing besides was lost behind the switch."""
        return {counter.meaning: self._moved(counter) for counter in self._reports}

    def mark(self, bottleneck: BottleneckQueue) -> Watermark:
        """How deep a queue has been since the start."""
        return watermark(self._client, self._prefix, bottleneck, self._calibration)

    def egress_drops(self, bottleneck: BottleneckQueue) -> int:
        """Packets dropped since the start behind ingress, at a queue's port: its tail drops."""
        return self._moved(self._tail_drops(bottleneck))

    def _full_pools(self) -> list[str]:
        """Pools are larger than what may be in them: one that was full has dropped before a queue did."""
        counters = self._client.schema.table(f"{self._prefix}.tm.counter.pool")
        sizes = self._client.schema.table(f"{self._prefix}.tm.pool.cfg")
        found: list[str] = []
        for pool in self._pools:
            deepest = number(self._client.read(counters, {"pool": pool}), "watermark_cells")
            size = number(self._client.read(sizes, {"pool": pool}), "size_cells")
            if deepest >= size:
                found.append(f"{pool} was full ({size} cells) before {self._full}")
        return found

    def _wrong_depth(self, bottleneck: BottleneckQueue) -> list[str]:
        """A queue that has dropped must have been full: otherwise it was another limit that dropped.

        And one that was far deeper than its limit has another limit, whatever reads back.
        """
        counter, mark = self._tail_drops(bottleneck), self.mark(bottleneck)
        dropped, found = self._moved(counter), list[str]()
        if dropped and mark.cells < mark.limit_cells - mark.slack_cells:
            found.append(f"{dropped} packets {counter.meaning}, but its queue was never full: {mark}")
        if mark.too_deep:
            found.append(f"the queue of port {bottleneck.queue.dev_port} was deeper than set: {mark}")
        return found

    def _tail_drops(self, bottleneck: BottleneckQueue) -> Counter:
        port = bottleneck.queue.dev_port
        return self._at_port(port, f"dropped at port {port}")

    def _at_port(self, port: int, meaning: str) -> Counter:
        return Counter(f"{self._prefix}.tm.counter.eg_port", {"dev_port": port}, ALL_PIPES, DROPS, meaning)

    def _moved(self, counter: Counter) -> int:
        return self._read(counter) - self._start[counter_id(counter)]

    def _read(self, counter: Counter) -> int:
        table = self._client.schema.table(counter.table)
        if counter.key is None:
            return number(self._client.read_default(table, pipe=counter.pipe), counter.field)
        return number(self._client.read(table, counter.key, pipe=counter.pipe), counter.field)


def counter_id(counter: Counter) -> tuple[str, str, int, str]:
    """What tells a counter from all others."""
    return (counter.table, str(counter.key), counter.pipe, counter.field)


@dataclass(frozen=True)
class Watermark:
    """The deepest a queue has been since it was cleared, against its limit."""

    cells: int
    limit_cells: int
    slack_cells: int
    overshoot_cells: int | None = None

    @property
    def faithful(self) -> bool:
        """Whether a queue that was kept full reached its limit, and went beyond it by no more than a little."""
        return abs(self.cells - self.limit_cells) <= self.slack_cells + (self.overshoot_cells or 0)

    @property
    def too_deep(self) -> bool:
        """Whether it went beyond its limit by more than was measured; where it was not, by more than a guess."""
        overshoot = UNDER_WAY * self.limit_cells if self.overshoot_cells is None else self.overshoot_cells
        return self.cells > self.limit_cells + overshoot + self.slack_cells

    def __str__(self) -> str:
        """In words, for the report of the self-test."""
        verdict = "as set" if self.faithful else "NOT as set: the limit that drops is another one"
        return f"deepest {self.cells} of {self.limit_cells} cells, {verdict}"


def watermark_writes(prefix: str, bottlenecks: Sequence[BottleneckQueue], pools: Sequence[str]) -> list[PlannedWrite]:
    """Starts a new measurement of how deep queues and pools have been. Only 0 may be written to a watermark."""
    why = "its highest level shows after the run whether its limit is the one that was set"
    zero = {"watermark_cells": 0}
    places = (one.counter for one in bottlenecks)
    return [
        *(PlannedWrite(Operation.CLEAR, f"{prefix}.tm.counter.pool", {"pool": pool}, zero, why) for pool in pools),
        *(PlannedWrite(Operation.CLEAR, f"{prefix}.{at.table}", at.key, zero, why, pipe=at.pipe) for at in places),
    ]


def watermark(
    client: Client, prefix: str, bottleneck: BottleneckQueue, calibration: Calibration | None = None
) -> Watermark:
    """How deep a queue has been.

    Read-back of ``tm.queue.buffer`` shows the driver's copy, not the chip's registers: only a queue that was kept
    full under load, and its watermark, prove the limit. The slack is two frames below the limit, and as many above it
    for packets that were under way when it was reached.
    """
    place, depth = bottleneck.counter, bottleneck.depth
    table = client.schema.table(f"{prefix}.{place.table}")
    cells = number(client.read(table, place.key, pipe=place.pipe), "watermark_cells")
    overshoot = None if calibration is None else calibration.overshoot_cells
    return Watermark(cells, depth.cells, 2 * depth.cells_per_frame, overshoot)
