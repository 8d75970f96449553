# SPDX-License-Identifier: Apache-2.0
"""Flows of one thread, over this machine's loopback: they begin, send and end as planned, or say why not."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from narrows.onhost import wire
from narrows.onhost.sockets import Surroundings
from narrows.onhost.tcp import ConnectionsSpecification, FlowSockets, Part, ecn_mode
from narrows_formats.connection_record import ConnectionRecord

PORT = 45_201
Events = queue.Queue[wire.Event]


def flow(
    number: int, *, start_s: float = 0.0, cca: str = "cubic", size: int | None = None, repeat: int = 1, **changes: Any
) -> ConnectionsSpecification:
    settings: dict[str, Any] = {
        "module": "tcp", "own": None, "name": f"{cca}-{number}", "host": f"sender{number}", "cca": cca, "ecn": False,
        "src": f"127.0.0.{2 + number}",
        "dst": "127.0.0.1", "dst_port": PORT + number, "duration_s": None if size else 0.5, "sequence": True,
        "gap_s": 0.0, "last_start_s": None, "until": None, "options": [], "receiver_options": [],
        "initial_window": None, "rto_min_s": None, "held": False, **changes,
    }  # fmt: skip
    parts = [Part(part, start_s, size, src_port=45_100 + 10 * number + part) for part in range(repeat)]
    return ConnectionsSpecification(**settings, connections=parts)


@contextmanager
def running(
    *flows: Any, listening: bool = True, ended: tuple[str, ...] = (), kind: type[socket.socket] = socket.socket
) -> Iterator[tuple[Events, FlowSockets]]:
    events: Events = queue.Queue()
    sockets = FlowSockets(Surroundings(lambda _, *words: kind(*words), events.put, ended.__contains__, 1 << 16))
    sockets.listen("receiver", flows if listening else [])
    sockets.prepare(flows)
    thread = threading.Thread(target=sockets.run, args=(time.monotonic(),))
    thread.start()
    try:
        yield events, sockets
    finally:
        sockets.stop()
        thread.join()
        sockets.close()


def until_done(events: Events, flows: int) -> list[wire.Event]:
    found: list[wire.Event] = []
    while sum(isinstance(event, wire.Done | wire.Failure) for event in found) < flows:
        found.append(events.get(timeout=10))
    return found


def of(found: list[wire.Event], name: str, what: str) -> list[Any]:
    return [vars(event)[what] for event in found if event.flow == name and what in vars(event)]


def test_bulk_flows_begin_and_end_at_their_times_and_say_what_was_sent() -> None:
    with running(flow(0, duration_s=1.5), flow(1, start_s=0.5, cca="reno")) as (events, _):
        found = until_done(events, 2)
    for name, start_s, end_s in (("cubic-0", 0.0, 1.5), ("reno-1", 0.5, 1.0)):
        assert of(found, name, "started_s") == [pytest.approx(start_s, abs=0.3)]
        assert of(found, name, "ended_s") == [pytest.approx(end_s, abs=0.3)]
        (record,) = map(ConnectionRecord.model_validate, of(found, name, "record"))
        # Loopback carries more than 100 Mbit/s.
        assert record.bytes_sent > 100e6 / 8 * 0.5
        assert (record.congestion_control, record.ending) == (name.partition("-")[0], "time_over")
        assert (record.started_s, record.ended_s) == (*of(found, name, "started_s"), *of(found, name, "ended_s"))
        # Over loopback: the longest IPv4 packet less its header, and that of TCP with timestamps; until the window has
        # grown from its unscaled 65,535 bytes no more than half of it (tcp_bound_to_half_wnd).
        assert record.mss_bytes is not None and 65_535 // 2 <= record.mss_bytes <= 65_535 - 20 - 32
        assert record.rtt_min_s is not None and 0 < record.rtt_min_s <= max(one.rtt_s or 0 for one in record.samples)
        assert all(one.rtt_s and one.cwnd_bytes for one in record.samples)
    samples = ConnectionRecord.model_validate(of(found, "cubic-0", "record")[0]).samples
    assert [one.time_s for one in samples] == [pytest.approx(at, abs=0.3) for at in (1.0, 1.5)]


def test_a_socket_that_takes_all_it_is_given_does_not_keep_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose receiver is as fast as the sender; it is taken away after 5 s, so that a failure ends as well."""
    begin = time.monotonic()

    def takes_all(_out: int, _in: int, _offset: int, count: int) -> int:
        if time.monotonic() > begin + 5:
            raise BlockingIOError
        return count

    monkeypatch.setattr(os, "sendfile", takes_all)
    with running(flow(0), flow(1, start_s=0.2)) as (events, _):
        found = until_done(events, 2)
    assert of(found, "cubic-1", "started_s") == [pytest.approx(0.2, abs=0.1)]
    for name, end_s in (("cubic-0", 0.5), ("cubic-1", 0.7)):
        assert of(found, name, "ended_s") == [pytest.approx(end_s, abs=0.1)]


def test_a_sized_flow_ends_when_all_has_arrived_and_the_next_one_begins_then() -> None:
    with running(flow(0, size=3_000_000, repeat=3, gap_s=0.1)) as (events, _):
        found = until_done(events, 1)
    begun, ended = of(found, "cubic-0", "started_s"), of(found, "cubic-0", "ended_s")
    assert len(begun) == len(ended) == 3
    assert all(0.1 <= begun[following] - ended[following - 1] < 0.4 for following in (1, 2))
    assert [one["bytes_sent"] for one in of(found, "cubic-0", "record")] == [3_000_000] * 3
    assert {one["ending"] for one in of(found, "cubic-0", "record")} == {"delivered"}


def test_connections_of_a_workload_do_not_wait_for_each_other() -> None:
    played = flow(0, size=1000, repeat=4, sequence=False)
    for part, start_s in zip(played.connections, (0.0, 0.0, 0.3, 0.6), strict=True):
        part.start_s = start_s
    with running(played) as (events, _):
        found = until_done(events, 1)
    assert of(found, "cubic-0", "started_s") == [pytest.approx(at, abs=0.2) for at in (0.0, 0.0, 0.3, 0.6)]
    assert len(of(found, "cubic-0", "ended_s")) == 4


@pytest.mark.parametrize("changes", [{"until": "other"}, {"last_start_s": 0.0}])
def test_a_sequence_ends_with_the_group_or_the_time_that_it_lasts_until(changes: dict[str, Any]) -> None:
    with running(flow(0, size=1000, repeat=5, **changes), ended=("other",)) as (events, _):
        found = until_done(events, 1)
    assert len(of(found, "cubic-0", "ended_s")) == 1


def test_what_still_runs_is_ended_with_what_there_is() -> None:
    with running(flow(0, duration_s=60), flow(1, start_s=30)) as (events, sockets):
        time.sleep(0.3)
        sockets.stop()
        begun, ended = events.get(timeout=5), events.get(timeout=5)
    assert isinstance(begun, wire.Started) and isinstance(ended, wire.Ended)
    assert (begun.flow, ended.flow) == ("cubic-0", "cubic-0")
    assert ended.record["bytes_sent"] > 0 and ended.record["ending"] == "interrupted"
    # The other one had not begun.
    assert events.empty()


@pytest.mark.parametrize(
    ("wanted", "listening", "why"),
    [(flow(0), False, "Connection refused"), (flow(0, cca="no-such"), False, "No such file or directory")],
)
def test_a_flow_that_fails_says_why(wanted: Any, listening: bool, why: str) -> None:
    with running(wanted, listening=listening) as (events, _):
        found = until_done(events, 1)
    assert of(found, wanted.name, "why") == [why]
    # Of what had begun there is a record.
    begun = of(found, wanted.name, "started_s")
    assert [one["ending"] for one in of(found, wanted.name, "record")] == ["failed"] * len(begun)
    assert len(begun) == (why == "Connection refused")


class Deaf(socket.socket):
    """A socket whose congestion control cannot be set, and does not say so."""

    def setsockopt(self, *words: Any) -> None:
        if words[:2] != (socket.IPPROTO_TCP, socket.TCP_CONGESTION):
            super().setsockopt(*words)


def test_another_congestion_control_than_asked_fails_the_flow() -> None:
    with running(flow(0, cca="reno"), kind=Deaf) as (events, _):
        found = until_done(events, 1)
    (why,) = of(found, "reno-0", "why")[:1]
    assert "ran with " in why and why.endswith(", not reno")


def test_a_flow_without_the_ecn_that_was_asked_for_fails() -> None:
    """Linux accepts ECN and does not ask for it, unless net.ipv4.tcp_ecn is 1."""
    with running(flow(0, ecn=True)) as (events, _):
        found = until_done(events, 1)
    assert "ran without ECN" in of(found, "cubic-0", "why")[0]


def test_the_thread_is_idle_when_nothing_is_due() -> None:
    with running(flow(0, start_s=0.2, size=1000)) as (events, _):
        until_done(events, 1)
        before = time.process_time()
        time.sleep(0.8)
        assert time.process_time() - before < 0.03


@pytest.mark.parametrize(
    ("length", "options", "mode", "expected"),
    [
        # Linux 7: two bits of byte 276, whatever else is in it.
        (280, 0, 0, "off"), (280, 8, 1, "classic"), (280, 8, 0xFC | 2, "accurate"), (280, 8, 3, None),
        # Linux 6.1's tcp_info is shorter, and only says that ECN is in use.
        (240, 0, 0, "off"), (240, 8, 0, None),
    ],
)  # fmt: skip
def test_the_mode_of_ecn_is_shown_where_the_kernel_shows_it(
    length: int, options: int, mode: int, expected: str | None
) -> None:
    info = bytearray(280)
    info[5], info[276] = options, mode
    assert ecn_mode(bytes(info[:length])) == expected
