# SPDX-License-Identifier: Apache-2.0
"""Figures of packets that never left, were lost before the queue, or are there twice, and of times without packets.
Right values by arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

# 9 Mbit/s of payload, 1,000 bytes a datagram.
PACKETS_S, FRAME_BYTES = 1_125, 1_042
OUTAGE = "steps: [{at: 0s, rate: 10Mbit}, {at: 2s, rate: 0bit}, {at: 6s, rate: 10Mbit}]"


class Results:
    """What a run has left."""

    def __init__(self, out: Path) -> None:
        """Read it."""
        self.out = out
        self.summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
        self.record: dict[str, Any] = json.loads((out / "run.json").read_text())

    @property
    def bottleneck(self) -> dict[str, Any]:
        """Of the only link."""
        found: dict[str, Any] = self.summary["bottleneck"]
        return found

    def flows(self, group: str) -> list[dict[str, Any]]:
        """The flows of a group."""
        return [flow for flow in self.summary["flows"] if flow["group"] == group]

    def series(self, name: str) -> pd.DataFrame:
        """Flows or queue over time."""
        return pd.read_parquet(self.out / f"{name}.parquet")


def run(text: str, directory: Path) -> Results:
    """An experiment in virtual time."""
    file, out = directory / "experiment.yaml", directory / "out"
    file.write_text(f"name: lives\nhosts: {{jitter: 0s}}\n{text}")
    command = [sys.executable, "-c", "from narrows.cli import main; main()", "run", str(file), "--virtual"]
    subprocess.run([*command, "--out", str(out)], check=True, timeout=300)
    return Results(out)


@pytest.mark.long
def test_a_flow_begins_when_it_is_offered(tmp_path: Path) -> None:
    found = run(
        """
bottleneck: {rate: 10Mbit, buffer: 20packets, rtt: 20ms}
flows:
  - {name: flood, udp: {rate: 30Mbit}, duration: 3s}
  - {name: short, cca: cubic, size: 10kB, count: 20, stagger: 100ms, start: 500ms}
""",
        tmp_path,
    )
    started = {flow["name"]: flow["started_s"] for flow in found.record["flows"]}
    short = found.flows("short")
    # Two of three packets are dropped while the flood lasts, SYNs among them: those are sent again after a second.
    starts = np.array([flow["start_s"] - started[flow["name"]] for flow in short])
    assert ((starts >= 0) & (starts < 0.002)).all(), starts
    # A flow whose first SYN was dropped takes longer than the second after which it is sent again.
    drops = pd.read_parquet(found.out / "telemetry" / "drops.parquet")
    assert len(drops) == found.bottleneck["drops"] == sum(flow["drops"] for flow in found.summary["flows"])
    times = [flow["fct_s"] for flow in short]
    assert sum(time > 1 for time in times) >= 10, times


def test_a_drop_happens_when_it_happens(tmp_path: Path) -> None:
    found = run(
        f"""
bottleneck: {{rate: {{{OUTAGE}}}, buffer: 100packets, rtt: 20ms}}
flows:
  - {{name: cbr, udp: {{rate: 9Mbit, payload: 1000B}}, duration: 10s}}
""",
        tmp_path,
    )
    queue = found.series("queue")
    drops = queue.groupby(np.floor(queue["time_s"] / 0.1 + 1e-9) / 10)["drops"].sum()
    # The queue is full 100 / 1,125 s after the outage began, and then each packet is dropped.
    steady = drops[(drops.index >= 2.15) & (drops.index < 5.95)]
    assert ((steady >= 112) & (steady <= 113)).all()
    assert drops[drops.index < 2.0].sum() == drops[drops.index > 6.05].sum() == 0
    assert found.bottleneck["drops"] == pytest.approx(4 * PACKETS_S - 100, abs=2)
    flows = found.series("flows")
    during = flows[(flows["time_s"] > 2.15) & (flows["time_s"] < 5.95)]
    assert (during["loss_ratio"] == 1).all() and during["arrivals"].between(112, 113).all()


@pytest.mark.long
def test_a_queue_stands_during_an_outage(tmp_path: Path) -> None:
    found = run(
        f"""
bottleneck: {{rate: {{{OUTAGE}}}, buffer: 200packets, rtt: 20ms}}
flows:
  - {{name: cbr, udp: {{rate: 9Mbit, payload: 1000B}}, duration: 10s}}
""",
        tmp_path,
    )
    # Least depth of each of 100 windows: 0 before; as it fills, what the window begins with; full; as it drains, what
    # it ends with (a link of 10 Mbit/s against 1,125 frames/s); 0 again.
    begins = np.arange(100) / 10
    filling = np.minimum(PACKETS_S * (begins - 2), 200)
    drained = 200 - (10e6 / 8 / FRAME_BYTES - PACKETS_S) * (begins + 0.1 - 6)
    least = np.select([begins < 2, begins < 6], [0, filling], np.maximum(drained, 0))
    assert found.bottleneck["standing_queue_bytes"] == pytest.approx(least.mean() * FRAME_BYTES, rel=0.01)


def test_a_link_that_stands_still_limits_its_flows(tmp_path: Path) -> None:
    found = run(
        """
links:
  a:
    rate: {steps: [{at: 0s, rate: 20Mbit}, {at: 2s, rate: 0bit}, {at: 8s, rate: 20Mbit}]}
    buffer: 100packets
    rtt: 10ms
  b: {rate: 10Mbit, buffer: 100packets, rtt: 10ms}
flows:
  - {name: x, cca: cubic, duration: 10s, path: [a, b]}
""",
        tmp_path,
    )
    limited = found.summary["flows"][0]["limited_by"]
    assert limited["a"] == pytest.approx(0.6, abs=0.03) and limited["b"] == pytest.approx(0.4, abs=0.03)


def test_losses_after_the_last_departure_count(tmp_path: Path) -> None:
    (tmp_path / "tail.loss").write_text("0\n" * 905 + "1\n" * 95)
    found = run(
        """
bottleneck: {rate: 10Mbit, buffer: 50packets, rtt: 20ms, loss: {trace: {file: tail.loss}}}
flows:
  - {name: u, udp: {rate: 1Mbit, payload: 1000B}, duration: 8s}
""",
        tmp_path,
    )
    assert found.summary["flows"][0]["datagrams"]["sent"] == 1_000
    assert found.summary["flows"][0]["loss_emulation_drops"] == found.bottleneck["loss_emulation_drops"] == 95
    assert found.bottleneck["total_loss_ratio"] == pytest.approx(0.095)
    assert found.series("queue")["loss_drops"].sum() == 95


def test_copies_are_no_goodput(tmp_path: Path) -> None:
    found = run(
        """
links:
  a: {rate: 20Mbit, buffer: 100packets, rtt: 20ms, duplication: 20%}
  b: {rate: 20Mbit, buffer: 100packets, rtt: 20ms}
flows:
  - {name: call, udp: {rate: 5Mbit, payload: 1000B}, path: [a, b], duration: 4s}
""",
        tmp_path,
    )
    (call,) = found.summary["flows"]
    assert call["datagrams"]["duplicates"] > 300
    assert call["bytes"] == 2_500_000 and call["goodput_bps"] == pytest.approx(5e6, rel=0.01)


@pytest.mark.long
def test_a_flow_that_pauses_is_at_work(tmp_path: Path) -> None:
    found = run(
        """
bottleneck: {rate: 20Mbit, buffer: 50packets, rtt: 20ms}
flows:
  - {name: u, udp: {rate: 8Mbit, payload: 1000B, bursts: {length: 100ms, pause: 900ms}}, duration: 10s}
""",
        tmp_path,
    )
    assert found.summary["flows"][0]["goodput_bps"] == pytest.approx(800_000, rel=0.001)
    assert found.bottleneck["utilization"] == pytest.approx(0.8 / 20 * FRAME_BYTES / 1_000, rel=0.002)


def test_a_flow_is_complete_with_its_last_new_byte(tmp_path: Path) -> None:
    acks = "0\n" * 11 + "1\n" * 4 + "0\n"
    (tmp_path / "acks.loss").write_text(acks)
    found = run(
        """
bottleneck:
  rate: 20Mbit
  buffer: 300packets
  rtt: 40ms
  reverse: {rate: 20Mbit, buffer: 300packets, loss: {trace: {file: acks.loss, loop: false}}}
flows:
  - {name: short, cca: cubic, size: 20kB}
""",
        tmp_path,
    )
    (short,) = found.summary["flows"]
    # Two round trips and its frames: the SYN's, and that of the initial window of 10 segments. A retransmission that
    # only lost acknowledgements cause comes a retransmission timeout (200 ms at least) later.
    assert short["retransmit_ratio"] > 0 and 0.080 < short["fct_s"] < 0.095


def test_a_flow_of_which_nothing_leaves_has_its_losses(tmp_path: Path) -> None:
    (tmp_path / "all.loss").write_text("1\n" * 999 + "0\n")
    found = run(
        """
links:
  a: {rate: 10Mbit, buffer: 50packets, rtt: 20ms, loss: {trace: {file: all.loss}}}
  b: {rate: 10Mbit, buffer: 50packets, rtt: 20ms}
flows:
  - {name: lost, udp: {rate: 1Mbit, payload: 1000B}, path: [a], duration: 2s}
  - {name: other, udp: {rate: 1Mbit, payload: 1000B}, path: [b], duration: 2s}
""",
        tmp_path,
    )
    (lost,) = found.flows("lost")
    assert lost["loss_emulation_drops"] == 250 and lost["departures"] == 0 and lost["goodput_bps"] == 0
    assert lost["end_s"] == pytest.approx(2.0)
