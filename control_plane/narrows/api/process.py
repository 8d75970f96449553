# SPDX-License-Identifier: Apache-2.0
"""The process that makes a run for `narrows.api.child`: started by `narrows.python.module`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from narrows.api.messages import RunEnding, RunFailure, RunRequest
from narrows.api.runs import ORIGIN, experiment
from narrows.batch.sweep import RunMode, run_series
from narrows.errors import InputError, NarrowsError
from narrows.experiment.driving import driven
from narrows.experiment.sweep import make_series
from narrows.onhost import wire
from narrows.run.driver import Answer, Command, Driver
from narrows.run.environment import Environment, ThisMachine
from narrows.run.runner import Outcome, check, execute
from narrows.targets.registry import target_factory
from narrows.terminal import Terminal

TARGET = "soft"


class Pipes:
    """The driver of the run: standard input and output. See `narrows.run.driver.Driver`."""

    def __init__(self, answers: int) -> None:
        """``answers`` is a file descriptor."""
        self._answers = answers
        self._commands: asyncio.StreamReader | None = None

    async def receive(self) -> Command | None:
        """The next command."""
        if self._commands is None:
            self._commands = asyncio.StreamReader()
            reader = self._commands
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0)
            )
        line = await self._commands.readline()
        return wire.loads(line) if line else None

    def tell(self, answer: Answer | RunEnding | RunFailure) -> None:
        """An answer."""
        data = wire.dumps(answer).encode() + b"\n"
        # A driver that has gone hears no more: the run ends in order when `receive` says so.
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._answers, data) :]


def first_line() -> RunRequest:
    """The request; what follows it is for the run's event loop."""
    line = b""
    while not line.endswith(b"\n"):
        if not (octet := os.read(0, 1)):
            sys.exit(0)
        line += octet
    request: RunRequest = wire.loads(line)
    return request


def environment_of(virtual: bool, kernel: str | None, driver: Driver | None) -> Environment:
    """Where the run is made, and its driver.

    Raises:
        InputError: there is no such kernel, or it is not of virtual time.
    """
    if not virtual:
        if kernel is not None:
            raise InputError(f"kernel {kernel}: senders have this machine's kernel; allowed: with virtual=True")
        return ThisMachine(driver=driver)
    from narrows.virtual import kernels
    from narrows.virtual.environment import Guests

    return Guests(kernels.find(kernel or kernels.DEFAULT), driver)


def make(request: RunRequest, pipes: Pipes) -> None:
    """Make the run that is asked for.

    Raises:
        NarrowsError: it cannot be made, or failed before any traffic flowed.
    """
    one, directory = experiment(request.experiment), Path(request.directory)
    if one.sweep or one.repeat != 1:
        pipes.tell(make_all(request, directory))
        return
    if request.driving is not None and any(
        event.buffer is not None or event.loss is not None or event.when is not None for event in one.events
    ):
        what = "change buffer or loss, or have a condition"
        raise InputError(f"events: {what}, in a run that is driven; allowed: its driver does that")
    if directory.exists():
        raise InputError(f"{directory}: exists already; choose another name")
    environment = environment_of(request.virtual, request.kernel, None if request.driving is None else pipes)
    target = target_factory(TARGET, results=directory, virtual=request.virtual)(one)
    checked = check(one, target, ORIGIN, environment)
    if request.driving is not None:
        checked = replace(checked, plan=driven(checked.plan, one, request.driving))
    outcome = execute(checked, directory, Terminal(stderr=True), one.name)
    pipes.tell(_ending(outcome, outcome.directory, outcome.reason))


def _ending(outcome: Outcome, directory: Path, reason: str) -> RunEnding:
    if outcome.status == "complete" and outcome.summary is None:
        return RunEnding("failed", "\n".join(outcome.notes), str(directory))
    return RunEnding(outcome.status, reason, str(directory))


def make_all(request: RunRequest, directory: Path) -> RunEnding:
    """Make the runs of a sweep or of repetitions that are not complete; returns the answer.

    Raises:
        NarrowsError: one cannot be made, or failed before any traffic flowed.
    """
    environment = environment_of(request.virtual, request.kernel, None)
    make_target = target_factory(TARGET, results=directory, virtual=request.virtual)
    series, mode = make_series(request.experiment, ORIGIN), RunMode(TARGET, environment)
    ending = RunEnding("complete", "", str(directory))
    for one in run_series(series, make_target, directory, Terminal(stderr=True), mode=mode, jobs=request.jobs):
        if not one.is_analysed:
            ending = _ending(one, directory, f"{one.directory.name}: {one.reason}")
    return ending


def main() -> None:
    """Answers go to standard output; whatever else is printed does not."""
    pipes = Pipes(os.dup(1))
    os.dup2(2, 1)
    request = first_line()
    try:
        make(request, pipes)
    except NarrowsError as error:
        pipes.tell(RunFailure(type(error).__name__, str(error)))
        sys.exit(error.exit_code)
    finally:
        if request.scratch is not None:
            shutil.rmtree(request.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
