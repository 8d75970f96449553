# SPDX-License-Identifier: Apache-2.0
"""Text has no digits that arithmetic added, and all that were measured."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from narrows.cli import app
from narrows_analysis import analyze_run, write_report
from narrows_analysis.sweep import write_sweep_report
from narrows_formats.decimals import as_decimals
from typer.testing import CliRunner

Competition = tuple[Path, synthetic.Truth, Any]
# Of a decimal number a double keeps as many, whatever its size (IEEE 754: 53 bits, floor(52 * log10(2))).
DIGITS = math.floor(52 * math.log10(2))
FRACTION = re.compile(r"(?<![\w.])(\d+\.\d+)(?:e[-+]?\d+)?(?![\w.])")


def tails(text: str) -> list[str]:
    """Numbers with a fraction that have more digits."""
    return [one for one in FRACTION.findall(text) if len(one.replace(".", "").lstrip("0")) > DIGITS]


@given(st.integers(1, 10**DIGITS - 1), st.integers(-20, 20), st.sampled_from([-math.inf, math.inf]))
def test_a_decimal_number_is_found_again(digits: int, exponent: int, side: float) -> None:
    right = float(f"{digits}e{exponent}")
    assert as_decimals({"times": [right, (math.nextafter(right, side),)]}) == {"times": [right, [right]]}


def test_a_run_has_no_tails(competition: Competition, tmp_path: Path) -> None:
    run, tables = tmp_path / "run", tmp_path / "tables"
    shutil.copytree(competition[0], run)
    summary = analyze_run(run)
    assert summary == json.loads((run / "summary.json").read_text())
    page = write_report(run).read_text()
    result = CliRunner().invoke(app, ["export", str(run), "--csv", str(tables)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    texts = {"summary.json": (run / "summary.json").read_text(), "page": page}
    texts |= {file.name: file.read_text() for file in tables.iterdir()}
    assert {name: found[:3] for name, text in texts.items() if (found := tails(text))} == {}


def test_a_sweep_has_no_tails(tmp_path: Path) -> None:
    # Means of 0.1, 0.2 and 0.3, whose sum is 0.6000000000000001.
    rows = [
        {
            "directory": f"{at}",
            "status": "complete",
            "repetition": 1,
            "group": "bbr",
            "utilization": value,
            "share": value,
        }
        for at, value in enumerate([0.1, 0.2, 0.3])
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "sweep.parquet", index=False)
    record = {"name": "means", "sweep": {}, "repeat": 3, "points": 3, "runs": []}
    (tmp_path / "sweep.json").write_text(json.dumps(record))
    page = write_sweep_report(tmp_path).read_text()
    text = (tmp_path / "intervals.csv").read_text()
    assert ",0.2," in text and 'data-value="0.2"' in page
    assert tails(text) == tails(page) == []
