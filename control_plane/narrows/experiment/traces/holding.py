# SPDX-License-Identifier: Apache-2.0
"""From rates at times to steps: from when to when each rate holds, which formats leave open."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Literal

from narrows_formats.schedules import RateSteps
from narrows_formats.units import about_time, format_time

from narrows.experiment.traces.base import RatePoint, TraceError, median_ns

Duplicates = Literal["first", "last", "mean"]


def distinct(points: list[RatePoint], duplicates: Duplicates | None) -> list[RatePoint]:
    """One rate a time: those that share one are refused, or distinguished as it is asked for.

    Raises:
        TraceError: times descend, or two are the same and nothing says which rate holds.
    """
    for before, after in pairwise(points):
        if after.time_ns < before.time_ns:
            raise TraceError(f"{after.where} is earlier than {before.where}", "times that ascend")
        if after.time_ns == before.time_ns and duplicates is None:
            allowed = "duplicates: first, last or mean, or times that ascend"
            raise TraceError(f"{after.where} has the time of {before.where}", allowed)
    return [_one(list(same), duplicates) for _, same in groupby(points, key=lambda point: point.time_ns)]


def _one(same: list[RatePoint], duplicates: Duplicates | None) -> RatePoint:
    if duplicates == "mean":
        mean = round(Fraction(sum(point.rate_bps for point in same), len(same)))
        return RatePoint(same[0].time_ns, mean, same[0].where)
    return same[-1] if duplicates == "last" else same[0]


def steps(points: list[RatePoint], holds: Literal["from", "until"], start_at_zero: bool, loop: bool) -> RateSteps:
    """The schedule of rates at times.

    ``from``: each rate holds from its time on; looped, the last time is the period, and its rate is used by nothing.
    ``until``: each holds up to its time, and the first is used by nothing; the last time is the period.

    Raises:
        TraceError: there are fewer than two, or the first time is not 0 and ``start_at_zero`` is not set.
    """
    if len(points) < 2:
        raise TraceError("has fewer than two times", "two or more")
    first = points[0].time_ns
    if first and not start_at_zero:
        raise TraceError(f"{points[0].where} is at {format_time(first)}, not at 0", "start_at_zero: true, or a 0 there")
    times = [point.time_ns - first for point in points]
    rates = [point.rate_bps for point in (points if holds == "from" else points[1:])]
    if loop:
        return RateSteps(tuple(zip(times[:-1], rates, strict=False)), times[-1])
    return RateSteps(tuple(zip(times, rates, strict=False)))


def moved(schedule: RateSteps, offset_ns: int) -> RateSteps:
    """The schedule from ``offset_ns`` after its start on.

    Raises:
        TraceError: it ends before.
    """
    if offset_ns == 0:
        return schedule
    if schedule.period_ns is not None and offset_ns >= schedule.period_ns:
        raise TraceError("has an offset that is not before its end", f"less than {format_time(schedule.period_ns)}")
    before = [step for step in schedule.steps if step[0] <= offset_ns]
    after = [(start - offset_ns, rate) for start, rate in schedule.steps if start > offset_ns]
    found = [(0, before[-1][1]), *after]
    if schedule.period_ns is None:
        return RateSteps(tuple(found))
    rest = schedule.period_ns - offset_ns
    # The step that the offset divides ends the round with its first part.
    found += [(start + rest, rate) for start, rate in before if start < offset_ns]
    return RateSteps(tuple(found), schedule.period_ns)


def scaled(schedule: RateSteps, factor: Fraction) -> RateSteps:
    """The schedule with all rates times a factor, to the nearest bit/s."""
    return RateSteps(tuple((start, round(rate * factor)) for start, rate in schedule.steps), schedule.period_ns)


def notes(given: list[RatePoint], points: list[RatePoint]) -> Iterator[str]:
    """What a reader of the file might not expect.

    Args:
        given: all that the file has.
        points: of them those of distinct times.
    """
    if len(points) < len(given):
        yield f"{len(given) - len(points)} of its {len(given)} rates have the time of another"
    zeros = [point for point in points if point.rate_bps == 0]
    if zeros:
        rates = "rates" if len(zeros) > 1 else "rate"
        yield f"has {len(zeros)} {rates} of 0 (the first in {zeros[0].where}): nothing passes then"
    usual = median_ns([after.time_ns - before.time_ns for before, after in pairwise(points)])
    gaps = [
        (after.time_ns - before.time_ns, after) for before, after in pairwise(points)
        if after.time_ns - before.time_ns > 2 * usual
    ]  # fmt: skip
    if gaps:
        longest, where = max(gaps, key=lambda gap: gap[0])
        yield (
            f"has {len(gaps)} {'gaps' if len(gaps) > 1 else 'gap'} of more than twice the usual {about_time(usual)}, "
            f"over which one rate holds; the longest, {about_time(longest)}, ends in {where.where}"
        )
