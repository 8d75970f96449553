# SPDX-License-Identifier: Apache-2.0
"""The measuring part of a run, made inside a guest: the same as `narrows.measurement`, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from typing import Any

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run.measurement import STOP_SIGNALS, Measured, Progress
from narrows.run.results import RunDirectory
from narrows.run.sampler import FlowRate, Snapshot
from narrows.virtual import inside
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel
from narrows.virtual.task import Task

MEMORY_BYTES = 4 << 30


class VirtualMeasurement:
    """One run in one guest."""

    def __init__(
        self, experiment: Experiment, plan: Plan, state: RunState, results: RunDirectory, kernel: Kernel, cpu: int
    ):
        """Nothing is started before `run`."""
        self._experiment = experiment
        self._plan = plan
        self._state = state
        self._results = results
        self._kernel = kernel
        self._cpu = cpu

    async def run(self, progress: Progress) -> Measured:
        """Measure.

        Raises:
            RunError: it failed before any traffic flowed, or the guest did not end well.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        progress.phase("booting the guest")
        task = self._task()
        file = self._state.directory / "task.pickle"
        file.write_bytes(pickle.dumps(task))
        init = [sys.executable, "-m", inside.__name__, str(file)]
        guest = await Guest.start(self._kernel, MEMORY_BYTES, init, self._cpu, self._state.directory)
        ended: dict[str, Any] = {}
        with self._signals_go_in(guest, progress):
            try:
                async for line in guest.lines():
                    ended = _tell(json.loads(line), progress) or ended
            finally:
                guest.kill()
                await guest.wait()
        if "interrupted" in ended:
            raise asyncio.CancelledError
        if "failed" in ended:
            raise RunError(ended["failed"])
        if "measured" not in ended:
            raise RunError(f"the guest ended unexpectedly:\n{guest.last_words()}")
        measured: Measured = pickle.loads(task.found.read_bytes())
        return measured

    def surroundings(self) -> dict[str, Any]:
        """This machine and the guest."""
        return {"host": machine.describe()}

    def _task(self) -> Task:
        return Task(
            plan=self._plan,
            results=self._results,
            seed=self._experiment.seed,
            socket_interval_ns=self._experiment.telemetry.sockets,
            found=self._state.directory / "measured.pickle",
            environment={key: value for key, value in os.environ.items() if key.startswith("NARROWS_")},
        )

    @contextlib.contextmanager
    def _signals_go_in(self, guest: Guest, progress: Progress) -> Iterator[None]:
        """The first signal ends traffic in the guest, in order; the second one ends the guest."""
        loop = asyncio.get_running_loop()
        stopped = False

        def stop(number: signal.Signals) -> None:
            nonlocal stopped
            if stopped:
                progress.note(f"{number.name}: ending the guest at once")
                guest.kill()
            else:
                stopped = True
                guest.say(number.name)

        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        heeded = [number for number in STOP_SIGNALS if before[number] != signal.SIG_IGN]
        for number in heeded:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])


def _tell(event: dict[str, Any], progress: Progress) -> dict[str, Any] | None:
    """Pass an event on; returns it if it says how the run ended."""
    if "phase" in event:
        progress.phase(event["phase"], event["total_s"])
    elif "snapshot" in event:
        progress.show(_snapshot(event["snapshot"]))
    elif "note" in event:
        progress.note(event["note"])
    elif "up" not in event:
        return event
    return None


def _snapshot(data: dict[str, Any]) -> Snapshot:
    flows = {name: tuple(FlowRate(**rate) for rate in data[name]) for name in ("flows", "groups")}
    return Snapshot(**{**data, **flows})
