# SPDX-License-Identifier: Apache-2.0
"""How many repetitions would decide a statement, what its runs exclude, and which runs decide most for their time.

A statement is decided by sums of means (`judge`). With means and variances as they are, the number of repetitions
follows at which it is decided with a given probability: its power (J. Cohen, "Statistical Power Analysis for the
Behavioral Sciences", 1988, with Student's t in place of the normal distribution).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from narrows_analysis.study_results import MeasuredPoint

from narrows_studies.checks import MORE, AtOneOf, Check, Compare, Every, Readings, Sometimes, Within, meets, picks
from narrows_studies.evaluate import ENOUGH, NEAR, Finding
from narrows_studies.judge import judge
from narrows_studies.linear import Projection
from narrows_studies.showing import show
from narrows_studies.units import is_ratio, unit_of

POWER = 0.8
# Numbers of repetitions that are tried; more than the last one are not proposed.
SIZES = (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100)
# Of an excluded effect, of which three digits are shown; and the powers of ten between which it is looked for.
PRECISION, POWERS = 1e-4, range(-6, 7)
NOTHING = "excluded: nothing, so few runs that vary so much allow any value"
Setting = tuple[object, ...]


def repetitions_needed(found: Finding, points: Sequence[MeasuredPoint]) -> int | None:
    """The number of repetitions of each setting that decides a statement with a probability of 80 %.

    None if it is decided, if no number of `SIZES` is enough, or if none can be: there is one run only, or a measure is
    missing.
    """
    if found.verdict != "undecided":
        return None
    for size in SIZES:
        if size > found.count:
            p_value = judge(found.statement.check, points, Projection(size, POWER)).decision.p_value
            if p_value <= found.level and (size >= ENOUGH or p_value <= 1 - NEAR):
                return size
    return None


def excluded(found: Finding, points: Sequence[MeasuredPoint]) -> str:
    """The effect that the runs of an undecided statement exclude, in words; "" if none is known.

    What seems to hold can miss its limits by that much, and what seems to fail can meet them by that much, at most:
    with limits that are moved so far it would be decided. The confidence is that of the verdicts.
    """
    check = found.statement.check
    measure, *others = {pick.measure for pick in picks(check)}
    # Limits in different units cannot be moved by one number.
    if found.verdict != "undecided" or found.leaning is None or any(unit_of(one) != unit_of(measure) for one in others):
        return ""
    level = found.level if found.count >= ENOUGH else min(found.level, 1 - NEAR)

    def decides(relief: float) -> bool:
        moved = judge(check, points, Projection(relief=relief if found.leaning else -relief)).decision
        return (moved.holds if found.leaning else moved.fails) <= level

    most = _least(decides)
    if most is None:
        return ""
    if isinstance(check, Sometimes):
        return f"excluded: that more than {100 * (check.part + most):.3g} % of all runs have it"
    if is_ratio(measure) and most >= _farthest(check, found.leaning):
        return NOTHING
    verb = "misses" if found.leaning else "meets"
    return f"excluded: that it {verb} its limit by more than {show(most, measure)}"


def _farthest(check: Check, misses: bool) -> float:
    """How far a part of a whole, which is between 0 and 1, can miss the limits of a check, or meet them, at most."""
    if isinstance(check, Every | Readings):
        return max(_farthest(one, misses) for one in check.checks)
    if isinstance(check, AtOneOf):
        return _farthest(check.check, misses)
    if isinstance(check, Within):
        below, above = (check.low, 1 - check.high) if misses else (1 - check.low, check.high)
        return max(side for side in (below, above) if abs(side) < MORE)
    if isinstance(check, Compare):
        return max(1.0, check.low, *([check.high] if check.high < MORE else []))
    return 1.0


def _least(decides: Callable[[float], bool]) -> float | None:
    """The least number above 0, to four digits, from which on something is so; None if it is for none."""
    above = next((10.0**power for power in POWERS if decides(10.0**power)), None)
    if above is None:
        return None
    below = above / 10
    while above - below > above * PRECISION:
        middle = (below + above) / 2
        below, above = (below, middle) if decides(middle) else (middle, above)
    return above


@dataclass(frozen=True)
class Step:
    """Runs that decide a statement.

    Attributes:
        statement: as ``FIGURE/STATEMENT``.
        repetitions: of each of its settings.
        settings: of `MeasuredPoint`.
        cost_s: processor seconds of the runs that are neither here nor in a step before.
    """

    statement: str
    repetitions: int
    settings: tuple[Setting, ...]
    cost_s: float


def queue(
    undecided: Mapping[str, tuple[Finding, Sequence[MeasuredPoint]]], cost_s: Mapping[Setting, float]
) -> list[Step]:
    """What decides the undecided statements, in the order of statements decided for the processor's time.

    Runs that a step has are free for the steps after it. Statements that no number decides, or of whose runs it is not
    known what they take, have no step.

    Args:
        undecided: findings, with the points of their figures, as ``FIGURE/STATEMENT``.
        cost_s: what a run of each setting takes.
    """
    here: dict[Setting, int] = {}
    wanted: dict[str, tuple[int, tuple[Setting, ...]]] = {}
    for name, (found, points) in undecided.items():
        mine = [one for one in points if any(meets(one, pick.where) for pick in picks(found.statement.check))]
        for one in mine:
            here[one.setting] = max(here.get(one.setting, 0), one.repetition)
        settings = tuple(dict.fromkeys(one.setting for one in mine))
        needed = repetitions_needed(found, points)
        if needed is not None and all(one in cost_s for one in settings):
            wanted[name] = needed, settings
    steps = []
    while wanted:
        costs = {
            name: sum(max(0, needed - here[one]) * cost_s[one] for one in settings)
            for name, (needed, settings) in wanted.items()
        }
        name = min(costs, key=costs.__getitem__)
        needed, settings = wanted.pop(name)
        steps.append(Step(name, needed, settings, costs[name]))
        here |= {one: max(here[one], needed) for one in settings}
    return steps


def costs(points: Sequence[MeasuredPoint]) -> dict[Setting, float]:
    """Processor seconds of a run of each setting: the mean, where none is known that of its experiment, or of all."""
    known: dict[Setting, list[float]] = {}
    for point in points:
        if (took := point.measures.get("cpu_s")) is not None:
            for those in (point.setting, (point.experiment,), ()):
                known.setdefault(those, []).append(took)
    found = {one.setting: known.get(one.setting) or known.get((one.experiment,)) or known.get(()) for one in points}
    return {setting: fmean(took) for setting, took in found.items() if took}
