# SPDX-License-Identifier: Apache-2.0
"""Locks for things that only one run at a time may use; the kernel releases them when their owner ends."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from narrows.errors import RunError


class RunLock:
    """Locks on things by name, among the runs of this machine whose locks are in the same directory."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is there when something is taken; nothing stays in it of what is given back."""
        self._directory = directory
        self._held: dict[Path, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Take all of these; after an error nothing is held any more.

        Raises:
            RunError: another run has one of them; the message names it.
        """
        try:
            for name in sorted(set(names)):
                path = self._directory / f".{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
                while (lock := _lock(path, name)) is None:
                    pass
                self._held[path] = lock
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Let others have them; safe to call twice."""
        held, self._held = self._held, {}
        for path, lock in held.items():
            # Before others can lock it: who has opened it already sees that it is gone.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)


def remove_abandoned(directory: Path) -> None:
    """Remove the files of locks in a directory whose owners were killed."""
    for path in directory.glob(".*.lock"):
        with contextlib.suppress(RunError):
            if (lock := _lock(path, path.name)) is not None:
                path.unlink(missing_ok=True)
                os.close(lock)


def _lock(path: Path, name: str) -> int | None:
    """A descriptor of a locked file; None if its owner removed it at that moment."""
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RunError(f"{name} cannot be reserved: {path}: {error.strerror}") from None
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 32).decode(errors="replace").strip()
            raise RunError(f"{name} is in use by another run (process {owner}); wait for its end") from None
        except OSError as error:  # a file system without locks
            raise RunError(f"{name} cannot be reserved: {path}: {error.strerror}") from None
        links = os.fstat(lock).st_nlink
        if links > 1:
            raise RunError(f"{name} cannot be reserved: {path} is a link; remove it")
        if links == 1:
            os.truncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            undo.pop_all()
            return lock
    return None
