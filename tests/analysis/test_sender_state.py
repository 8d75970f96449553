# SPDX-License-Identifier: Apache-2.0
"""Statistics of what a socket said: of a part of the run, of BBR's phases, and of what it does not show."""

from __future__ import annotations

import pandas as pd
import pytest
from narrows_analysis.metrics.sender_state import NotObservable, answer, visits
from narrows_formats.columns import SOCKETS
from narrows_formats.sender_readings import parse

PHASES = ["STARTUP", "STARTUP", "DRAIN", None, "PROBE_UP", "PROBE_RTT", "PROBE_RTT", "PROBE_UP"]


def readings(**columns: list[object]) -> pd.DataFrame:
    """A reading a second from 0 on; a model of 8 kbit/s and 0.5 s, which are 500 bytes."""
    frame = pd.DataFrame({"time_s": [float(at) for at in range(len(PHASES))], "bbr_phase": PHASES, **columns})
    frame = frame.astype({"bbr_phase": "string"}).assign(bbr_bandwidth_bps=8000.0, bbr_min_rtt_s=0.5)
    return frame.reindex(columns=[column.name for column in SOCKETS])


def ask(text: str, rows: pd.DataFrame) -> float | None:
    return answer(parse(text), rows)


def test_a_visit_ends_where_the_next_phase_begins() -> None:
    """What the kernel did not name is no phase; the last visit ends with the last reading."""
    found = visits(readings())
    assert found["phase"].tolist() == ["STARTUP", "DRAIN", "PROBE_UP", "PROBE_RTT", "PROBE_UP"]
    assert found["after"].tolist() == ["", "STARTUP", "DRAIN", "PROBE_UP", "PROBE_RTT"]
    assert found["length_s"].tolist() == [2, 2, 1, 2, 0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cwnd_bytes.min", 100),
        ("cwnd_bytes.max[2s:4s]", 400),
        ("cwnd_bytes.mean[6s:]", 750),
        ("cwnd_bytes.first[:1s]", 100),
        ("cwnd_bytes.last[STARTUP]", 200),
        ("cwnd_bytes.growth[PROBE_UP]", 300),
        ("cwnd_bytes.last[PROBE_RTT/PROBE_UP]", 800),
        ("cwnd_bytes.first[PROBE_UP,5s:]", 800),
        ("cwnd_bytes.count[PROBE_CRUISE]", 0),
        ("cwnd_bytes.max[PROBE_CRUISE]", None),
        ("cwnd_bdp.max", 800 / 500),
        ("inflight_bdp.last[DRAIN]", 250 / 500),
        ("acked_bps.mean[4s:6s]", 8 * 10),
        ("phase.begin_s.first[PROBE_RTT]", 5),
        ("phase.length_s.max[PROBE_UP]", 1),
        ("phase.begin_s.count[PROBE_UP]", 2),
        ("phase.begin_s.count[STARTUP/PROBE_UP]", 0),
        ("phase.begin_s.count[DRAIN/PROBE_UP]", 1),
        ("phase.begin_s.count[PROBE_UP,5s:7s]", 0),
    ],
)
def test_a_statistic_of_the_readings_that_are_chosen(text: str, value: float | None) -> None:
    steps: list[object] = [100 * at for at in range(1, len(PHASES) + 1)]
    acked: list[object] = [10 * at for at in range(len(PHASES))]
    assert ask(text, readings(cwnd_bytes=steps, inflight_bytes=[250] * len(PHASES), acked_bytes=acked)) == value


def test_what_a_sender_does_not_show_is_no_value() -> None:
    """Another congestion control has no phase, BBRv1 no bounds; a bound that BBRv3 has not set is shown as such."""
    plain = readings(cwnd_bytes=[1] * len(PHASES))
    other = plain.assign(bbr_phase=pd.array([None] * len(PHASES), dtype="string"), bbr_bandwidth_bps=float("nan"))
    for text, rows, what in (
        ("cwnd_bytes.max[DRAIN]", other, "bbr_phase"),
        ("phase.end_s.count[DRAIN]", other, "bbr_phase"),
        ("cwnd_bdp.max", other, "bbr_bandwidth_bps"),
        ("bbr_longterm_inflight_bytes.count", plain, "bbr_longterm_inflight_bytes"),
        ("cwnd_bytes.max", plain.iloc[:0], "its state, by a TCP socket or by qlog"),
    ):
        with pytest.raises(NotObservable, match=f"^{what}$"):
            ask(text, rows)
    assert ask("cwnd_bytes.max", other) == 1
    third = plain.assign(bbr_extra_acked_bytes=0.0)
    assert ask("bbr_longterm_inflight_bytes.count", third) == 0
