# SPDX-License-Identifier: Apache-2.0
"""What conditions of events are about, read at an instant: flows' sockets, queues, and counters of the switch."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import asdict
from typing import Any

from narrows.experiment.comparison import Condition
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.run.observer import Observer
from narrows.switch.readings import QueueReading, by_queue
from narrows.targets.base import Target
from narrows.traffic import socket_sampler
from narrows.traffic.socket_values import VALUES, Value


class ConditionReadings:
    """The readings of one run."""

    def __init__(self, plan: Plan, target: Target, testbed: Testbed, observer: Observer) -> None:
        """Nothing is opened before it is entered."""
        self._plan = plan
        self._target = target
        self._testbed = testbed
        self._observer = observer
        conditions = [one.condition for one in plan.reactions]
        of_switch = [one for one in conditions if not one.of_socket]
        self._of_switch = bool(of_switch)
        # What became of flows takes three calls of the switch, and queues one.
        self._of_flows = any(one.section == "flows" for one in of_switch)
        names = {one.name for one in conditions if one.of_socket}
        self._flows = [flow for flow in plan.flows if flow.name in names]
        self._open = contextlib.ExitStack()
        self._diags: dict[str, socket.socket] = {}

    def __enter__(self) -> ConditionReadings:
        """Open a netlink socket on the sender of each flow whose socket is asked for."""
        for flow in self._flows:
            if flow.sender not in self._diags:
                diag = self._open.enter_context(self._testbed.open_socket(flow.sender, *socket_sampler.DIAG))
                diag.bind((0, 0))
                self._diags[flow.sender] = diag
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._open.close()

    async def read(self, at_ns: int | None) -> dict[tuple[str, str], dict[str, Value]]:
        """All readings, by section and name of what they are of; what there is nothing of yet is missing.

        Args:
            at_ns: time of the switch's clock at which to halt first; None: as things are now.

        Raises:
            RunError: the switch does not answer.
            OSError: a host's sockets cannot be read.
        """
        found: dict[tuple[str, str], dict[str, Value]] = {}
        if self._of_switch:
            places = self._observer.places if self._of_flows else ()
            found |= await self._counters(await self._target.read_queues(places, at_ns))
        elif at_ns is not None:
            await self._target.pause(at_ns)
        sockets = {host: self._sockets(diag) for host, diag in self._diags.items()}
        for flow in self._flows:
            if (raw := sockets[flow.sender].get(_key(flow))) is not None:
                own = found.setdefault(("flows", flow.name), {})
                own |= {reading: value(raw) for reading, value in VALUES.items()}
        return found

    async def _counters(self, reading: QueueReading) -> dict[tuple[str, str], dict[str, Value]]:
        queues = by_queue(reading.queues)
        counts = await self._observer.counts(reading.drops) if self._of_flows else {}
        found: dict[tuple[str, str], dict[str, Value]] = {("flows", name): asdict(one) for name, one in counts.items()}
        for link in self._plan.links:
            found["links", link.name] = {**queues[link.port, link.queue].by_name}
        return found

    def _sockets(self, diag: socket.socket) -> dict[tuple[Any, ...], dict[str, int]]:
        """All sockets of a host by destination and ports."""
        names = socket_sampler.FIELDS[1:]
        found = {}
        for dump in socket_sampler.dumps(self._plan.ip_version, programs=False):
            for values in socket_sampler.readings(diag, *dump):
                raw: dict[str, Any] = dict(zip(names, values, strict=True))
                found[raw["dst"], raw["src_port"], raw["dst_port"]] = raw
        return found


def value_of(found: dict[tuple[str, str], dict[str, Value]], condition: Condition) -> Value:
    """What a condition is about; None: there is no such reading yet, or any more."""
    return found.get((condition.section, condition.name), {}).get(condition.reading)


def _key(flow: Flow) -> tuple[str, int, int]:
    return flow.dst, flow.port_of(0), flow.dst_port
