# SPDX-License-Identifier: Apache-2.0
"""Reads cells of registers of a user's program while traffic flows."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.targets.base import Target


@dataclass(frozen=True)
class Reading:
    """Values of all watched cells, in their order, so many seconds after the experiment's start."""

    time_s: float
    values: tuple[int, ...]


class Watch:
    """The readings of one run."""

    def __init__(self, target: Target, interval_ns: int) -> None:
        """Nothing is read before `run`."""
        self._target = target
        self._interval_ns = interval_ns
        self.readings: list[Reading] = []

    async def run(self, t0_s: float, clock_offset_ns: int | None) -> None:
        """Read at every multiple of the interval, until it is cancelled.

        In virtual time a reading is of its exact nanosecond. In real time it is dated by the middle of its request, and
        what was due while that took long is left out.

        Args:
            t0_s: monotonic time of the experiment's start.
            clock_offset_ns: the switch's clock minus that clock.

        Raises:
            RunError: the switch does not answer, or its clock cannot be read.
        """
        await (self._read_halted if self._target.pausable else self._read)(t0_s, clock_offset_ns)

    async def _read_halted(self, t0_s: float, clock_offset_ns: int | None) -> None:
        if clock_offset_ns is None:
            raise RunError("registers are watched, and the switch's clock cannot be read")
        start_ns = round(t0_s * NANOSECONDS) + clock_offset_ns
        try:
            for at_ns in itertools.count(0, self._interval_ns):
                await self._target.pause(start_ns + at_ns)
                self.readings.append(Reading(at_ns / NANOSECONDS, tuple(await self._target.read_watched())))
        finally:
            await self._target.pause(None)

    async def _read(self, t0_s: float, _clock_offset_ns: int | None) -> None:
        interval_s = self._interval_ns / NANOSECONDS
        due_s = t0_s
        while True:
            await asyncio.sleep(due_s - time.monotonic())
            asked_s = time.monotonic()
            values = tuple(await self._target.read_watched())
            self.readings.append(Reading((asked_s + time.monotonic()) / 2 - t0_s, values))
            due_s += (max(0, int((time.monotonic() - due_s) / interval_s)) + 1) * interval_s
