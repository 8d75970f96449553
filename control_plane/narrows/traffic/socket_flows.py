# SPDX-License-Identifier: Apache-2.0
"""Flows whose sockets a module of ours serves on hosts (`narrows.onhost.sockets`), from a specification of each."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

from narrows.errors import InputError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.onhost import wire
from narrows.onhost.sockets import Sockets
from narrows.traffic.generator import Generator
from narrows.traffic.in_process import InProcess
from narrows.traffic.processes import Processes

Side = Literal["begins", "listens"]


class SocketFlows(Generator):
    """Flows of one module on hosts. In virtual time a thread takes no time, and a process takes long to start: there
    one of this process serves all hosts."""

    sockets: ClassVar[type[Sockets]]
    """What serves them."""
    libraries: ClassVar[tuple[ModuleType, ...]] = ()
    """Modules besides those of the sockets and of the flows' kinds that a host needs."""
    has_window: ClassVar[bool] = False
    """Whether their window can be set."""
    receives_to_the_end: ClassVar[bool] = False
    """Whether what is under way when all flows have ended is still to be counted."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._groups: dict[str, set[str]] = defaultdict(set)
        for flow in flows:
            if flow.payload.until is not None:
                self._groups[flow.payload.until].add(flow.sender)
        engine = InProcess if plan.in_guest else Processes
        self._engine = engine(plan, testbed, self.sockets, self._take)

    @abstractmethod
    async def specify(self, flow: Flow) -> wire.FlowSpecification:
        """A flow for its hosts."""

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return self._engine.lead_s

    def _host(self, flow: Flow, side: Side) -> str:
        """The host at which a flow begins, or which listens for it."""
        return flow.receiver if (side == "begins") == flow.payload.receiver_initiates else flow.sender

    async def _prepare(self) -> None:
        specifications = {flow.name: await self.specify(flow) for flow in self.flows}

        def by_host(side: Side) -> dict[str, list[wire.FlowSpecification]]:
            found: dict[str, list[wire.FlowSpecification]] = defaultdict(list)
            for flow in self.flows:
                found[self._host(flow, side)].append(specifications[flow.name])
            return found

        modules = sorted({type(flow.payload).__module__ for flow in self.flows})
        modules += [module.__name__ for module in self.libraries]
        await self._engine.prepare(by_host("listens"), by_host("begins"), modules)

    async def _start(self) -> None:
        await self._engine.start(self._t0_s)

    async def _release(self, name: str, at_s: float) -> None:
        await self._do(wire.Release(name, at_s))

    async def _end_at(self, name: str, at_s: float) -> None:
        await self._do(wire.Finish(name, at_s))

    async def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        if not self.has_window:
            raise InputError(f"flow {name}: is of a kind whose window cannot be set; allowed: bulk and finite flows")
        await self._do(wire.Steer(name, window, rate, at_s))

    async def apply(self, command: wire.Apply) -> None:
        """See `Generator.apply`."""
        await self._do(command)

    async def _do(self, command: wire.Command) -> None:
        self._engine.do(self._host(self._flows[command.flow], "begins"), command)

    async def group_ended(self, group: str) -> None:
        """See `Generator.group_ended`."""
        await self._engine.group_ended(group, self._groups[group])

    async def _stop(self) -> None:
        if not self.receives_to_the_end:
            await self._engine.stop()
        elif not all(end.done() for end in self._ends.values()):
            await self._engine.stop_senders()

    async def finish(self) -> None:
        """See `Generator.finish`."""
        await self._engine.stop()
