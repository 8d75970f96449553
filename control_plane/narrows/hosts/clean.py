# SPDX-License-Identifier: Apache-2.0
"""Removal of what killed runs left on this machine (`narrows clean`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narrows.errors import RunError
from narrows.hosts.run_lock import RunLock, remove_abandoned
from narrows.hosts.state import STATE_ROOT, Left, RunState, dead_runs

# For another one: a run's processes may take five seconds, and there may be some runs.
CLEAN_WAIT_S = 60.0


def clean_dead_runs(root: Path = STATE_ROOT) -> tuple[list[str], list[str]]:
    """Remove what killed runs left, of each as much as can be.

    Returns:
        What was removed, and what could not be, whose record stays.
    """
    removed: list[str] = []
    left = Left()
    with left.what_fails(), _one_at_a_time(root):
        for state in dead_runs(root):
            with left.what_fails():
                removed += state.destroy()
                removed.append(f"record of run {state.run_id}")
        removed += [f"record of a run that was not finished {path}" for path in _unfinished_records(root)]
        remove_abandoned(root)
    return removed, left.problems


@contextmanager
def _one_at_a_time(root: Path) -> Iterator[None]:
    """Waits for another `narrows clean`: each would find that what it removes is gone.

    Raises:
        RunError: the other one does not end.
    """
    lock, deadline = RunLock(root), time.monotonic() + CLEAN_WAIT_S
    # Where nothing can be removed, none is needed.
    while os.access(root, os.W_OK):
        try:
            lock.take(["narrows clean"])
            break
        except RunError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.give_back()


def _unfinished_records(root: Path) -> Iterator[Path]:
    """Records that were being written when their owner was killed; they are removed."""
    for path in sorted(root.glob(".*.json.*.unfinished")):
        run_id = path.name.split(".")[1]
        if not RunState(run_id, owner_pid=0, owner_start=0, root=root).alive:
            path.unlink(missing_ok=True)
            yield path
