# SPDX-License-Identifier: Apache-2.0
"""Laws of what is shown: page, terminal, notebook and comparison have the figures of packets' lives, to the digits that
they show."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import packet_lives as truth
import pytest
from narrows.cli.table import bottleneck_lines, summary_table
from narrows_analysis import AnalysisError, analyze_run, load, write_report
from narrows_analysis.comparison.differences import compare
from narrows_analysis.comparison.sides import read_side
from packet_cases import Case, analysed, departed, dropped, first_departures, over_experiments
from packet_lives import BY_LINK, LOST, NS, POLICED, Experiment, Flow

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

FACTORS = {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "%": 0.01, "B": 1, "kB": 1e3, "MB": 1e6, "": 1}
MISSING = {None, "-", "\u2013"}


def value(text: str) -> float:
    """The number that a cell shows, in SI units."""
    found = re.fullmatch(r"([0-9.\u2009,]+)\s*(\S*)", text.replace("\u2009", ""))
    assert found is not None, text
    return float(found[1].replace(",", "")) * FACTORS[found[2]]


def expected(case: Case, flow: Flow) -> dict[str, float | None]:
    """What packets' lives say of the columns of a flow's row; what they cannot is left out."""
    span, out = case.on_path(flow), departed(case.of(flow.name))
    on_path = [life for link in flow.path for life in case.of(flow.name, link)]
    if span is None or not all(case.of(flow.name, link) for link in flow.path):
        return {}
    size = len(first_departures(flow, out)) * flow.payload
    drops = len(dropped(on_path, *BY_LINK))
    found: dict[str, float | None] = {
        "delivered": size,
        "drops": drops,
        "policed": len(dropped(on_path, POLICED)),
        "lost by emulation": len(dropped(on_path, LOST)),
    }
    if span[1] > span[0]:
        found["goodput"] = size * 8 * NS / (span[1] - span[0])
    if len(flow.path) == 1:
        arrivals = len(on_path) - len(dropped(on_path, LOST))
        found["dropped"] = drops / arrivals if arrivals else None
    return found


def check(shown: str | float | None, right: float | None, unit: float, what: object) -> None:
    """Two digits after the point, or two that are not 0; or four digits, or three of parts."""
    if shown in MISSING or right is None:
        assert shown in MISSING and right is None, (what, shown, right)
        return
    number = value(shown) if isinstance(shown, str) else (shown or 0.0)
    assert number * unit == pytest.approx(right, rel=6e-3, abs=0.0051 * unit), (what, shown, right)


UNITS = {"goodput": 1e6, "dropped": 0.01, "drops": 1}


@pytest.mark.long
@over_experiments
def test_page_terminal_and_notebook_show_what_became_of_packets(experiment: Experiment) -> None:
    case = analysed(experiment)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "run")
        truth.write(experiment, case.lives, directory)
        analyze_run(directory)
        page, data = write_report(directory).read_text(), load(directory)
        table, summary = data.table, data.summary
        terminal = summary_table(summary, "x")
        lines = bottleneck_lines(summary)
        try:
            differences = compare(read_side(directory), read_side(directory))
        except AnalysisError:
            # Too little time in which all flows run.
            differences = []
    assert all(one.difference.mean == 0 for one in differences)
    rows = page_rows(page)
    headings = [re.sub(r"\s+", " ", str(column.header)).strip() for column in terminal.columns]
    cells = [list(column.cells) for column in terminal.columns]
    for number, flow in enumerate(experiment.flows):
        right = expected(case, flow)
        assert rows[flow.name]["flow"] == cells[0][number] == table.iloc[number]["flow"] == flow.name
        for name in set(right) & set(rows[flow.name]):
            check(rows[flow.name][name], right[name], 1, ("page", flow.name, name))
        for heading, column in zip(headings, cells, strict=True):
            name = heading.partition(" ")[0]
            if name in set(right) & set(UNITS):
                check(str(column[number]).strip(), right[name], UNITS[name], ("terminal", flow.name, heading))
                of_table = table.iloc[number][heading]
                check(None if of_table != of_table else of_table, right[name], UNITS[name], ("notebook", heading))
    for link in case.crossed:
        found = case.link(link.name)
        line = next((one for one in lines if one.startswith((f"{link.name}:", "bottleneck:"))), None)
        if found is None or line is None or not departed(case.lives[link.name]):
            continue
        lost = dropped(case.lives[link.name], *BY_LINK, LOST)
        shown = re.search(r"([0-9.]+) % lost", line)
        assert shown is not None, line
        check(shown[1], len(lost) / len(case.lives[link.name]), 0.01, ("terminal", link.name))


def page_rows(page: str) -> dict[str, dict[str, Any]]:
    """Cells of the page's table of flows by the names of flows and of columns."""
    found = re.search(r'<table class="sortable" id="flows">(.*?)</table>', page, re.S)
    assert found is not None
    names = [
        re.sub(r"(?<=-)\n|\s+", "", name).lower() for name in re.findall(r"<button>(.*?)</button>", found[1], re.S)
    ]
    spoken = {"lostbyemulation": "lost by emulation"}
    names = [spoken.get(name, name) for name in names]
    rows = {}
    for row in re.findall(r"<tr>(.*?)</tr>", found[1].partition("<tbody>")[2], re.S):
        texts = [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        rows[texts[0]] = dict(zip(names, texts, strict=True))
    return rows
