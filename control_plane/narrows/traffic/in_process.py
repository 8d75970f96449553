# SPDX-License-Identifier: Apache-2.0
"""One thread of this process for all hosts: in virtual time it takes none, and a process takes long to start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.onhost import wire
from narrows.onhost.sockets import Sockets, Surroundings
from narrows.traffic.engine import Engine, Specifications

LEAD_S = 0.001


class InProcess(Engine):
    """See `Engine`."""

    def __init__(
        self, plan: Plan, testbed: Testbed, sockets: type[Sockets], take: Callable[[wire.Event], None]
    ) -> None:
        """See `Engine`."""
        super().__init__(plan, testbed, sockets, take)
        self._groups_ended: set[str] = set()
        self._names: list[str] = []
        self._serving: Sockets | None = None
        self._thread: threading.Thread | None = None

    @property
    def lead_s(self) -> float:
        """See `Engine.lead_s`."""
        return LEAD_S

    async def prepare(self, listening: Specifications, beginning: Specifications, modules: Sequence[str]) -> None:
        """See `Engine.prepare`."""
        # A receiver that waits for more has the kernel acknowledge each frame or joined frames at once, where one that
        # reads has it answer all that an interrupt has delivered. Then there is nothing to wait for either.
        batch_bytes = 0 if self._plan.coalescing is not None else self._plan.receive_batch_bytes
        loop = asyncio.get_running_loop()

        def tell(event: wire.Event) -> None:
            loop.call_soon_threadsafe(self._take, event)

        has_ended = self._groups_ended.__contains__
        self._serving = self._sockets(Surroundings(self._testbed.open_socket, tell, has_ended, batch_bytes))
        for host, specifications in listening.items():
            try:
                self._serving.listen(host, specifications)
            except OSError as error:
                raise RunError(f"{host}: its ports cannot be opened: {error.strerror}") from error
        beginners = [flow for specifications in beginning.values() for flow in specifications]
        self._names = [flow.name for flow in beginners]
        try:
            self._serving.prepare(beginners)
        except OSError as error:
            raise RunError(f"the sockets of flows are not ready: {error.strerror}") from error

    async def start(self, t0_s: float) -> None:
        """See `Engine.start`."""
        run = partial(self._run, self._running(), asyncio.get_running_loop(), t0_s)
        self._thread = threading.Thread(target=run)
        self._thread.start()

    def _run(self, serving: Sockets, loop: asyncio.AbstractEventLoop, t0_s: float) -> None:
        try:
            serving.run(t0_s)
        except OSError as error:
            for name in self._names:
                loop.call_soon_threadsafe(self._take, wire.Failure(name, str(error.strerror)))

    def _running(self) -> Sockets:
        if self._serving is None:
            raise RunError("no flows are being made")
        return self._serving

    def do(self, host: str, command: wire.Command) -> None:
        """See `Engine.do`."""
        self._running().do(command)

    async def group_ended(self, group: str, hosts: Collection[str]) -> None:
        """See `Engine.group_ended`."""
        self._groups_ended.add(group)

    async def stop_senders(self) -> None:
        """See `Engine.stop_senders`."""
        if self._thread is not None:
            self._running().stop()
            self._thread.join()
            self._thread = None
        # What the thread has told is taken in.
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """See `Engine.stop`."""
        await self.stop_senders()
        if self._serving is not None:
            self._serving.close()
            self._serving = None
        await asyncio.sleep(0)
