# SPDX-License-Identifier: Apache-2.0
"""Real runs whose acknowledgements are reported: RTT and bytes in flight at the switch against the senders' sockets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from narrows.errors import EXIT_OK
from narrows_analysis import load
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)

NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
EXPERIMENT: dict[str, Any] = {
    "name": "acks",
    "bottleneck": {"rate": "20Mbit", "rtt": "20ms", "buffer": "1bdp"},
    "flows": [{"cca": "cubic", "duration": "6s"}, {"cca": "reno", "duration": "5s", "start": "1s", "rtt": "40ms"}],
    "telemetry": {"acks": True, "sockets": "20ms"},
}
# Index of the reverse direction, which the only link's follows.
ACKS = "1"
RTT_S = (0.02, 0.04)
# Timestamps of Linux count milliseconds, once on each side of the switch.
TICKS_S = 0.002


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("acks")
    file = directory / "experiment.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    command = [*NARROWS, "run", str(file), "--out", str(directory / "result")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == EXIT_OK, result.stdout + result.stderr
    return directory / "result"


@pytest.fixture(scope="module")
def summary(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return found


@pytest.fixture(scope="module")
def sockets(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "hosts" / "sockets.parquet")


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_rtt_is_measured_by_the_switch(summary: dict[str, Any], sockets: pd.DataFrame, number: int) -> None:
    """Least RTT within the ticks of the timestamps, mean RTT within 10 % of what the kernel measured."""
    flow = summary["flows"][number]
    assert flow["rtt_source"].startswith("the switch")
    mine = sockets[sockets["flow"] == number]
    assert flow["rtt_s"]["min"] >= RTT_S[number]
    assert flow["rtt_s"]["min"] == pytest.approx(mine["min_rtt_s"].min(), abs=TICKS_S)
    assert flow["rtt_s"]["mean"] == pytest.approx(mine["rtt_s"].mean(), rel=0.1)


@pytest.mark.parametrize("number", [0, 1])
def test_rtt_and_inflight_follow_the_socket(out: Path, sockets: pd.DataFrame, number: int) -> None:
    """Sample by sample: half of the socket's RTTs within 10 %, half of its bytes in flight within 5 %.

    The kernel smooths its RTT over eight samples, so the switch's are smoothed likewise.
    """
    mine = sockets[sockets["flow"] == number].sort_values("time_s")[["time_s", "rtt_s", "inflight_bytes"]]
    run = load(out)
    at_switch = run.switch_rtt(number)[["time_s", "rtt_s"]]
    at_switch["rtt_s"] = at_switch["rtt_s"].ewm(alpha=1 / 8).mean() + RTT_S[number]
    both = pd.merge_asof(mine, at_switch, on="time_s", suffixes=("", "_switch")).dropna()
    assert len(both) > 100
    assert (both["rtt_s_switch"] / both["rtt_s"] - 1).abs().median() < 0.1
    both = pd.merge_asof(mine, run.switch_inflight(number), on="time_s", suffixes=("", "_switch")).dropna()
    assert (both["inflight_bytes_switch"] / both["inflight_bytes"] - 1).abs().median() < 0.05


def test_what_the_bottleneck_counts_is_not_touched(out: Path, summary: dict[str, Any]) -> None:
    """Drops agree to the packet, no report is missing, and the link's figures are those of the data alone.

    Reports tell of a drop when a later packet of the flow departs: of those after its last departure they know nothing.
    """
    run = json.loads((out / "run.json").read_text())
    cross_check = run["drop_cross_check"]["bottleneck"]
    assert cross_check["holds"] and cross_check["problems"] == []
    assert cross_check["sum_of_flows"] == cross_check["port_drops"] > 0
    assert run["losses_elsewhere"] == []
    reported, dropped = sum(flow["drops"] for flow in summary["flows"]), cross_check["port_drops"]
    assert 0.9 * dropped <= reported <= dropped
    assert 0.85 < summary["bottleneck"]["utilization"] <= 1.0
    assert summary["bottleneck"]["queue_bytes"]["max"] <= run["links"][0]["buffer_bytes"]
    assert summary["warnings"] == []
    account = json.loads((out / "telemetry" / "collector.json").read_text())["bottlenecks"]
    assert set(account) == {"0", ACKS}
    assert all(one["lost"] == 0 for one in account.values())
    assert summary["telemetry"]["reports"] == account["0"]["reports"]
    # Every second segment is acknowledged at least.
    assert account[ACKS]["reports"] > account["0"]["reports"] / 4
