# SPDX-License-Identifier: Apache-2.0
"""Checks, to which published statements are reduced: a measure of some points, and the condition that it must meet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from narrows_analysis.study_results import MeasuredPoint

# A parameter's value as written in the experiment file, or a range (least, greatest) of its number.
Condition = str | tuple[float, float]
Where = Mapping[str, Condition]
MORE = float("inf")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def number(value: object) -> float | None:
    """The number that a parameter's value begins with (``0.5bdp``: 0.5); None if there is none."""
    match = _NUMBER.match(str(value).strip())
    return float(match.group()) if match else None


def holds(wanted: Condition | None, value: str | None) -> bool:
    """Whether a parameter's value meets a condition; without a condition any value does."""
    if wanted is None or value is None or isinstance(wanted, str):
        return wanted is None or value == wanted
    found = number(value)
    return found is not None and wanted[0] <= found <= wanted[1]


def meets(point: MeasuredPoint, where: Where) -> bool:
    """Whether a point's parameters meet the conditions; a parameter that was not swept meets none."""
    values = {**point.parameters, "experiment": point.experiment}
    return all(holds(wanted, values.get(name)) for name, wanted in where.items())


@dataclass(frozen=True)
class Pick:
    """A measure of the points that meet ``where``, in which ``experiment`` can be used like a parameter.

    Attributes:
        measure: its name.
        where: conditions on the points.
        absent: what it means if a run does not have the measure. "unknown": nothing, so that the statement is
            undecided; "differs": it was looked for and is not there; or the name of another measure that is a lower
            bound of this one ("never converged": later than the end of the run).
        needs: another measure and its least value; a run with less counts for nothing, such as one of few completions.
        absolute: only the distance from 0 counts, not the sign.
    """

    measure: str
    where: Where = field(default_factory=dict)
    absent: str = "unknown"
    needs: tuple[str, float] | None = None
    absolute: bool = False


@dataclass(frozen=True, kw_only=True)
class Within:
    """The measure is in [low, high]: its mean over all picked points; with ``each`` the mean at every setting, with
    ``some`` that at one setting or more."""

    pick: Pick
    low: float = -MORE
    high: float = MORE
    each: bool = False
    some: bool = False


@dataclass(frozen=True, kw_only=True)
class Compare:
    """The quotient of the means of two picks, which are not negative, is above ``low`` and below ``high``; with ``by``,
    at each value of that parameter that both have. Two means of at most ``resolution`` cannot be compared."""

    left: Pick
    right: Pick
    low: float = 0.0
    high: float = MORE
    by: str = ""
    resolution: float | None = None


@dataclass(frozen=True, kw_only=True)
class Farthest:
    """``left`` is above ``right``, and the distance is largest at the value ``at`` of a swept parameter, or without
    ``at``, at its largest value."""

    left: Pick
    right: Pick
    over: str
    at: str = ""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """``left`` and ``right`` are closer to each other at the value ``at`` of a swept parameter than at any other."""

    left: Pick
    right: Pick
    over: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Trend:
    """Along a swept parameter the measure rises (or falls) by ``least`` or more in total. No step goes the other way by
    more than ``slack`` of the total."""

    pick: Pick
    over: str
    rising: bool
    least: float
    slack: float = 0.25


@dataclass(frozen=True, kw_only=True)
class Straight:
    """Along a swept parameter the measure is within ``tolerance`` of the line between its ends."""

    pick: Pick
    over: str
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Along a swept parameter the measure crosses ``level`` between ``low`` and ``high``, and not before: below ``low``
    it is on one side, at ``high`` on the other. Between points it is interpolated linearly."""

    pick: Pick
    over: str
    level: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """At ``at`` the measure is smaller (or larger) than at any other value of a swept parameter, on both sides of it;
    with ``ends``, it can also be the first or last value."""

    pick: Pick
    over: str
    at: str
    kind: Literal["least", "greatest"]
    ends: bool = False


@dataclass(frozen=True, kw_only=True)
class Model:
    """At every setting the measure is within ``tolerance`` of a formula's value, which is another measure there."""

    pick: Pick
    expected: str
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Over the values of ``across``, all else equal, the measure's means differ by at most ``most``; with ``relative``,
    by at most that part of the larger one."""

    pick: Pick
    across: str
    most: float
    relative: bool = False


@dataclass(frozen=True, kw_only=True)
class MedianError:
    """The median distance, over all settings, of the measure from a formula's value is at most ``most``."""

    pick: Pick
    expected: str
    most: float


@dataclass(frozen=True, kw_only=True)
class Sometimes:
    """Some of the picked runs have the measure in [low, high]: for statements about runs, not about their mean.

    One run is enough. If none has it, the check fails once there are enough runs to say, with 95 % confidence, that
    fewer than ``part`` of all runs have it.
    """

    pick: Pick
    low: float = -MORE
    high: float = MORE
    part: float = 0.1


@dataclass(frozen=True)
class Every:
    """All of these checks."""

    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class AtOneOf:
    """The check holds at one value of a parameter, but the publication does not say at which.

    It is judged at every value that was run; if the results disagree, ours and theirs cannot be compared.
    """

    over: str
    check: Check


@dataclass(frozen=True)
class Readings:
    """The published statement can be read as any of these checks; if their results disagree it cannot be compared."""

    checks: tuple[Check, ...]


Check = (
    Within | Compare | Farthest | Nearest | Trend | Straight | Crossing | Extreme | Model | Spread | MedianError |
    Sometimes | Every | Readings | AtOneOf
)  # fmt: skip


def within(
    measure: str,
    where: Where | None = None,
    low: float = -MORE,
    high: float = MORE,
    each: bool = False,
    some: bool = False,
) -> Within:
    """`Within` of a measure of the points that meet ``where``."""
    return Within(pick=Pick(measure, where or {}), low=low, high=high, each=each, some=some)


def compare(
    measure: str,
    left: Where,
    right: Where,
    low: float = 0.0,
    high: float = MORE,
    by: str = "",
    needs: tuple[str, float] | None = None,
) -> Compare:
    """`Compare` of one measure at two settings."""
    return Compare(
        left=Pick(measure, left, needs=needs), right=Pick(measure, right, needs=needs), low=low, high=high, by=by
    )


def picks(check: Check) -> tuple[Pick, ...]:
    """The measures that a check uses."""
    if isinstance(check, Every | Readings):
        return tuple(pick for one in check.checks for pick in picks(one))
    if isinstance(check, AtOneOf):
        return picks(check.check)
    return (check.left, check.right) if isinstance(check, Compare | Farthest | Nearest) else (check.pick,)
