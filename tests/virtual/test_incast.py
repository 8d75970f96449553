# SPDX-License-Identifier: Apache-2.0
"""Hosts that answer in one instant: each with a link of its own, or all through one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

FLOWS, FRAMES, BUFFER_BYTES = 100, 6, 800_000
LINK = f"bottleneck: {{rate: 10Gbit, buffer: {BUFFER_BYTES}B, rtt: 12us}}\n"


def run(place: Path, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    place.mkdir()
    assert start(place, text).wait(PATIENCE_S) == 0, (place / "said").read_text()
    record, summary = (json.loads((place / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    return record, summary


@pytest.mark.long
def test_senders_are_hosts_of_their_own(tmp_path: Path) -> None:
    """8 kB of each are 6 frames, 840 kB in all, which come in within the time of one of them: 800 kB find room."""
    together = f"name: x\n{LINK}hosts: {{rate: 10Gbit}}\n"
    group = f"flows: [{{cca: cubic, count: {FLOWS}, senders: {FLOWS}, size: 8kB}}]\n"
    groups = "flows:\n" + "- {cca: cubic, size: 8kB}\n" * FLOWS
    found = [run(tmp_path / name, together + flows)[1] for name, flows in (("one", group), ("apart", groups))]
    bytes_each = 8000 + FRAMES * 66
    # What the link has served by then is what one host has sent. The largest frames are 1,514 bytes.
    least = (FLOWS * bytes_each - BUFFER_BYTES - bytes_each) / 1514
    for summary in found:
        assert summary["bottleneck"]["drops"] > least > 20
        # A minimum retransmission timeout (RFC 6298 has a second, Linux 200 ms) for who lost all that tells of it.
        assert 0.2 < max(flow["fct_s"] for flow in summary["flows"]) < 0.3
        assert "shared_host" not in {warning["code"] for warning in summary["warnings"]}
    assert found[0]["bottleneck"]["drops"] == found[1]["bottleneck"]["drops"]
    shown = (tmp_path / "one" / "out" / "report.html").read_text()
    assert f"{FLOWS} flows from {FLOWS} hosts" in shown


@pytest.mark.long
def test_a_host_that_all_share_spreads_what_they_send_and_that_is_said(tmp_path: Path) -> None:
    """Through one link of 40 Gbit/s 840 kB take 168 us, in which the bottleneck serves a quarter of it."""
    record, summary = run(tmp_path / "shared", f"name: x\n{LINK}flows: [{{cca: cubic, count: {FLOWS}, size: 8kB}}]\n")
    assert summary["bottleneck"]["drops"] == 0
    (shared,) = record["shared_hosts"]
    assert shared["flows"] == FLOWS
    assert 0.9 * 168e-6 < shared["longest_held_s"] < 168e-6
    (said,) = [one["message"] for one in summary["warnings"] if one["code"] == "shared_host"]
    assert said.startswith(f"{FLOWS} flows share the host sender0, whose link held ")
    assert f"{FLOWS} flows from 1 host " in (tmp_path / "shared" / "out" / "report.html").read_text()
