# SPDX-License-Identifier: Apache-2.0
"""What `iperf3 --bidir` does: two flows between two hosts, in opposite directions; no root."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

LINK = "bottleneck: {rate: 20Mbit, buffer: 1bdp, rtt: 20ms, reverse: {rate: 20Mbit, buffer: 1bdp}}\n"
DOWN, UP = "bottleneck", "bottleneck.reverse"
# Of a full-size frame, and an acknowledgement (of two segments, RFC 1122, section 4.2.3.2) beside two of them.
MOST = 20e6 * 1448 / 1514 * (1 - 66 / (2 * 1514 + 66))
# Of groups of three acknowledgements, if data and acknowledgements were mixed by chance (metrics/acks.py): two frames
# of data or fewer between them, of four on average.
BY_CHANCE = math.exp(-4) * (1 + 4 + 8)


def summary_of(tmp_path: Path, text: str) -> dict[str, Any]:
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary: dict[str, Any] = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "complete"
    return summary


@pytest.mark.long
def test_two_flows_of_one_pair_of_hosts_share_each_link_as_data_and_acknowledgements(tmp_path: Path) -> None:
    summary = summary_of(
        tmp_path,
        f"name: both\n{LINK}flows:\n"
        "- {name: down, cca: cubic, from: a, to: b, duration: 4s}\n"
        "- {name: up, cca: cubic, from: b, to: a, direction: reverse, duration: 4s}\n",
    )
    packets = {link["name"]: {flow["name"]: flow["packets"] for flow in link["flows"]} for link in summary["links"]}
    assert packets == {DOWN: {"down-1": "data", "up-1": "acks"}, UP: {"up-1": "data", "down-1": "acks"}}
    for flow in summary["flows"]:
        # No more than beside the other's acknowledgements; two-way traffic leaves some of it unused.
        assert MOST / 2 < flow["goodput_bps"] < MOST
        # Data of either flow stay together, and so do the acknowledgements that wait behind them.
        assert BY_CHANCE < flow["ack_compression"] < 1
    assert "ACKs\ncompressed" in (tmp_path / "out" / "report.html").read_text()
    for link in summary["links"]:
        acks = next(flow for flow in link["flows"] if flow["packets"] == "acks")
        assert acks["departures"] > 0


def test_acknowledgements_alone_on_a_link_are_as_far_apart_behind_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, f"name: one\n{LINK}flows: [{{cca: cubic, duration: 2s}}]\n")
    assert [flow["ack_compression"] for flow in summary["flows"]] == [0]
    assert "compressed" not in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.long
@pytest.mark.needs("programs-kernel", "iperf3")
def test_iperf3_itself_in_both_directions(tmp_path: Path) -> None:
    """What its client sends crosses the link, and what its server sends the opposite direction, to the byte."""
    summary = summary_of(
        tmp_path,
        f"name: bidir\n{LINK}flows:\n- name: bidir\n  sends: client\n  timeout: 60s\n"
        '  client: [iperf3, -c, "{server}", -p, "{port}", -t, "4", --bidir, -J, --logfile, "{dir}/result"]\n'
        '  server: [iperf3, -s, "-1", -p, "{port}"]\n',
    )
    end = json.loads((tmp_path / "out" / "hosts" / "bidir-1" / "files" / "result").read_text())["end"]
    sent = max(summary["flows"][0]["connections"], key=lambda one: one["payload_bytes"])["payload_bytes"]
    # Received are the bytes that its server had read when time was over; what was sent had not all left by then.
    assert end["sum_received"]["bytes"] <= sent <= end["sum_sent"]["bytes"] + 37
    carried = {link["name"]: link["utilization"] for link in summary["links"]}
    # Its data, and the acknowledgements of the other's.
    for name, bits in ((DOWN, end["sum_received"]["bits_per_second"]),
                       (UP, end["sum_received_bidir_reverse"]["bits_per_second"])):  # fmt: skip
        assert MOST / 2 < bits < MOST
        assert 0.9 * bits * 1514 / 1448 / 20e6 < carried[name] <= 1
