# SPDX-License-Identifier: Apache-2.0
"""The interface of what runs `narrows.onhost.sockets` for the hosts of a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.onhost import wire
from narrows.onhost.sockets import Sockets

Specifications = Mapping[str, Sequence[wire.FlowSpecification]]
"""Of flows, by the host."""


class Engine(ABC):
    """Serves some flows on all their hosts."""

    def __init__(
        self, plan: Plan, testbed: Testbed, sockets: type[Sockets], take: Callable[[wire.Event], None]
    ) -> None:
        """Nothing is done before `prepare`; ``take`` gets what becomes of flows, in the event loop."""
        self._plan = plan
        self._testbed = testbed
        self._sockets = sockets
        self._take = take

    @property
    @abstractmethod
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""

    @abstractmethod
    async def prepare(self, listening: Specifications, beginning: Specifications, modules: Sequence[str]) -> None:
        """Open the ports of flows, and then make ready those that begin.

        Args:
            listening: flows that each host listens for.
            beginning: flows that begin at each.
            modules: those of the flows' kinds.

        Raises:
            RunError: a host cannot be reached, or a port is in use.
        """

    @abstractmethod
    async def start(self, t0_s: float) -> None:
        """Have the flows' times count from this monotonic time.

        Raises:
            RunError: a host cannot be reached.
        """

    @abstractmethod
    def do(self, host: str, command: wire.Command) -> None:
        """Have a host do what a command says of a flow that begins there."""

    @abstractmethod
    async def group_ended(self, group: str, hosts: Collection[str]) -> None:
        """Note that all flows of a group have ended, for the flows of some hosts that last until then.

        Raises:
            RunError: a host cannot be reached.
        """

    @abstractmethod
    async def stop_senders(self) -> None:
        """End what still runs, with its partial result; what is under way is still received. Safe to call twice."""

    @abstractmethod
    async def stop(self) -> None:
        """End all; safe to call twice."""
