# SPDX-License-Identifier: Apache-2.0
"""JSON files of a run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from narrows_analysis.errors import AnalysisError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from `path`; raise AnalysisError naming the file if it is missing or is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnalysisError(f"{path}: no such file; a run directory holds run.json and telemetry/") from None
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise AnalysisError(f"{path}: a JSON object is expected, not {type(value).__name__}")
    return value
