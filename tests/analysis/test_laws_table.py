# SPDX-License-Identifier: Apache-2.0
"""The table of tests/laws.md: each figure of summary.json has one, each test is there, and its cases."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from packet_cases import USUAL_CASES

ROOT = Path(__file__).resolve().parents[2]
# Words, and what was set: no figures.
WORDS = {
    "format", "status", "flows[].name", "flows[].group", "flows[].cca", "flows[].src", "flows[].dst", "flows[].links",
    "groups[].name", "groups[].cca", "links[].name", "links[].direction", "links[].flows[].name",
    "links[].flows[].packets",
}  # fmt: skip
# Of the number that others draw, what quick and slow ones do.
FACTORS = {"test_unit_changes.py": 4, "test_collector_metrics.py": 0.2, "test_prometheus_laws.py": 0.2}
PARTS = r"(?:links\[\]\.flows\[\]|bottleneck|flows\[\]|groups\[\]|fairness|dynamics|telemetry)"


def laws() -> list[tuple[str, str, str]]:
    """Figures, test and number of cases of each row."""
    text = (ROOT / "tests" / "laws.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return [(row[1], row[2].strip("`"), row[3].strip() if len(row) > 3 else "") for row in rows]


def named(figures: str) -> set[str]:
    """Fields of summary.json that a row names: what has no part belongs to that of the one before."""
    found, part = set(), ""
    for name in re.findall(r"`([^`]+)`", figures):
        if match := re.match(rf"({PARTS})\.(.+)", name):
            part, name = match.groups()
        found.add(f"{part}.{name}" if part else name)
    return found


def test_each_figure_has_a_law() -> None:
    fields = set(json.loads(Path(__file__).with_name("summary_fields.json").read_text())["fields"])
    # Those of a link are those of the only one.
    of_link = re.compile(r"^links\[\]\.(?!flows)(fairness|dynamics|telemetry)?\.?")
    alone = {of_link.sub(lambda part: f"{part[1] or 'bottleneck'}.", name) for name in fields - WORDS}
    covered = set().union(*(named(figures) for figures, _, _ in laws()))
    assert alone - covered == set()
    assert {name for name in covered if re.match(PARTS, name)} - alone == {"flows[].limited_by"}


def test_each_law_is_tested() -> None:
    for _, test, drawn in laws():
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        defined = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
        assert not name or name in defined or re.search(rf"^{name} = \w+\(", text, re.M), test
        factor = FACTORS.get(Path(path).name, 1)
        is_drawn = "packet_cases" in text or "NARROWS_CASES" in text
        assert drawn == (str(round(factor * USUAL_CASES)) if is_drawn else ""), test
