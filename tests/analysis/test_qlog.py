# SPDX-License-Identifier: Apache-2.0
"""qlog: its encodings and times after the drafts, files that are cut or wrong, and the sender's state by its events."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrows_analysis.interchange import qlog
from narrows_analysis.interchange.qlog import Event, QlogError, QlogFile, Trace
from narrows_analysis.interchange.qlog_sender import MOST_SENT, NUMBERS, SenderLog

# 2026-01-01T00:00:00Z.
BEGIN_MS = 1_767_225_600_000.0
TIMES_MS = (0.0, 1.5, 1.5, 40.25)
NAMES = ("recovery:metrics_updated", "transport:packet_sent", "h3:frame_parsed", "quic:recovery_metrics_updated")
RFC3339 = {"clock_type": "system", "epoch": "2026-01-01T00:00:00.000Z"}
DELTAS = [TIMES_MS[0], *np.diff(TIMES_MS)]
# Of draft-ietf-quic-qlog-main-schema until 12, and since.
FORMATS = [
    ("relative", BEGIN_MS, TIMES_MS),
    ("delta", BEGIN_MS, DELTAS),
    ("absolute", 5, [BEGIN_MS + one for one in TIMES_MS]),
    ("relative_to_epoch", RFC3339, TIMES_MS),
    ("relative_to_epoch", {"clock_type": "system", "epoch": "1970-01-01T00:00:00Z"}, [BEGIN_MS + t for t in TIMES_MS]),
    ("relative_to_previous_event", RFC3339, DELTAS),
    (None, "2026-01-01T01:00:00+01:00", TIMES_MS),
]
TRACE: dict[str, Any] = {"vantage_point": {"type": "server"}, "common_fields": {"time_format": "relative"}}


def events_of(times: Any) -> list[dict[str, Any]]:
    return [{"time": time, "name": name, "data": {"min_rtt": 1}} for time, name in zip(times, NAMES, strict=True)]


def sequence(trace: dict[str, Any], events: list[Any]) -> bytes:
    head = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": trace}
    return b"".join(b"\x1e" + json.dumps(one).encode() + b"\n" for one in (head, *events))


def lines(trace: dict[str, Any], events: list[Any]) -> bytes:
    return sequence(trace, events).replace(b"\x1e", b"").replace(b"JSON-SEQ", b"NDJSON")


def contained(trace: dict[str, Any], events: list[Any]) -> bytes:
    head = {"qlog_version": "0.3", "title": "[{", "traces": [{"error_description": "x"}, {**trace, "events": events}]}
    return json.dumps(head, indent=1).encode()


ENCODINGS = [sequence, lines, contained]


def read(data: bytes) -> tuple[list[tuple[Trace, Event]], QlogFile]:
    file = QlogFile(io.BytesIO(data))
    return list(file.events()), file


@pytest.mark.parametrize("encoded", ENCODINGS)
@pytest.mark.parametrize(("time_format", "reference", "times"), FORMATS)
def test_times_are_those_that_the_format_says(
    encoded: Any, time_format: str | None, reference: Any, times: Any
) -> None:
    common = {"time_format": time_format, "reference_time": reference}
    fields = {name: value for name, value in common.items() if value is not None}
    found, file = read(encoded({**TRACE, "common_fields": fields}, events_of(times)))
    assert [event.name for _, event in found] == [name.partition(":")[2] for name in NAMES]
    assert [(trace.reference_ms or 0.0) + event.time_ms for trace, event in found] == [BEGIN_MS + t for t in TIMES_MS]
    assert {trace.vantage for trace, _ in found} == {"server"} and not (file.cut or file.broken)


def test_an_event_may_have_a_format_of_its_own() -> None:
    events = [{**one, "time_format": "relative_to_previous_event"} for one in events_of([3.0, 2.0, 1.0, 0.5])]
    found, _ = read(sequence(TRACE, [*events, *events_of([9.0] * 4)]))
    assert [event.time_ms for _, event in found] == [3.0, 5.0, 6.0, 6.5, 9.0, 9.0, 9.0, 9.0]


def test_the_first_drafts_have_arrays_and_units() -> None:
    """draft-marx-qlog-main-schema-01: `event_fields`, times and RTTs in us, numbers as text."""
    fields = ["relative_time", "CATEGORY", "EVENT", "DATA"]
    common = {"reference_time": str(int(BEGIN_MS) * 1000)}
    trace = {**TRACE, "configuration": {"time_units": "us"}, "event_fields": fields, "common_fields": common}
    data = {"smoothed_rtt": "50000", "min_rtt": 40_000}
    ((found, event),) = read(contained(trace, [["2500", "RECOVERY", "METRICS_UPDATED", data]]))[0]
    assert (found.reference_ms, event.time_ms, event.name) == (BEGIN_MS, 2.5, "metrics_updated")
    log = SenderLog(found)
    log.take(event)
    assert log.at(np.array([2.5]))[["rtt_s", "min_rtt_s"]].to_numpy().tolist() == [[0.05, 0.04]]


@pytest.mark.parametrize(
    "reference", [{"clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": "2026-01-01T00:00:00Z"}, "noon"]
)
def test_a_reference_may_not_be_known(reference: object) -> None:
    """The wall clock's time cannot be relied on, as the draft says."""
    found, _ = read(sequence({**TRACE, "common_fields": {"reference_time": reference}}, events_of(TIMES_MS)))
    assert {trace.reference_ms for trace, _ in found} == {None}


@pytest.mark.parametrize("encoded", ENCODINGS)
def test_what_is_whole_of_a_cut_file_counts(encoded: Any) -> None:
    data = encoded(TRACE, events_of(TIMES_MS))
    end = data.rindex(b"recovery_metrics") + 5
    found, file = read(data[:end])
    assert ([event.time_ms for _, event in found], file.cut, file.broken) == (list(TIMES_MS[:3]), True, 0)


def test_a_record_that_is_not_json_is_left_out() -> None:
    first, rest = sequence(TRACE, events_of(TIMES_MS)).split(b"\x1e", 3)[1:3], b'\x1e{"time": \x1e\x00\xff\n'
    found, file = read(b"\x1e" + b"\x1e".join(first) + rest + sequence(TRACE, events_of(TIMES_MS)).split(b"\n", 2)[2])
    assert ([event.time_ms for _, event in found], file.broken) == ([0.0, *TIMES_MS[1:]], 2)


@pytest.mark.parametrize(
    "event",
    [
        1,
        [],
        {},
        {"time": "1e999", "name": "a:b", "data": {}},
        {"time": "x", "name": "a:b", "data": {}},
        {"time": 1, "name": "a:b"},
    ],
)
@pytest.mark.parametrize("encoded", ENCODINGS)
def test_what_is_no_event_is_left_out(encoded: Any, event: object) -> None:
    found, file = read(encoded(TRACE, [event, *events_of(TIMES_MS)]))
    assert (len(found), file.broken) == (4, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not JSON|has no traces"),
        (b"\x1e{}\n", "does not begin with a trace"),
        (b'{"traces": 3}', "is not JSON: no \\["),
        (b'{"traces": [{"events": [1 2]}]}', "is not JSON: no , or \\]"),
        (b'{"a": 1}', "has no traces"),
        (b"\x1e\n\x1e[", "has no trace"),
        (contained({**TRACE, "common_fields": {"time_format": "x"}}, []), "time_format 'x'; allowed: delta, "),
        (contained({**TRACE, "configuration": {"time_units": "h"}}, []), "time_units 'h'; allowed: ms, us"),
        (b'{"traces": [{"events": [], "common_fields": {"reference_time": 5}}]}', "common_fields behind the events"),
        (b'{"traces": [{"events": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"traces": [{"events": [' + b"1" * 1000 + b",", "an integer of 1000 digits"),
    ],
)
def test_what_is_not_qlog_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(QlogError, match=words):
        read(data)


@pytest.mark.parametrize("encoded", ENCODINGS)
def test_no_event_is_of_any_length(encoded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qlog, "MOST_EVENT_BYTES", 1000)
    monkeypatch.setattr(qlog, "CHUNK_BYTES", 1000)
    long = {"time": 1, "name": "a:b", "data": {"x": "y" * (3 << 20)}}
    with pytest.raises(QlogError, match=r"has an? (event|value) of more than"):
        read(encoded(TRACE, [*events_of(TIMES_MS), long]))


PIECES = st.sampled_from(
    [b"\x1e", b"\n", b'{"traces":[{"events":[', b"]}]}", b'{"trace":{}}', b"{}", b",", b'"', b"1e999", b"-", b"NaN"]
) | st.binary(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("a", "new", "header")), inner),
    max_leaves=4,
)
FRAMES = st.lists(
    st.fixed_dictionaries(
        {"frame_type": st.sampled_from(("ack", "stream")) | VALUES},
        optional={"stream_id": VALUES, "offset": VALUES, "length": VALUES, "acked_ranges": VALUES, "raw": VALUES},
    ),
    max_size=2,
)
HEADERS = st.fixed_dictionaries({"packet_type": st.just("1RTT"), "packet_number": VALUES})
DATA = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("smoothed_rtt", "min_rtt", "congestion_window", "ssthresh", "new", "packet_numbers"), VALUES),
        "header": HEADERS | VALUES,
        "frames": FRAMES | VALUES,
    },
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "time": VALUES,
            "name": st.sampled_from(
                ("x:metrics_updated", "packet_sent", "packet_received", "packets_acked", "packet_lost",
                 "congestion_state_updated")
            ),
            "data": DATA | VALUES,
        }
    )
)  # fmt: skip
TRACES = st.fixed_dictionaries(
    {}, optional={"common_fields": VALUES, "configuration": VALUES, "vantage_point": VALUES, "event_fields": VALUES}
)


def states(data: bytes) -> list[pd.DataFrame]:
    logs: dict[int, SenderLog] = {}
    for trace, event in QlogFile(io.BytesIO(data)).events():
        logs.setdefault(id(trace), SenderLog(trace)).take(event)
    return [log.at(np.linspace(0, 10, 5)) for log in logs.values()]


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_garbage_is_refused_with_our_error_alone(data: bytes) -> None:
    try:
        states(data)
    except QlogError as error:
        assert "Traceback" not in str(error)


@given(st.sampled_from(ENCODINGS), TRACES, EVENTS, st.integers(min_value=0))
def test_values_of_any_kind_lead_to_states_within_bounds(encoded: Any, trace: Any, events: Any, cut: int) -> None:
    data = encoded(trace, events)
    for whole in (data, data[: cut % (len(data) + 1)]):
        try:
            found = states(whole)
        except QlogError:
            continue
        for frame in found:
            numbers = frame[list(NUMBERS)].to_numpy(float)
            assert np.all(np.isnan(numbers) | ((numbers >= 0) & (numbers < 2.0**64)))


def log_of(*events: tuple[float, str, dict[str, Any]]) -> SenderLog:
    log = SenderLog(Trace("server", 0.0, 1.0, "relative", ()))
    for time, name, data in events:
        log.take(Event(time, name, data))
    return log


def at(log: SenderLog, *times: float) -> pd.DataFrame:
    return log.at(np.array(times, dtype=np.float64))


def test_a_state_holds_until_it_changes() -> None:
    log = log_of(
        (
            1,
            "metrics_updated",
            {"congestion_window": 12_000, "min_rtt": 40, "latest_rtt": 41, "pacing_rate": 5_000_000},
        ),
        (2, "metrics_updated", {"bytes_in_flight": 3000, "ssthresh": 2**64 - 1}),
        (3, "recovery_metrics_updated", {"bytes_in_flight": 4500, "ssthresh": 9000, "smoothed_rtt": 42.5}),
        (5, "unknown", {}),
    )
    found = at(log, 0.5, 1, 2.5, 4.9, 5.0, 5.1)
    assert found["time_ms"].tolist() == [1, 2.5, 4.9, 5.0]
    assert found["cwnd_bytes"].tolist() == [12_000] * 4 and found["pacing_rate_bps"].tolist() == [5e6] * 4
    np.testing.assert_equal(found["inflight_bytes"].tolist(), [np.nan, 3000, 4500, 4500])
    np.testing.assert_equal(found["ssthresh_bytes"].tolist(), [np.nan, np.nan, 9000, 9000])
    np.testing.assert_equal(found["rtt_s"].tolist(), [np.nan, np.nan, 0.0425, 0.0425])
    assert found["min_rtt_s"].tolist() == [0.04] * 4 and found["latest_rtt_s"].tolist() == [0.041] * 4
    # What is not logged is not known.
    assert found[["retransmits", "acked_bytes", "data_packets", "bbr_phase"]].isna().all(axis=None)


def test_what_comes_out_of_order_counts_from_the_latest_event_on() -> None:
    log = log_of((5, "metrics_updated", {"congestion_window": 1}), (4, "metrics_updated", {"congestion_window": 2}))
    assert at(log, 4, 4.5, 5)[["time_ms", "cwnd_bytes"]].to_numpy().tolist() == [[5, 2]]


@pytest.mark.parametrize(
    "before",
    [{"smoothed_rtt": 333, "latest_rtt": 0}, {"smoothed_rtt": 333, "latest_rtt": 333, "min_rtt": 333}],
    ids=["ngtcp2", "TQUIC"],
)
def test_a_guess_of_the_rtt_is_no_reading(before: dict[str, Any]) -> None:
    """RFC 9002, section 6.2.2: 333 ms until there is a sample, which the first ACK gives."""
    header = {"packet_type": "initial", "packet_number": 0}
    log = log_of(
        (0, "packet_received", {"header": header, "frames": [{"frame_type": "crypto"}]}),
        (1, "metrics_updated", before),
        (2, "packet_received", {"header": header, "frames": [{"frame_type": "ack", "acked_ranges": [[0]]}]}),
        (2, "metrics_updated", {"smoothed_rtt": 40, "latest_rtt": 40, "min_rtt": 40}),
    )
    assert at(log, 1.5)["rtt_s"].isna().all()
    assert at(log, 2.0)[["rtt_s", "latest_rtt_s", "min_rtt_s"]].to_numpy().tolist() == [[0.04, 0.04, 0.04]]


def test_an_rtt_of_none_is_no_reading() -> None:
    """Without packets in the log: there is no sample as long as the latest RTT and the smallest one are 0."""
    guess, sample = {"smoothed_rtt": 333, "latest_rtt": 0}, {"smoothed_rtt": 9, "latest_rtt": 9, "min_rtt": 0}
    found = at(log_of((1, "metrics_updated", guess), (2, "metrics_updated", sample)), 1, 2)
    np.testing.assert_equal(found["rtt_s"].tolist(), [np.nan, 0.009])
    assert found["min_rtt_s"].isna().all()


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        ("Startup", "STARTUP"), ("BBR_DRAIN", "DRAIN"), ("ProbeRTT", "PROBE_RTT"), ("probe_rtt", "PROBE_RTT"),
        ("ProbeBwDown", "PROBE_DOWN"), ("PROBE_BW_CRUISE", "PROBE_CRUISE"), ("probe_bw:refill", "PROBE_REFILL"),
        ("PROBE_UP", "PROBE_UP"), ("ProbeBW", None), ("slow_start", None), ("", None), ("recovery", None),
    ],
)  # fmt: skip
def test_a_phase_is_one_only_where_the_stack_says_it(said: str, phase: str | None) -> None:
    found = at(log_of((1, "congestion_state_updated", {"new": said})), 1.0)
    assert found["congestion_state"].tolist() == [said]
    assert found["bbr_phase"].tolist() == [pd.NA if phase is None else phase]


def packet(number: Any, *frames: tuple[int, int, int], kind: str = "1RTT", new: bool = False) -> dict[str, Any]:
    """``new``: frames as drafts since 10 have them."""
    sizes = [{"raw": {"length": size}} if new else {"length": size} for _, _, size in frames]
    made = [
        {"frame_type": "stream", "stream_id": stream, "offset": offset, **size}
        for (stream, offset, _), size in zip(frames, sizes, strict=True)
    ]
    return {"header": {"packet_type": kind, "packet_number": number}, "frames": made}


def ack(*ranges: list[int], kind: str = "1RTT") -> dict[str, Any]:
    header = {"packet_type": kind, "packet_number": 0}
    return {"header": header, "frames": [{"frame_type": "ack", "acked_ranges": list(ranges)}]}


@pytest.mark.parametrize("new", [False, True])
def test_what_is_acknowledged_counts_once(new: bool) -> None:
    handshake = {"header": {"packet_type": "initial", "packet_number": 0}, "frames": [{"frame_type": "crypto"}]}
    log = log_of(
        (0, "packet_sent", handshake),
        (1, "packet_sent", packet(0, (0, 0, 1000), new=new)),
        (1, "packet_sent", packet(1, (0, 1000, 500), (4, 0, 70), new=new)),
        (2, "packet_received", ack([0], kind="initial")),
        (3, "packet_received", ack([0])),
        (3, "packets_acked", {"packet_number_space": "initial", "packet_numbers": [1]}),
        (3, "packet_sent", packet(1, (8, 0, 9000))),
        (4, "packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 1}}),
        (5, "packet_sent", packet("2", (0, 1000, 500), (4, 0, 70), new=new)),
        (6, "packet_received", ack([2], [0])),
        (7, "packet_received", ack([0, 2])),
        (8, "packets_acked", {"packet_numbers": [0, 1, 2]}),
        (9, "unknown", {}),
    )  # fmt: skip
    found = at(log, *range(10))
    assert found["acked_bytes"].tolist() == [0, 0, 1000, 1000, 1000, 1570, 1570, 1570, 1570]
    assert found["data_packets"].tolist() == [2, 2, 3, 3, 4, 4, 4, 4, 4]
    assert found["retransmits"].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert log.sent_ms == [0, 1, 1, 3, 5]


def test_the_first_packets_alone_are_for_the_clock() -> None:
    log = log_of(*((time, "packet_sent", {}) for time in range(2 * MOST_SENT)))
    assert log.sent_ms == list(range(MOST_SENT)) and log.end_ms == 2 * MOST_SENT - 1


def test_a_lost_probe_of_the_mtu_is_not_sent_again() -> None:
    padding = {"header": {"packet_type": "1RTT", "packet_number": 1}, "frames": [{"frame_type": "padding"}]}
    log = log_of(
        (1, "packet_sent", packet(0, (0, 0, 9))),
        (1, "packet_sent", padding),
        (2, "packet_lost", {"header": padding["header"]}),
        (3, "packet_lost", {"is_mtu_probe_packet": True, **packet(0)}),
        (4, "packet_lost", packet(0)),
    )
    assert at(log, 2, 3, 4)["retransmits"].tolist() == [0, 0, 1]


def test_values_of_another_kind_are_left_out_and_counted() -> None:
    data = {"congestion_window": "wide", "bytes_in_flight": -1, "smoothed_rtt": [4], "ssthresh": None, "min_rtt": 40}
    log = log_of((1, "metrics_updated", data), (2, "congestion_state_updated", {"new": 7}))
    assert log.mistyped == 4 and at(log, 1)["cwnd_bytes"].isna().all()
    assert at(log, 1)["min_rtt_s"].tolist() == [0.04]


PACKETS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 15)), max_size=30)
RANGES = st.lists(st.tuples(st.integers(0, 35), st.integers(0, 35)), max_size=30)


@given(PACKETS, RANGES, st.randoms(use_true_random=False))
def test_acknowledged_bytes_are_those_of_a_set(packets: Any, ranges: Any, random: Any) -> None:
    """The model: a set of the bytes of streams, and the packets that have not been acknowledged."""
    log, sent, numbers, acked = log_of(), {}, iter(range(100)), set()
    steps = [*(("sent", one) for one in packets), *(("acked", one) for one in ranges)]
    random.shuffle(steps)
    for time, (what, one) in enumerate(steps):
        if what == "sent":
            number = next(numbers)
            sent[number] = one
            log.take(Event(time, "packet_sent", packet(number, one)))
        else:
            log.take(Event(time, "packet_received", ack(list(one))))
            for number in [number for number in sent if one[0] <= number <= one[1]]:
                stream, offset, size = sent.pop(number)
                acked |= {(stream, byte) for byte in range(offset, offset + size)}
    if packets:
        assert at(log, len(steps) - 1)["acked_bytes"].fillna(0).tolist() == [len(acked)]
