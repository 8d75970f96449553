# SPDX-License-Identifier: Apache-2.0
"""The fields of summary.json belong to a format number: a change of them has to raise it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from narrows_analysis import AnalysisError, load, write_report
from narrows_analysis.summary.file import read_summary
from narrows_formats.summary import FORMAT

Competition = tuple[Path, synthetic.Truth, Any]
FIELDS = Path(__file__).with_name("summary_fields.json")


def fields(value: Any, name: str = "") -> set[str]:
    if isinstance(value, dict):
        return {found for key, item in value.items() for found in fields(item, f"{name}.{key}" if name else key)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {found for item in value for found in fields(item, f"{name}[]")}
    return {name}


def test_the_fields_are_those_of_the_format(competition: Competition) -> None:
    """To change them: raise summary_file.FORMAT, then bring summary_fields.json up to date."""
    known = json.loads(FIELDS.read_text())
    found = {name for name in fields(competition[2]) if not name.startswith("warnings")}
    assert (FORMAT, sorted(found)) == (known["format"], known["fields"])


@pytest.mark.parametrize(("found", "words"), [(None, "an older"), (FORMAT - 1, "an older"), (FORMAT + 1, "another")])
def test_another_format_is_refused(competition: Competition, tmp_path: Path, found: int | None, words: str) -> None:
    (tmp_path / "run.json").write_bytes((competition[0] / "run.json").read_bytes())
    summary = {key: value for key, value in competition[2].items() if key != "format"}
    (tmp_path / "summary.json").write_text(json.dumps(summary if found is None else {**summary, "format": found}))
    for read in (read_summary, write_report, lambda path: load(path).summary):
        with pytest.raises(AnalysisError, match=f"{words} version of the analysis; 'narrows analyze {tmp_path}'"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"telemetry": {"reports": 1}}, "telemetry.lost: Field required"),
        ({"verdict": "fair"}, "verdict: Extra inputs are not permitted"),
        ({"groups": [{"name": 1}]}, "groups.0.name: Input should be a valid string"),
    ],
)
def test_a_damaged_file_is_refused_by_field(
    competition: Competition, tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({**competition[2], **change}))
    with pytest.raises(AnalysisError, match=f"summary.json: {problem}; 'narrows analyze {tmp_path}'"):
        read_summary(tmp_path)
