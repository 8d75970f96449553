# SPDX-License-Identifier: Apache-2.0
"""The controller of a user's P4 program: a program that runs next to the experiment, until traffic has ended."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import python
from narrows.errors import RunError
from narrows.experiment.plan import OwnProgram, Plan
from narrows.hosts.base import SWITCH, Testbed
from narrows.hosts.process import Process
from narrows.hosts.users import APPLICATION_ID, in_user_namespace, invoking_user
from narrows.onhost import program as on_host
from narrows.onhost import wire
from narrows.onhost.program import ProgramEnded, ProgramFailure, ProgramSpecification
from narrows.search_path import SEARCH_PATH
from narrows.traffic.applications import END_GRACE_S, MOST_OUTPUT_BYTES, find, tail_of

if TYPE_CHECKING:
    from narrows.targets.base import Target

# Its directory, and what it says below the run's results.
NAME = "controller"
READY_S = 20.0


class Controller:
    """The controller of a program, in the network namespace of the switch, where its P4Runtime server is."""

    def __init__(self, plan: Plan, program: OwnProgram, target: Target, testbed: Testbed, results: Path) -> None:
        """Nothing is started before `start`; its output goes below ``results``."""
        self._in_guest = plan.in_guest
        self._program = program
        self._target = target
        self._testbed = testbed
        self._name = NAME if len(plan.programs) == 1 else f"{NAME}-{program.links[0]}"
        self._results = results / self._name
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        # Why it has ended of itself, if that is a failure.
        self._failure: str | None = None

    async def start(self) -> None:
        """Start it, and wait until it is the primary client of the switch.

        Raises:
            RunError: it cannot be started, ends, or does not become primary.
        """
        self._results.mkdir(parents=True)
        directory = self._testbed.state_dir / self._name
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0 and not in_user_namespace():
            os.chown(directory, *invoking_user())
        specification = wire.dumps(self._specification(directory))
        path = await self._testbed.put(SWITCH, f"{self._name}.json", specification, private=True)
        script = python.script(on_host.__file__, path)
        errors = self._testbed.state_dir / f"{self._name}.err"
        self._process = await self._testbed.spawn(SWITCH, script, stderr=errors)
        self._reader = asyncio.create_task(self._read(self._process))
        await self._wait_until_primary()

    async def watch(self) -> None:
        """Until it has failed.

        Raises:
            RunError: it has ended, and not with exit code 0.
        """
        await self._ended.wait()
        self._require()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End it; safe to call at any time, and twice.

        Raises:
            RunError: it had ended before, and not with exit code 0.
        """
        if self._process is None:
            return
        process, self._process = self._process, None
        await process.stop(2 * END_GRACE_S + on_host.KILL_S)
        if self._reader is not None:
            await self._reader
        self._testbed.ended(process)
        self._require()

    def _specification(self, directory: Path) -> ProgramSpecification:
        program = self._program
        own = {"PATH": SEARCH_PATH, "HOME": str(directory), "TMPDIR": str(directory), "LC_ALL": "C.UTF-8"}
        files = {"P4RUNTIME_P4INFO": str(program.p4info), "P4RUNTIME_CONFIG": str(program.json)}
        return ProgramSpecification(
            words=[find(program.controller[0], SEARCH_PATH) or program.controller[0], *program.controller[1:]],
            env=own | files | self._target.controller_environment(program),
            cwd=str(program.cwd),
            user=invoking_user(),
            mapped=in_user_namespace(),
            groups=[APPLICATION_ID] if self._in_guest else [],
            origin=None,
            start_s=0.0,
            duration_s=None,
            ready_line=None,
            ready_ports=None,
            stays=False,
            grace_s=END_GRACE_S,
            limit_bytes=MOST_OUTPUT_BYTES,
            stdout=str(self._results / "stdout"),
            stderr=str(self._results / "stderr"),
        )

    async def _wait_until_primary(self) -> None:
        primary = asyncio.create_task(self._target.wait_for_controller(self._program))
        ended = asyncio.create_task(self._ended.wait())
        waiting: list[asyncio.Task[Any]] = [primary, ended]
        done, _ = await asyncio.wait(waiting, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        self._require()
        if primary in done:
            return primary.result()
        why = "ended before it was a client" if ended in done else f"is not the primary client after {READY_S:g} s"
        raise RunError(f"{self._program.field}.controller: {self._program.controller[0]} {why}{self._said()}")

    async def _read(self, process: Process) -> None:
        """Take in what its supervisor says, until its end."""
        async for line in process.lines():
            try:
                event = wire.loads(line)
            except ValueError:  # the last line of one that was killed
                continue
            if isinstance(event, ProgramFailure):
                self._failure = event.why
            elif isinstance(event, ProgramEnded):
                outcome = event.outcome
                if not outcome.stopped and (outcome.exit_code or outcome.signal):
                    self._failure = f"ended with {outcome.signal or f'exit code {outcome.exit_code}'}{self._said()}"
        self._ended.set()

    def _said(self) -> str:
        """The end of what it wrote, ready to be put behind a message."""
        return tail_of(self._results / "stderr", self._results / "stdout")

    def _require(self) -> None:
        """Check that it has not failed."""
        if self._failure is not None:
            raise RunError(f"{self._program.field}.controller: {self._program.controller[0]} {self._failure}")
