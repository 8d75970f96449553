# SPDX-License-Identifier: Apache-2.0
"""The example of a heavy-hitter detector, with real TCP: short flows stay in the upper queue, a long one does not."""

from __future__ import annotations

from pathlib import Path

import narrows_analysis
import pyarrow.parquet as pq
import pytest
from narrows.experiment.loader import load
from narrows.run.runner import check, execute
from narrows.targets.registry import target_factory
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from rich.console import Console

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)

EXAMPLE = Path(__file__).parents[3] / "experiments" / "own-program"
# What the example's entries say.
THRESHOLD_BYTES = 125_000


def test_only_what_a_flow_sends_beyond_the_threshold_waits_below(tmp_path: Path) -> None:
    text = (EXAMPLE / "heavy-hitter.yaml").read_text()
    for old, new in (("10s", "4s"), ("start: 3s", "start: 1s"), ("start: 5s", "start: 2s")):
        text = text.replace(old, new)
    file = tmp_path / "heavy-hitter.yaml"
    file.write_text(text.replace("compiled/", f"{EXAMPLE}/compiled/").replace("heavy-e", f"{EXAMPLE}/heavy-e"))
    experiment = load(file)
    checked = check(experiment, target_factory("soft")(experiment), str(file))
    outcome = execute(checked, tmp_path / "out", Console(quiet=True), "heavy-hitter")
    assert (outcome.status, outcome.reason) == ("complete", "")

    run = narrows_analysis.load(outcome.directory)
    telemetry = outcome.directory / "telemetry"
    reports = pq.read_table(sorted(telemetry.glob("reports-*.parquet"))).to_pandas().sort_values("timestamp")
    sent = reports.groupby("flow").packet_length.sum()
    long_flow = sent.idxmax()
    # Each short flow is 50 kB, and stays above: a flow that shares a cell of one row still has its own in the other.
    assert (reports[reports.flow != long_flow].queue == 1).all()
    # The first packet of the long one that waits below is the one with which it has sent more than that. What was
    # dropped was counted, so that what has left may be less.
    own = reports[reports.flow == long_flow]
    below = own[own.queue == 0]
    before = own[own.timestamp < below.timestamp.iloc[0]].packet_length.sum()
    drops = pq.read_table(telemetry / "drops.parquet").to_pandas()
    lost = drops[drops.flow == long_flow].packet_length.sum()
    assert THRESHOLD_BYTES - lost - own.packet_length.max() <= before <= THRESHOLD_BYTES
    # The program counts what it sends there; the last reading is at most an interval before the end.
    counted = run.registers.value.to_numpy()
    assert 0 < counted[-1] <= len(below) + len(drops)
    assert counted[-1] > 0.8 * len(below)
