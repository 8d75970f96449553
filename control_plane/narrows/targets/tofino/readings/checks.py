# SPDX-License-Identifier: Apache-2.0
"""Were packets dropped anywhere but in the bottleneck's queue, and is that queue as deep as it was set?

Drop counts of the traffic manager are the driver's copies, up to about two seconds old for ports and priority groups
and far older for queues: queue counters are never used, and a last reading waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from narrows.targets.tofino.bfrt.client import ALL_PIPES, Client, Operation
from narrows.targets.tofino.bfrt.values import Key
from narrows.targets.tofino.chip.model import pipe_of
from narrows.targets.tofino.writes.planned import PlannedWrite, number
from narrows.targets.tofino.writes.traffic_manager import Bottleneck

# Counters wider than 32 bits are copied every other second.
COUNTER_AGE_S = 2.5
DROPS = "drop_count_packets"
# Share of its limit that a queue may be deeper by, for packets that were admitted and not yet counted.
UNDER_WAY = 0.05


@dataclass(frozen=True)
class Counter:
    """One drop counter, and what it means when it moves."""

    table: str
    key: Key | None
    pipe: int
    field: str
    meaning: str


class DropGuard:
    """Remembers all drop counters at the start of a run and tells which have moved."""

    def __init__(
        self,
        client: Client,
        prefix: str,
        bottlenecks: Sequence[Bottleneck],
        inputs: Sequence[int],
        pools: Sequence[str],
        before: DropGuard | None = None,
    ) -> None:
        """Read all counters. The watermarks were cleared before (`watermark_writes`).

        Args:
            client: the switch.
            prefix: of its generation's tables.
            bottlenecks: what is guarded.
            inputs: ports on which packets for the bottlenecks arrive.
            pools: buffer pools of the bottlenecks' own.
            before: the guard up to a live change; drops of queues and reports count on from its start.
        """
        self._client = client
        self._prefix = prefix
        pipes = {pipe_of(port) for port in inputs} | {one.queue.pipe for one in bottlenecks}
        self._wrong = [
            *(
                Counter(f"{prefix}.tm.counter.{table}", {"dev_port": port}, ALL_PIPES, DROPS, meaning)
                for port in inputs
                for table, meaning in (
                    ("ig_port", f"dropped at ingress of port {port}, before the bottleneck's queue was full"),
                    ("dpg", f"dropped by the ingress limit of port {port}, before the bottleneck's queue was full"),
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
        ]
        self._mirror = [
            Counter(f"{prefix}.tm.counter.mirror_dpg", None, pipe, DROPS, f"reports lost in pipe {pipe}")
            for pipe in sorted({one.queue.pipe for one in bottlenecks})
        ]
        self._egress = [
            Counter(f"{prefix}.tm.counter.eg_port", {"dev_port": port}, ALL_PIPES, DROPS, f"dropped at port {port}")
            for port in sorted({one.queue.dev_port for one in bottlenecks})
        ]
        self._bottlenecks = bottlenecks
        self._pools = pools
        self._start = {counter_id(counter): self._read(counter) for counter in self._all}
        self._origin: dict[tuple[str, str, int, str], int] = self._start if before is None else before._origin

    @property
    def _all(self) -> list[Counter]:
        return [*self._wrong, *self._mirror, *self._egress]

    def misplaced(self) -> list[str]:
        """Drops since the start that were not the bottleneck's, in words; a run with any has failed."""
        moved = [f"{count} packets {counter.meaning}" for counter in self._wrong if (count := self._moved(counter))]
        return [*moved, *self._full_pools(), *self._shallow_queues(), *self._bottomless_queues()]

    def lost_reports(self) -> int:
        """Reports that the switch lost since the start; they are counted as missing, the run goes on."""
        return sum(self._read(counter) - self._origin[counter_id(counter)] for counter in self._mirror)

    def egress_drops(self) -> dict[int, int]:
        """Packets dropped since the start behind ingress, by egress port: the bottlenecks' tail drops."""
        return {
            int(str(counter.key["dev_port"])): self._read(counter) - self._origin[counter_id(counter)]
            for counter in self._egress
            if counter.key is not None
        }

    def _full_pools(self) -> list[str]:
        """Pools are larger than what may be in them: one that was full has dropped before a queue did."""
        counters = self._client.schema.table(f"{self._prefix}.tm.counter.pool")
        sizes = self._client.schema.table(f"{self._prefix}.tm.pool.cfg")
        found: list[str] = []
        for pool in self._pools:
            deepest = number(self._client.read(counters, {"pool": pool}), "watermark_cells")
            size = number(self._client.read(sizes, {"pool": pool}), "size_cells")
            if deepest >= size:
                found.append(f"{pool} was full ({size} cells) before the bottleneck's queue was")
        return found

    def _shallow_queues(self) -> list[str]:
        """A queue that has dropped must have been full: otherwise it was another limit that dropped."""
        found: list[str] = []
        for counter in self._egress:
            dropped = self._moved(counter)
            for bottleneck in self._bottlenecks:
                if not dropped or counter.key != {"dev_port": bottleneck.queue.dev_port}:
                    continue
                mark = watermark(self._client, self._prefix, bottleneck)
                if mark.cells < mark.limit_cells - mark.slack_cells:
                    found.append(f"{dropped} packets {counter.meaning}, but its queue was never full: {mark}")
        return found

    def _bottomless_queues(self) -> list[str]:
        """A queue that was far deeper than its limit has another limit, whatever reads back."""
        marks = [(one, watermark(self._client, self._prefix, one)) for one in self._bottlenecks]
        return [
            f"the queue of port {one.queue.dev_port} was deeper than set: {mark}"
            for one, mark in marks
            if mark.too_deep
        ]

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

    @property
    def faithful(self) -> bool:
        """Whether a queue that was kept full reached its limit, and went beyond it by no more than a little."""
        return abs(self.cells - self.limit_cells) <= self.slack_cells

    @property
    def too_deep(self) -> bool:
        """Whether it went beyond its limit by more than packets under way explain, which nobody has measured yet."""
        return self.cells > self.limit_cells * (1 + UNDER_WAY) + self.slack_cells

    def __str__(self) -> str:
        """In words, for the report of the self-test."""
        verdict = "as set" if self.faithful else "NOT as set: the limit that drops is another one"
        return f"deepest {self.cells} of {self.limit_cells} cells, {verdict}"


def watermark_writes(prefix: str, bottlenecks: Sequence[Bottleneck], pools: Sequence[str]) -> list[PlannedWrite]:
    """Starts a new measurement of how deep queues and pools have been. Only 0 may be written to a watermark."""
    why = "how full it has been tells after the run whether its limit is the one that was set"
    zero = {"watermark_cells": 0}
    queues = [
        PlannedWrite(Operation.CLEAR, f"{prefix}.tm.counter.queue", queue.key, zero, why, pipe=queue.pipe)
        for queue in (bottleneck.queue for bottleneck in bottlenecks)
    ]
    return [
        *(PlannedWrite(Operation.CLEAR, f"{prefix}.tm.counter.pool", {"pool": pool}, zero, why) for pool in pools),
        *queues,
    ]


def watermark(client: Client, prefix: str, bottleneck: Bottleneck) -> Watermark:
    """How deep a queue has been.

    Read-back of ``tm.queue.buffer`` shows the driver's copy, not the chip's registers: only a queue that was kept
    full under load, and its watermark, prove the limit. The slack is one frame below the limit, and two above it for
    packets that were under way when it was reached.
    """
    table = client.schema.table(f"{prefix}.tm.counter.queue")
    queue = bottleneck.queue
    entry = client.read(table, queue.key, pipe=queue.pipe)
    return Watermark(number(entry, "watermark_cells"), bottleneck.depth.cells, 2 * bottleneck.depth.cells_per_frame)
