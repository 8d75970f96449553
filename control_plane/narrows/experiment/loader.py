# SPDX-License-Identifier: Apache-2.0
"""Reads and checks experiments in YAML; every error names file, field, value and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from narrows_formats import bounded_yaml, named_file
from narrows_formats.validation import problems
from pydantic import BaseModel, ValidationError

from narrows.errors import InputError
from narrows.experiment.assignment import override
from narrows.experiment.model import Experiment
from narrows.experiment.p4_compiler import resolve_programs
from narrows.experiment.trace_files import inline_traces
from narrows.field_types import groups_in
from narrows.flows.cdf import ALLOWED_CDF, read_cdf
from narrows.flows.program import resolve_paths

Checked = TypeVar("Checked", bound=BaseModel)
# Of a file given on the command line. That of a run has its traces in it.
MOST_BYTES = 64 << 20


def read_experiment(path: Path, settings: Sequence[str] = ()) -> dict[str, object]:
    """The data of an experiment file as written, with the distributions and traces that it names; `validate` checks it.

    ``settings`` replace its own (`override`).

    Raises:
        InputError: a file cannot be read, or is not YAML, or a setting is wrong.
    """
    data = read_mapping(path, "an experiment; allowed: a mapping with name, bottleneck and flows")
    override(data, settings, str(path))
    inline_traces(data, path)
    _resolve_files(data, path)
    _resolve_swept(data, path)
    return data


def _resolve_files(data: dict[str, object], path: Path) -> None:
    """Read, compile or make absolute the files that an experiment's data name relative to ``path``.

    Raises:
        InputError: one cannot be read or compiled.
    """
    _inline_distributions(data, path)
    resolve_paths(data, path)
    resolve_programs(data, path)


def _resolve_swept(data: Mapping[str, object], path: Path) -> None:
    """The same for what a sweep puts in their places.

    Raises:
        InputError: one cannot be read or compiled, or is the source of a program, which makes two files.
    """
    sweep = data.get("sweep")
    for field, values in sweep.items() if isinstance(sweep, dict) else ():
        *parents, name = str(field).split(".")
        in_group = parents[:1] == ["flows"]
        if parents[-1:] == ["program"] and name == "p4":
            whole = ".".join(parents)
            raise InputError(
                f"{path}: sweep.{field}: cannot be swept alone; allowed: {whole} with p4, entries and ports"
            )
        for number, value in enumerate(values if isinstance(values, list) else ()):
            # An experiment's data with this field alone; which group it is of does not matter.
            holder: dict[str, object] = {name: value}
            alone = holder
            for part in reversed(parents[2:] if in_group else parents):
                alone = {part: alone}
            _resolve_files({"flows": [alone]} if in_group else alone, path)
            values[number] = holder[name]


def load(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InputError: the file cannot be read, is not YAML, or is not an experiment.
    """
    return validate(read_experiment(path), str(path))


def read_mapping(path: Path, what: str) -> dict[str, object]:
    """Read a YAML file that holds a mapping.

    Raises:
        InputError: it cannot be read, is not YAML, or "is not" ``what``.
    """
    try:
        data = bounded_yaml.parse(named_file.read_text(path, MOST_BYTES, may_be_a_pipe=True))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not {what}")
    return data


# Where a group of flows may name the file of a distribution.
_DISTRIBUTIONS = [
    ("workload", "sizes"), ("workload", "gaps"), ("requests", "size"), ("requests", "gaps"), ("requests", "think"),
]  # fmt: skip


def _inline_distributions(data: Mapping[str, object], path: Path) -> None:
    """Replace file names of empirical distributions, relative to ``path``, with the contents of the files.

    Raises:
        InputError: a file cannot be read, or is not a distribution.
    """
    for number, group in enumerate(groups_in(data)):
        for kind, field in _DISTRIBUTIONS:
            kept = group.get(kind) if isinstance(group, dict) else None
            drawn = kept.get(field) if isinstance(kept, dict) else None
            if isinstance(drawn, dict) and isinstance(drawn.get("cdf"), str):
                try:
                    drawn["cdf"] = [list(point) for point in read_cdf(path.parent / drawn["cdf"])]
                except ValueError as error:
                    raise InputError(
                        f"{path}: flows.{number}.{kind}.{field}.cdf: {error}; allowed: {ALLOWED_CDF}"
                    ) from None


def validate(data: Mapping[str, object], origin: str) -> Experiment:
    """Check an experiment's data.

    Raises:
        InputError: one line for every error; ``origin`` (the file, and the point of a sweep) begins each.
    """
    return check(Experiment, data, origin)


def check(model: type[Checked], data: Mapping[str, object], origin: str) -> Checked:
    """Data of a file as a model.

    Raises:
        InputError: one line for every error; ``origin`` begins each.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError("\n".join(f"{origin}: {problem}" for problem in problems(error, model))) from error
