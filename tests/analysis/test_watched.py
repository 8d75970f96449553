# SPDX-License-Identifier: Apache-2.0
"""Fields of a user's program that were watched, as columns of the reports."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import load
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import read_run
from narrows_analysis.records.watched import WatchedFields
from narrows_formats.files import TELEMETRY, WATCHED

FORMATS = Path(__file__).parents[1] / "formats" / "0.2.0" / "run"
LARGEST = (1 << 64) - 1


def watched(directory: Path, table: pa.Table | bytes) -> WatchedFields:
    (directory / TELEMETRY).mkdir()
    path = directory / TELEMETRY / WATCHED
    if isinstance(table, bytes):
        path.write_bytes(table)
    else:
        pq.write_table(table, path)
    return WatchedFields(replace(read_run(FORMATS), path=directory))


def test_values_are_those_of_the_packet_and_null_where_they_were_lost(tmp_path: Path) -> None:
    table = pa.table(
        {
            "timestamp": pa.array([1, 2, 3], pa.uint64()),
            "bottleneck": pa.array([1, 0, 0], pa.uint8()),
            "sequence": pa.array([7, 8, 7], pa.uint32()),
            "m.x": pa.array([17, LARGEST, 7], pa.uint64()),
        }
    )
    found = watched(tmp_path, table)
    assert found.names == ["m.x"]
    reports = pd.DataFrame({"bottleneck": [0, 0, 0, 1, 1], "sequence": [7, 8, 9, 7, 8]})
    joined = found.join(reports)
    assert list(joined.columns) == ["bottleneck", "sequence", "m.x"]
    # As whole numbers, which 64 bits of a float would not be.
    assert joined["m.x"].isna().tolist() == [False, False, True, False, True]
    assert joined["m.x"].dropna().tolist() == [7, LARGEST, 17]


def test_of_some_reports_only_their_values_are_read(tmp_path: Path) -> None:
    count = 1_000
    sequence = list(range(1, count + 1)) * 2
    table = pa.table(
        {
            "timestamp": pa.array(range(2 * count), pa.uint64()),
            "bottleneck": pa.array([0] * count + [3] * count, pa.uint8()),
            "sequence": pa.array(sequence, pa.uint32()),
            "m.x": pa.array([10 * number for number in range(2 * count)], pa.uint64()),
        }
    )
    watched(tmp_path, table)
    run = replace(read_run(FORMATS), path=tmp_path)
    reports = pd.DataFrame({"bottleneck": [3, 0, 0, 3, 5], "sequence": [7, 400, 600, 9, 1]})
    some = WatchedFields(run, within=reports)
    # Of bottleneck 0 those from 400 to 600, of 3 those from 7 to 9.
    assert some.packets == 201 + 3
    pd.testing.assert_frame_equal(some.join(reports), WatchedFields(run).join(reports))
    assert some.join(reports)["m.x"].tolist() == [10_060, 3_990, 5_990, 10_080, pd.NA]
    none = WatchedFields(run, within=reports[:0])
    assert (none.packets, none.names) == (0, ["m.x"])
    assert none.join(reports)["m.x"].isna().all()


def test_dask_has_the_columns_of_watched_fields(tmp_path: Path) -> None:
    """As `reports` has them: values of each packet, null where they were lost."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0), files=3)
    telemetry = tmp_path / "run" / TELEMETRY
    keys = pa.concat_tables(
        [pq.read_table(path, columns=["bottleneck", "sequence"]) for path in telemetry.glob("reports-*.parquet")]
    )
    values = pa.array([LARGEST - number for number in range(len(keys))], pa.uint64())
    kept = keys.append_column("m.x", values).slice(5)
    pq.write_table(kept.add_column(0, "timestamp", pa.array([0] * len(kept), pa.uint64())), telemetry / WATCHED)
    run: Any = load(tmp_path / "run")
    dask: Any = importlib.import_module("dask")
    lazy = run.dask_reports()
    assert lazy.npartitions >= 3
    assert list(lazy.columns) == list(run.reports().columns) and lazy.columns[-1] == "m.x"
    with dask.config.set(scheduler="synchronous"):
        found, largest = lazy.compute().reset_index(drop=True), lazy["m.x"].max().compute()
    pd.testing.assert_frame_equal(found, run.reports(), check_dtype=False)
    assert found["m.x"].isna().sum() == 5
    # As whole numbers, which 64 bits of a float would not be.
    assert (largest, str(found["m.x"].dtype)) == (LARGEST - 5, "UInt64")


def test_a_run_without_watched_fields_has_no_more_columns(tmp_path: Path) -> None:
    found = WatchedFields(replace(read_run(FORMATS), path=tmp_path))
    reports = pd.DataFrame({"bottleneck": [0], "sequence": [7]})
    assert found.names == [] and found.join(reports) is reports


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=rf"{WATCHED}: not a table of watched fields"):
        watched(tmp_path, b"PAR1 and nothing else")
