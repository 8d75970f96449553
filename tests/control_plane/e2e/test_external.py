# SPDX-License-Identifier: Apache-2.0
"""Senders that are steered in real time: `external` in BPF, in this machine's kernel, and a saved policy."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
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


def steered(place: Path, cca: str, buffer: str) -> api.Bed:
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
