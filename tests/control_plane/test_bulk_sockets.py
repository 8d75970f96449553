# SPDX-License-Identifier: Apache-2.0
"""Bulk flows of one thread, over this machine's loopback: they begin, send and end at their times, or say why not."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from narrows.experiment.plan import Flow
from narrows.traffic.bulk_sockets import BulkSockets, Result

SECOND = 10**9
PORT = 45_201
Ends = queue.Queue[tuple[str, Result | OSError, float]]


def flow(number: int, start_s: float = 0.0, duration_s: float = 0.5, cca: str = "cubic") -> Flow:
    times = (int(start_s * SECOND), int(duration_s * SECOND))
    addresses = (f"127.0.0.{2 + number}", "127.0.0.1", 45_100 + number, PORT + number)
    return Flow(f"{cca}-{number}", cca, cca, f"sender{number}", *addresses, *times, None, 1, 0, 0)


@contextmanager
def serving(*flows: Flow, listening: bool = True) -> Iterator[tuple[BulkSockets, Ends]]:
    ends: Ends = queue.Queue()
    found = BulkSockets(
        flows, 1 << 16, lambda _, *kind: socket.socket(*kind), lambda name, how: ends.put((name, how, time.monotonic()))
    )
    try:
        if listening:
            found.listen("receiver")
        yield found, ends
    finally:
        found.stop()


def test_flows_begin_and_end_at_their_times_and_say_what_was_sent() -> None:
    with serving(flow(0, duration_s=1.5), flow(1, start_s=0.5, cca="reno")) as (sockets, ends):
        began = time.monotonic()
        sockets.start(began)
        told = {name: (how, at_s - began) for name, how, at_s in (ends.get(timeout=10) for _ in range(2))}
    assert told["reno-1"][1] == pytest.approx(1.0, abs=0.3)
    assert told["cubic-0"][1] == pytest.approx(1.5, abs=0.3)
    for number, name in enumerate(("cubic-0", "reno-1")):
        result = told[name][0]
        assert not isinstance(result, OSError)
        assert result["start"]["connected"] == [{"local_port": 45_100 + number, "remote_port": PORT + number}]
        assert result["end"]["sender_tcp_congestion"] == name.partition("-")[0]
        # Loopback carries more than 100 Mbit/s.
        assert result["end"]["sum_sent"]["bytes"] > 100e6 / 8 * 0.5
        assert result["end"]["streams"][0]["sender"]["min_rtt"] > 0
    first = told["cubic-0"][0]
    assert not isinstance(first, OSError)
    assert [reading["streams"][0]["end"] for reading in first["intervals"]] == [pytest.approx(1.0, abs=0.3)]


def test_what_still_runs_is_ended_with_what_there_is() -> None:
    with serving(flow(0, duration_s=60), flow(1, start_s=30)) as (sockets, ends):
        sockets.start(time.monotonic())
        time.sleep(0.3)
        sockets.stop()
        name, how, _ = ends.get_nowait()
        assert name == "cubic-0"
        assert not isinstance(how, OSError)
        assert how["end"]["sum_sent"]["bytes"] > 0
        # The other one had not begun.
        assert ends.empty()
        sockets.stop()


@pytest.mark.parametrize(
    ("wanted", "listening", "why"),
    [(flow(0), False, "Connection refused"), (flow(0, cca="no-such"), True, "No such file or directory")],
)
def test_a_flow_that_fails_says_why_and_the_others_go_on(wanted: Flow, listening: bool, why: str) -> None:
    with serving(wanted, listening=listening) as (sockets, ends):
        sockets.start(time.monotonic())
        name, how, _ = ends.get(timeout=5)
        assert (name, isinstance(how, OSError) and how.strerror) == (wanted.name, why)
        # Later nothing is due any more, and it is ended all the same.
        time.sleep(0.6)
    with serving(flow(0, cca="no-such"), flow(1)) as (sockets, ends):
        sockets.start(time.monotonic())
        failed = {name: isinstance(how, OSError) for name, how, _ in (ends.get(timeout=5) for _ in range(2))}
    assert failed == {"no-such-0": True, "cubic-1": False}


def test_a_port_in_use_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", PORT)),
        serving(flow(0), listening=False) as (sockets, _),
        pytest.raises(OSError, match="in use"),
    ):
        sockets.listen("receiver")
