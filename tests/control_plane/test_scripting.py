# SPDX-License-Identifier: Apache-2.0
"""What scripts rely on: settings from the command line, a check that runs nothing, JSON, whole names."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from narrows.batch import sweep
from narrows.cli import app, machine_readable
from narrows.errors import InputError
from narrows.experiment.sweep import load_series
from narrows.run.environment import OVERHEAD_S, THIS_MACHINE
from narrows.run.runner import Outcome
from narrows_studies.names import OFFERS as STUDIES
from rich.console import Console
from typer.testing import CliRunner

TEXT = """\
name: x
bottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}
flows: [{cca: cubic, duration: 2s}, {name: second, cca: reno, duration: 2s}]
"""
SWEPT = TEXT + "sweep: {bottleneck.buffer: [1bdp, 2bdp], flows.second.cca: [reno, cubic]}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT)
    return path


def test_settings_take_the_place_of_what_the_file_says(file: Path) -> None:
    settings = ["bottleneck.rate=50Mbit", "flows.*.duration=3s", "flows.cubic.count=2", "hosts.offloads=[]"]
    changed = load_series(file, settings).experiment
    assert changed.bottleneck is not None and changed.bottleneck.rate == 50_000_000
    assert [flow.duration for flow in changed.flows] == [3 * 10**9] * 2
    assert [flow.count for flow in changed.flows] == [2, 1]
    assert file.read_text() == TEXT


def test_several_runs_can_be_set(file: Path) -> None:
    assert len(load_series(file, ["repeat=3"]).points) == 3
    file.write_text(SWEPT)
    assert load_series(file, ["sweep={}", "bottleneck.buffer=3bdp"]).single


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("bottleneck.rate", "--set bottleneck.rate: is not a setting; allowed: FIELD=VALUE"),
        ("bottleneck.rat=5Mbit", "--set bottleneck.rat: unknown field 'rat'"),
        ("links.left.rate=5Mbit", "--set links.left.rate: the file has no links, so there is no 'left' to set"),
        ("flows.third.cca=bbr", "--set flows.third.cca: no flow group 'third'"),
        ("bottleneck.rate=fast", "x.yaml --set bottleneck.rate=fast: bottleneck.rate: "),
        ("bottleneck.rate=[", "--set bottleneck.rate=[: the value is not YAML"),
        ("bottleneck.buffer=1bdp", "x.yaml sweeps it; allowed: fields that are not in sweep"),
        ("bottleneck={}", "x.yaml sweeps it"),
        ("flows.1.cca=cubic", "x.yaml sweeps it"),
        ("flows.*.cca=cubic", "x.yaml sweeps it"),
    ],
)
def test_a_wrong_setting_is_refused(file: Path, setting: str, says: str) -> None:
    file.write_text(SWEPT)
    with pytest.raises(InputError) as refused:
        load_series(file, [setting])
    assert says in str(refused.value)


def test_the_cost_is_that_of_the_longest_runs_side_by_side(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four runs, two at once: half of the time of all, and the memory of the two largest."""
    file.write_text(SWEPT)
    sizes = iter([1, 5, 2, 4])
    monkeypatch.setattr(
        sweep, "check", lambda *_: SimpleNamespace(plan=SimpleNamespace(flows=()), environment=THIS_MACHINE, notes=())
    )
    monkeypatch.setattr(type(THIS_MACHINE), "at_once", lambda *_: 2)
    monkeypatch.setattr(type(THIS_MACHINE), "expected_s", lambda *_: 30.0)
    monkeypatch.setattr(type(THIS_MACHINE), "memory_bytes", lambda *_: next(sizes))
    nothing: Any = None
    found = sweep.cost(load_series(file), lambda _: nothing)
    assert (found.runs, found.at_once, found.seconds, found.memory_bytes) == (4, 2, 60.0, 9)


def test_a_check_refuses_what_a_run_would(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'cubicc' is not in this kernel"):
        CliRunner().invoke(app, ["check", str(file), "--set", "flows.second.cca=cubicc"], catch_exceptions=False)
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


@pytest.mark.parametrize(("options", "allowed"), [([], False), (["--allow-mismatch"], True), (["--mixed"], True)])
def test_runs_that_differ_are_added_under_either_name_of_the_option(
    file: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], allowed: bool
) -> None:
    given: list[object] = []

    def run_series(*arguments: object) -> list[Outcome]:
        given.append(arguments[-1])
        return []

    monkeypatch.setattr(sweep, "run_series", run_series)
    assert CliRunner().invoke(app, ["run", str(file), *options], catch_exceptions=False).exit_code == 0
    assert given == [allowed]


@pytest.mark.root
def test_a_check_says_what_a_run_takes(file: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(file), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (found["runs"], found["memory_bytes"]) == (1, None)
    # Two seconds of traffic, at least as much of set-up and analysis as a run has, and the drain.
    assert 2 + OVERHEAD_S <= found["seconds"] <= 5 + OVERHEAD_S
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


def test_runs_are_listed_with_whole_names_and_as_json(tmp_path: Path) -> None:
    name = "a-name-as-long-as-the-columns-of-a-terminal-" * 3
    (tmp_path / name).mkdir()
    (tmp_path / name / "run.json").write_text(json.dumps({"started": "2026-01-02T03:04:05Z", "status": "complete"}))
    listed = CliRunner().invoke(app, ["runs", str(tmp_path)], catch_exceptions=False)
    assert name in listed.stdout
    (found,) = json.loads(CliRunner().invoke(app, ["runs", str(tmp_path), "--json"]).stdout)
    assert (found["name"], found["status"], found["sweep"]) == (name, "complete", False)
    # Of a run without a summary nothing is known, which is not 0.
    assert (found["utilization"], found["flows"], found["started"]) == (None, None, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("run", "summary"),
    [
        ({"started": 5}, {}),
        ({}, {"flows": 3}),
        ({}, {"links": 3}),
        ({}, {"links": [3]}),
        ({}, {"links": [{"rate_bps": "fast"}]}),
        ({}, {"links": [{"utilization": math.nan}]}),
        ({}, {"links": [{"queue_delay_s": None}]}),
    ],
)
def test_a_run_that_has_something_else_than_figures_is_listed_as_such(
    tmp_path: Path, run: dict[str, Any], summary: dict[str, Any]
) -> None:
    (tmp_path / "odd").mkdir()
    for name, data in (("run.json", run), ("summary.json", summary)):
        (tmp_path / "odd" / name).write_text(json.dumps(data))
    shown = CliRunner().invoke(app, ["runs", str(tmp_path)], catch_exceptions=False)
    assert "cannot be read" in shown.stdout
    (found,) = json.loads(CliRunner().invoke(app, ["runs", str(tmp_path), "--json"], catch_exceptions=False).stdout)
    assert (found["name"], found["status"], found["flows"], found["links"]) == ("odd", "cannot be read", None, [])


def test_runs_are_listed_below_each_other_where_columns_would_cut_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal of 80 columns."""
    monkeypatch.setattr(machine_readable, "results_console", lambda: Console(width=80))
    name = "a-name-as-long-as-the-columns-of-a-terminal-" * 3
    (tmp_path / name).mkdir()
    (tmp_path / name / "run.json").write_text(json.dumps({"started": "2026-01-02T03:04:05Z", "status": "complete"}))
    link = {
        "name": "bottleneck",
        "rate_bps": 1e8,
        "utilization": 0.5,
        "loss_ratio": 0.01,
        "queue_delay_s": {"p99": 0.04},
    }
    (tmp_path / name / "summary.json").write_text(json.dumps({"links": [link], "flows": [{}, {}]}))
    listed = CliRunner().invoke(app, ["runs", str(tmp_path)], catch_exceptions=False).stdout
    assert [line.rstrip() for line in listed.splitlines()] == [
        name,
        "  2026-01-02 03:04:05, complete, rate 100.00 Mbit/s, flows 2, utilized 50.00 %,",
        "  lost 1.00 %, delay p99 40.00 ms, Jain -",
    ]


def test_findings_as_json() -> None:
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert {"tool", "collector", "CCAs"} <= {one["subject"] for one in found}


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        ("rate", "100mbit", "Mbit"),  # tc reads units in any case
        ("rate", "100Mbps", "Mbit"),
        ("rate", "100Gb/s", "Gbit"),
        ("rate", "100mbps", None),  # bytes to tc
        ("rate", "100MBps", None),
        ("rtt", "40msec", "ms"),
        ("buffer", "100pkts", "packets"),
        ("buffer", "64kb", "KiB"),  # 1024 bytes to tc
        ("buffer", "64KIB", "KiB"),
        ("rtt", "64kb", None),  # no time
    ],
)
def test_units_of_tc_are_known_for_what_they_mean(file: Path, field: str, value: str, meant: str | None) -> None:
    with pytest.raises(InputError) as refused:
        load_series(file, [f"bottleneck.{field}={value}"])
    guess = f" (did you mean {meant}?); allowed: " if meant else "; allowed: "
    assert f"has the unknown unit '{value.lstrip('0123456789')}'{guess}" in str(refused.value)


@pytest.mark.parametrize("command", [[], ["run"], ["kernel"], ["kernel", "build"], ["study"]])
def test_help_is_short(command: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["study", ""], list(STUDIES)),
        (["run", "file.yaml", "--target", "t"], ["tofino"]),
        (["check", "file.yaml", "--kernel", "m"], ["mine"]),
        (["kernel", "remove", ""], ["mine"]),
        (["compare", ""], ["results/one", "results/sweep"]),
        (["report", "results/sweep/"], ["results/sweep/0001"]),
        (["export", "elsewhere/"], []),
    ],
    ids=" ".join,
)
def test_a_shell_completes_names_and_results(typed: list[str], completed: list[str], tmp_path: Path) -> None:
    for record in ("one/run.json", "sweep/sweep.json", "sweep/0001/run.json", "no-run/notes.txt"):
        path = tmp_path / "results" / record
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    kernel = tmp_path / "narrows" / "kernels" / "mine" / "linux"
    kernel.parent.mkdir(parents=True)
    kernel.touch(mode=0o755)
    words = {"COMP_WORDS": " ".join(["narrows", *typed]), "COMP_CWORD": str(len(typed))}
    environment = {**os.environ, "_NARROWS_COMPLETE": "complete_bash", "XDG_CACHE_HOME": str(tmp_path), **words}
    program = Path(sys.executable).with_name("narrows")
    said = subprocess.run([program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == completed
