# SPDX-License-Identifier: Apache-2.0
"""Files that a sweep names are relative to the experiment's file, as all others are, and called by their names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from narrows.errors import InputError
from narrows.experiment.sweep import load_series
from narrows_formats.swept_values import labels

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
FLOW = "name: swept\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\nflows:\n  - "


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is not the one that commands are run in."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "here"


def swept(place: Path, text: str, field: str, values: str) -> Path:
    place.mkdir(exist_ok=True)
    (place / "x.yaml").write_text(f"{text}\nsweep: {{{field}: {values}}}\n")
    return place / "x.yaml"


def test_entries_of_a_program(place: Path) -> None:
    shutil.copytree(EXAMPLE, place)
    shutil.copy(place / "entries.json", place / "other.json")
    text = (place / "cubic-and-bbr.yaml").read_text()
    points = load_series(swept(place, text, "bottleneck.program.entries", "[entries.json, other.json]")).points
    programs = [cast(Any, point.experiment.bottleneck).program for point in points]
    assert [program.entries for program in programs] == [str(place / name) for name in ("entries.json", "other.json")]
    assert [point.parameters for point in points] == [
        {"bottleneck.program.entries": name} for name in ("entries.json", "other.json")
    ]
    assert [point.directory for point in points] == ["0001-entries=entries.json", "0002-entries=other.json"]


@pytest.mark.parametrize("group", ["0", "loader", "*"])
def test_a_client(place: Path, group: str) -> None:
    place.mkdir()
    for name in ("one", "two"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    file = swept(place, f"{FLOW}{{name: loader, client: [./one]}}", f"flows.{group}.client", "[[./one], [./two, -v]]")
    flows = [cast(Any, point.experiment.flows[0]).client for point in load_series(file).points]
    assert flows == [(str(place / "one"),), (str(place / "two"), "-v")]


def test_a_distribution(place: Path) -> None:
    place.mkdir()
    (place / "web.cdf").write_text("1000 0.5\n2000 1\n")
    text = f"{FLOW}{{cca: cubic, duration: 1s, requests: {{size: {{cdf: [[500, 1]]}}, think: 1ms}}}}"
    file = swept(place, text, "flows.0.requests.size", "[{cdf: web.cdf}]")
    (point,) = load_series(file).points
    assert cast(Any, point.experiment.flows[0]).requests.size.cdf == ((1000.0, 0.5), (2000.0, 1.0))


def test_the_source_of_a_program_is_swept_with_the_whole(place: Path) -> None:
    shutil.copytree(EXAMPLE, place)
    text = (place / "cubic-and-bbr.yaml").read_text()
    file = swept(place, text, "bottleneck.program.p4", "[interval_aqm.p4]")
    with pytest.raises(
        InputError, match=r"sweep.bottleneck.program.p4: cannot be swept alone; allowed: bottleneck.pro"
    ):
        load_series(file)


def test_files_of_one_name_are_told_apart() -> None:
    assert labels(["/a/x.json", "/a/y.json"]) == ["x.json", "y.json"]
    assert labels(["/a/x.json", "/b/x.json"]) == ["/a/x.json", "/b/x.json"]
