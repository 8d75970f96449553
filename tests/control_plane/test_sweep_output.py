# SPDX-License-Identifier: Apache-2.0
"""What a sweep prints: a line a run, and one table of means with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from narrows.cli.sweep_table import MAX_ROWS, closing_table, run_line
from rich.console import Console
from scipy import stats
from test_comparison import runs, write_sweep


def printed(directory: Path) -> str:
    console = Console(width=300)
    with console.capture() as captured:
        console.print(closing_table(directory))
    return captured.get()


def test_the_closing_table_has_a_row_a_setting(tmp_path: Path) -> None:
    text = printed(write_sweep(tmp_path / "sweep", {"1bdp": runs(0.80, 0.82, 0.84), "2bdp": runs(0.9)}))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    heads = [head.strip() for head in next(line for line in text.splitlines() if "used" in line).split("┃")[1:-1]]
    assert [row[0] for row in rows] == ["1bdp", "2bdp"]
    used = heads.index("Link used (%)")
    interval = stats.ttest_1samp([80, 82, 84], 0).confidence_interval()
    assert rows[0][used] == f"82.0 ±{(interval.high - interval.low) / 2:.1f}"
    assert rows[1][used] == "90", "one repetition has no interval"


def test_a_long_sweep_ends_after_forty_rows(tmp_path: Path) -> None:
    text = printed(write_sweep(tmp_path / "sweep", {f"{number}kB": runs(0.9) for number in range(MAX_ROWS + 2)}))
    assert "39kB" in text and "40kB" not in text
    assert "2 more settings in intervals.csv" in text


def test_without_a_summary_there_is_no_table(tmp_path: Path) -> None:
    assert closing_table(tmp_path) is None


@pytest.mark.parametrize(
    ("links", "begins"), [(["bottleneck"], "98.00 % utilized"), (["a", "b"], "a 98.00 % utilized")]
)
def test_a_run_is_a_line(links: list[str], begins: str) -> None:
    link = {"utilization": 0.98, "total_loss_ratio": 0.0067, "queue_delay_s": {"mean": 0.0144}}
    groups = [{"name": "bbr", "share": 0.842}, {"name": "cubic", "share": None}]
    summary: Any = {"groups": groups, "links": [{"name": name, **link} for name in links]}
    line = run_line(summary)
    assert line.startswith(f"bbr 84.20 %, cubic -; {begins}, 0.67 % lost, 14.40 ms queue")
    assert line.count("lost") == len(links)
