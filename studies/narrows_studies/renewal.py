# SPDX-License-Identifier: Apache-2.0
"""Published points that were run again: new ones take their place, and the former ones stay as a control."""

from __future__ import annotations

from dataclasses import replace

from narrows.errors import InputError
from narrows_analysis.study_results import FORMER_JITTER, MeasuredPoint, Results

from narrows_studies.results import merged, points_of


def renew(kept: Results, new: Results, former: Results | None) -> tuple[Results, Results]:
    """A variant's results with the experiments that were run again, and what they replace.

    All points of an experiment are replaced, so that none is judged by runs of two defaults. An experiment whose former
    points are kept already was run again before: what that gave is replaced too.

    Args:
        kept: the published results of a variant.
        new: of some of its experiments, run again.
        former: what was replaced before.

    Raises:
        InputError: they are of another variant, or an experiment lacks a point that it would replace.
    """
    if (new.study, new.variant) != (kept.study, kept.variant):
        raise InputError(f"results of {new.study}, {new.variant}; allowed: of {kept.study}, {kept.variant}")
    again = dict.fromkeys(point.experiment for point in new.points)
    there = {(point.setting, point.repetition) for point in new.points}
    for name in again:
        wanted = points_of(kept, name)
        lacking = sum((point.setting, point.repetition) not in there for point in wanted)
        if lacking:
            raise InputError(
                f"{name}: lacks {lacking} of the {len(wanted)} points that it replaces; allowed: all of them"
            )
    before = former.points if former else ()
    known = {point.experiment for point in before}
    displaced = tuple(point for point in kept.points if point.experiment in again.keys() - known)
    experiments = dict.fromkeys([*(point.experiment for point in kept.points), *again])
    points: list[MeasuredPoint] = []
    for name in experiments:
        points += points_of(new if name in again else kept, name)
    skipped = {name: why for name, why in kept.skipped.items() if name.partition("/")[0] not in again}
    machine = {
        name: merged(value, new.machine.get(name)) for name, value in kept.machine.items() if name != "published"
    }
    renewed = replace(
        kept,
        points=tuple(points),
        skipped=skipped | dict(new.skipped),
        # How much is published, and left to be run, is what it was.
        machine=machine | {name: kept.machine[name] for name in ("published",) if name in kept.machine},
        experiments={**kept.experiments, **{name: new.experiments[name] for name in again}},
    )
    left = Results(
        kept.study,
        FORMER_JITTER[kept.variant],
        (*before, *displaced),
        machine=former.machine if former else kept.machine,
        experiments={
            **(former.experiments if former else {}),
            **{p.experiment: kept.experiments[p.experiment] for p in displaced},
        },
    )
    return renewed, left
