# SPDX-License-Identifier: Apache-2.0
"""Mahimahi's traces: whole milliseconds, one a line, each an opportunity to deliver 1504 bytes; the last is the period.

Source: ravinet/mahimahi, src/frontend/link_queue.cc.
"""

from __future__ import annotations

from collections import Counter

from narrows_formats.schedules import MILLISECOND, OPPORTUNITY_BITS, Opportunities, RateSteps

from narrows.experiment.traces.base import TraceError


def read(text: str) -> tuple[int, ...]:
    """The opportunities in nanoseconds.

    Raises:
        TraceError: a line is not such a number, they descend, or the last one is 0.
    """
    stamps: list[int] = []
    for line, word in enumerate(text.splitlines(), 1):
        if not (word.isascii() and word.isdecimal()):
            if len(words := word.split()) > 2 and all(one.isdecimal() for one in words):
                problem = f"line {line} is of CellReplay's trace for light load, and a link has one capacity"
                raise TraceError(problem, "one recording, whatever the load")
            raise TraceError(f"line {line} is not a whole number of milliseconds", "one in each line, no empty line")
        stamps.append(int(word))
        if line > 1 and stamps[-1] < stamps[-2]:
            raise TraceError(f"line {line} is earlier than the one before it", "stamps that do not descend")
    if not stamps or stamps[-1] == 0:
        raise TraceError("the last line is the period, and it is missing or 0", "more than 0 ms")
    return tuple(stamp * MILLISECOND for stamp in stamps)


def moved(at_ns: tuple[int, ...], offset_ns: int) -> Opportunities:
    """The same opportunities, looped, from ``offset_ns`` of the trace on.

    Raises:
        TraceError: no opportunity is there, so that the round would not end with one.
    """
    if offset_ns == 0:
        return Opportunities(at_ns)
    if offset_ns not in at_ns:
        raise TraceError("has an offset at which there is no opportunity", "the time of one, or as: rate")
    # What comes at the offset itself ends a round: nothing that is there at the start is in time for it.
    later = [at - offset_ns for at in at_ns if at > offset_ns]
    return Opportunities((*later, *(at - offset_ns + at_ns[-1] for at in at_ns if at <= offset_ns)))


def as_rate(at_ns: tuple[int, ...], bin_ns: int) -> RateSteps:
    """The rate of each bin: its opportunities, the one at its end counted and that at its start not.

    One at 0 counts in the last bin, since it comes with the last one of the round before. The last bin is shorter where
    the period is not a multiple of ``bin_ns``.
    """
    period = at_ns[-1]
    counts = Counter(((at or period) - 1) // bin_ns for at in at_ns)
    starts = range(0, period, bin_ns)
    lengths = [min(bin_ns, period - start) for start in starts]
    steps = [
        (start, round(counts[number] * OPPORTUNITY_BITS * 1_000_000_000 / length))
        for number, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    return RateSteps(tuple(steps), period)
