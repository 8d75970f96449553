# SPDX-License-Identifier: Apache-2.0
"""What runs the command of a shell on its host: as the invoking user, with our standard files and terminal.

Used as ``foreground.py SPECIFICATION``, like `narrows.onhost.program`, whose events it sends, and `ProgramSuspended`,
after which SIGUSR1 lets the command go on. It is in our session, since that is what a terminal belongs to, and in a
process group of its own. Only the standard library is used.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.program import (
        LIBRARY,
        Program,
        ProgramSpecification,
        ProgramSuspended,
        Supervisor,
        own_processes,
        say,
    )  # fmt: skip
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from program import LIBRARY, Program, ProgramSpecification, ProgramSuspended, Supervisor, own_processes, say

ANYWHERE = "0.0.0.0"  # as in narrows_formats.flow_names, which is not on every host
RESOLVER = "/etc/resolv.conf"
MS_BIND = 0x1000  # linux/mount.h
# What we ignore or take, and a command has as usual.
USUAL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True)
class Shell(Program):
    """One direction of what a command and its peers send.

    With ``terminal`` the client has our standard files, terminal and environment; with ``anywhere`` its peers are
    behind a gateway, at any address.
    """

    kind = "shell"
    made_by = "shell"
    ends_the_run = True
    terminal: bool = False
    anywhere: bool = False

    def ends(self, src: str, dst: str) -> tuple[str, str]:
        """See `Payload.ends`."""
        if not self.anywhere:
            return src, dst
        return (ANYWHERE, dst) if self.sends == "server" else (src, ANYWHERE)


@wire.message
@dataclass
class TerminalSpecification(ProgramSpecification):
    """A command with our ``files`` (descriptors) and ``terminal``, None where we are not in its foreground.

    Of ``changed`` variables of our environment, None removes one. ``resolver`` is read in place of the resolver's file.
    """

    changed: dict[str, str | None]
    files: list[int]
    terminal: int | None
    resolver: str | None


class OnTerminal(Supervisor):
    """A command in the foreground of a terminal, or with files in its place."""

    # A shell does not heed SIGTERM; this is what it hears when its terminal is closed.
    first_signal = signal.SIGHUP
    # It heeds what comes while it waits for a line: a signal just before that is noted, and the line waited for.
    asks_again = True

    def __init__(self, spec: TerminalSpecification) -> None:
        """Take what is to be run."""
        super().__init__(spec)
        self._files_here = spec.files
        self._changed = spec.changed
        self._terminal = spec.terminal
        # A process that is not in the foreground, as this one, would be stopped by what it does to a terminal.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, lambda *_: self.stop())
        signal.signal(signal.SIGUSR1, lambda *_: self._go_on())

    def _popen(self, at_s: float) -> subprocess.Popen[bytes]:
        spec = self._spec
        env = {name: value for name, value in {**os.environ, **self._changed}.items() if value is not None}

        def take_terminal() -> None:
            self._become_user()
            os.setpgid(0, 0)
            time.sleep(max(0.0, at_s - time.monotonic()))
            if self._terminal is not None:
                os.tcsetpgrp(self._terminal, os.getpgrp())
            for number in USUAL:
                signal.signal(number, signal.SIG_DFL)

        stdin, stdout, stderr = self._files_here
        return subprocess.Popen(
            spec.words, cwd=spec.cwd, env=env, preexec_fn=take_terminal, stdin=stdin, stdout=stdout, stderr=stderr,
            **self._user(),
        )  # fmt: skip

    def _note_stop(self, number: int) -> None:
        say(ProgramSuspended(signal.Signals(number).name))

    def _go_on(self) -> None:
        """Continue the command, in the foreground if no other process group has its terminal."""
        if self._terminal is not None:
            os.tcsetpgrp(self._terminal, self._pid)
        os.killpg(self._pid, signal.SIGCONT)


def use_resolver(path: str) -> None:
    """Have programs of this mount namespace read another file in place of the resolver's.

    Raises:
        OSError: the kernel refuses.
    """
    if LIBRARY.mount(path.encode(), RESOLVER.encode(), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), f"{RESOLVER} cannot be replaced: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    specification: TerminalSpecification = wire.loads(Path(sys.argv[1]).read_text())
    own_processes()
    if specification.resolver is not None:
        use_resolver(specification.resolver)
    OnTerminal(specification).run()
