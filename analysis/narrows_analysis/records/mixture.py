# SPDX-License-Identifier: Apache-2.0
"""Whether runs that are taken together were made by the same code, kernel and programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from narrows_formats import files
from narrows_formats.provenance import difference, provenance

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.json_files import read_json


def mixture(directories: Iterable[Path]) -> str:
    """The first run that was made by other code, another kernel or other programs than the first one, in words.

    Empty if there is none; directories without a run's record are left out.
    """
    first: dict[str, str] | None = None
    for directory in directories:
        try:
            made = provenance(read_json(directory, files.RUN))
        except AnalysisError:
            continue
        if first is None:
            first = made
        elif other := difference(made, first):
            return f"not all of these runs were made alike: {directory.name} {other}"
    return ""
