# SPDX-License-Identifier: Apache-2.0
"""Senders that are steered in real time: `external` in BPF, in this machine's kernel, and a saved policy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from narrows import api
from narrows.hosts.machine import kernel_ccas
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("root", "bpf", "narrows-softswitch", COLLECTOR, "ip")
ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "control_plane" / "narrows" / "hosts" / "external.bpf.c"
MSS, RTT_S = 1448, 0.04


def compiled(place: Path, cca: str) -> Path:
    """The object file, made as docs/controllers.md says."""
    made = place / f"{cca}.bpf.o"
    options = ["-DHALVE"] if cca == "external_halve" else []
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", *options, "-c", SOURCE, "-o", made], check=True)
    return made


def steered(place: Path, cca: str, buffer: str) -> api.Session:
    flow: dict[str, Any] = {"name": "agent", "cca": cca, "bpf": str(compiled(place, cca)), "duration": "20s"}
    link = {"rate": "20Mbit", "buffer": buffer, "rtt": "40ms"}
    return api.testbed({"name": "steered", "bottleneck": link, "flows": [flow]}, out=place / "out")


def test_a_window_and_a_rate_hold(tmp_path: Path) -> None:
    with steered(tmp_path, "external", "100packets") as bed:
        agent = bed.flows["agent-1"]
        bed.step("500ms")
        began = agent.info()
        assert began is not None and began.cwnd == 10 and began.pacing_rate_bps is None
        window = agent.set(cwnd=20)
        assert window is not None and window.cwnd == 20
        bed.step("2s")
        after = agent.info()
        # No more than that in a round trip, and more than with half of it, however busy the machine is.
        assert after is not None and after.cwnd == 20
        assert 10 * MSS * 8 / RTT_S < api.Interval(window, after).throughput_bps <= 20 * MSS * 8 / RTT_S * 1.05
        paced = agent.set(cwnd=1000, pacing_rate="2Mbit")
        bed.step("2s")
        later = agent.info()
        assert paced is not None and later is not None and later.cwnd == 1000 and later.pacing_rate_bps == 2e6
        # What 20 segments had under way is delivered too.
        assert api.Interval(paced, later).throughput_bps == pytest.approx(2e6, rel=0.15)
        assert later.retransmits == 0
    assert "external" not in kernel_ccas()


@pytest.mark.parametrize(("cca", "least", "most"), [("external", 160, 160), ("external_halve", 1, 80)])
def test_what_a_loss_does_is_the_congestion_controls(cca: str, least: int, most: int, tmp_path: Path) -> None:
    """With a window of twice what link and queue hold packets are lost; one keeps its window, one halves it."""
    with steered(tmp_path, cca, "20packets") as bed:
        bed.step("500ms")
        agent = bed.flows["agent-1"]
        # A path of 40 ms at 20 Mbit/s holds 66 frames.
        agent.set(cwnd=160)
        bed.step("1s")
        info = agent.info()
        assert info is not None and info.retransmits > 0 and least <= info.cwnd <= most
        again = agent.set(cwnd=160)
        assert again is not None and again.cwnd == 160
    assert cca not in kernel_ccas()


def test_a_saved_policy_drives_a_flow(tmp_path: Path) -> None:
    """One layer, whose action is 0.1 whatever is seen: by a power of two the window grows by 7 % each step."""
    np.savez(tmp_path / "policy.npz", np.zeros((1, 7)), np.arctanh([0.1]))
    compiled(tmp_path, "external")
    flow = {"name": "agent", "cca": "external", "bpf": "external.bpf.o", "duration": "10s"}
    link = {"rate": "20Mbit", "buffer": "2bdp", "rtt": "40ms"}
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump({"name": "agent", "bottleneck": link, "flows": [flow]}))
    # A busy machine may be late, which does not matter here.
    subprocess.run(
        [sys.executable, ROOT / "experiments" / "controllers" / "steer.py", "policy.npz", "agent.yaml", "--out", "out"],
        cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    settings = [event["what"] for event in json.loads((tmp_path / "out" / "run.json").read_text())["events"]]
    assert settings[:3] == ["agent-1: cwnd 11", "agent-1: cwnd 12", "agent-1: cwnd 13"]
    connection = json.loads((tmp_path / "out" / "hosts" / "agent-1.json").read_text())
    assert connection["congestion_control"] == "external"
    assert "external" not in kernel_ccas()
