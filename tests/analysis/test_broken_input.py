# SPDX-License-Identifier: Apache-2.0
"""Damaged telemetry: either the numbers are still the truth, or a warning says that something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import AnalysisError, analyze_run

Columns = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, synthetic.Truth]:
    run_dir = tmp_path_factory.mktemp("damaged") / "run"
    return run_dir, synthetic.write_run(run_dir, synthetic.two_flows(3.0), files=1)


def analysed(run_dir: Path, columns: Columns) -> Any:
    synthetic.write_reports(run_dir / "telemetry" / "reports-00000.parquet", columns)
    return analyze_run(run_dir)


def counts(summary: Any) -> list[tuple[int, int, int]]:
    return [(flow["arrivals"], flow["departures"], flow["drops"]) for flow in summary["flows"]]


@pytest.mark.parametrize("seed", range(60))
def test_one_corrupted_counter_is_never_believed(pristine: tuple[Path, synthetic.Truth], seed: int) -> None:
    run_dir, truth = pristine
    rng = np.random.default_rng(seed)
    columns = {name: values.copy() for name, values in truth.rows.items()}
    field = ("sequence", "arrivals", "departures", "loss_drops")[seed % 4]
    row = int(rng.integers(len(columns["flow"])))
    change = int(rng.integers(1, 1 << int(rng.integers(1, 32))))
    columns[field][row] = (columns[field][row] ^ change) % (1 << 32)
    summary = analysed(run_dir, columns)
    right = list(zip(truth.arrivals, truth.departures, truth.drops, strict=True))
    assert (counts(summary) == right and field != "loss_drops") or summary["warnings"], (field, row, change)


def test_drops_never_go_back(pristine: tuple[Path, synthetic.Truth]) -> None:
    run_dir, truth = pristine
    columns = {name: values.copy() for name, values in truth.rows.items()}
    columns["arrivals"][2500] += 5
    assert "counters_implausible" in {warning["code"] for warning in analysed(run_dir, columns)["warnings"]}
    assert (pd.read_parquet(run_dir / "flows.parquet")["drops"] >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_shuffled_doubled_and_missing_reports(pristine: tuple[Path, synthetic.Truth], seed: int) -> None:
    """Whatever arrives in whatever order: counts are exact as long as each flow's last report is there."""
    run_dir, truth = pristine
    rng = np.random.default_rng(seed)
    total = len(truth.rows["flow"])
    order = np.arange(total)
    order = order[rng.random(total) > rng.choice([0.0, 0.001, 0.05])]
    lasts = [int(np.flatnonzero(truth.rows["flow"] == index)[-1]) for index in (1000, 1007)]
    order = np.unique(np.concatenate((order, [0], lasts)))
    doubled = rng.integers(len(order), size=int(rng.integers(0, 20)))
    order = np.insert(order, doubled, order[doubled])
    place = np.arange(len(order)) + rng.integers(0, int(rng.choice([1, 30])), len(order))
    order = order[np.argsort(place, kind="stable")]
    summary = analysed(run_dir, {name: values[order] for name, values in truth.rows.items()})
    assert counts(summary) == list(zip(truth.arrivals, truth.departures, truth.drops, strict=True))
    distinct = len(np.unique(order))
    assert summary["telemetry"]["reports"] == distinct
    assert summary["telemetry"]["lost"] == total - distinct
    assert (summary["fairness"]["jain_index"] is None) == ((total - distinct) / total > 0.01)


def test_two_runs_in_one_directory(pristine: tuple[Path, synthetic.Truth]) -> None:
    """Numbering that begins anew in the middle is refused: the numbers of two runs cannot be distinguished."""
    run_dir, truth = pristine
    (run_dir / "summary.json").unlink(missing_ok=True)
    columns = {name: np.concatenate((values, values[: len(values) // 2])) for name, values in truth.rows.items()}
    with pytest.raises(AnalysisError, match="sequence of bottleneck 0 begins anew: more than one run"):
        analysed(run_dir, columns)
    assert not (run_dir / "summary.json").exists()


def test_a_clock_that_steps_back(pristine: tuple[Path, synthetic.Truth]) -> None:
    run_dir, truth = pristine
    columns = {name: values.copy() for name, values in truth.rows.items()}
    columns["timestamp"][2000:] -= 500_000_000
    summary = analysed(run_dir, columns)
    assert "clock" in {warning["code"] for warning in summary["warnings"] if warning["severity"] == "error"}


@pytest.mark.parametrize(("target", "cause"), [("tofino", True), ("soft", False)])
def test_reports_that_left_too_late_are_named_as_a_cause(tmp_path: Path, target: str, cause: bool) -> None:
    """Tofino's reports carry 32 bits of their packets' times in ns: one that leaves 2^32 ns later is dated so."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0), files=1)
    columns = {name: values.copy() for name, values in truth.rows.items()}
    columns["timestamp"][1000:1050] += 1 << 32
    described = tmp_path / "run" / "run.json"
    document: dict[str, Any] = json.loads(described.read_text())
    document["target_profile"]["name"] = target
    described.write_text(json.dumps(document))
    (said,) = [one["message"] for one in analysed(tmp_path / "run", columns)["warnings"] if one["code"] == "clock"]
    assert ("A report that leaves the switch more than 4.3 s after its packet" in said) == cause


def test_a_file_of_another_kind(pristine: tuple[Path, synthetic.Truth], tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5), files=1)
    path = tmp_path / "run" / "telemetry" / "reports-00000.parquet"
    (tmp_path / "run" / "telemetry" / "flow_keys.parquet").replace(path)
    with pytest.raises(AnalysisError, match=r"reports-00000\.parquet: no column flags, sample_shift"):
        analyze_run(tmp_path / "run")
    path.write_bytes(b"")
    summary: Any = analyze_run(tmp_path / "run")
    assert {"file_unreadable", "no_telemetry"} <= {warning["code"] for warning in summary["warnings"]}
    (tmp_path / "run" / "telemetry" / "flow_keys.parquet").write_bytes(b"PAR1")
    with pytest.raises(AnalysisError, match=r"flow_keys\.parquet: not readable as Parquet"):
        analyze_run(tmp_path / "run")


def test_flow_keys_of_another_kind(tmp_path: Path) -> None:
    keys = tmp_path / "run" / "telemetry" / "flow_keys.parquet"
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5), files=1)
    table = pq.read_table(keys)
    for name, values, says in (
        ("flow", ["x"] * len(table), "column flow has something else than integers"),
        ("src_port", [None] * len(table), "column src_port has something else than integers"),
        ("first_timestamp", ["x"] * len(table), "column first_timestamp has something else than integers"),
        ("src", [5] * len(table), "column src has something else than text"),
        ("signature", None, "no column signature"),
    ):
        other = table.drop_columns([name])
        pq.write_table(other if values is None else other.append_column(name, [values]), keys)
        with pytest.raises(AnalysisError, match=rf"flow_keys\.parquet: {says}"):
            analyze_run(tmp_path / "run")


@pytest.mark.parametrize(
    "text",
    # The last ones are as iperf3 has them, of runs before 0.3.0.
    ["", "[]", "{}", "\\x00", '{"samples": 5}', '{"intervals": 5, "end": []}', '{"end": {"streams": [1]}}'],
)
def test_broken_host_files_do_not_stop_the_analysis(tmp_path: Path, text: str) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    (tmp_path / "run" / "hosts" / "flow0.json").write_text(text)
    summary: Any = analyze_run(tmp_path / "run")
    assert summary["flows"][0]["rtt_s"] == {"min": None, "mean": None}
    assert summary["flows"][1]["rtt_s"]["min"] is not None
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
