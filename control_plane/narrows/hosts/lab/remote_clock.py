# SPDX-License-Identifier: Apache-2.0
"""The monotonic clock of another machine against ours, so that flows there start at their time."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import IO

from narrows import python
from narrows.errors import RunError
from narrows.hosts.lab.inventory import Nic
from narrows.hosts.lab.ssh import machine_command
from narrows.hosts.process import piped

READINGS = 20
LIMIT_S = 30.0
_ANSWER = "import sys, time\nfor _ in sys.stdin: print(repr(time.monotonic()), flush=True)"


def offset_s(machine: Nic) -> float:
    """A machine's monotonic clock minus ours, wrong by at most half the shortest of `READINGS` round trips.

    Raises:
        RunError: the machine cannot be reached, or has no Python.
    """
    if machine.ssh is None:
        return 0.0
    process = subprocess.Popen(
        machine_command(machine, python.elsewhere("-c", _ANSWER)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # A connection that hangs must not hold the run up for ever.
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.start()
    try:
        best = min(_reading(piped(process.stdin), piped(process.stdout)) for _ in range(READINGS))
    except (OSError, ValueError):
        process.kill()
        words = process.communicate()[1].strip()
        raise RunError(f"{machine.name}: its clock cannot be read: {words or 'no answer'}") from None
    finally:
        limit.cancel()
    process.communicate()
    return best[1]


def _reading(asked: IO[str], answered: IO[str]) -> tuple[float, float]:
    """Round trip and offset of one reading."""
    before = time.monotonic()
    asked.write("\n")
    asked.flush()
    there = float(answered.readline())
    after = time.monotonic()
    return after - before, there - (before + after) / 2
