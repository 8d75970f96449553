# SPDX-License-Identifier: Apache-2.0
"""What one run at a time may use: a lock that the kernel takes back when its owner ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from narrows.errors import RunError


class Exclusive:
    """Locks on things by name, among the runs of this machine whose locks are in the same directory."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is there when something is taken."""
        self._directory = directory
        self._held: list[int] = []

    def take(self, names: Iterable[str]) -> None:
        """Take all of these; after an error nothing is held any more.

        Raises:
            RunError: another run has one of them; the message names it.
        """
        for name in sorted(set(names)):
            path = self._directory / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
            lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._held.append(lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = os.read(lock, 32).decode(errors="replace").strip()
                self.give_back()
                raise RunError(f"{name} is in use by another run (process {owner}); wait for its end") from None
            os.truncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)

    def give_back(self) -> None:
        """Let others have them; safe to call twice."""
        held, self._held = self._held, []
        for lock in held:
            with contextlib.suppress(OSError):
                os.close(lock)
