# SPDX-License-Identifier: Apache-2.0
"""The runs that rules without a verdict lack, and what they would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from narrows.experiment.planning import make_plan
from narrows.run.duration import traffic_time_s
from narrows_analysis.study_results import MeasuredPoint, Results

from narrows_studies.checks import meets, picks
from narrows_studies.evaluate import Finding
from narrows_studies.model import StudyFigure
from narrows_studies.running.catalogue import StudyPoint


@dataclass(frozen=True)
class Lack:
    """What a rule lacks that was not run.

    Attributes:
        rule: as ``FIGURE/STATEMENT``.
        figure: of the command that runs it.
        runs: those that are not here with the rule's measures, nor asked for by a rule before.
        cost_s: processor seconds of these; None if nothing is here that says what a run takes.
        only: conditions that `narrows study --only` takes, which leave the rule's settings.
        has_settings: whether the variant has settings of all that the rule looks at.
    """

    rule: str
    figure: str
    runs: int
    cost_s: float | None
    only: tuple[str, ...]
    has_settings: bool


def conditions(wanted: Iterable[Mapping[str, str]], among: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """``FIELD=VALUE`` of the fields of which some settings have not all values that there are among others."""
    chosen, found = list(wanted), []
    for name in dict.fromkeys(field for one in among for field in one):
        values = dict.fromkeys(one[name] for one in chosen if name in one)
        if values and values.keys() != {one[name] for one in among if name in one}:
            found += [f"{name}={value}" for value in values]
    return tuple(found)


def lacks(judged: Sequence[tuple[StudyFigure, Finding]], points: Sequence[StudyPoint], results: Results) -> list[Lack]:
    """What every rule that was not run lacks, the cheapest first; what one of them runs is free for those after it.

    A rule that looks at settings which the variant does not have lacks no run of it, and is last.

    Args:
        judged: all rules of a variant.
        points: every run of that variant.
        results: those that are here, of which each gives its processor time and what it carried.
    """
    measured = {_key(one): one.measures for one in results.points}
    pace = _pace(points, results.points)
    left: dict[str, tuple[str, tuple[str, ...], dict[tuple[object, ...], float], bool]] = {}
    for shown, found in judged:
        if found.verdict == "not run here":
            among = [one for one in points if one.experiment in shown.experiments]
            sides = [
                (of.measure, [one for one in among if meets(_as_point(one), of.where)])
                for of in picks(found.statement.check)
            ]
            # Without one of the sides that are compared no run says anything.
            whole = all(side for _, side in sides)
            mine = [(measure, one) for measure, side in sides for one in side if whole]
            only = conditions([one.parameters for _, one in mine], [one.parameters for one in among])
            runs = {_key(one): _work(one) for measure, one in mine if measure not in measured.get(_key(one), {})}
            left[f"{shown.id}/{found.statement.id}"] = (shown.id, only, runs, whole)
    steps: list[Lack] = []
    asked_for: set[tuple[object, ...]] = set()
    while left:
        new = {rule: {key: bits for key, bits in of[2].items() if key not in asked_for} for rule, of in left.items()}
        rule = min(left, key=lambda name: (not left[name][3], sum(new[name].values())))
        figure, only, _, whole = left.pop(rule)
        cost = None if pace is None else pace * sum(new[rule].values())
        steps.append(Lack(rule, figure, len(new[rule]), cost, only, whole))
        asked_for |= new[rule].keys()
    return steps


def _as_point(one: StudyPoint) -> MeasuredPoint:
    return MeasuredPoint(one.experiment, one.parameters, one.point.repetition, {})


def _key(one: StudyPoint | MeasuredPoint) -> tuple[object, ...]:
    """What sets a run apart from all others of its variant."""
    repetition = one.repetition if isinstance(one, MeasuredPoint) else one.point.repetition
    return (one.experiment, tuple(sorted(one.parameters.items())), repetition)


def _work(one: StudyPoint) -> float:
    """Bits that the bottleneck can carry in a run: what its processor time is taken to be proportional to."""
    plan = make_plan(one.point.experiment)
    return traffic_time_s(plan) * plan.bottleneck.rate_bps


def _pace(points: Sequence[StudyPoint], measured: Sequence[MeasuredPoint]) -> float | None:
    """Processor seconds for a bit that the bottleneck can carry, of the runs that are here; None if none says it."""
    took = {_key(one): used for one in measured if (used := one.measures.get("cpu_s"))}
    known = [(took[_key(one)], _work(one)) for one in points if _key(one) in took]
    return sum(used for used, _ in known) / sum(work for _, work in known) if known else None
