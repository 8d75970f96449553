# SPDX-License-Identifier: Apache-2.0
"""What a connection's record says of ECN, and the report of marks, against what the switch marked; no root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXPERIMENT = """
name: ecn
bottleneck: {rate: 50Mbit, buffer: 1bdp, rtt: 20ms, ecn_threshold: 20packets}
flows:
  - {name: marked, cca: dctcp, duration: 4s}
  - {name: without, cca: cubic, duration: 1s, tcp: {ecn: false}}
"""


def test_feedback_is_what_was_marked(tmp_path: Path) -> None:
    """DCTCP's receiver says CE for as long as it sees it (RFC 8257, section 3.2), give or take a delayed
    acknowledgement at each change, so that what it says is near to what was marked."""
    assert start(tmp_path, EXPERIMENT).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    flows = {one["name"]: one for one in json.loads((out / "run.json").read_text())["flows"]}
    marked, without = (json.loads((out / flows[name]["record"]).read_text()) for name in ("marked-1", "without-1"))
    marks = {one["name"]: one["ce_marks"] for one in json.loads((out / "summary.json").read_text())["flows"]}
    assert marks["marked-1"] > 100 and marks["without-1"] == 0
    assert (marked["ecn"], without["ecn"]) == ("classic", "off")
    assert marked["delivered_ce"] == pytest.approx(marks["marked-1"], rel=0.2)
    assert without["delivered_ce"] == 0
    assert "CE\nmarks" in (out / "report.html").read_text()
