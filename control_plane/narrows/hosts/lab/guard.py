# SPDX-License-Identifier: Apache-2.0
"""Holds a machine for a run: `deploy/host.sh guard` there puts all back once the run is gone, however it ended."""

from __future__ import annotations

import contextlib
import select
import subprocess

from narrows.errors import RunError
from narrows.hosts.lab.inventory import Nic
from narrows.hosts.lab.ssh import CONNECT_S, HOST_SCRIPT, machine_command
from narrows.hosts.process import piped

READY_S = 2 * CONNECT_S + 20.0
# What host.sh puts back takes about a second.
END_S = 30.0


class Guard:
    """One process at a machine, and the end of a pipe that the kernel closes when we end, however we end."""

    def __init__(self, nic: Nic, token: str) -> None:
        """``token`` is the run's: what host.sh is asked to change in its name it refuses once the run is gone."""
        self._nic = nic
        self._token = token
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Take the machine.

        Raises:
            RunError: another run has it, or it cannot be reached.
        """
        words = ["sh", "-c", HOST_SCRIPT.read_text(), HOST_SCRIPT.name, "guard", self._nic.interface]
        process = subprocess.Popen(
            machine_command(self._nic, [*words, f"run={self._token}"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A Ctrl-C on the terminal must not end what puts a machine back.
            start_new_session=True,
        )
        self._process = process
        answers = piped(process.stdout)
        if select.select([answers], [], [], READY_S)[0] and answers.readline() == b"ready\n":
            return
        process.kill()
        words_there = piped(process.stderr).read().decode(errors="replace").strip() or f"no answer in {READY_S:g} s"
        self.close()
        raise RunError(f"{self._nic.name}: it cannot be reserved for the run: {words_there}")

    @property
    def machine(self) -> str:
        """Its name, for people."""
        return self._nic.name

    @property
    def has_ended(self) -> bool:
        """Whether the machine is not held any more, and is what it was before the run."""
        return self._process is not None and self._process.poll() is not None

    def close(self) -> None:
        """Release the machine and restore what is not restored yet. Safe to call twice.

        Raises:
            RunError: that does not end.
        """
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            with contextlib.suppress(OSError):
                piped(process.stdin).close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise RunError(f"{self._nic.name}: its settings are not restored after {END_S:g} s") from None
