# SPDX-License-Identifier: Apache-2.0
"""Laws of reports that are lost, doubled, out of order or too late: each is counted as what it is, counts of packets
stay exact, and what is not known any more is not given."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import packet_lives as truth
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from narrows_analysis import analyze_run
from packet_cases import CASES, departed, dropped
from packet_lives import BY_LINK, LOST, NS, Life
from steady_traffic import LINK, drawn

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

# What may overtake a report before it counts as lost, and how far behind it is still known from a copy
# (`WINDOW` and `HISTORY` of the collector).
WINDOW, KNOWN = 256, 1024
MOST_MISSING, FEW = 0.01, 39


@dataclass(frozen=True)
class Received:
    """Numbers of reports in the order in which they come, and what became of those of a run: sets of their numbers."""

    order: list[int]
    lost: frozenset[int]
    late: frozenset[int]
    doubled: frozenset[int]


def received(count: int, chance: random.Random) -> Received:
    """Reports of numbers 0 to count - 1, of which some are lost, late or doubled, and others change places; those in
    front and behind come as they were sent, so that it is known what is missing."""
    part = chance.choice([0.0, 0.002, 0.05])
    inner = range(100, count - 100)
    chosen = [number for number in inner if chance.random() < part]
    # What is late must not be the last that comes.
    late = frozenset(number for number in chosen if chance.random() < 0.3 and number + KNOWN < count - 100)
    lost = frozenset(chosen) - late
    doubled = frozenset(number for number in inner if chance.random() < 0.02) - lost - late
    places = []
    for number in range(count):
        if number in lost:
            continue
        place = number + (chance.random() * chance.choice([0, 3, WINDOW // 2]) if number in inner else 0)
        if number in late:
            place = number + chance.randint(2 * WINDOW, KNOWN - WINDOW)
        places.append((place, number))
        if number in doubled:
            places.append((place + chance.random() * WINDOW / 2, number))
    return Received([number for _, number in sorted(places)], lost, late, doubled)


def cases() -> Iterator[tuple[truth.Experiment, list[Life], Received, Any, Any]]:
    """Experiments with lives, what was received, and what is said of the whole and of what was received."""
    for number in range(CASES):
        experiment = drawn(number)
        lives, chance = truth.lives(experiment)[LINK], random.Random(number)
        came = received(len(departed(lives)), chance)
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place, "run")
            truth.write(experiment, {LINK: lives}, directory)
            whole = analyze_run(directory)
            path = directory / "telemetry" / "reports-00000.parquet"
            table = pq.read_table(path).take(pa.array(came.order))
            pq.write_table(table, path, compression="lz4")
            yield experiment, lives, came, whole, analyze_run(directory)


@pytest.mark.long
def test_reports_are_counted_as_what_they_are() -> None:
    seen = pd.Series(0, index=["lost", "late", "duplicates", "plain"])
    for experiment, lives, came, whole, found in cases():
        count, missing = len(departed(lives)), len(came.lost) + len(came.late)
        assert found["telemetry"] == {
            "reports": count - missing, "lost": missing, "late": len(came.late), "duplicates": len(came.doubled),
            "sample": 1,
        }  # fmt: skip
        seen += [bool(came.lost), bool(came.late), bool(came.doubled), not missing]
        for flow in experiment.flows:
            mine = [life for life in lives if life.flow == flow.name]
            shown = next(one for one in found["flows"] if one["name"] == flow.name)
            # The last reports of a flow came.
            assert shown["departures"] == len(departed(mine))
            assert shown["arrivals"] == len(mine) - len(dropped(mine, LOST))
            assert shown["drops"] == len(dropped(mine, *BY_LINK))
            first_s = pytest.approx(min(life.offered for life in mine) / NS, abs=1e-9)
            # Of few reports, of which some may be missing, nothing is estimated.
            assert shown["start_s"] == first_s or (missing and len(departed(mine)) < FEW + missing)
        assert found["bottleneck"]["drops"] == len(dropped(lives, *BY_LINK))
        few = missing <= MOST_MISSING * count
        judged = all(flow["start_s"] is not None for flow in found["flows"])
        assert (found["fairness"]["jain_index"] is not None) == (few and judged)
        if not missing:
            for name in ("bottleneck", "flows", "groups", "fairness", "dynamics"):
                assert found[name] == whole[name], name
    assert seen.min() > 0, seen
