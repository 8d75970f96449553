# SPDX-License-Identifier: Apache-2.0
"""The writes that make queues of Tofino's traffic manager the links of a plan, and nothing else on the chip.

Order matters and is kept: memory that others must not run out of before the queues do (pools, ingress limits), then of
each queue its depth and its rate. Every table is one of fixed function; docs/tofino.md says more of some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd

from narrows.errors import InputError
from narrows.experiment.plan import Link, Plan
from narrows.queues.pi2 import DualPi2
from narrows.switch.widths import unreported_waits
from narrows_formats.schedules import RateSteps
from narrows_formats.units import format_rate

from narrows_tofino.bfrt.client import ALL_PIPES, Operation
from narrows_tofino.bfrt.values import Entry, Key
from narrows_tofino.chip.depth import (
    HEADROOM_CELLS,
    Depth,
    about_size,
    capacity_cells,
    depth_for,
)
from narrows_tofino.chip.model import Chip, pipe_of
from narrows_tofino.chip.shaper import RATE_TOLERANCE, Shaping, overhead_for, quantise_burst, quantise_rate, shape
from narrows_tofino.testbed.inventory import SPEED_BPS, Inventory
from narrows_tofino.writes.base_delay import base_delay
from narrows_tofino.writes.entries import DELAY_BITS
from narrows_tofino.writes.planned import PlannedWrite, Reader, number, numbers, text
from narrows_tofino.writes.queue_aqms import low_latency_queue

STATIC = "DISABLE"
SHAPING_UNIT = "BPS"
NEAREST = "MIN_ERROR"
# The driver has two names for its lowest priority, and reads back the first.
LOWEST = "LOW"
LOWEST_NAMES = (LOWEST, "0")


@dataclass(frozen=True)
class Queue:
    """Where a link's queue is: its port, and the port group and number that the queue tables are keyed by.

    Tables of queues and pipes refuse a target of all pipes, so what is written there names ``pipe``.
    """

    dev_port: int
    queue: int
    pipe: int
    pg_id: int
    pg_queue: int

    @property
    def key(self) -> Key:
        """Key of the tm.queue tables; their target is `pipe`."""
        return {"pg_id": self.pg_id, "pg_queue": self.pg_queue}


@dataclass(frozen=True)
class Place:
    """An entry of a table of the traffic manager, whose name is without the generation's prefix."""

    table: str
    key: Key
    pipe: int


@dataclass(frozen=True)
class BottleneckQueue:
    """One link as the chip will have it.

    With ``low``, the queue of packets with ECT(1) or CE, ``queue`` is that of the rest, and the two are all that the
    port has: ``depth`` and ``shaping`` are the port's, the turns are by ``weights`` (classic, low latency). While it is
    ``stopped``, nothing of it is served.
    """

    link: Link
    queue: Queue
    depth: Depth
    shaping: Shaping
    low: Queue | None = None
    stopped: bool = False

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All of them, the classic one first."""
        return (self.queue,) if self.low is None else (self.queue, self.low)

    @property
    def rate_bps(self) -> int:
        """What its shaper makes, in the layer of results: bit/s of frames (L2), whatever its link's is written in.

        0 while it is stopped.
        """
        if self.stopped:
            return 0
        made_bps, written_bps = self.shaping.realised_bps, self.link.l1_rate_bps
        return round(made_bps if written_bps is None else made_bps * self.link.rate_bps / written_bps)

    @property
    def shaper(self) -> Place:
        """Where its rate is set."""
        return self._place("queue.sched_shaping", "port.sched_shaping")

    @property
    def counter(self) -> Place:
        """Where the cells are counted that wait, and the most that have."""
        return self._place("counter.queue", "counter.eg_port")

    @property
    def weights(self) -> tuple[int, int] | None:
        """By which its two queues take turns, in lowest terms: the smaller, the shorter their turns."""
        if not isinstance(self.link.aqm, DualPi2):
            return None
        classic = self.link.aqm.classic_percent
        low = 100 - classic
        return classic // gcd(classic, low), low // gcd(classic, low)

    def _place(self, of_queue: str, of_port: str) -> Place:
        if self.low is None:
            return Place(f"tm.{of_queue}", self.queue.key, self.queue.pipe)
        return Place(f"tm.{of_port}", {"dev_port": self.queue.dev_port}, ALL_PIPES)


class TrafficManager:
    """Plans the traffic manager's part of a switch: a queue for each link that has a rate."""

    def __init__(self, inventory: Inventory, reader: Reader, plan: Plan) -> None:
        """Work out the queues, their depths and rates.

        Raises:
            InputError: rates or depths that the chip does not have, or a port that the traffic manager does not know;
                the message names the largest that can be had.
        """
        self._inventory = inventory
        self._reader = reader
        self._chip: Chip = inventory.switch.generation
        configuration = self._need("tm.cfg", None)
        self._cell_bytes = number(configuration, "cell_size_bytes")
        self.total_cells = number(configuration, "total_cells")
        if self._cell_bytes != self._chip.cell_bytes:
            raise InputError(
                f"inventory: switch.chip is {self._chip.name}, but the switch has cells of {self._cell_bytes} B "
                f"(tofino has 80, tofino2 176)"
            )
        self.plan = plan
        self.base_delay = base_delay(plan, inventory)
        round_cells = 0 if self.base_delay is None else self.base_delay.cells
        self.bottlenecks = self._bottlenecks(round_cells)
        # What they hold together, each with packets that are under way.
        self._held_cells = sum(one.depth.cells + HEADROOM_CELLS for one in self.bottlenecks) + round_cells
        alone = len(self.bottlenecks) == 1
        self._which, self._own = ("the bottleneck", "the bottleneck's") if alone else ("the links", "the links'")

    @property
    def input_ports(self) -> list[int]:
        """Ports on which packets for links arrive, or come in again from one: no limit there may drop first."""
        paths, loopbacks = self.plan.paths, self.plan.loopbacks
        inputs = {path.ingress_port for path in paths if path.link is not None or path.ingress_port in loopbacks}
        return sorted(inputs | self._round_ports)

    @property
    def other_outputs(self) -> list[int]:
        """Ports that packets from loopback ports leave by without a queue of a link, as those of several links may."""
        limited = {one.link.port for one in self.bottlenecks}
        again = {path.egress_port for path in self.plan.paths if path.ingress_port in self.plan.loopbacks}
        return sorted((again | self._round_ports) - limited)

    @property
    def _round_ports(self) -> set[int]:
        """The port that frames go round until their base RTT is over."""
        return set() if self.base_delay is None else {self.base_delay.port}

    def writes(self) -> list[PlannedWrite]:
        """Everything, in order."""
        return [
            *self._pools(),
            *self._ingress_limits(),
            *self._egress_limits(),
            *self._flow_control(),
            *self._compensation(),
            *(write for one in self.bottlenecks for write in self._link(one)),
            *self._round(),
        ]

    def _round(self) -> list[PlannedWrite]:
        """The queue of the port that frames go round holds all that are under way."""
        if self.base_delay is None:
            return []
        queue = self._queue(self.base_delay.port, 0)
        guaranteed = number(self._need("tm.queue.buffer", queue.key, queue.pipe), "guaranteed_cells")
        cells = max(0, self.base_delay.cells - guaranteed)
        return [
            self._limit(queue, guaranteed, cells, self._chip.hysteresis_floor_cells,
                        f"base RTTs: {self.base_delay.frames} acknowledgements go round",
                        {"pool_max_cells": self._bytes(cells)})
        ]  # fmt: skip

    def _link(self, one: BottleneckQueue) -> list[PlannedWrite]:
        """Depth and rate of a link."""
        buffers = [self._buffer(one, queue) for queue in one.queues]
        if one.weights is None:
            return [*buffers, self._shaper(one), self._served(one)]
        node = self._l1_node(one)
        turns = [self._turns(one, queue, weight, node) for queue, weight in zip(one.queues, one.weights, strict=True)]
        return [*buffers, self._port_limit(one), self._shaper(one), *turns, self._port_shaper_on(one)]

    def shaping_at(self, settings: Link, rate_bps: int) -> Shaping:
        """What the shaper of a link's queue makes of a rate in the layer that the link's is written in.

        Raises:
            InputError: it cannot be made.
        """
        switch, plan = self._inventory.switch, self.plan
        calibration = self._inventory.calibration
        # A calibration measures the shaper of a queue: what that of a port counts is not known from it.
        of_port = isinstance(settings.aqm, DualPi2)
        shaper_bytes = None if calibration is None or of_port else calibration.shaper_bytes
        overhead = overhead_for("l2" if settings.l1_rate_bps is None else "l1", plan.frame_bytes, shaper_bytes)
        speed_bps = self._inventory.port(settings.port).speed_bps
        return shape(self._chip, rate_bps, plan.frame_bytes, overhead, speed_bps, switch.clock_hz, settings.field)

    def step(self, link: Link, rate_bps: int) -> tuple[list[PlannedWrite], BottleneckQueue]:
        """The writes that give a link's queue another rate, in order, and the queue as it is then: see `stepped`.

        No shaper makes rate 0: the queue is not served then, and keeps the shaper that it has. It is a link's only one.
        """
        before = next(one for one in self.bottlenecks if one.link.index == link.index)
        if rate_bps == 0:
            after = replace(before, stopped=True)
            return [self._served(after)], after
        after = replace(before, shaping=self.shaping_at(link, rate_bps), stopped=False)
        return [self._shaper(after), *([self._served(after)] if before.stopped else [])], after

    def stepped(self, queue: BottleneckQueue) -> None:
        """A queue has another rate now."""
        self.bottlenecks = tuple(queue if one.link.index == queue.link.index else one for one in self.bottlenecks)

    def reset_ports(self) -> list[int]:
        """Ports with a link whose rate a change of the port's speed, or its being added anew, has undone."""
        return [one.queue.dev_port for one in self.bottlenecks if self._was_reset(one)]

    def _was_reset(self, bottleneck: BottleneckQueue) -> bool:
        shaper = bottleneck.shaper
        shaping = self._need(shaper.table, shaper.key, shaper.pipe)
        rate_bps = number(shaping, "max_rate") * 1000
        if abs(rate_bps / bottleneck.shaping.shaper_bps - 1) < RATE_TOLERANCE:
            return False
        port = self._reader.entry("$PORT", {"$DEV_PORT": bottleneck.queue.dev_port})
        speed_bps = 0 if port is None else SPEED_BPS.get(text(port, "$SPEED").removeprefix("BF_SPEED_"), 0)
        return abs(rate_bps - speed_bps) < RATE_TOLERANCE * speed_bps

    def _bottlenecks(self, taken_cells: int) -> tuple[BottleneckQueue, ...]:
        available = capacity_cells(self._chip, self.total_cells) - taken_cells
        made: list[BottleneckQueue] = []
        for link in self.plan.links:
            made.append(self._bottleneck(link, available))
            available -= made[-1].depth.cells + HEADROOM_CELLS
        return tuple(made)

    def _bottleneck(self, settings: Link, available_cells: int) -> BottleneckQueue:
        plan = self.plan
        rates = [settings.l1_rate_bps or settings.rate_bps]
        if isinstance(settings.schedule, RateSteps):
            rates = [rate for rate in dict.fromkeys(rate for _, rate in settings.schedule.steps) if rate]
        # Those of later steps as well: what cannot be made is refused before anything is written.
        shaping, *_ = [self.shaping_at(settings, rate) for rate in rates]
        if too_long := unreported_waits(plan, DELAY_BITS, 1):
            raise InputError("\n".join(too_long))
        queue = self._queue(settings.port, settings.queue)
        found = self._need("tm.queue.buffer", queue.key, queue.pipe)
        depth = depth_for(
            self._chip,
            self._cell_bytes,
            settings.limit_bytes,
            plan.frame_bytes,
            number(found, "guaranteed_cells"),
            available_cells,
            settings.rate_bps,
            settings.field,
        )
        number_of_low = low_latency_queue(settings)
        low = None if number_of_low is None else self._queue(settings.port, number_of_low)
        return BottleneckQueue(settings, queue, depth, shaping, low)

    def _queue(self, dev_port: int, queue: int) -> Queue:
        found = self._need("tm.port.cfg", {"dev_port": dev_port})
        count = number(found, "port_queues_count")
        if queue >= count:
            raise InputError(f"port {dev_port} has {count} queues; queue {queue} is not among them")
        # The numbers above the port's own are there as well, and are names of the same queues.
        return Queue(
            dev_port, queue, pipe_of(dev_port), number(found, "pg_id"), numbers(found, "egress_qid_queues")[queue]
        )

    def _pools(self) -> list[PlannedWrite]:
        """Pools of the links' own: other packets do not take their cells, nor they those of others.

        The pools hold all queues at their limits, so that no queue takes another one's cells either.
        """
        switch, alone = self._inventory.switch, len(self.bottlenecks) == 1
        queues, hold = ("the queue at its limit", "the queue holds") if alone else ("all at their limits", "they hold")
        guaranteed = sum(one.depth.guaranteed_cells for one in self.bottlenecks)
        sizes = {
            switch.egress_pool: (self._held_cells - guaranteed, f"{queues}, and a margin"),
            switch.ingress_pool: (self._held_cells, f"what {hold} is counted at ingress as well"),
        }
        return [
            PlannedWrite(
                Operation.MODIFY,
                self._name("tm.pool.cfg"),
                {"pool": pool},
                {"size_cells": size},
                f"a pool of its own for {self._which}: {why}",
                units={"size_cells": self._bytes(size)},
            )
            for pool, (size, why) in sizes.items()
        ]

    def _ingress_limits(self) -> list[PlannedWrite]:
        """Admission at ingress must never refuse what a link's queue still has room for."""
        limit = self._held_cells
        writes: list[PlannedWrite] = []
        for dev_port in self.input_ports:
            key = {"dev_port": dev_port}
            found = self._need("tm.port.dpg", key)
            if not found.data.get("icos_0", True):
                raise InputError(
                    f"port {dev_port}: a priority group (tm.ppg.cfg) holds its traffic, whose limit would drop first; "
                    "delete that group on the switch"
                )
            hysteresis = self._chip.hysteresis_floor_cells
            writes.append(
                PlannedWrite(
                    Operation.MODIFY,
                    self._name("tm.port.dpg"),
                    key,
                    {
                        "guaranteed_cells": number(found, "guaranteed_cells"),
                        "hysteresis_cells": hysteresis,
                        "pool_id": self._inventory.switch.ingress_pool,
                        "pool_max_cells": limit,
                        "dynamic_baf": STATIC,
                    },
                    f"let port {dev_port} fill {self._which}: the default share of the ingress pool drops earlier",
                    units={"pool_max_cells": self._bytes(limit)},
                )
            )
        configuration = self._need("tm.cfg", None)
        if "ig_buffer_limit_cells" in configuration.data:
            wanted = min(self.total_cells, limit + self._chip.reserve_cells)
            if (
                configuration.data.get("ig_buffer_limit_enable")
                and number(configuration, "ig_buffer_limit_cells") < wanted
            ):
                writes.append(
                    PlannedWrite(
                        Operation.MODIFY,
                        self._name("tm.cfg"),
                        None,
                        {"ig_buffer_limit_cells": wanted},
                        "raise the cap that ingress has for the whole switch",
                        units={"ig_buffer_limit_cells": self._bytes(wanted)},
                    )
                )
        return writes

    def _egress_limits(self) -> list[PlannedWrite]:
        """Limits of whole ports and pipes, raised only where they are in the way."""
        writes: list[PlannedWrite] = []
        in_pipes: dict[int, int] = {}
        for one in self.bottlenecks:
            in_pipes[one.queue.pipe] = in_pipes.get(one.queue.pipe, 0) + one.depth.cells + HEADROOM_CELLS
        checks: list[tuple[str, Key | None, int, str, int]] = [
            *(
                ("tm.port.buffer", {"dev_port": port}, ALL_PIPES, "ig_limit_cells", self._held_cells)
                for port in self.input_ports
            ),
            *(
                ("tm.port.buffer", {"dev_port": one.queue.dev_port}, ALL_PIPES, "eg_limit_cells",
                 one.depth.cells + HEADROOM_CELLS)
                for one in self.bottlenecks
                if one.low is None
            ),
            *(("tm.pipe.cfg", None, pipe, "eg_limit_cells", cells) for pipe, cells in in_pipes.items()),
        ]  # fmt: skip
        for table, key, pipe, field, wanted in checks:
            if number(self._need(table, key, pipe), field) < wanted:
                writes.append(
                    PlannedWrite(
                        Operation.MODIFY,
                        self._name(table),
                        key,
                        {field: wanted},
                        f"a limit below {self._own} depth would drop first",
                        pipe=pipe,
                        units={field: self._bytes(wanted)},
                    )
                )
        return writes

    def _flow_control(self) -> list[PlannedWrite]:
        ports = sorted({*self.input_ports, *(one.queue.dev_port for one in self.bottlenecks), *self.other_outputs})
        return [
            PlannedWrite(
                Operation.MODIFY,
                self._name("tm.port.flowcontrol"),
                {"dev_port": port},
                {"mode_tx": "NONE"},
                "hosts must see drops, not pause frames",
            )
            for port in ports
            if text(self._need("tm.port.flowcontrol", {"dev_port": port}), "mode_tx") != "NONE"
        ]

    def _compensation(self) -> list[PlannedWrite]:
        """What shapers add to a packet, of each pipe.

        Raises:
            InputError: links whose rates count different bytes have their queues in one pipe.
        """
        first: dict[int, BottleneckQueue] = {}
        for one in self.bottlenecks:
            other = first.setdefault(one.queue.pipe, one)
            if other.shaping.overhead.ifg_compensation != one.shaping.overhead.ifg_compensation:
                layers = [queue.shaping.overhead.layer for queue in (other, one)]
                raise InputError(
                    f"{one.link.field}.rate_layer: is {layers[1]}, and {other.link.name} with {layers[0]} is in the "
                    f"same pipe ({one.queue.pipe}), whose shapers all count the same bytes of a packet; allowed: "
                    f"{layers[0]}, or ports of different pipes"
                )
        return [
            PlannedWrite(
                Operation.MODIFY,
                self._name("tm.pipe.sched_cfg"),
                None,
                {"packet_ifg_compensation": one.shaping.overhead.ifg_compensation},
                f"{one.shaping.overhead.note}; holds for every shaper of the pipe",
                units={"packet_ifg_compensation": "B a packet"},
                pipe=pipe,
            )
            for pipe, one in first.items()
        ]

    def _whose(self, bottleneck: BottleneckQueue) -> str:
        """Which link a write is for, where there are several."""
        return "" if len(self.bottlenecks) == 1 else f"{bottleneck.link.name}: "

    def _which_queue(self, bottleneck: BottleneckQueue, queue: Queue) -> str:
        """Which of its queues a write is for, where it has two."""
        if bottleneck.low is None:
            return ""
        return "low-latency queue, " if queue is bottleneck.low else "classic queue, "

    def _buffer(self, bottleneck: BottleneckQueue, queue: Queue) -> PlannedWrite:
        depth = bottleneck.depth
        return self._limit(
            queue,
            depth.guaranteed_cells,
            depth.pool_cells,
            depth.hysteresis_cells,
            f"{self._whose(bottleneck)}{self._which_queue(bottleneck, queue)}tail drop at {depth.cells} cells, which "
            f"hold {depth.packets} frames of {depth.frame_bytes} B",
            {
                "pool_max_cells": f"with the guaranteed cells {about_size(depth.bytes)} of frames",
                "hysteresis_cells": f"drops go on for {about_size(depth.hysteresis_bytes)}",
            },
        )

    def _limit(
        self, queue: Queue, guaranteed: int, from_pool: int, hysteresis: int, why: str, units: Mapping[str, str]
    ) -> PlannedWrite:
        """Tail drop of a queue at a number of cells: its own, and those that it may take from the pool."""
        return PlannedWrite(
            Operation.MODIFY,
            self._name("tm.queue.buffer"),
            queue.key,
            {
                "guaranteed_cells": guaranteed,
                "hysteresis_cells": hysteresis,
                "tail_drop_enable": True,
                "pool_id": self._inventory.switch.egress_pool,
                "pool_max_cells": from_pool,
                "dynamic_baf": STATIC,
            },
            why,
            action="shared_pool",
            units=units,
            pipe=queue.pipe,
        )

    def _port_limit(self, bottleneck: BottleneckQueue) -> PlannedWrite:
        """The depth of both queues together: a queue alone has no limit that depends on the other."""
        depth = bottleneck.depth
        return PlannedWrite(
            Operation.MODIFY,
            self._name("tm.port.buffer"),
            {"dev_port": bottleneck.queue.dev_port},
            {"eg_limit_cells": depth.cells, "eg_hysteresis_cells": depth.hysteresis_cells},
            f"{self._whose(bottleneck)}tail drop at {depth.cells} cells of both queues together",
            units={
                "eg_limit_cells": f"cells, {about_size(depth.bytes)} of frames",
                "eg_hysteresis_cells": f"drops go on for {about_size(depth.hysteresis_bytes)}",
            },
        )

    def _turns(self, bottleneck: BottleneckQueue, queue: Queue, weight: int, node: Mapping[str, int]) -> PlannedWrite:
        """A queue of two takes turns with the other, at one priority, and neither has a rate of its own."""
        return PlannedWrite(
            Operation.MODIFY,
            self._name("tm.queue.sched_cfg"),
            queue.key,
            {
                "min_rate_enable": False,
                "min_priority": LOWEST,
                "max_rate_enable": False,
                "max_priority": LOWEST,
                "dwrr_weight": weight,
                "scheduling_enable": True,
                **node,
            },
            f"{self._whose(bottleneck)}{self._which_queue(bottleneck, queue)}its part of the port's rate while both "
            "have packets",
            units={"dwrr_weight": f"of {sum(bottleneck.weights or ())}"},
            expect={"min_priority": LOWEST_NAMES, "max_priority": LOWEST_NAMES},
            pipe=queue.pipe,
        )

    def _l1_node(self, bottleneck: BottleneckQueue) -> dict[str, int]:
        """The field that puts both queues below the L1 node of the classic one; none where there are no such nodes.

        Queues below different nodes of a port would take turns by the weights of the nodes.

        Raises:
            InputError: the node has a rate of its own.
        """
        if not self._chip.l1_nodes:
            return {}
        queue = bottleneck.queue
        node = number(self._need("tm.queue.sched_cfg", queue.key, queue.pipe), "pg_l1_node")
        found = self._need("tm.l1_node.sched_cfg", {"pg_id": queue.pg_id, "pg_l1_node": node}, queue.pipe)
        for field in ("min_rate_enable", "max_rate_enable"):
            if found.data.get(field):
                raise InputError(
                    f"{bottleneck.link.field}.queue: between its queues and port {queue.dev_port} is L1 node {node} of "
                    f"port group {queue.pg_id}, which has a rate of its own ({self._name('tm.l1_node.sched_cfg')}, "
                    f"{field}); allowed: a node without"
                )
        return {"pg_l1_node": node}

    def _port_shaper_on(self, bottleneck: BottleneckQueue) -> PlannedWrite:
        return PlannedWrite(
            Operation.MODIFY,
            self._name("tm.port.sched_cfg"),
            {"dev_port": bottleneck.queue.dev_port},
            {"max_rate_enable": True},
            f"{self._whose(bottleneck)}without this the rate above is not used",
        )

    def _shaper(self, bottleneck: BottleneckQueue) -> PlannedWrite:
        shaping, place = bottleneck.shaping, bottleneck.shaper
        burst = quantise_burst(self._chip, shaping.burst_bytes)
        return PlannedWrite(
            Operation.MODIFY,
            self._name(place.table),
            place.key,
            {
                "unit": SHAPING_UNIT,
                "provisioning": NEAREST,
                "max_rate": shaping.rate_kbps,
                "max_burst_size": shaping.burst_bytes,
            },
            f"{self._whose(bottleneck)}{format_rate(shaping.asked_bps)} asked for, {shaping.realised_bps / 1000:.1f} "
            f"kbit/s made ({shaping.error:+.3%})",
            units={"max_rate": "kbit/s", "max_burst_size": "B"},
            # A chip answers with what it made of the rate, the model with what was written.
            expect={
                "max_rate": (shaping.rate_kbps, shaping.read_kbps),
                "max_burst_size": (shaping.burst_bytes, burst),
            },
            telling={"max_rate": self._other_clocks(shaping, burst)},
            pipe=place.pipe,
        )

    def _other_clocks(self, shaping: Shaping, burst_bytes: int) -> dict[int, str]:
        """What the driver of a part with another clock reads back of a rate, and the inventory's field that says so."""
        kbps = {
            clock_hz: quantise_rate(self._chip, shaping.rate_kbps, clock_hz, burst_bytes).driver_bps(clock_hz) // 1000
            for clock_hz in self._chip.other_clocks_hz
        }
        return {
            read: f"as at {clock_hz / 1e9:g} GHz; fix: switch.shaper_clock_hz: {clock_hz:.0f} in the inventory"
            for clock_hz, read in kbps.items()
            if list(kbps.values()).count(read) == 1
        }

    def _served(self, bottleneck: BottleneckQueue) -> PlannedWrite:
        return PlannedWrite(
            Operation.MODIFY,
            self._name("tm.queue.sched_cfg"),
            bottleneck.queue.key,
            {"max_rate_enable": True, "scheduling_enable": not bottleneck.stopped},
            f"{self._whose(bottleneck)}"
            + ("an outage: nothing leaves" if bottleneck.stopped else "without this the rate above is not used"),
            pipe=bottleneck.queue.pipe,
        )

    def _need(self, table: str, key: Key | None, pipe: int = ALL_PIPES) -> Entry:
        name = self._name(table)
        entry = self._reader.entry(name, key, pipe)
        if entry is None:
            raise InputError(f"the switch has no entry {dict(key or {})} in {name}")
        return entry

    def _name(self, table: str) -> str:
        return f"{self._chip.prefix}.{table}"

    def _bytes(self, cells: int) -> str:
        return f"cells of {self._cell_bytes} B, {about_size(cells * self._cell_bytes)}"
