# SPDX-License-Identifier: Apache-2.0
"""What was set for a run, as flat names with their values: in what two of them differ says what a difference is of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from narrows_formats import beneath, bounded_yaml, files
from narrows_formats.flat import flat, shown
from narrows_formats.provenance import CODE, in_short, provenance

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import read_run

NONE = "not set"


def settings_of(directory: Path, swept: tuple[str, ...] = ()) -> dict[str, str]:
    """The experiment of a run by the names that ``--set`` uses, without the swept ones, and what it ran on.

    Raises:
        AnalysisError: the directory is not a run, or its experiment cannot be read.
    """
    run = read_run(directory)
    path = directory / files.EXPERIMENT
    try:
        written = bounded_yaml.parse(beneath.read(directory, files.EXPERIMENT)) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: {error}") from None
    if not isinstance(written, dict):
        raise AnalysisError(f"{path}: is not an experiment")
    found = {name: shown(value) for name, value in flat(written).items() if name != "name" and name not in swept}
    guest = run.raw.get("virtual_time") or {}
    # Those below have names of their own.
    programs = {name: value for name, value in provenance(run.raw).items() if name not in (*CODE, "kernel")}
    ran_on = {
        "target": run.profile.name,
        "time": "virtual" if guest else "real",
        "kernel": f"{guest['kernel']} ({guest['release']})" if guest else (run.raw.get("host") or {}).get("kernel"),
        "narrows": run.raw.get("narrows_version"),
        "commit": (run.raw.get("commit") or "")[:12] or None,
    }
    return found | {name: str(value) for name, value in ran_on.items() if value is not None} | in_short(programs)


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name and both values of the settings that are not the same, in the order of the first."""
    names = dict.fromkeys([*first, *second])
    pairs = [(name, first.get(name, NONE), second.get(name, NONE)) for name in names]
    return [one for one in pairs if one[1] != one[2]]
