# SPDX-License-Identifier: Apache-2.0
"""How many runs a machine can hold at once without one disturbing another, and a processor for each."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# The switch, the collector, the senders and the receiver of a run can each keep a processor busy.
CPUS_A_RUN = 4


def most_at_once(cpus: int, load: float) -> int:
    """How many runs the machine can hold: one for every four processors that nothing else uses, one at least.

    Args:
        cpus: processors that may be used.
        load: mean number of runnable processes before the study.
    """
    return max(1, int((cpus - load) // CPUS_A_RUN))


def this_machine() -> int:
    """`most_at_once` of this machine, now."""
    return most_at_once(len(os.sched_getaffinity(0)), os.getloadavg()[0])


@contextmanager
def own_processor() -> Iterator[int | None]:
    """Put this thread, and what it starts, on a processor that no other run holds; on any of them if all are held.

    A guest in virtual time is one processor's work, and chooses the last one that it may use: without this all of them
    would choose the same. A process that dies gives its processor back.
    """
    allowed = os.sched_getaffinity(0)
    for processor in sorted(allowed, reverse=True):
        path = Path(tempfile.gettempdir()) / f"narrows-{os.getuid()}-processor-{processor}"
        with path.open("w") as lock:
            if not _taken(lock):
                continue
            os.sched_setaffinity(0, {processor})
            try:
                yield processor
            finally:
                os.sched_setaffinity(0, allowed)
            return
    yield None


def _taken(lock: IO[str]) -> bool:
    """Whether a lock was free, and is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
