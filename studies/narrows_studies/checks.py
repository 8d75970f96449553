# SPDX-License-Identifier: Apache-2.0
"""What a published statement comes down to: which measure of which points, and what must hold of it."""

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
    """Whether a parameter has a value that is asked for; without a condition any value will do."""
    if wanted is None or value is None or isinstance(wanted, str):
        return wanted is None or value == wanted
    found = number(value)
    return found is not None and wanted[0] <= found <= wanted[1]


def meets(point: MeasuredPoint, where: Where) -> bool:
    """Whether a point's parameters are those asked for; a parameter that was not swept meets nothing."""
    values = {**point.parameters, "experiment": point.experiment}
    return all(holds(wanted, values.get(name)) for name, wanted in where.items())


@dataclass(frozen=True)
class Pick:
    """A measure of the points that meet ``where``; ``experiment`` can be a condition like any parameter.

    Attributes:
        measure: its name.
        where: conditions on the points.
        absent: what a run says that does not have the measure: "unknown", nothing, so that it leaves the statement
            undecided; "differs", it was looked for and is not there; or the name of another measure that is a lower
            bound of this one ("never converged": later than the end of the run).
        needs: measure and least value of it below which a run says nothing, such as a number of completions.
        absolute: how far from 0 it is counts, and not on which side.
    """

    measure: str
    where: Where = field(default_factory=dict)
    absent: str = "unknown"
    needs: tuple[str, float] | None = None
    absolute: bool = False


@dataclass(frozen=True, kw_only=True)
class Within:
    """The measure is in [low, high]: its mean over all picked points; with ``each`` its mean at every setting, with
    ``some`` that at one setting or more."""

    pick: Pick
    low: float = -MORE
    high: float = MORE
    each: bool = False
    some: bool = False


@dataclass(frozen=True, kw_only=True)
class Compare:
    """The quotient of the means of two picks is above ``low`` and below ``high``; both are no less than 0. With ``by``
    at each value of that parameter that both have. Two that are no greater than ``resolution`` cannot be compared."""

    left: Pick
    right: Pick
    low: float = 0.0
    high: float = MORE
    by: str = ""
    resolution: float | None = None


@dataclass(frozen=True, kw_only=True)
class Farthest:
    """``left`` is above ``right``, and by more at the value ``at`` of a swept parameter, or without it at the greatest
    one, than at any other."""

    left: Pick
    right: Pick
    over: str
    at: str = ""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """``left`` and ``right`` are nearer to each other at the value ``at`` of a swept parameter than at any other."""

    left: Pick
    right: Pick
    over: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Trend:
    """Along a swept parameter the measure rises (or falls) by ``least`` or more in all, without a step the other way of
    more than ``slack`` of the whole change."""

    pick: Pick
    over: str
    rising: bool
    least: float
    slack: float = 0.25


@dataclass(frozen=True, kw_only=True)
class Straight:
    """Along a swept parameter the measure is no farther than ``tolerance`` from the line between its ends."""

    pick: Pick
    over: str
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Along a swept parameter the measure passes ``level`` between ``low`` and ``high``, and nowhere before: below
    ``low`` it is on one side, at ``high`` on the other. Between points it is interpolated linearly."""

    pick: Pick
    over: str
    level: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """At ``at`` the measure is less (or greater) than at any other value of a swept parameter, on both sides of it;
    ``ends`` allows it to be the first or last value."""

    pick: Pick
    over: str
    at: str
    kind: Literal["least", "greatest"]
    ends: bool = False


@dataclass(frozen=True, kw_only=True)
class Model:
    """At every setting the measure is within ``tolerance`` of a formula's value, which the point holds as a measure."""

    pick: Pick
    expected: str
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Over the values of ``across``, all else equal, the measure's means differ by at most ``most``; with ``relative``
    by that part of the greater one."""

    pick: Pick
    across: str
    most: float
    relative: bool = False


@dataclass(frozen=True, kw_only=True)
class MedianError:
    """The median over all settings of how far the measure is from a formula's value is ``most`` or less."""

    pick: Pick
    expected: str
    most: float


@dataclass(frozen=True, kw_only=True)
class Sometimes:
    """Some runs of those picked have the measure in [low, high]: what is said of runs, and not of their mean.

    One run is enough. If none has it, it fails once enough runs were made that with 95 % confidence fewer than
    ``part`` of all runs have it.
    """

    pick: Pick
    low: float = -MORE
    high: float = MORE
    part: float = 0.1


@dataclass(frozen=True)
class Every:
    """All of several checks."""

    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class AtOneOf:
    """The check holds at one value of a parameter, and the publication does not say at which.

    It is judged at every value that was run; where these do not say the same, ours and theirs cannot be compared.
    """

    over: str
    check: Check


@dataclass(frozen=True)
class Readings:
    """What is published can be read as any of these checks; where they do not say the same it cannot be compared."""

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
    """What a check looks at."""
    if isinstance(check, Every | Readings):
        return tuple(pick for one in check.checks for pick in picks(one))
    if isinstance(check, AtOneOf):
        return picks(check.check)
    return (check.left, check.right) if isinstance(check, Compare | Farthest | Nearest) else (check.pick,)
