# SPDX-License-Identifier: Apache-2.0
"""Child processes that run.py starts, each in a session of its own so that Ctrl-C reaches only run.py."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LOG_TAIL_BYTES = 2000


def inside(namespace: str | None, command: Sequence[str]) -> list[str]:
    """The command that runs another one in a network namespace; the other one itself where there is none."""
    return [*([] if namespace is None else ["ip", "netns", "exec", namespace]), *command]


class Child:
    """A process, inside a network namespace if there is one, with its output in a log file."""

    def __init__(self, namespace: str | None, command: Sequence[str], log: Path, parameters: Mapping[str, str]) -> None:
        """Start ``command``; ``parameters`` is what others must know to reach it."""
        self.parameters = parameters
        self._log = log
        self._name = Path(command[0]).name
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                inside(namespace, command),
                # What it leaves where it runs goes with its log.
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its number: ``ip netns exec`` becomes what it starts."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def log(self) -> str:
        """The end of its output."""
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def wait_until(self, ready: Callable[[Child], bool], timeout_s: float) -> None:
        """Wait until ``ready`` says so.

        Raises:
            RuntimeError: it ended, or did not get ready in time; it does not run any more then.
        """
        deadline = time.monotonic() + timeout_s
        while self.alive() and time.monotonic() < deadline:
            if ready(self):
                return
            time.sleep(0.02)
        problem = "did not get ready" if self.alive() else f"ended with exit code {self._process.returncode}"
        self.stop()
        raise RuntimeError(f"{self._name} {problem}:\n{self.log()}")

    def stop(self) -> None:
        """End it: politely first."""
        if not self.alive():
            return
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
