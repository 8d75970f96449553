# SPDX-License-Identifier: Apache-2.0
"""What a flow's TCP is set to, by what the switch sees of it, against values that follow from theory; no root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import narrows_analysis
import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

HEADERS = 14 + 20 + 32
SEGMENT = 1514 - HEADERS


def complete(tmp_path: Path, text: str) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """run.json of a complete run, and of each flow the data packets that left its link."""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["status"] == "complete", run["reason"]
    reports = narrows_analysis.load(tmp_path / "out").reports()
    data = reports[reports["payload_bytes"] > 0]
    return run, {one["name"]: data[data["flow"] == number] for number, one in enumerate(run["flows"])}


@pytest.mark.long
def test_pacing_and_options_and_kernel_settings(tmp_path: Path) -> None:
    """Once slow start is over, a paced flow has the payload rate that was asked, in pairs (`tcp_min_tso_segs`)."""
    rate, segment = 8_000_000, 1000 - 12  # TCP_MAXSEG counts the timestamps, which take 12 bytes of it
    run, data = complete(
        tmp_path,
        "name: paced\nbottleneck: {rate: 50Mbit, buffer: 1bdp, rtt: 40ms}\n"
        "hosts: {sysctls: {net.ipv4.tcp_dsack: 0}}\nflows:\n"
        f"- {{name: paced, cca: cubic, duration: 3s, rate: {rate}bit}}\n"
        "- {name: small, cca: reno, duration: 3s, rate: 2Mbit, tcp: {options: {TCP_MAXSEG: 1000}, "
        "notsent_lowat: 16kB, receiver_options: {TCP_WINDOW_CLAMP: 100000}, "
        "sysctls: {net.ipv4.tcp_slow_start_after_idle: 0}}}\n",
    )
    times = data["paced-1"]["time_s"]
    gaps = times[times > 1].diff().dropna()
    assert gaps.mean() == pytest.approx(SEGMENT * 8 / rate, rel=0.01)
    # Frames of the other flow, at most two, may be in the way.
    assert gaps.max() < 2 * SEGMENT * 8 / rate + 2 * 1514 * 8 / 50e6 + 1e-4
    assert set(data["small-1"]["payload_bytes"].iloc[:-1]) == {segment}
    times = data["small-1"]["time_s"]
    goodput = segment * 8 / times[times > 1].diff().mean()
    assert goodput == pytest.approx(2e6, rel=0.01)
    read_back = run["host"]["testbed"]["sysctls"]
    by_host = {host: "net.ipv4.tcp_slow_start_after_idle" in found for host, found in read_back.items()}
    assert sum(by_host.values()) == 1
    assert sum(found.get("net.ipv4.tcp_dsack") == "0" for found in read_back.values()) == 3


def test_a_window_clamp_bounds_what_is_in_flight(tmp_path: Path) -> None:
    """A window W that holds whole segments only carries their bytes each RTT; Linux forgets what it was set to when it
    has seen a segment. At most one segment more was let in until the first was read."""
    clamps = {"small": 20_000, "large": 140_000, "responses": 30_000}
    groups = "".join(
        f"- {{name: {name}, cca: cubic, start: {2 * number}s, duration: 2s, "
        f"tcp: {{receiver_options: {{TCP_WINDOW_CLAMP: {clamp}}}}}"
        + (", requests: {size: 1MB, think: 0s}}\n" if name == "responses" else "}\n")
        for number, (name, clamp) in enumerate(clamps.items())
    )
    run, data = complete(
        tmp_path, f"name: clamp\nbottleneck: {{rate: 100Mbit, buffer: 1bdp, rtt: 40ms}}\nflows:\n{groups}"
    )
    assert len(run["flows"]) == len(clamps)
    for name, clamp in clamps.items():
        times = data[f"{name}-1"]["time_s"]
        within = times[(times > times.iloc[0] + 0.5) & (times <= times.iloc[0] + 1.5)]
        carried = len(within) * SEGMENT * 0.040 / 1.0
        assert (clamp // SEGMENT - 2) * SEGMENT < carried < clamp + SEGMENT


@pytest.mark.long
def test_initial_windows_and_timeouts_of_routes(tmp_path: Path) -> None:
    """What leaves within a round trip of the first data packet is the initial window; RFC 6928: ten without one."""
    windows = {"two": 2, "ten": None, "most": 45}
    groups = "".join(
        f"- {{name: {name}, cca: cubic, size: 200kB, start: {number}s, tcp: {{rto_min: {20 + 1000 * number}ms"
        + ("" if window is None else f", initial_window: {window}")
        + "}}\n"
        for number, (name, window) in enumerate(windows.items())
    )
    run, data = complete(
        tmp_path, f"name: windows\nbottleneck: {{rate: 100Mbit, buffer: 1bdp, rtt: 100ms}}\nflows:\n{groups}"
    )
    for name, window in windows.items():
        times = data[f"{name}-1"]["time_s"]
        assert (times < times.iloc[0] + 0.09).sum() == (window or 10)
    routes = run["host"]["testbed"]["routes"]
    assert sorted(str(route) for kept in routes.values() for route in kept.values()) == [
        "{'initcwnd': '2', 'rto_min': '20ms'}", "{'initcwnd': '45', 'rto_min': '2020ms'}", "{'rto_min': '1020ms'}",
    ]  # fmt: skip


@pytest.mark.long
def test_ecn_of_one_flow_only(tmp_path: Path) -> None:
    """RFC 3168: without ECN packets are Not-ECT; with it they are ECT but for retransmissions (section 6.1.5)."""
    _, data = complete(
        tmp_path,
        "name: ecn\nbottleneck: {rate: 20Mbit, buffer: 40packets, rtt: 20ms, ecn_threshold: 20packets}\nflows:\n"
        "- {name: with, cca: cubic, duration: 3s}\n- {name: without, cca: cubic, duration: 3s, tcp: {ecn: false}}\n",
    )
    assert set(data["without-1"]["ecn"]) == {0}
    packets = data["with-1"]
    new = packets["tcp_seq"] > packets["tcp_seq"].cummax().shift(fill_value=-1)
    assert set(packets["ecn"][new]) == {2, 3}
    assert set(packets["ecn"][~new]) <= {0}


@pytest.mark.parametrize("hystart", [pytest.param(True, marks=pytest.mark.long), False])
def test_slow_start_without_hystart_ends_with_losses(tmp_path: Path, hystart: bool) -> None:
    """Slow start doubles the window until path and queue are full: five BDPs are 826 segments, which 10 become in seven
    round trips, four of 40 ms and then of 80, 160 and at most 200 ms. HyStart leaves it when the queue begins to grow,
    with at most two BDPs."""
    bdp_packets = 50e6 * 0.040 / 8 / 1514
    assert 10 * 2**6 < 5 * bdp_packets < 10 * 2**7
    run, _ = complete(
        tmp_path,
        "name: hystart\nbottleneck: {rate: 50Mbit, buffer: 4bdp, rtt: 40ms}\n"
        f"flows: [{{cca: cubic, duration: 1s, tcp: {{hystart: {str(hystart).lower()}}}}}]\n",
    )
    assert run["host"]["testbed"]["hystart"] is hystart
    drops = run["drop_cross_check"]["bottleneck"]["port_drops"]
    assert (drops == 0) == hystart
