# SPDX-License-Identifier: Apache-2.0
"""sweep.json, sweep.parquet and the page of all runs, by a series with stand-ins for runs, and by the commands."""

from __future__ import annotations

import io
import json
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from narrows.batch import batch, task
from narrows.batch.sweep import run_series
from narrows.cli import app, main
from narrows.errors import EXIT_BAD_INPUT, InputError
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows.run.environment import THIS_MACHINE
from narrows.run.runner import Outcome
from narrows_formats.summary import FORMAT
from rich.console import Console
from test_cli import SUMMARY
from typer.testing import CliRunner

BASE: dict[str, Any] = {
    "name": "buffers",
    "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "30s"}, {"cca": "cubic", "duration": "30s"}],
}
SWEEP = {"bottleneck.buffer": ["0.5bdp", "1bdp"]}


def run_all(monkeypatch: pytest.MonkeyPatch, path: Path, failing: tuple[str, ...] = (), **changes: Any) -> Path:
    """A series whose runs only write a summary."""

    def execute(run: Any, directory: Path, *_: Any) -> Outcome:
        assert not (path / "out" / "sweep.parquet").exists(), "the table is made once, at the end"
        directory.mkdir()
        summary: Any = {**SUMMARY, "format": FORMAT}
        (directory / "summary.json").write_text(json.dumps(summary))
        (directory / "run.json").write_text("{}")
        status: Any = "failed" if directory.name in failing else "complete"
        return Outcome(status, "", directory, summary, ())

    monkeypatch.setattr(
        batch,
        "check",
        lambda experiment, *_: SimpleNamespace(
            experiment=experiment, plan=make_plan(experiment), environment=THIS_MACHINE, notes=(), provenance={}
        ),
    )
    monkeypatch.setattr(task, "execute", execute)
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changes}))
    out = path / "out"
    said = io.StringIO()
    outcomes = list(run_series(load_series(file), lambda _: None, out, Console(file=said)))  # type: ignore[arg-type,return-value]
    # 30 s of traffic each, and what else a run takes; the first one took no time.
    lines = ["2 runs, about 84 s"] + ["1 of 2 runs done, about 0 s left"] * (not failing)
    lines += [f"complete runs are kept: the same command with --out {out} runs the rest"] * bool(failing)
    assert [line for line in said.getvalue().splitlines() if not line.startswith("note: ")] == lines
    assert outcomes[-1].status == ("failed" if failing else "complete")
    return out


def test_a_sweep_ends_with_a_table_and_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = run_all(monkeypatch, tmp_path, sweep=SWEEP)
    assert sorted(path.name for path in out.iterdir()) == [
        "0001-buffer=0.5bdp", "0002-buffer=1bdp", "intervals.csv", "report.html", "sweep.json", "sweep.parquet",
    ]  # fmt: skip
    table = pd.read_parquet(out / "sweep.parquet")
    assert list(table["bottleneck.buffer"]) == ["0.5bdp", "0.5bdp", "1bdp", "1bdp"]
    page = (out / "report.html").read_text()
    assert "buffers" in page and "0.5bdp" in page and "Jain" in page


@pytest.mark.parametrize(
    ("field", "values", "names"),
    [
        ("bottleneck.queue", ["pie", {"kind": "codel", "target": "1ms"}], ["pie", "kind-codel-1ms"]),
        ("hosts.date", [date(2026, 11, 25), date(2026, 11, 26)], ["2026-11-25", "2026-11-26"]),
    ],
)
def test_values_that_are_no_plain_ones_have_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, field: str, values: list[Any], names: list[str]
) -> None:
    out = run_all(monkeypatch, tmp_path, sweep={field: values})
    found = pd.read_csv(out / "intervals.csv")
    assert list(found[found["quantity"] == "utilization"][field]) == names
    page = (out / "report.html").read_text()
    # A row of a map of each quantity, and of the table of all results.
    assert all(page.count(f">{name}<") > len(found["quantity"].unique()) for name in names)


def test_flows_may_be_swept_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The number of a group's flows is a column of that name."""
    values = [[{"cca": cca, "duration": "30s"}] for cca in ("bbr", "cubic")]
    out = run_all(monkeypatch, tmp_path, sweep={"flows": values})
    found = pd.read_csv(out / "intervals.csv")
    assert list(found[found["quantity"] == "utilization"]["flows"]) == list(map(str, values))


def test_a_sweep_that_a_failure_ends_has_a_table_of_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = run_all(monkeypatch, tmp_path, failing=("0001-buffer=0.5bdp",), sweep=SWEEP)
    table = pd.read_parquet(out / "sweep.parquet")
    assert set(table["directory"]) == {"0001-buffer=0.5bdp"} and set(table["status"]) == {"failed"}
    assert "1 of 2 runs have no results" in (out / "report.html").read_text()


def test_repetitions_have_a_table_and_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = run_all(monkeypatch, tmp_path, repeat=2)
    assert list(pd.read_parquet(out / "sweep.parquet")["repetition"]) == [1, 1, 2, 2]
    assert "Means over repetitions" in (out / "report.html").read_text() and (out / "intervals.csv").exists()


def test_report_makes_the_page_of_a_sweep_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = run_all(monkeypatch, tmp_path, sweep=SWEEP)
    (out / "report.html").unlink()
    (out / "sweep.parquet").unlink()
    monkeypatch.setattr("narrows_analysis.write_report", lambda path: path / "run.json")
    result = CliRunner().invoke(app, ["report", str(out)], catch_exceptions=False)
    assert result.output.splitlines()[-1] == str(out / "report.html")
    assert (out / "report.html").exists() and (out / "sweep.parquet").exists()


def test_a_summary_of_an_older_analysis_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = run_all(monkeypatch, tmp_path, sweep=SWEEP)
    old = out / "0002-buffer=1bdp"
    (old / "summary.json").write_text(json.dumps(SUMMARY))
    monkeypatch.setattr("narrows_analysis.write_report", lambda path: path / "run.json")
    with pytest.raises(InputError, match=f"older version of the analysis; 'narrows analyze {old}' makes it"):
        CliRunner().invoke(app, ["report", str(out)], catch_exceptions=False)


def test_report_of_an_old_run_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {
        "target_profile": {"name": "soft", "time_unit_s": 1e-9, "depth_unit": "bytes", "depth_unit_bytes": 1},
        "bottleneck": {"rate_bps": 100_000_000},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    monkeypatch.setattr(sys, "argv", ["narrows", "report", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == EXIT_BAD_INPUT
    assert f"'narrows analyze {tmp_path}'" in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"runs": [{}], "sweep": {}}', '{"runs": []}'])
def test_a_broken_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text("{}")
    with pytest.raises(InputError, match=r"run\.json|sweep\.json"):
        CliRunner().invoke(app, ["report", str(tmp_path)], catch_exceptions=False)
