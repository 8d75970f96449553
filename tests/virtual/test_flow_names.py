# SPDX-License-Identifier: Apache-2.0
"""The figures of a flow are those of its connection: by 5-tuple, from the switch's own counters, in a real run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.virtual import kernels

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

# Flows of one group that start one after the other, among groups that start later: no order is the others'.
TEXT = """
name: names
bottleneck: {rate: 50Mbit, buffer: 2bdp, rtt: 30ms}
flows:
  - {cca: cubic, count: 2, duration: 12s}
  - {cca: bbr, count: 2, start: 5s, duration: 7s}
  - {cca: reno, start: 8s, rtt: 80ms, duration: 4s}
"""


@pytest.mark.long
def test_drops_by_five_tuple_are_the_drops_by_name(tmp_path: Path) -> None:
    file, out = tmp_path / "experiment.yaml", tmp_path / "out"
    file.write_text(TEXT)
    kernel = kernels.installed()[0].name
    command = [sys.executable, "-c", "from narrows.cli import main; main()", "run", str(file)]
    subprocess.run([*command, "--virtual", "--kernel", kernel, "--out", str(out)], check=True, timeout=300)
    record = json.loads((out / "run.json").read_text())
    counted = {row["flow"]: row["packets"] for row in record["traffic_manager"]["flow_drops"]["bottleneck"]}
    ends = ("src", "dst", "src_port", "dst_port")
    keys = pq.read_table(out / "telemetry" / "flow_keys.parquet").to_pylist()
    index = {tuple(row[end] for end in ends): row["flow"] for row in keys if row["bottleneck"] == 0}
    by_switch = {
        flow.name: counted.get(index[flow.src, flow.dst, flow.src_port, flow.dst_port], 0)
        for flow in make_plan(load(file)).flows
    }
    assert len(set(by_switch.values())) == 5, "each flow has a number of drops of its own"
    summary = json.loads((out / "summary.json").read_text())
    assert {flow["name"]: flow["drops"] for flow in summary["flows"]} == by_switch
    series = pq.read_table(out / "flows.parquet").to_pandas()
    assert series[series["flow"] >= 0].groupby("name")["drops"].sum().to_dict() == by_switch
    made = {path.stem for path in (out / "hosts").glob("*.json")}
    assert made == set(by_switch) == {flow["name"] for flow in record["flows"]}
