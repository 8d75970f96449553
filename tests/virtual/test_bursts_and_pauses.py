# SPDX-License-Identifier: Apache-2.0
"""A TCP on/off source in virtual time: it fills its link in bursts, and leaves it alone in pauses."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from narrows.onhost.payload import UNSENT_BYTES
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

SEGMENT, FRAME = 1448, 1514


@pytest.mark.long
def test_bursts_fill_the_link_and_pauses_are_silent(tmp_path: Path) -> None:
    """20 Mbit/s and 40 ms: 100 kB in flight and 100 kB of buffer.

    When a pause begins there may be both of them under way and `UNSENT_BYTES` in the socket: (100 + 100 + 17 kB) x 8 /
    20 Mbit/s = 87 ms, and all is acknowledged a round trip after that; a loss is repaired in another one.
    """
    rate, held = 20e6, 200_000 + UNSENT_BYTES * FRAME / SEGMENT
    text = (
        "name: onoff\nbottleneck: {rate: 20Mbit, buffer: 1bdp, rtt: 40ms}\nflows:\n"
        "- {name: talk, cca: cubic, duration: 6s, onoff: {length: 1s, pause: 1s}}\n"
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    record = json.loads((out / "hosts" / "talk-1.json").read_text())
    bursts = record["bursts"]
    assert [(round(one["begun_s"], 6), round(one["ended_s"], 6)) for one in bursts] == [(0, 1), (2, 3), (4, 5)]
    most = rate * SEGMENT / FRAME / 8 + held
    assert all(0.8 * most < one["bytes"] <= most for one in bursts)
    series = pd.read_parquet(out / "flows.parquet").query("name == 'talk-1'")
    drained_s = held * 8 / rate + 2 * 0.040
    silent = series[(series.time_s % 2 > 1 + drained_s) & (series.time_s % 2 < 1.85)]
    assert len(silent) >= 15 and not silent.departures.any()
    busy = series[(series.time_s % 2 > 0.45) & (series.time_s % 2 < 0.85)]
    assert busy.throughput_bps.mean() == pytest.approx(rate, rel=0.02)
    summary = json.loads((out / "summary.json").read_text())
    sent = sum(one["bytes"] for one in bursts)
    assert summary["flows"][0]["figures"] == pytest.approx({"bursts": 3, "on_s": 3.0, "rate_on_bps": sent * 8 / 3})
    assert "On/off sources" in (out / "report.html").read_text()
