# SPDX-License-Identifier: Apache-2.0
"""Files of a directory that others have sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrows_formats import beneath, bounded_json

from narrows_analysis.errors import AnalysisError

# Columns of tables have no wider integers, and a digit more than 20 is more than these in any case.
LEAST, MOST, DIGITS = -(2**63), 2**63 - 1, 20


def only_files(directory: Path) -> None:
    """Refuse what results never hold: a link may lead to what only the reader may read, a device has no end.

    Raises:
        AnalysisError: there is such an entry; the message names it.
    """
    for path in directory.rglob("*"):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise AnalysisError(f"{path}: is a link or a device; a run directory holds files only")


def read_json(directory: Path, name: str) -> dict[str, Any]:
    """Read a JSON object from a file below a directory, where others may have named the file.

    Raises:
        AnalysisError: it is missing, elsewhere, no ordinary file or no such object; the message names it.
    """
    path = directory / name
    try:
        value = bounded_json.parse(beneath.read(directory, name), _integer)
    except FileNotFoundError:
        raise AnalysisError(f"{path}: no such file; a run directory holds run.json and telemetry/") from None
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise AnalysisError(f"{path}: a JSON object is expected, not {type(value).__name__}")
    return value


def _integer(text: str) -> int:
    if len(text) <= DIGITS and LEAST <= (value := int(text)) <= MOST:
        return value
    raise ValueError(f"the integer {text[:DIGITS]}{'...' if len(text) > DIGITS else ''} does not fit into 64 bits")
