# SPDX-License-Identifier: Apache-2.0
"""What flows do in virtual time, against values that follow from theory; no root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import page
import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

FRAME = 1514
DCTCP = """\
name: dctcp
bottleneck: {{rate: 100Mbit, buffer: 1000packets, rtt: 10ms, ecn_threshold: 20packets}}
flows: [{flow}]
"""

# Listeners that ignore what congestion control they are to have; what is run when a target is unpickled in a guest.
DEAF = """
import socket
class Deaf(socket.socket):
    def listen(self, *words):
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        super().listen(*words)
socket.socket = Deaf
"""
IN_GUEST = (
    f"(exec({DEAF!r}, {{}}), __import__('narrows.targets.soft.target', fromlist=['SoftTarget']).SoftTarget(1))[1]"
)


def complete(tmp_path: Path, text: str) -> dict[str, Any]:
    """run.json of a run that is complete."""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run: dict[str, Any] = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["status"] == "complete"
    return run


@pytest.mark.long
@pytest.mark.parametrize("flows", [1, 4])
def test_dctcp_keeps_the_queue_at_its_threshold(tmp_path: Path, flows: int) -> None:
    """Alizadeh et al. 2010 (DCTCP, section 3.3): N flows fill the queue up to K + N packets, and no further.

    An acknowledgement of two packets lets two or three go at once: up to two more of each flow.
    """
    threshold = 20
    run = complete(tmp_path, DCTCP.format(flow=f"{{cca: dctcp, duration: 10s, count: {flows}}}"))
    assert run["drop_cross_check"]["bottleneck"]["port_drops"] == 0
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    times = reports["timestamp"].astype("int64")
    steady = reports[times.between(times.min() + 2_000_000_000, times.min() + 9_500_000_000)]
    peak = steady["enqueue_depth"].max() / FRAME
    name = f"DCTCP, threshold 20 packets, {flows} flow{'s' * (flows > 1)}: deepest queue, packets"
    page.shows(name, threshold + flows, peak, 2 * flows, repeats=False)
    assert threshold < peak <= threshold + flows + 2 * flows
    marked = steady["ecn"] == 3
    assert 0 < marked.mean() < 0.5


@pytest.mark.long
@pytest.mark.parametrize("flow", ["{cca: dctcp, duration: 1s}", "{cca: dctcp, size: 100kB}"])
def test_dctcp_without_ecn_fails_the_run(tmp_path: Path, flow: str) -> None:
    """As it is when the listener has another congestion control: the kernel makes Reno of it (dctcp-reno)."""
    before = (
        f"from narrows.targets.soft.target import SoftTarget; SoftTarget.__reduce__ = lambda _: (eval, ({IN_GUEST!r},))"
    )
    assert start(tmp_path, DCTCP.format(flow=flow), before).wait(PATIENCE_S) == 1
    said = (tmp_path / "said").read_text()
    assert "flow dctcp-1: " in said and ", not dctcp" in said


@pytest.mark.long
def test_flows_that_start_together_do(tmp_path: Path) -> None:
    """96 connections of two packets: within a tenth of a frame's time on the link each, and after it."""
    rate_bps = 100_000_000
    run = complete(
        tmp_path,
        "name: many\nbottleneck: {rate: 100Mbit, buffer: 1000packets, rtt: 20ms}\n"
        "flows: [{cca: cubic, count: 96, size: 4kB}]\n",
    )
    started = [flow["started_s"] for flow in run["flows"]]
    assert len(started) == 96
    assert min(started) >= 0 and max(started) - min(started) < 96 * 0.1 * FRAME * 8 / rate_bps


@pytest.mark.long
def test_a_lost_syn_does_not_end_ecn(tmp_path: Path) -> None:
    """Linux asks for no ECN in a SYN that it sends again, unless net.ipv4.tcp_ecn_fallback is 0.

    That none of 40 SYNs is lost has a probability of 6e-7.
    """
    run = complete(
        tmp_path,
        "name: lossy\nbottleneck: {rate: 10Mbit, buffer: 20packets, rtt: 10ms, loss: 0.3, ecn_threshold: 5packets}\n"
        "flows: [{cca: cubic, count: 40, size: 1kB}]\n",
    )
    assert len(run["flows"]) == 40
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    syns = reports[reports["tcp_flags"] & 0x12 == 0x02]
    assert syns["tcp_flags"].map(lambda flags: flags & 0xC0 == 0xC0).all()
    assert (syns.groupby(["flow", "signature"])["loss_drops"].max() > 0).any()


@pytest.mark.needs("seeded-kernel")
def test_a_lost_syn_ack_does_not_end_ecn(tmp_path: Path) -> None:
    """Linux 7.3 asks for no ECN in a SYN/ACK that it sends after its second timeout.

    That no flow of 80 loses two has a probability of 0.91 to the power of 80, 5e-4.
    """
    run = complete(
        tmp_path,
        "name: lossy\nbottleneck:\n  {rate: 10Mbit, buffer: 100packets, rtt: 10ms, ecn_threshold: 5packets,\n"
        "   reverse: {rate: 10Mbit, buffer: 100packets, loss: 0.3}}\n"
        "flows: [{cca: cubic, count: 80, size: 1kB}]\n",
    )
    assert len(run["flows"]) == 80
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    syn_acks = reports[reports["tcp_flags"] & 0x12 == 0x12]
    assert (syn_acks["tcp_flags"] & 0x40 == 0x40).all()
    assert (syn_acks.groupby(["flow", "signature"])["loss_drops"].max() >= 2).any()


def test_a_small_mtu(tmp_path: Path) -> None:
    """The least that IPv4 hosts take (RFC 791, section 3.2): full-size frames are 14 bytes longer."""
    run = complete(
        tmp_path,
        "name: small\nbottleneck: {rate: 10Mbit, buffer: 20packets, rtt: 10ms}\nmtu: 576\n"
        "flows: [{cca: cubic, duration: 1s}]\n",
    )
    assert run["links"][0]["mtu_frame_bytes"] == 590
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    assert reports["packet_length"].max() == 590
