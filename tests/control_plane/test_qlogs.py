# SPDX-License-Identifier: Apache-2.0
"""The place of a qlog in a run: its clock, its connection, and what is said of one that has none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from narrows.onhost.program import Program
from narrows.run import arrivals, qlogs
from narrows.run.qlogs import MATCHED, TOLERANCE_S, Placement, place, read
from narrows_formats.target_profile import TargetProfile

# 2026-01-01T00:00:10Z is 2 s after the start of the run.
ORIGIN_MS = 1_767_225_608_000.0
DATE_MS = ORIGIN_MS + 2000
PLACEMENT = Placement(interval_s=0.01, origin_unix_ms=ORIGIN_MS, end_s=8.0, tolerance_s=TOLERANCE_S)
PORTS, OTHERS = (4433, 50_000), (4433, 50_001)
# Packets of a handshake, a round trip, and a window, in ms of the log.
SENT_MS = [0.0, 0.5, 40.0, 40.5, 41.0, 80.0, 85.0]
CAME = {PORTS: 2.0 + np.array(SENT_MS) / 1e3}


def seconds(values: Sequence[float]) -> qlogs.FloatArray:
    return np.array(values, dtype=np.float64)


def write(path: Path, reference: object, sent_ms: Sequence[float] = SENT_MS, vantage: str = "server") -> None:
    common = {} if reference is None else {"reference_time": reference}
    head = {"trace": {"vantage_point": {"type": vantage}, "common_fields": common}}
    events: list[dict[str, Any]] = [{"time": one, "name": "quic:packet_sent", "data": {}} for one in sent_ms]
    window = {
        "time": sent_ms[0] if sent_ms else 0,
        "name": "recovery:metrics_updated",
        "data": {"congestion_window": 9},
    }
    path.write_bytes(b"".join(b"\x1e" + json.dumps(one).encode() + b"\n" for one in (head, window, *events)))


def found(tmp_path: Path, came: Any = CAME) -> tuple[list[pd.DataFrame], list[str]]:
    return read(tmp_path, "server", came, PLACEMENT)


@pytest.mark.parametrize("reference", [DATE_MS, "2026-01-01T00:00:10Z", 0, None, {"clock_type": "monotonic"}])
def test_a_log_is_where_its_date_or_its_packets_are(tmp_path: Path, reference: object) -> None:
    """A reading each 10 ms from the first event, at 2 s, to the last one, at 2.085 s."""
    write(tmp_path / "a.sqlog", reference)
    (frame,), notes = found(tmp_path)
    assert not notes
    np.testing.assert_allclose(frame["time_s"], np.arange(200, 209) * 0.01, atol=1e-9)
    assert set(frame["cwnd_bytes"]) == {9} and set(frame["source"]) == {"qlog"}
    assert {(row.src_port, row.dst_port) for row in frame.itertuples()} == {PORTS}


def test_of_two_connections_it_is_the_one_whose_packets_it_has(tmp_path: Path) -> None:
    came = {OTHERS: 3.0 + np.array([0, 0.01, 0.02, 0.03, 0.06, 0.07, 0.08]), **CAME}
    write(tmp_path / "a.qlog", 0)
    write(tmp_path / "b.qlog", 0, [0, 10, 20, 30, 60, 70, 80])
    frames, notes = found(tmp_path, came)
    assert not notes and [frame["dst_port"].iloc[0] for frame in frames] == [50_000, 50_001]
    # Two that are alike cannot be told apart.
    frames, notes = found(tmp_path, {OTHERS: CAME[PORTS] + 1, **CAME})
    assert not frames and "fit 2 of 2 connections" in notes[0] and "fit 0 of 2 connections" in notes[1]


@pytest.mark.parametrize(
    ("reference", "sent", "came", "words"),
    [
        (DATE_MS + 50, SENT_MS, CAME, "its times fit 0 of 1 connections that the switch saw, by the first 7 packets"),
        (0, [0, 10, 20, 30], CAME, "its times, which have no date of the run, fit 0 of 1 connections"),
        (DATE_MS, SENT_MS, {}, "the telemetry has not each packet of a connection over UDP"),
        (DATE_MS, [], CAME, "it has no packet_sent"),
    ],
)
def test_a_clock_that_the_packets_do_not_bear_out_is_not_used(
    tmp_path: Path, reference: object, sent: Sequence[float], came: Any, words: str
) -> None:
    write(tmp_path / "a.qlog", reference, sent)
    frames, notes = found(tmp_path, came)
    assert not frames and len(notes) == 1
    assert notes[0].startswith("a.qlog is not used: ") and words in notes[0]


def test_other_files_and_the_other_end_are_none_of_its_senders(tmp_path: Path) -> None:
    write(tmp_path / "client.qlog", DATE_MS, vantage="client")
    write(tmp_path / "network.qlog", DATE_MS, vantage="network")
    (tmp_path / "empty.qlog").write_bytes(b"")
    (tmp_path / "page.html").write_bytes(b"x")
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "server.sqlog", DATE_MS)
    write(tmp_path / "z.sqlog", DATE_MS)
    frames, notes = found(tmp_path)
    assert len(frames) == 1
    assert notes == [
        "empty.qlog is not used: it has no traces; allowed: qlog in JSON, or as JSON text sequences",
        "network.qlog is not used: it does not say which end has logged",
        "z.sqlog is not used: another file has the same connection",
    ]


def test_what_of_a_log_was_left_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.qlog"
    write(path, DATE_MS)
    wrong = [
        b'{"time": 86}',
        b'{"time": 87, "name": "metrics_updated", "data": {"ssthresh": "x"}}',
        b'{"time": 90, "na',
    ]
    path.write_bytes(path.read_bytes() + b"".join(b"\x1e" + one for one in wrong))
    (frame,), notes = found(tmp_path)
    assert len(frame) == 9
    assert notes == [
        "a.qlog ends in the midst of an event: what is in front of it is used",
        "a.qlog has 1 events that are none: the others are used",
        "a.qlog has 1 values of another kind than qlog's: they are left out",
    ]


def test_a_place_is_that_of_the_packets_within_its_tolerance() -> None:
    sent = [number * 0.007 for number in range(15)]
    came = [5 + one for one in sent]
    # A Retry belongs to no connection yet, and a few packets may be lost before they come.
    early = [4.9 + number * 1e-3 for number in range(4)]
    assert place(seconds(sent), seconds(early + came), None, TOLERANCE_S) == pytest.approx(5, abs=1e-12)
    assert place(seconds(sent), seconds(came[:7] + came[8:]), None, TOLERANCE_S) == pytest.approx(5, abs=1e-12)
    assert place(seconds(sent), seconds(came[: int(len(came) * MATCHED) - 1]), None, TOLERANCE_S) is None
    for sign in (-1, 1):
        assert place(seconds(sent), seconds([one + sign * 0.9 * TOLERANCE_S for one in came]), 5.0, TOLERANCE_S) == 5.0
        assert place(seconds(sent), seconds([one + sign * 1.1 * TOLERANCE_S for one in came]), 5.0, TOLERANCE_S) is None


@pytest.mark.parametrize("sampled", [False, True])
def test_the_flows_of_programs_have_what_they_left(tmp_path: Path, sampled: bool) -> None:
    """Of two flows the second is a program's; where not every packet is reported, its log has no place.

    What it says of times after the run's end, here 2.055 s, is none of its state; its program has not ended before.
    """
    ends = ("198.18.0.1", "198.18.0.2")
    telemetry, left = tmp_path / "telemetry", tmp_path / "hosts" / "quic-1" / "files"
    telemetry.mkdir()
    left.mkdir(parents=True)
    write(left / "a.qlog", 0)
    with (left / "a.qlog").open("a") as file:
        file.write('\x1e{"time": 1e300, "name": "x", "data": {}}\n')
    key = {"protocol": 17, "bottleneck": 3, "src": ends[0], "dst": ends[1], "src_port": 1, "dst_port": 2}
    pq.write_table(pa.Table.from_pylist([{**key, "flow": 5, "signature": 6}]), telemetry / "flow_keys.parquet")
    rows = [
        {"bottleneck": 3, "flow": 5, "signature": 6, "timestamp": round(one * 1e6), "queue_delay": 0}
        for one in CAME[PORTS]
    ]
    pq.write_table(pa.Table.from_pylist(rows), telemetry / "reports-00000.parquet")
    payload = Program(
        client=("a",), server=None, tcp=None, udp=None, line=None, sends="server", timeout_ns=1, env=(), cwd=None
    )
    flows = [
        SimpleNamespace(name="tcp-1", payload=None, links=("x",)),
        SimpleNamespace(name="quic-1", payload=payload, links=("x",), ends=ends),
    ]
    connections = [SimpleNamespace(flow=flow, ended_s=None, notes=[]) for flow in flows]
    profile = TargetProfile(name="x", time_unit_s=1e-6, depth_unit="byte")
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    times = {"started": begun, "ended": begun + timedelta(seconds=2.055)}
    found = qlogs.of_programs(
        cast(Any, SimpleNamespace(hosts=tmp_path / "hosts", telemetry=telemetry)),
        cast(
            Any,
            SimpleNamespace(
                reported=[SimpleNamespace(name="x", index=3)], links=[SimpleNamespace(sample_shift=int(sampled))]
            ),
        ),
        cast(
            Any,
            SimpleNamespace(
                profile=profile, connections=connections, origin_unix_ns=round(ORIGIN_MS * 1e6), guest=None, **times
            ),
        ),
        10_000_000,
        0,
    )
    if sampled:
        assert not found and "the telemetry has not each packet" in connections[1].notes[0]
        return
    (frame,) = found
    assert set(frame["flow"]) == {1} and len(frame) == 6 and not connections[1].notes
    assert frame["time_s"].iloc[0] == pytest.approx(2.0)


def test_arrivals_are_those_of_the_reports(tmp_path: Path) -> None:
    """A clock of 16 bits that wraps, at 1 us; 3 us are what an empty queue says; other flows are others'."""
    profile = TargetProfile(
        name="x", time_unit_s=1e-6, timestamp_bits=16, depth_unit="byte", empty_queue_delay=3, queue_reported=True
    )
    ends = ("198.18.0.1", "198.18.0.2")
    keys = [
        {"protocol": protocol, "bottleneck": link, "src": src, "dst": dst, "src_port": 1, "dst_port": port, "flow": 5,
         "signature": port}
        for protocol, link, (src, dst), port in (
            (17, 1, ends, 2), (17, 1, ends, 3), (6, 1, ends, 4), (17, 0, ends, 5), (17, 1, ends[::-1], 6),
        )
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(keys), tmp_path / "flow_keys.parquet")
    times = [(65_000, 3, 2), (65_500, 103, 2), (65_501, 0, 4), (10, 3, 2), (20, 3, 3), (30, 3, 2)]
    for number, part in enumerate((times[:3], times[3:])):
        rows = [
            {"bottleneck": 1, "flow": 5, "signature": port, "timestamp": at, "queue_delay": waited}
            for at, waited, port in part
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"reports-{number:05}.parquet")
    (tmp_path / "reports-00002.parquet").write_bytes(b"PAR1")
    # One that a full queue refused, and one that waited for 10 us.
    drops = [
        {"bottleneck": 1, "flow": 5, "signature": 2, "timestamp": at, "waited": waited}
        for at, waited in ((64_500, 0), (65_210, 10))
    ]
    pq.write_table(pa.Table.from_pylist(drops), tmp_path / "drops.parquet")
    found = arrivals.over_udp(tmp_path, 1, ends, profile, origin_ns=64_000_000, most=5)
    assert {ports: np.round(came * 1e6).tolist() for ports, came in found.items()} == {
        (1, 2): [500, 1000, 1200, 1400, 1546], (1, 3): [1556],
    }  # fmt: skip
    assert arrivals.over_udp(tmp_path / "none", 1, ends, profile, 0, 3) == {}
