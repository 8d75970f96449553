# SPDX-License-Identifier: Apache-2.0
"""A run in a process of its own: signals, event loop and, in real time, namespaces are that process's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from weakref import WeakSet

from narrows import python
from narrows.api.messages import RunEnding, RunFailure, RunRequest
from narrows.errors import InputError, Interrupted, NarrowsError, RunError
from narrows.experiment.driving import Driving
from narrows.experiment.model import Experiment
from narrows.hosts.process import piped
from narrows.onhost import wire
from narrows.run.driver import Command

ERRORS: dict[str, type[NarrowsError]] = {"InputError": InputError, "RunError": RunError, "Interrupted": Interrupted}
END_S = 60.0
COMPLETE = "complete"
NOT_OURS = "the run is of the process that this one was forked from; allowed: one that was begun in this process"


class Child:
    """The process of a run, or of all runs of a sweep, and what it answers."""

    def __init__(
        self,
        experiment: Experiment,
        virtual: bool,
        kernel: str | None,
        directory: Path,
        driving: Driving | None = None,
        jobs: int | None = None,
        scratch: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            experiment: one run.
            virtual: in virtual time.
            kernel: of virtual time.
            directory: of the results.
            driving: None if the run is not driven.
            jobs: of a sweep, how many runs may be under way at once.
            scratch: a directory that goes with the run, whatever becomes of this process.
        """
        # Open for as long as the process: where it says what a terminal would show.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            python.module("narrows.api.process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            # The interrupt key is the caller's, who ends the run then.
            start_new_session=True,
        )
        self._is_ours, self._scratch = True, scratch
        _of_this_process.add(self)
        self.tell(
            RunRequest(
                experiment=experiment.as_yaml_data(),
                virtual=virtual,
                kernel=kernel,
                directory=str(directory.absolute()),
                driving=driving,
                jobs=jobs,
                scratch=None if scratch is None else str(scratch.absolute()),
            )
        )

    def tell(self, command: Command | RunRequest) -> None:
        """Send a command.

        Raises:
            RunError: the process has gone, or is another one's.
        """
        if not self._is_ours:
            raise RunError(NOT_OURS)
        commands = piped(self._process.stdin)
        try:
            commands.write(wire.dumps(command).encode() + b"\n")
            commands.flush()
        except OSError:
            self.answer()
            raise RunError("the run's process takes no more commands") from None

    def answer(self) -> Any:
        """The next answer, of `narrows.run.driver` or a `RunEnding`.

        Raises:
            NarrowsError: the run has failed; as `narrows run` would say it.
            RunError: it has ended and is not complete, or the process has gone without an answer.
        """
        if not self._is_ours:
            raise RunError(NOT_OURS)
        line = piped(self._process.stdout).readline()
        if not line:
            self._said.seek(0)
            raise RunError(f"the run's process ended: {self._said.read().decode(errors='replace').strip()}")
        match answer := wire.loads(line):
            case RunFailure(kind, why):
                raise ERRORS[kind](why)
            case RunEnding(status, reason, directory) if status != COMPLETE:
                raise RunError(f"{status} run: {reason}; its results are in {directory}")
        return answer

    def result(self) -> Any:
        """Wait for the end of the run or the sweep, and return it loaded; further answers are discarded.

        Raises:
            RunError: it is not complete; the message says why.
        """
        from narrows_analysis import load

        while not isinstance(answer := self.answer(), RunEnding):
            pass
        self._process.wait()
        return load(answer.directory)

    def end(self) -> None:
        """Interrupt the run, and wait until nothing is left of it; safe to call at any time, and twice."""
        if self._is_ours and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()
        if self._is_ours and self._scratch is not None:
            # Its process may have ended before it could.
            shutil.rmtree(self._scratch, ignore_errors=True)

    def leave(self) -> None:
        """Leave the run to the process that began it, whose end it would not notice while this one has its pipes."""
        self._is_ours = False
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        self._said.close()


_of_this_process: WeakSet[Child] = WeakSet()


def _leave_all() -> None:
    for child in list(_of_this_process):
        child.leave()


os.register_at_fork(after_in_child=_leave_all)
