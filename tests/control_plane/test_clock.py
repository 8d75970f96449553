# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.run.clock import Origin, from_reports
from narrows.traffic.connection import Connection

SECOND = 10**9
UNIT_S = 1e-9
INDICES = {"bottleneck": 0}


@pytest.fixture
def connections() -> list[Connection]:
    """Two flows; the second of the plan is the first to start."""
    experiment = Experiment.model_validate(
        {
            "name": "test",
            "bottleneck": {"rate": "10Mbit", "buffer": "1bdp", "rtt": "10ms"},
            "flows": [{"cca": "cubic", "duration": "9s", "start": "2s"}, {"cca": "reno", "duration": "9s"}],
        }
    )
    late, early = make_plan(experiment).flows
    return [Connection(late, 0, 2.25), Connection(early, 0, 0.5)]


def write_telemetry(path: Path, connections: list[Connection], *files: list[tuple[int, int, int, int]]) -> None:
    """Keys of the connections at flow indices 10, 11, ...; reports of (flow, signature, payload, timestamp)."""
    keys: list[dict[str, Any]] = [
        {
            "bottleneck": 0,
            "flow": 10 + number,
            "signature": 100 + number,
            "src": one.flow.src,
            "dst": one.flow.dst,
            "protocol": 6,
            "src_port": one.src_port,
            "dst_port": one.flow.dst_port,
        }
        for number, one in enumerate(connections)
    ]
    pq.write_table(pa.Table.from_pylist(keys), path / "flow_keys.parquet")
    for number, rows in enumerate(files):
        names = ("flow", "signature", "payload_length", "timestamp")
        table = pa.Table.from_pylist([{"bottleneck": 0, **dict(zip(names, row, strict=True))} for row in rows])
        pq.write_table(table, path / f"reports-{number:05d}.parquet")


def test_the_first_data_of_the_first_started_flow_is_at_its_start(
    connections: list[Connection], tmp_path: Path
) -> None:
    write_telemetry(
        tmp_path,
        connections,
        # Another flow's data, a SYN, and another signature at the same index come before.
        [(10, 100, 1448, 5 * SECOND), (11, 101, 0, 6 * SECOND), (11, 999, 1448, 7 * SECOND)],
        [(11, 101, 37, 8 * SECOND), (11, 101, 1448, 9 * SECOND)],
    )
    found = from_reports(tmp_path, INDICES, connections, UNIT_S)
    assert found == Origin(7_500_000_000, "first data report of reno-1, started at 0.500000 s")
    assert from_reports(tmp_path, {"bottleneck": 1}, connections, UNIT_S) == Origin(None, None)


def test_a_flow_without_reports_is_passed_over(connections: list[Connection], tmp_path: Path) -> None:
    (tmp_path / "reports-00009.parquet").write_bytes(b"left open")
    write_telemetry(tmp_path, connections, [(11, 101, 0, 3 * SECOND), (10, 100, 1448, 5 * SECOND)])
    found = from_reports(tmp_path, INDICES, connections, UNIT_S)
    assert found == Origin(2_750_000_000, "first data report of cubic-1, started at 2.250000 s")


def test_without_telemetry_there_is_no_origin(connections: list[Connection], tmp_path: Path) -> None:
    assert from_reports(tmp_path, INDICES, connections, UNIT_S) == Origin(None, None)
