# SPDX-License-Identifier: Apache-2.0
"""From a statement and measured points to a verdict: pure functions of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from narrows_analysis.studies.confidence import Estimate, estimate
from narrows_analysis.studies.model import (
    Check,
    Compare,
    Crossing,
    Dip,
    Farthest,
    Model,
    Pick,
    Point,
    Spread,
    Statement,
    Trend,
    Unit,
    Within,
    number,
)

Verdict = Literal["agrees", "differs", "not run here"]
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Finding:
    """A verdict, what it is based on (``ours``), and the settings with the measures that go with a difference."""

    statement: Statement
    verdict: Verdict
    ours: str
    evidence: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _NotRun(Exception):
    """The points that a check needs are not there; says what is missing."""


def evaluate(statement: Statement, points: Sequence[Point]) -> Finding:
    """Judge a statement by the points of its figure's experiment."""
    try:
        agrees, ours = _judge(statement.check, points, lambda value: show(value, statement.unit))
    except _NotRun as missing:
        return Finding(statement, "not run here", str(missing))
    if agrees:
        return Finding(statement, "agrees", ours)
    return Finding(statement, "differs", ours, _evidence(statement, points))


def show(value: float | Estimate | None, unit: Unit) -> str:
    """A value in its unit, with the half-width of its confidence interval if it has one."""
    if value is None:
        return "-"
    if isinstance(value, Estimate):
        half = value.half_width
        text = show(value.mean, unit)
        return text if half is None else f"{text} (+-{show(half, unit)}, n={value.count})"
    scale = {"%": 100.0, "Mbit/s": 1e-6}.get(unit, 1.0)
    text = f"{value * scale:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else f"{text}x"


def settings(pick: Pick, points: Sequence[Point]) -> dict[Key, Estimate]:
    """Mean over the repetitions at each setting that a pick selects; settings without the measure are left out."""
    values: dict[Key, list[float]] = {}
    for point in points:
        value = point.measures.get(pick.measure)
        if value is not None and point.meets(pick.where):
            values.setdefault(tuple(sorted(point.parameters.items())), []).append(value)
    found = {key: estimate(list_of) for key, list_of in values.items()}
    return {key: value for key, value in found.items() if value is not None}


def _picked(pick: Pick, points: Sequence[Point]) -> dict[Key, Estimate]:
    found = settings(pick, points)
    if not found:
        conditions = ", ".join(f"{name} {_condition(wanted)}" for name, wanted in pick.where.items())
        raise _NotRun(f"no point with {pick.measure}" + (f" at {conditions}" if conditions else ""))
    return found


def _condition(wanted: object) -> str:
    return f"{wanted[0]:g} to {wanted[1]:g}" if isinstance(wanted, tuple) else str(wanted)


def _mean(pick: Pick, points: Sequence[Point]) -> Estimate:
    found = list(_picked(pick, points).values())
    if len(found) == 1:
        return found[0]
    return Estimate(sum(value.mean for value in found) / len(found), None, sum(value.count for value in found))


def _judge(check: Check, points: Sequence[Point], shown: Callable[[float | Estimate], str]) -> tuple[bool, str]:
    match check:
        case Within(pick, low, high, each, must_exist, some):
            if must_exist and not settings(pick, points) and any(point.meets(pick.where) for point in points):
                return False, "none"
            if not each and not some:
                mean = _mean(pick, points)
                return low <= mean.mean <= high, shown(mean)
            found = _picked(pick, points)
            inside = [low <= value.mean <= high for value in found.values()]
            return all(inside) if each else any(inside), _list(found, shown)
        case Compare(left, right, low, high):
            one, other = _mean(left, points), _mean(right, points)
            if other.mean == 0:
                return (one.mean > 0 and high == float("inf")), f"{shown(one)} against {shown(other)}"
            quotient = one.mean / other.mean
            return low <= quotient <= high, f"{shown(one)} against {shown(other)} (quotient {quotient:.3g})"
        case Farthest(left, right, over):
            ends = dict(_along(_picked(right, points), over))
            apart = [(x, y - ends[x]) for x, y in _along(_picked(left, points), over) if x in ends]
            if len(apart) < 2:
                raise _NotRun(f"fewer than two values of {over}")
            others = max(difference for _, difference in apart[:-1])
            return apart[-1][1] > max(0.0, others), f"apart by {_line(apart, shown)}"
        case Trend(pick, over, rising, least, slack):
            line = _along(_picked(pick, points), over)
            return _rises(line if rising else [(x, -y) for x, y in line], least, slack), _line(line, shown)
        case Crossing(pick, over, level, low, high):
            line = _along(_picked(pick, points), over)
            where = crossing(line, level)
            ours = "never" if where is None else f"at {where:.3g}"
            return where is not None and low <= where <= high, f"{ours} ({_line(line, shown)})"
        case Dip():
            return _dips(check, points, shown)
        case Model():
            return _as_modelled(check, points, shown)
        case Spread(pick, across, most):
            widest = _widest(_picked(pick, points), across)
            return widest <= most, f"at most {shown(widest)} apart"
    raise TypeError(f"{check!r} is no check")


def _list(found: dict[Key, Estimate], shown: Callable[[float | Estimate], str]) -> str:
    return "; ".join(f"{describe(key)}{shown(value)}" for key, value in found.items())


def describe(key: Key) -> str:
    """A setting in words, with a colon behind it if there are any."""
    text = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in key)
    return f"{text}: " if text else ""


def _along(found: dict[Key, Estimate], over: str) -> list[tuple[float, float]]:
    """Mean of the measure at each number of a parameter, over all other parameters; two at least."""
    values: dict[float, list[float]] = {}
    for key, value in found.items():
        position = number(dict(key).get(over, ""))
        if position is not None:
            values.setdefault(position, []).append(value.mean)
    if len(values) < 2:
        raise _NotRun(f"fewer than two values of {over}")
    return [(position, sum(values[position]) / len(values[position])) for position in sorted(values)]


def _line(line: list[tuple[float, float]], shown: Callable[[float | Estimate], str]) -> str:
    return ", ".join(f"{x:g}: {shown(y)}" for x, y in line)


def _rises(line: list[tuple[float, float]], least: float, slack: float) -> bool:
    change = line[-1][1] - line[0][1]
    backwards = max(a[1] - b[1] for a, b in itertools.pairwise(line))
    return change >= least and change > 0 and backwards <= slack * change


def crossing(line: Sequence[tuple[float, float]], level: float) -> float | None:
    """Where a line of (x, y), ascending in x, first crosses a level; None if it stays on one side."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if (y0 - level) * (y1 - level) <= 0 and y0 != y1:
            return x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    return None


def _dips(check: Dip, points: Sequence[Point], shown: Callable[[float | Estimate], str]) -> tuple[bool, str]:
    found = _picked(check.pick, points)
    places: list[tuple[str, float]] = []
    texts = []
    good = True
    for value in sorted({dict(key).get(check.by, "") for key in found}, key=lambda text: number(text) or 0.0):
        line = _along({key: mean for key, mean in found.items() if dict(key).get(check.by, "") == value}, check.over)
        least = min(range(len(line)), key=lambda n: line[n][1])
        depth = max(line[0][1], line[-1][1]) - line[least][1]
        good &= 0 < least < len(line) - 1 and depth >= check.least
        places.append((value, line[least][0]))
        texts.append(f"{value}: least at {line[least][0]:g} ({shown(line[least][1])}, {shown(depth)} below its end)")
    if len(places) < 2:
        raise _NotRun(f"fewer than two values of {check.by}")
    where = [place for _, place in places]
    one_way = all(a <= b for a, b in itertools.pairwise(where)) or all(a >= b for a, b in itertools.pairwise(where))
    return good and one_way and where[0] != where[-1], "; ".join(texts)


def _as_modelled(check: Model, points: Sequence[Point], shown: Callable[[float | Estimate], str]) -> tuple[bool, str]:
    found = _picked(check.pick, points)
    formula = _picked(Pick(check.expected, check.pick.where), points)
    errors = {key: abs(value.mean - formula[key].mean) for key, value in found.items() if key in formula}
    if not errors:
        raise _NotRun(f"no point with {check.expected}")
    texts = [f"{describe(key)}{shown(found[key])}, formula {shown(formula[key].mean)}" for key in errors]
    return max(errors.values()) <= check.tolerance, "; ".join(texts)


def _widest(found: dict[Key, Estimate], across: str) -> float:
    """Greatest difference of the measure between two values of ``across``, everything else being equal."""
    rest: dict[Key, list[float]] = {}
    for key, value in found.items():
        rest.setdefault(tuple(item for item in key if item[0] != across), []).append(value.mean)
    several = [values for values in rest.values() if len(values) > 1]
    if not several:
        raise _NotRun(f"fewer than two values of {across}")
    return max(max(values) - min(values) for values in several)


def picks(check: Check) -> tuple[Pick, ...]:
    """What a check looks at."""
    return (check.left, check.right) if isinstance(check, Compare | Farthest) else (check.pick,)


def _evidence(statement: Statement, points: Sequence[Point]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each setting of the check the measures that its statement names as evidence; "-" for those not there."""
    rows: dict[Key, tuple[str, ...]] = {}
    for pick in picks(statement.check):
        columns = [settings(Pick(name, pick.where), points) for name in statement.evidence]
        for key in dict.fromkeys(key for column in columns for key in column):
            rows[key] = tuple(show(column.get(key), "") for column in columns)
    return tuple((describe(key).removesuffix(": "), values) for key, values in rows.items())
