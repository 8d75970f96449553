# SPDX-License-Identifier: Apache-2.0
"""A configured switch while traffic flows: what is read of it, and what is set anew. Each call blocks."""

from __future__ import annotations

import time
from collections import defaultdict

from narrows.errors import RunError
from narrows.experiment.plan import Link, Plan
from narrows.queues.aqm import Call
from narrows.switch.calibration import QueueFacts
from narrows.switch.entries import aqm_entry
from narrows.switch.readings import PortStats, QueueStats

from narrows_tofino.phases.configured import ConfiguredSwitch
from narrows_tofino.phases.opened import OpenedSwitch
from narrows_tofino.planner import used_ports
from narrows_tofino.readings.modelled import uncounted
from narrows_tofino.readings.statistics import port_stats, queue_stats
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.entries import entry_write
from narrows_tofino.writes.planned import number, text
from narrows_tofino.writes.queue_aqms import low_latency_queue

# A port that is reset again and again is given up.
MAX_MENDED = 100


class LiveSwitch:
    """One run's."""

    def __init__(self, opened: OpenedSwitch, configured: ConfiguredSwitch, inventory: Inventory) -> None:
        """Nothing is read before it is asked for."""
        self._opened = opened
        self._manager = configured.manager
        self._guard = configured.guard
        self._inventory = inventory
        self._prefix = inventory.switch.generation.prefix
        self._departed: dict[int, int] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._resets: list[str] = []

    @property
    def plan(self) -> Plan:
        """What was configured."""
        return self._manager.plan

    def known_flows(self) -> defaultdict[object, set[int]]:
        """Flow indices whose digests have come, by bottleneck."""
        self._mend()
        return self._opened.digests.flows()

    def departures(self, bottleneck: int) -> tuple[int, bool]:
        """Packets that have left a link's queue, and whether some have since the last reading."""
        departed = self._opened.counters.bottleneck_departures(bottleneck)
        moving = self._departed.get(bottleneck) != departed
        self._departed[bottleneck] = departed
        return departed, moving

    def queue_stats(
        self, bottleneck: int, departed: int, moving: bool, flow_bytes: tuple[int, int] | None
    ) -> QueueStats:
        """A link's queue, of which some has been read before."""
        # As it is by now: its rate may have changed since the reading began.
        one = next(one for one in self._manager.bottlenecks if one.link.index == bottleneck)
        opened = self._opened
        if self._guard is None:
            return uncounted(opened.counters, one, departed, moving, flow_bytes)
        return queue_stats(opened.client, opened.counters, self._guard, self._prefix, one, departed, flow_bytes)

    def ports(self) -> list[PortStats]:
        """MAC counters of the ports in use; none of a model, which has no MACs."""
        ports = () if self._inventory.switch.model else used_ports(self._inventory, self._manager.plan)
        return [port_stats(self._opened.client, port) for port in ports]

    def delay_ns(self, link: Link) -> int:
        """How long the packet waited that left a link's queue last; 0 if none has since the last reading.

        Of two queues the longer wait, as the head that has waited longest is of the softswitch's.
        """
        queues = 1 if low_latency_queue(link) is None else 2
        return max(self._queue_delay_ns(link.index, queue) for queue in range(queues))

    def _queue_delay_ns(self, bottleneck: int, queue: int) -> int:
        waited_ns, departed = self._opened.counters.latest_departure(bottleneck, queue)
        moved = self._seen.get((bottleneck, queue), 0) != departed
        self._seen[bottleneck, queue] = departed
        return max(0, waited_ns - self._inventory.latency_ns) if moved else 0

    def set_rate(self, link: Link, rate_bps: int) -> tuple[int, int, int]:
        """Give a link another rate; returns when that began and when it was read back, and the rate made."""
        begun_ns = time.monotonic_ns()
        writes, queue = self._manager.step(link, rate_bps)
        for write in writes:
            self._opened.programmer.rewrite(write)
        achieved_ns = time.monotonic_ns()
        self._manager.stepped(queue)
        return begun_ns, achieved_ns, queue.rate_bps

    def set_aqm(self, link: Link, aqm: Call) -> None:
        """Give a link's queue management other parameters."""
        self._opened.programmer.rewrite(entry_write(aqm_entry(link, "enqueue_aqm", *aqm)))

    def losses(self) -> list[str]:
        """Drops that are not the links', and settings that were changed meanwhile, in words."""
        changed = [f"a setting was changed during the run: {words}" for words in self._opened.programmer.drift()]
        misplaced = [] if self._guard is None else self._guard.misplaced()
        return [*self._resets, *misplaced, *self._still_held(), *self._opened.digests.shared_indices(), *changed]

    def _still_held(self) -> list[str]:
        """Frames whose base RTT is long over and that have not left, in words: they are lost."""
        delay = self._manager.base_delay
        if delay is None:
            return []
        lost = sum(self._opened.counters.held(one.line) for one in delay.held)
        return [f"{lost} frames were lost on their way round port {delay.port}, for their base RTT"] if lost else []

    def lost_reports(self) -> dict[str, int]:
        """Reports lost in mirror buffers and at the collector's port."""
        return {} if self._guard is None else self._guard.lost_reports()

    def facts(self) -> QueueFacts:
        """Rate and compensation as they were written; depth and drop counters as the chip has them. Of one link.

        Raises:
            RunError: the switch is a model.
        """
        if self._guard is None:
            raise RunError("a model shapes nothing, so that there is nothing to measure; fix: a chip")
        (one,) = self._manager.bottlenecks
        shaping, mark = one.shaping, self._guard.mark(one)
        compensation = shaping.overhead.ifg_compensation
        return QueueFacts(
            shaping.shaper_bps, compensation, mark.limit_cells, mark.cells, self._guard.moved(), "cells", self._device()
        )

    def _device(self) -> dict[str, str | int]:
        """The chip, as a calibration names it."""
        client = self._opened.client
        entry = client.read_default(client.schema.table(f"{self._prefix}.dev.device_configuration"))
        return {"sku": text(entry, "sku"), "pipes": number(entry, "num_pipes")}

    def _mend(self) -> None:
        """Make settings again that a change of a port's speed has undone; the run has failed all the same."""
        reset = self._manager.reset_ports()
        if not reset:
            return
        undone: list[str] = []
        # Giving a port its speed back resets its queues once more.
        while (found := self._opened.programmer.reapply()) and len(undone) < MAX_MENDED:
            undone += found
        names = ", ".join(self._inventory.port(port).name for port in reset)
        words = f"port {names} was reset during the run; made again: {'; '.join(dict.fromkeys(undone))}"
        self._resets.append(words)
