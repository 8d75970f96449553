# SPDX-License-Identifier: Apache-2.0
"""What must not move any figure: another clock, a later start, other names of links, another order of flows, a link
without traffic. That units do not either: tests/control_plane/test_unit_changes.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from packet_cases import Case, analysed, over_experiments
from packet_lives import NS, Experiment, Link

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

LATER_S = 3
NAMES = {"a": "link-z", "b": "link-m", "c": "link-b"}
IDLE = "idle"


def later(experiment: Experiment) -> Experiment:
    """All of it some seconds later."""
    shift = LATER_S * NS
    links = [
        replace(link, steps=(link.steps[0], *((since + shift, rate) for since, rate in link.steps[1:])))
        for link in experiment.links
    ]
    flows = [replace(flow, start=flow.start + shift) for flow in experiment.flows]
    sent = [replace(one, time=one.time + shift) for one in experiment.sent]
    return replace(experiment, links=tuple(links), flows=tuple(flows), sent=tuple(sent))


def another_clock(experiment: Experiment) -> Experiment:
    """The same on a switch whose clock is elsewhere."""
    return replace(experiment, origin=(experiment.origin + 77 * NS + 1) % (1 << 48))


def renamed(experiment: Experiment) -> Experiment:
    """The same with other names of links."""
    links = [replace(link, name=NAMES[link.name]) for link in experiment.links]
    flows = [replace(flow, path=tuple(NAMES[name] for name in flow.path)) for flow in experiment.flows]
    return replace(experiment, links=tuple(links), flows=tuple(flows))


def turned(experiment: Experiment) -> Experiment:
    """The same with the flows in another order."""
    return replace(experiment, flows=experiment.flows[::-1])


def with_an_idle_link(experiment: Experiment) -> Experiment:
    """The same with a link that no flow crosses."""
    return replace(experiment, links=(*experiment.links, Link(IDLE, experiment.links[0].steps, 3_000)))


def figures(case: Case, shift_s: int) -> Any:
    """All that is said of flows, groups and links, and their series, as if it had not been moved."""
    summary = case.summary
    links = [{**link, "flows": by_name(link["flows"])} for link in summary["links"] if link["name"] != IDLE]
    found = {
        "flows": by_name(summary["flows"]),
        "groups": by_name(summary["groups"]),
        "links": links,
        "share_window_s": summary["share_window_s"],
        "run_window_s": summary["run_window_s"],
        "series": [series(case.flows), series(case.queue)],
    }
    text = json.dumps(found)
    for name, other in NAMES.items():
        text = text.replace(f'"{other}"', f'"{name}"')
    moved = sooner(json.loads(text), shift_s)
    for rows in moved["series"]:
        rows.sort(key=lambda row: (row["link"], row.get("name"), round(row["time_s"] * NS)))
    return moved


def by_name(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Entries that are in no order, by their names."""
    return {one["name"]: one for one in entries}


def series(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows in which anything happened."""
    counts = [column for column in ("arrivals", "departures", "drops", "loss_drops") if column in frame]
    rows = frame[(frame[counts].sum(axis=1) > 0) & (frame["link"] != IDLE)].drop(columns="flow", errors="ignore")
    found = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]


TIMES = {"start_s", "end_s", "share_window_s", "run_window_s", "window_s", "time_s"}


def sooner(found: Any, shift_s: float, name: str = "") -> Any:
    """The same with moments so much earlier."""
    if isinstance(found, dict):
        return {key: sooner(value, shift_s, key) for key, value in found.items()}
    if isinstance(found, list):
        return [sooner(value, shift_s, name) for value in found]
    return found - shift_s if name in TIMES and found is not None else found


def alike(one: Any, other: Any, place: str = "") -> None:
    """Equal but for the last digits of floats."""
    if isinstance(one, dict):
        assert isinstance(other, dict) and one.keys() == other.keys(), (place, one, other)
        for key in one:
            alike(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list):
        assert isinstance(other, list) and len(one) == len(other), (place, one, other)
        for number, pair in enumerate(zip(one, other, strict=True)):
            alike(*pair, f"{place}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-8, abs=1e-8), place
    else:
        assert one == other, place


@pytest.mark.long
@pytest.mark.parametrize("change", [another_clock, later, renamed, turned, with_an_idle_link])
def test_figures_do_not_depend_on(change: Callable[[Experiment], Experiment]) -> None:
    @over_experiments
    def test(experiment: Experiment) -> None:
        shift_s = LATER_S if change is later else 0
        alike(figures(analysed(experiment), 0), figures(analysed(change(experiment)), shift_s))

    test()
