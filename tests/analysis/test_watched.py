# SPDX-License-Identifier: Apache-2.0
"""Fields of a user's program that were watched, as columns of the reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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


def test_a_run_without_watched_fields_has_no_more_columns(tmp_path: Path) -> None:
    found = WatchedFields(replace(read_run(FORMATS), path=tmp_path))
    reports = pd.DataFrame({"bottleneck": [0], "sequence": [7]})
    assert found.names == [] and found.join(reports) is reports


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=rf"{WATCHED}: not a table of watched fields"):
        watched(tmp_path, b"PAR1 and nothing else")
