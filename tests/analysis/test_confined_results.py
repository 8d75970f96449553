# SPDX-License-Identifier: Apache-2.0
"""Results that others have sent name files: what is not an ordinary file below their directory is not opened."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from narrows.batch import sweep_table
from narrows.batch.merge import experiment_of, read_record
from narrows.cli.runs import _listed
from narrows_analysis import AnalysisError, analyze_run, read_run, write_report
from narrows_analysis.comparison.sides import read_side
from narrows_analysis.records.json_files import read_json
from narrows_analysis.study_results import MeasuredPoint, read_variants
from narrows_analysis.summary.source import analyze_source
from narrows_analysis.sweep import load_sweep
from narrows_formats import beneath
from narrows_studies.plots import _open

LIMIT_S = 10.0
# The victim's record says how many packets were sent again; no other one says this.
SECRET = 31337


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """What waits for the other end of a FIFO fails."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {LIMIT_S:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that others have sent, and a file of the reader's outside of it."""
    scenario = synthetic.two_flows(2.0)
    synthetic.write_run(tmp_path / "sent", scenario)
    secret = json.loads((tmp_path / "sent" / "hosts" / "flow0.json").read_text()) | {"retransmits": SECRET}
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "flow0.json").write_text(json.dumps(secret))
    return tmp_path / "sent"


def name_record(run: Path, name: str) -> None:
    document = json.loads((run / "run.json").read_text())
    document["flows"][0]["record"] = name
    (run / "run.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "name", ["{private}/flow0.json", "../private/flow0.json", "hosts/../../private/flow0.json", "hosts", ".", "a\0b"]
)
def test_a_record_is_below_its_run(run: Path, name: str) -> None:
    name_record(run, name.format(private=run.parent / "private"))
    said = read_run(run).host_records[0]
    assert said.error is not None and ("below its directory" in said.error or "ordinary file" in said.error)
    assert said.retransmits is None
    assert str(SECRET) not in json.dumps(analyze_run(run), default=str)


@pytest.mark.parametrize("place", ["hosts", "telemetry"])
def test_a_directory_that_is_a_link_is_refused(run: Path, place: str) -> None:
    (run / place).rename(run.parent / "private" / place)
    (run / place).symlink_to(run.parent / "private" / place)
    with pytest.raises(AnalysisError, match=rf"{place}: is a link or a device"):
        read_run(run)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_a_fifo_is_not_waited_for(run: Path) -> None:
    os.mkfifo(run / "hosts" / "fifo")
    with pytest.raises(AnalysisError, match="is a link or a device"):
        read_run(run)
    with pytest.raises(AnalysisError, match="is not an ordinary file"):
        read_json(run, "hosts/fifo")


def test_an_experiment_that_is_swapped_for_a_link_is_not_in_the_page(run: Path) -> None:
    """Root may make the page of what belongs to another user, who then has it."""
    (run / "experiment.yaml").write_text("name: x\n")
    analyze_run(run)
    read = read_run(run)
    (run / "experiment.yaml").unlink()
    (run / "experiment.yaml").symlink_to(run.parent / "private" / "flow0.json")
    with pytest.raises(AnalysisError, match=r"experiment\.yaml: "):
        write_report(read)
    assert not (run / "report.html").exists()


def test_reports_without_a_run_are_ordinary_files(run: Path, tmp_path: Path) -> None:
    os.mkfifo(run / "telemetry" / "reports-000009.parquet")
    with pytest.raises(AnalysisError, match=r"reports-000009\.parquet: is a link or a device"):
        analyze_source(run / "telemetry", tmp_path / "out")


def test_the_size_of_a_file_is_bounded(run: Path) -> None:
    with (run / "run.json").open("wb") as file:
        file.truncate(beneath.MOST_BYTES + 1)
    with pytest.raises(AnalysisError, match=r"run\.json: .* is larger than 256 MiB"):
        read_run(run)


@pytest.fixture
def sweep(run: Path, tmp_path: Path) -> Path:
    """A sweep of two runs that others have sent."""
    directory = tmp_path / "sweep"
    rows: list[dict[str, Any]] = []
    for value in ("1bdp", "2bdp"):
        shutil.copytree(run, directory / value)
        rows += sweep_table.rows(value, {"bottleneck.buffer": value}, 1, "complete", analyze_run(directory / value))
    sweep_table.write(directory, rows)
    runs = [{"directory": "1bdp", "parameters": {}, "repetition": 1, "status": "complete"}]
    document = {"name": "s", "sweep": {"bottleneck.buffer": ["1bdp", "2bdp"]}, "points": 2, "runs": runs}
    (directory / "sweep.json").write_text(json.dumps(document))
    return directory


@pytest.mark.parametrize("name", ["../sent", "{sent}", "link"])
def test_runs_of_a_sweep_are_below_it(sweep: Path, run: Path, name: str) -> None:
    (sweep / "link").symlink_to(run)
    name = name.format(sent=run)
    frame = pd.read_parquet(sweep / "sweep.parquet")
    frame["directory"] = name
    frame.to_parquet(sweep / "sweep.parquet", index=False)
    with pytest.raises(AnalysisError, match=r"sweep\.parquet: directory: .* is not below"):
        read_side(sweep)
    document = json.loads((sweep / "sweep.json").read_text())
    document["runs"][0]["directory"] = name
    (sweep / "sweep.json").write_text(json.dumps(document))
    (listed,) = [one for one in _listed(sweep.parent) if one.name == "sweep"]
    assert listed.started is None
    assert _open(MeasuredPoint("e", {}, 1, {}, name), sweep) is None


@pytest.mark.parametrize("name", ["sweep.json", "sweep.parquet"])
def test_a_fifo_of_a_sweep_is_not_waited_for(sweep: Path, name: str) -> None:
    fifo(sweep / name)
    with pytest.raises(AnalysisError, match="is not an ordinary file"):
        load_sweep(sweep)
    list(_listed(sweep.parent))


def test_other_files_of_results_are_ordinary_ones(run: Path) -> None:
    for name in ("run.json", "experiment.yaml"):
        fifo(run / name)
    os.mkfifo(run / "results.parquet")
    assert read_record(run) == {}
    assert experiment_of(run) is None
    assert [one.name for one in _listed(run.parent)] == ["sent"]
    with pytest.raises(AnalysisError, match="is not an ordinary file"):
        read_variants(run / "results.parquet")


@pytest.mark.parametrize("value", ["9" * 20, "9" * 400, str(2**63), str(-(2**63) - 1)])
def test_an_integer_that_no_column_holds_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "x.json").write_text(f'{{"a": [{value}]}}')
    with pytest.raises(AnalysisError, match=f"x.json: not readable as JSON: the integer {value[:20]}.* 64 bits"):
        read_json(tmp_path, "x.json")
    (tmp_path / "x.json").write_text(f'{{"a": [{2**63 - 1}, {-(2**63)}]}}')
    assert read_json(tmp_path, "x.json") == {"a": [2**63 - 1, -(2**63)]}
