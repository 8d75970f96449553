# SPDX-License-Identifier: Apache-2.0
"""Points of a study that were measured elsewhere: on another machine, or by runs that are no longer there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from narrows.errors import InputError
from narrows.experiment.assignment import WHOLE
from narrows.experiment.loader import validate
from narrows_analysis.errors import AnalysisError
from narrows_analysis.study_results import Results, Variant, read_variants, setting
from narrows_formats.flat import flat

from narrows_studies.model import Study
from narrows_studies.running.catalogue import StudyPoint


def read_external_results(path: Path, study: Study, variant: Variant, points: Sequence[StudyPoint]) -> Results:
    """Results of the same variant of a study, reduced to the points that are among ours, with our directories.

    Raises:
        InputError: they are something else, or of other settings.
    """
    try:
        there = read_variants(path)
    except AnalysisError as error:
        raise InputError(f"--add {error}; allowed: results of {study.name}, {variant}") from error
    results = next((one for one in there if (one.study, one.variant) == (study.name, variant)), None)
    if results is None:
        held = ", ".join(f"{one.study}, {one.variant}" for one in there)
        raise InputError(f"--add {path}: holds results of {held}; allowed: of {study.name}, {variant}")
    measured = {(one.setting, one.repetition): one for one in results.points}
    found = []
    for point in points:
        known = measured.get((setting(point.experiment, point.parameters), point.point.repetition))
        if known is not None:
            found.append(replace(known, directory=str(point.directory)))
    for name, ours in {point.experiment: point.written for point in points}.items():
        if any(point.experiment == name for point in found):
            _check(name, results.experiments.get(name), ours, path)
    return replace(results, points=tuple(found))


def most_repetitions(paths: Sequence[Path]) -> int:
    """The greatest number of a repetition in any of these results; 1 without any, and where they cannot be read."""
    found = [1]
    for path in paths:
        with suppress(AnalysisError):
            found += [point.repetition for one in read_variants(path) for point in one.points]
    return max(found)


def _check(name: str, theirs: Mapping[str, Any] | None, ours: Mapping[str, Any], path: Path) -> None:
    """Check that two versions of an experiment file differ in nothing but the points that they ask for."""
    if theirs is None:
        raise InputError(f"--add {path}: does not say what was run as {name}; allowed: results that do")
    said = _settings(theirs, f"--add {path}: {name}"), _settings(ours, name)
    for field in dict.fromkeys([*said[0], *said[1]]):
        this, that = (str(one.get(field)) for one in said)
        if this != that:
            raise InputError(
                f"--add {path}: {name} was run with {field} {this}, not {that}; allowed: the study's settings"
            )


def _settings(data: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    return flat(validate({field: value for field, value in data.items() if field not in WHOLE}, origin).as_yaml_data())
