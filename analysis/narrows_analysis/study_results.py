# SPDX-License-Identifier: Apache-2.0
"""The measures of all points of a study in one Parquet file: enough to make its pages again.

It has a row for each measured point and repetition: what was run (``variant``, ``experiment``, ``repetition``,
``directory``), a column for each swept field, one for each measure in SI units, and ``provenance.*``. A swept field or
a measure that the row's experiment does not have is null; a measure of which the run has no value is NaN. What holds
for a whole variant (machine, experiment files, what was skipped) is in the file's metadata, as JSON.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats import beneath
from narrows_formats.storage import replacing

from narrows_analysis.errors import AnalysisError

Variant = Literal[
    "quick", "full", "controls", "tbf", "tbf_chain", "mahimahi", "quick-former-jitter", "full-former-jitter"
]
# Points of a variant that had the former default of the senders' jitter, and have been run again since.
FORMER_JITTER: dict[Variant, Variant] = {"quick": "quick-former-jitter", "full": "full-former-jitter"}
DIGITS = 6
METADATA, PROVENANCE = "narrows", "provenance."


def setting(experiment: str, parameters: Mapping[str, str]) -> tuple[object, ...]:
    """What repetitions of a point have in common, to look them up by."""
    return experiment, *sorted(parameters.items())


@dataclass(frozen=True)
class MeasuredPoint:
    """One run of a study: the swept values as written, and its measures in SI units.

    Attributes:
        experiment: name of the experiment, or of the control.
        parameters: values of the swept fields, as the experiment file has them.
        repetition: 1 for the first.
        measures: None where a run has no such number.
        directory: that of the run, below the study's.
        provenance: how to make the same run again: its seed, the version and commit of the code, the kernel and the
            digest of its configuration, and what was varied.
    """

    experiment: str
    parameters: Mapping[str, str]
    repetition: int
    measures: Mapping[str, float | None]
    directory: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setting(self) -> tuple[object, ...]:
        """What its repetitions have in common."""
        return setting(self.experiment, self.parameters)


@dataclass(frozen=True)
class Results:
    """Measured points of one variant of a study.

    Attributes:
        study: its name.
        variant: of it.
        points: those that were measured.
        skipped: what was not run and why (experiment or point: reason).
        machine: what they were measured with.
        experiments: what was measured: for each experiment the data of its file, as the variant has it.
    """

    study: str
    variant: Variant
    points: tuple[MeasuredPoint, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    experiments: Mapping[str, Any] = field(default_factory=dict)


def write_results(path: Path, *variants: Results) -> None:
    """Write results of variants of one study in one step; measures with six significant digits.

    Raises:
        ValueError: a measure is not finite.
    """
    rows = [(one.variant, point) for one in variants for point in one.points]
    points = [point for _, point in rows]
    columns: dict[str, pa.Array] = {
        "variant": pa.array([variant for variant, _ in rows], pa.string()),
        "experiment": pa.array([point.experiment for point in points], pa.string()),
        "repetition": pa.array([point.repetition for point in points], pa.int64()),
        "directory": pa.array([point.directory for point in points], pa.string()),
    }
    for name in _names(point.parameters for point in points):
        columns[name] = pa.array([point.parameters.get(name) for point in points], pa.string())
    for name in _names(point.measures for point in points):
        # Enough for their digits, at half the size.
        columns[name] = pa.array([_written(point.measures, name) for point in points], pa.float32())
    texts = []
    for name in _names(point.provenance for point in points):
        values = [point.provenance.get(name) for point in points]
        if any(isinstance(value, (Mapping, list)) for value in values):
            texts.append(name)
            values = [None if value is None else json.dumps(value) for value in values]
        columns[PROVENANCE + name] = pa.array(values)
    metadata = {
        "study": variants[0].study,
        "json": texts,
        "variants": {
            one.variant: {
                "machine": dict(one.machine),
                "experiments": dict(one.experiments),
                "skipped": dict(sorted(one.skipped.items())),
                "parameters": _parameters(one.points),
            }
            for one in variants
        },
    }
    table = pa.table(columns)
    measures = [name for name, column in columns.items() if column.type == pa.float32()]
    with (
        replacing(path) as file,
        pq.ParquetWriter(
            file,
            table.schema,
            compression="zstd",
            compression_level=19,
            use_dictionary=[name for name in columns if name not in measures],
            column_encoding=dict.fromkeys(measures, "BYTE_STREAM_SPLIT"),
            write_statistics=False,
            store_schema=False,
        ) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: json.dumps(metadata, allow_nan=False)})


def put_results(path: Path, results: Results) -> None:
    """Write a variant's results into a file that may have other variants, which stay.

    Raises:
        AnalysisError: the file is something else, or another study's.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Two variants may be measured at the same time.
        fcntl.flock(directory, fcntl.LOCK_EX)
        there = read_variants(path) if path.exists() else ()
        if any(one.study != results.study for one in there):
            raise AnalysisError(f"{path}: has results of {there[0].study}, not of {results.study}")
        write_results(path, *(one for one in there if one.variant != results.variant), results)
    finally:
        os.close(directory)


def read_variants(path: Path) -> tuple[Results, ...]:
    """Read what `write_results` wrote; raise AnalysisError naming the file if it is something else."""
    try:
        file = pq.ParquetFile(pa.BufferReader(beneath.read(path.parent, path.name)))
        metadata: dict[str, Any] = json.loads(file.metadata.metadata[METADATA.encode()])
        points: dict[str, list[MeasuredPoint]] = {variant: [] for variant in metadata["variants"]}
        for row in file.read().to_pylist():
            variant = row["variant"]
            points[variant].append(_point(row, metadata["variants"][variant]["parameters"], metadata["json"]))
        return tuple(
            Results(
                metadata["study"], variant, tuple(points[variant]), one["skipped"], one["machine"], one["experiments"]
            )
            for variant, one in metadata["variants"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise AnalysisError(f"{path}: is not a study's results: {error}") from None


def read_results(path: Path, variant: Variant) -> Results | None:
    """Results of one variant; None if the file has none of it, or is not there. Raises what `read_variants` does."""
    found = read_variants(path) if path.exists() else ()
    return next((one for one in found if one.variant == variant), None)


def _names(rows: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _parameters(points: Sequence[MeasuredPoint]) -> dict[str, list[str]]:
    """The swept fields of each experiment, in their order."""
    experiments = dict.fromkeys(point.experiment for point in points)
    return {name: _names(one.parameters for one in points if one.experiment == name) for name in experiments}


def _written(measures: Mapping[str, float | None], name: str) -> float | None:
    """A measure as a column has it."""
    if name not in measures:
        return None
    value = measures[name]
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    return math.nan if value is None else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _point(row: Mapping[str, Any], parameters: Mapping[str, Sequence[str]], texts: Sequence[str]) -> MeasuredPoint:
    """A row as it was before it was written."""
    here = {name: value for name, value in row.items() if value is not None}
    experiment, repetition, directory = (here.pop(name) for name in ("experiment", "repetition", "directory"))
    swept = {name: here.pop(name) for name in parameters[experiment] if name in here}
    made = {
        name.removeprefix(PROVENANCE): here.pop(name) for name in row if name.startswith(PROVENANCE) and name in here
    }
    made = {name: json.loads(value) if name in texts else value for name, value in made.items()}
    measures = {
        name: None if math.isnan(value) else _rounded(value) for name, value in here.items() if name != "variant"
    }
    return MeasuredPoint(experiment, swept, repetition, measures, directory, made)
