# SPDX-License-Identifier: Apache-2.0
"""Features combined: QUIC and TCP through a cellular trace, then through DualPI2 at a second link."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from narrows.paths import REPOSITORY
from narrows_formats.programs import COLLECTOR
from test_in_a_guest import PATIENCE_S, start
from test_links_that_vary import delivered

pytestmark = pytest.mark.needs(
    "programs-kernel", "default-kernel", "narrows-softswitch", COLLECTOR, "ip", "gtlsclient", "gtlsserver", "openssl"
)

SIZE = 3_000_000
CORE_BPS = 10_000_000
CE = 3
SERVE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj /CN=narrows -keyout key -out cert 2>openssl.log && "
    f'head -c {SIZE} /dev/zero > file && exec gtlsserver -q --cc=bbr -d "$PWD" "$0" "$1" key cert'
)
TEXT = f"""
name: mixture
links:
  cell: {{rate: {{trace: {{file: trace, format: mahimahi}}}}, buffer: 30packets, rtt: 20ms}}
  core: {{rate: {CORE_BPS}bit, buffer: 500packets, rtt: 20ms, queue: dualpi2}}
flows:
- {{cca: cubic, path: [cell, core], duration: 8s}}
- name: quic
  path: [cell, core]
  start: 1s
  client: [gtlsclient, -q, --exit-on-all-streams-close, '{{server}}', '{{port}}', 'https://{{server}}:{{port}}/file']
  server: [sh, -c, {json.dumps(SERVE)}, '{{server}}', '{{port}}']
"""


@pytest.mark.long
def test_quic_and_tcp_through_a_trace_and_dualpi2(tmp_path: Path) -> None:
    """Packets leave the trace's link when Mahimahi's model says, and DualPI2's no faster than its rate."""
    trace = (REPOSITORY / "experiments" / "traces" / "lte.mahimahi").read_text()
    (tmp_path / "trace").write_text(trace)
    assert start(tmp_path, TEXT).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run, summary = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert (run["status"], summary["telemetry"]["lost"]) == ("complete", 0)
    reports = pd.concat(map(pd.read_parquet, sorted((tmp_path / "out/telemetry").glob("reports-*.parquet"))))
    reports["left"] = reports["timestamp"].astype("int64") - run["clock_origin_ns"]
    cell, core = (reports[reports["bottleneck"] == link["index"]] for link in run["links"])
    came = cell["left"] - cell["queue_delay"].astype("int64")
    packets = list(zip(came, cell["packet_length"].astype("int64") - 10, strict=True))
    assert list(delivered([int(line) for line in trace.split()], packets)) == cell["left"].tolist()
    # A start in whole nanoseconds may be one early.
    for (begun, length), (following, _) in pairwise(zip(core["left"], core["packet_length"], strict=True)):
        assert following - begun >= int(length) * 8 * 10**9 / CORE_BPS - 1
    for link, seen in zip(summary["links"], (cell, core), strict=True):
        assert link["other_share"] == 0 and run["drop_cross_check"][link["name"]]["holds"]
        for flow in link["flows"]:
            assert flow["arrivals"] - flow["departures"] == flow["drops"]
        assert sum(flow["departures"] for flow in link["flows"]) == len(seen)
        assert link["ce_marks"] == (seen["ecn"] == CE).sum() - (0 if seen is cell else (cell["ecn"] == CE).sum())
    # The trace's buffer overflows; DualPI2 marks ECN-capable packets.
    assert summary["links"][0]["drops"] > 0 and summary["links"][1]["ce_marks"] > 0
    tcp, quic = summary["flows"]
    assert tcp["retransmit_ratio"] > 0 and quic["retransmit_ratio"] is None
    assert quic["bytes"] > SIZE and run["flows"][1]["application"]["client"]["exit_code"] == 0
    assert {one["protocol"] for one in quic["connections"]} <= {1, 17}
