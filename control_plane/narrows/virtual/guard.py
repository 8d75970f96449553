# SPDX-License-Identifier: Apache-2.0
"""The guard of a guest's clock: it tells how time passes inside, and ends what keeps it from passing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.run.progress import RunProgress
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel
from narrows.virtual.watch import Watch, cpu_s

PACE_EVERY_S = 0.5
# How long a phase takes is estimated once this part of it has passed: connections begin at one instant, of which each
# takes as long as a second later on.
PACE_KNOWN = 0.01
# A guest is up after a second or two of processor time, for which a machine with other work may take minutes.
BOOT_CPU_S = 60.0
# A guest tells that it is up within a second; from then on, or from here on, its clock is watched.
SOON_S = 5.0
# A user's program that keeps time from passing gets a signal that a guest's kernel passes on to it, at first after
# `watch.STILL_CPU_S` of processor time, and any that does so after it soon, but no more of them than that.
SPIN_SIGNAL, SPINS_AGAIN_CPU_S, MOST_SPINS = signal.SIGILL, 1.0, 60
# The run ends by itself when a program of a flow has ended so; whatever else spun, it ends that long after.
SPUN_END_S = 3.0


@dataclass(frozen=True)
class Guarded:
    """What a guard saw of a guest and did to it: why the guest was ended (``still``, empty: it was not) and whether its
    memory was full then, what users' programs spun, and whether the run's traffic was ended for one. Times are seconds
    of processor time."""

    still: str = ""
    short_of_memory: bool = False
    spun: tuple[str, ...] = ()
    ended_traffic: bool = False
    cpu_s: float = 0.0
    programs_cpu_s: dict[str, float] = field(default_factory=dict)


class Guard:
    """Of one guest, from its start to its end."""

    def __init__(self, kernel: Kernel, guest: Guest, progress: RunProgress) -> None:
        """Nothing is looked at before `follow`; the pace of a phase that takes a time goes to ``progress``."""
        self._kernel = kernel
        self._guest = guest
        self._progress = progress
        self._watch: Watch | None = None
        self._still, self._short_of_memory = "", False
        self._spun: list[str] = []
        self._traffic_flows = self._ended_traffic = False
        # Of a phase that takes a time: its start by the guest's clock and by ours, and how long it takes.
        self._paced: tuple[int, float, float] | None = None

    @property
    def guarded(self) -> Guarded:
        """What there is to say of the guest until now."""
        watch = self._watch
        used = (0.0, {}) if watch is None else (watch.cpu_s, dict(watch.programs_s))
        return Guarded(self._still, self._short_of_memory, tuple(self._spun), self._ended_traffic, *used)

    def phase(self, total_s: float | None, traffic_flows: bool) -> None:
        """A phase of the run begins in the guest; it takes ``total_s`` of its time, if that is known."""
        self._traffic_flows, self._paced = traffic_flows, None
        if total_s and self._watch is not None:
            self._paced = (self._watch.now_ns, time.monotonic(), total_s)

    def over(self) -> None:
        """The guest ends: nothing is said to it any more."""
        self._traffic_flows = False

    def pause(self, is_paused: bool) -> None:
        """The guest waits for its driver, or does not any more: no time passes meanwhile."""
        if self._watch is not None:
            self._watch.paused = is_paused

    async def follow(self, up: asyncio.Event) -> None:
        """Tell how time passes inside, and end the guest when it does not, even before it is ``up``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(up.wait(), SOON_S)
        if (pid := self._guest.pid) is None:
            return
        try:
            self._watch = Watch(self._kernel, pid)
        except RunError as error:
            if self._guest.pid is not None:
                self._end(str(error))
            return
        looking = asyncio.create_task(self._watch.until_still())
        try:
            while True:
                await asyncio.wait((looking,), timeout=PACE_EVERY_S)
                if not up.is_set() and cpu_s(pid) > BOOT_CPU_S:
                    self._end(f"the guest is not up after {BOOT_CPU_S:g} s of processor time")
                    return
                self._tell_pace(self._watch.now_ns)
                if not looking.done():
                    continue
                if (still := looking.result()) is None:
                    return
                if still.program is None or len(self._spun) == MOST_SPINS:
                    self._short_of_memory = still.short_of_memory
                    self._end(still.why)
                    return
                self._end_program(still.why, still.program)
                looking = asyncio.create_task(self._watch.until_still(SPINS_AGAIN_CPU_S))
        finally:
            looking.cancel()
            self._watch.close()

    def _end_program(self, why: str, program: int) -> None:
        """End a user's program that keeps time from passing, and with it, in order, the run."""
        self._spun.append(why)
        # It may have ended meanwhile.
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, SPIN_SIGNAL)
        if len(self._spun) == 1:
            asyncio.get_running_loop().call_later(SPUN_END_S, self._end_traffic)

    def _end_traffic(self) -> None:
        if self._traffic_flows:
            self._ended_traffic = True
            self._guest.say(signal.SIGTERM.name)

    def _end(self, why: str) -> None:
        self._still = why
        self._guest.kill()

    def _tell_pace(self, now_ns: int) -> None:
        if self._paced is None:
            return
        began_ns, began, total_s = self._paced
        time_s, wall_s = (now_ns - began_ns) / NANOSECONDS, time.monotonic() - began
        if time_s < total_s:
            remaining_s = None if time_s < PACE_KNOWN * total_s else wall_s / time_s * (total_s - time_s)
            self._progress.pace(max(0.0, time_s), total_s, remaining_s)
