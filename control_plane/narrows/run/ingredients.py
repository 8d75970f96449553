# SPDX-License-Identifier: Apache-2.0
"""What makes a run: code, kernel, and the programs and files that shape it, by digests of the moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats.file_digest import file_digest
from narrows_formats.programs import COLLECTOR
from narrows_formats.provenance import CODE, difference, provenance

from narrows import __version__
from narrows.errors import InputError, RunError
from narrows.experiment.planning import make_plan
from narrows.paths import binary, commit

if TYPE_CHECKING:
    from typing import Any

    from narrows.experiment.model import Experiment
    from narrows.experiment.plan import Plan
    from narrows.run.environment import Environment
    from narrows.targets.base import Target


def programs(plan: Plan, target: Target, environment: Environment) -> dict[str, str]:
    """SHA-256 of each program that makes a run, by the name that messages have.

    Raises:
        InputError: one of our programs is not built.
        RunError: one cannot be read.
    """
    shaping: dict[str, Path] = {COLLECTOR: binary(COLLECTOR), **target.programs(plan), **environment.programs}
    if plan.has_applications:
        from narrows.traffic.applications import user_programs

        shaping |= user_programs(plan)
    return _digests(shaping)


def inputs(plan: Plan) -> dict[str, str]:
    """SHA-256 of each file that users' programs are given by name, and of congestion controls in BPF, by its path.

    Raises:
        RunError: one cannot be read.
    """
    read = {file: Path(file) for _, file in plan.bpf}
    if plan.has_applications:
        from narrows.traffic.applications import user_files

        read |= user_files(plan)
    return _digests(read)


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    found = {}
    for name, path in files.items():
        try:
            found[name] = file_digest(path)
        except OSError as error:
            raise RunError(f"{name}: {path} cannot be read: {error.strerror}") from error
    return found


def made_here(environment: Environment, shaping: Mapping[str, str]) -> dict[str, str]:
    """What a run that is made now is made by, by the names that provenance has.

    Args:
        environment: where.
        shaping: its `programs` and `inputs`.
    """
    made = {"version": __version__, "commit": commit(), **environment.made_with, **shaping}
    return {name: value for name, value in made.items() if value is not None}


def made_for(
    experiment: Experiment, make_target: Callable[[Experiment], Target], environment: Environment
) -> dict[str, str]:
    """What a run of an experiment would be made by here.

    Raises:
        InputError, RunError: as `programs`.
    """
    target = make_target(experiment)
    plan = target.bind_to_target(make_plan(experiment))
    return made_here(environment, programs(plan, target, environment) | inputs(plan))


def refuse_changed(record: Mapping[str, Any], ours: Mapping[str, str], where: str) -> None:
    """Check that a complete run was made by what would make it now, the code around it left out.

    Raises:
        InputError: it was not; ``where`` begins the message.
    """
    if other := difference(provenance(record), ours, CODE):
        raise InputError(f"{where} {other}; allowed: runs made as these are to be, or another --out")
