# SPDX-License-Identifier: Apache-2.0
"""How a guest ended, and what that makes of its run."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from narrows.errors import Interrupted, RunError
from narrows.run.measured import GuestUse, Measured
from narrows.run.stepping import DRIVER_ENDED
from narrows.virtual import guest_supervisor, messages
from narrows.virtual.guard import Guarded

# A program that takes more processor time than that for each second of virtual time is named at the end.
NOTED_CPU_S = 10.0


@dataclass(frozen=True)
class GuestEnding:
    """All that is known of a guest that has ended.

    ``said`` is its last word about the run, None without one; ``killed``: a second signal ended it; ``out_of_memory``
    are the processes that its kernel ended for want of its ``memory_bytes``; ``tail`` is the end of its console.
    """

    said: messages.Ending | None
    code: int
    was_up: bool
    killed: bool
    driver_ended: bool
    guarded: Guarded
    memory_bytes: int
    out_of_memory: tuple[str, ...]
    tail: str
    started: datetime
    ended: datetime
    wall_s: float


def measured_in(ending: GuestEnding, found: Path) -> Measured:
    """What the guest measured and wrote to ``found``, with what the guest's end has to do with it.

    Raises:
        RunError: it failed before any traffic flowed, or the guest did not end well.
        asyncio.CancelledError: a signal stopped it before any traffic flowed.
    """
    full, guarded = _full_memory(ending), ending.guarded
    if guarded.still:
        raise RunError("\n".join((*full, f"{guarded.still}; the guest was ended{ending.tail}")))
    if isinstance(ending.said, messages.Interrupted):
        raise asyncio.CancelledError
    if ending.killed and not isinstance(ending.said, messages.Completed):
        raise Interrupted("the guest was ended before it could end by itself; nothing was kept")
    if isinstance(ending.said, messages.Failed):
        raise RunError("\n".join((*guarded.spun[:1], *full, ending.said.why)))
    if ending.said is None:
        raise RunError("\n".join((*full, f"{how_it_ended(ending.code, ending.was_up)}{ending.tail}")))
    measured: Measured = pickle.loads(found.read_bytes())
    use = GuestUse(ending.wall_s, guarded.cpu_s, guarded.programs_cpu_s, ending.said.virtual_s)
    notes = (*measured.notes, *_slow_programs(use))
    # The guest's calendar is one of its own.
    measured = replace(measured, started=ending.started, ended=ending.ended, notes=notes, guest=use)
    return _judged(measured, ending, full)


def _judged(measured: Measured, ending: GuestEnding, full: list[str]) -> Measured:
    """The run failed where the guest, or a program in it, did not end by itself."""
    spun = ending.guarded.spun
    if ending.driver_ended:
        # The signal that ended it was not the user's.
        measured = replace(measured, status="failed", reasons=(DRIVER_ENDED,))
    if full:
        measured = replace(measured, status="failed", reasons=(*full, *measured.reasons))
    if not spun:
        return measured
    followed = () if ending.guarded.ended_traffic else measured.reasons
    return replace(measured, status="failed", reasons=(spun[0], *followed))


def _full_memory(ending: GuestEnding) -> list[str]:
    """In a sentence, what the guest's kernel did for want of memory; nothing if there was enough."""
    full = f"the guest's memory of {ending.memory_bytes >> 20} MB was full, and its kernel"
    if ending.out_of_memory:
        names = ", ".join(f"'{name}'" for name in dict.fromkeys(ending.out_of_memory))
        return [f"{full} killed {names}"]
    # It kills nothing while there are pages of files to drop, though programs read them again at once.
    return [f"{full} did little but make room in it"] if ending.guarded.short_of_memory else []


def _slow_programs(use: GuestUse) -> Iterator[str]:
    """Notes about programs that took much of this machine."""
    for name, used_s in use.programs_cpu_s.items():
        each_s = used_s / use.virtual_s
        if each_s > NOTED_CPU_S:
            yield (
                f"the program '{name}' took about {used_s:.0f} s of this machine's processor time, {each_s:.0f} s "
                "for each second of virtual time: what polls a clock, or computes much, makes runs long"
            )


def how_it_ended(code: int, was_up: bool) -> str:
    """What became of a guest that did not say so itself."""
    number = code - guest_supervisor.SIGNALLED
    # A kernel that gives up ends like a program that does.
    if number in set(signal.Signals) and number != signal.SIGABRT:
        return f"the guest was ended by {signal.Signals(number).name}"
    return "the guest's kernel failed" if was_up else "the guest does not boot"
