# SPDX-License-Identifier: Apache-2.0
"""The command of a shell, in the foreground of our terminal until it ends, and the other direction of its packets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import termios
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from narrows import python
from narrows.experiment.plan import Flow, Plan
from narrows.flows.program import fill
from narrows.hosts.base import Testbed
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.process import Process
from narrows.hosts.uplink import RESOLVER_FILE
from narrows.onhost import foreground as on_host
from narrows.onhost.program import Outcome, ProgramEnded, ProgramSpecification
from narrows.traffic.applications import Applications, program_of

FIGURES = "figures"
# After a stop without effect: without job control above us, continue at once.
RESUME_S = 0.05


class Terminal:
    """The terminal that this process is in the foreground of, which it lends to a command; or none."""

    def __init__(self) -> None:
        """Look; nothing is changed."""
        self._before = signal.getsignal(signal.SIGTTOU)
        self._modes: list[Any] | None = None
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(0) == os.getpgrp():
                self._modes = termios.tcgetattr(0)

    @property
    def is_ours(self) -> bool:
        """Whether there is one to lend."""
        return self._modes is not None

    def lend(self) -> None:
        """Survive writing to it from the background."""
        if self.is_ours:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def take_back(self) -> None:
        """Be in its foreground again, in the modes that it had."""
        if self._modes is not None:
            # It may have been closed meanwhile.
            with contextlib.suppress(OSError, termios.error):
                os.tcsetpgrp(0, os.getpgrp())
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def close(self) -> None:
        """Take it back for good."""
        self.take_back()
        signal.signal(signal.SIGTTOU, self._before)


class Shell(Applications):
    """One command, both directions of whose packets are flows. Its end is that of the run, whatever its exit code."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`; the first flow is the one whose client is the command."""
        super().__init__(plan, testbed, results, flows)
        self._terminal = Terminal()
        self._lent: list[int] = []
        self._programs = dict.fromkeys(self._programs, self._programs[flows[0].name])

    async def _prepare(self) -> None:
        # The other direction is made by the same programs.
        others = {name: self._flows.pop(name) for name in [*self._flows][1:]}
        try:
            await super()._prepare()
        finally:
            self._flows |= others

    async def _launch(self, flow: Flow, role: str, specification: str, errors: Path) -> Process:
        if role == "server" or not _on_terminal(flow):
            return await super()._launch(flow, role, specification, errors)
        script = python.script(on_host.__file__, specification)
        self._terminal.lend()
        assert isinstance(self._testbed, NetnsTestbed)  # targets of other machines have no shell
        return await self._testbed.spawn(self._host(flow, role), script, stderr=errors, inherited=self._lent)

    def _specification(self, flow: Flow, role: str, words: Sequence[str]) -> ProgramSpecification:
        found = super()._specification(flow, role, words)
        if role == "server" or not _on_terminal(flow):
            return found
        # Ours may be in the way of those that a process is started with.
        self._lent = [os.dup(number) for number in (0, 1, 2)]
        resolver = self._testbed.state_dir / RESOLVER_FILE
        own = replace(
            found,
            words=[words[0], *(fill(word, self._placeholders(flow)) for word in words[1:])],
            groups=_groups(self._user.uid, self._user.gid),
        )
        return on_host.TerminalSpecification(
            **vars(own),
            changed=self._environment(flow),
            files=self._lent,
            terminal=self._lent[0] if self._terminal.is_ours else None,
            resolver=str(resolver) if resolver.exists() else None,
        )

    def _environment(self, flow: Flow) -> dict[str, str | None]:
        """Differences from our own environment; None removes a variable."""
        values = self._placeholders(flow)
        found: dict[str, str | None] = {
            # A supervisor has another one.
            "LC_ALL": os.environ.get("LC_ALL"),
            "NARROWS_SERVER": values["server"],
            "NARROWS_PORT": values["port"],
            "NARROWS_FIGURES": str(self._testbed.state_dir / FIGURES),
        }
        if [Path(word).name for word in program_of(flow).client] == ["bash"] and "PROMPT_COMMAND" not in os.environ:
            found["PROMPT_COMMAND"] = 'cat "$NARROWS_FIGURES"'
        if os.geteuid() == 0:
            with contextlib.suppress(KeyError):
                user = pwd.getpwuid(self._user.uid)
                return found | {
                    "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell
                }  # fmt: skip
            return found | {"HOME": values["dir"], "USER": None, "LOGNAME": None, "MAIL": None}
        return found

    def _began(self, flow: Flow, started_s: float) -> None:
        while self._lent:
            os.close(self._lent.pop())
        for each in self.flows:
            super()._began(each, started_s)

    def _suspended(self, supervisor: Process) -> None:
        """Be suspended with the command, by our parent; then both continue."""
        if not os.isatty(0):
            return  # whatever stopped it continues it: there is no terminal to give back
        self._terminal.take_back()
        os.killpg(0, signal.SIGTSTP)
        asyncio.get_running_loop().call_later(RESUME_S, self._resume, supervisor)

    def _resume(self, supervisor: Process) -> None:
        if supervisor.returncode is None:
            os.kill(supervisor.pid, signal.SIGUSR1)

    def _ended(self, flow: Flow, role: str, event: ProgramEnded) -> None:
        super()._ended(flow, role, event)
        if role == "client":
            self._terminal.close()
            for found in self._found.values():
                for connection in found.values():
                    connection.ended_s = self._found[flow.name][0].ended_s

    def _has_failed(self, role: str, outcome: Outcome) -> bool:
        # The command's exit code is for its caller.
        return role == "server" and super()._has_failed(role, outcome)

    async def follow(self, name: str) -> None:
        """See `Generator.follow`: however long the command takes."""
        await asyncio.shield(self._ends[name])


def _on_terminal(flow: Flow) -> bool:
    return cast("on_host.Shell", flow.payload).terminal


def _groups(uid: int, gid: int) -> list[int]:
    """The further groups of a user."""
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return []
