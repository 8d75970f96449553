# SPDX-License-Identifier: Apache-2.0
"""Stops a guest's time while it waits for the outside.

A guest in which everything sleeps jumps to its next timer. A process of the lowest class that is never asleep keeps it
from that, and gives way to every other one at once. It takes a processor only until the outside, which learns that it
is waited for, halts the whole guest.
"""

from __future__ import annotations

import mmap
import os


class ClockPause:
    """That process; made before there are threads, and gone with the guest."""

    def __init__(self) -> None:
        """Start it, asleep."""
        self._wanted = mmap.mmap(-1, mmap.PAGESIZE)
        asleep, self._wake = os.pipe()
        if os.fork() == 0:
            os.close(self._wake)
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            while os.read(asleep, 1):
                # Any call into the kernel gives way. It reads no clock, and is not sched_yield: either takes time in a
                # guest, the latter a tick of the scheduler's clock, and how many there are is up to this machine.
                while self._wanted[0]:
                    os.getppid()
            os._exit(0)
        os.close(asleep)

    def begin(self) -> None:
        """Let no time pass from now on."""
        self._wanted[0] = 1
        os.write(self._wake, b"\0")

    def end(self) -> None:
        """Let time pass again when everything sleeps."""
        self._wanted[0] = 0
