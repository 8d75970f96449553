# SPDX-License-Identifier: Apache-2.0
"""Requests as experiments say them, and over this machine's loopback."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.loader import load, validate
from narrows.experiment.planning import make_plan
from narrows.onhost import wire
from narrows.onhost.requests import Requests, RequestSockets
from narrows.onhost.serve import open_here
from narrows.onhost.sockets import Surroundings
from narrows.traffic.requests import specify
from narrows_formats.kinds.requests import RequestsRecord

SECOND = 1_000_000_000


def plan_of(requests: dict[str, Any], group: dict[str, Any] | None = None, *others: dict[str, Any], **more: Any) -> Any:
    web = {"name": "web", "cca": "cubic", "duration": "10s", "requests": requests, **(group or {})}
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    return make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": [web, *others], **more}, "x"))


def users_of(requests: dict[str, Any], group: dict[str, Any] | None = None) -> Any:
    return plan_of(requests, group).flows[0].payload.users


def test_an_open_loop_asks_at_its_times() -> None:
    (user,) = users_of({"size": "10kB", "gaps": "3s"}, {"start": "1s"})
    assert [(one.time_ns / SECOND, one.size) for one in user] == [(4, 10_000), (7, 10_000), (10, 10_000)]


def test_requests_of_a_group_that_an_event_starts_count_from_then() -> None:
    """As with a start of its own: none is due before the group is there, so none is late by the time until then."""
    plan = plan_of({"size": "10kB", "gaps": "3s"}, events=[{"at": "5s", "start": "web"}])
    (user,) = plan.flows[0].payload.users
    assert [one.time_ns / SECOND for one in user] == [8, 11, 14]


def test_poisson_arrivals_have_their_mean_and_repeat_with_the_seed() -> None:
    """10 s at 100/s: the count's standard deviation is its root; each user draws for itself."""
    requests = {"size": {"pareto": {"shape": 1.2, "smallest": "1kB", "largest": "1MB"}}, "users": 2}
    requests["gaps"] = {"exponential": {"mean": "10ms"}}
    first, second = users_of(requests)
    assert users_of(requests) == (first, second) and first != second
    assert len(first) == pytest.approx(1000, abs=4 * 1000**0.5)
    assert all(1000 <= one.size <= 1_000_000 for one in first)


def test_a_closed_loop_has_as_many_requests_as_there_may_be_time_for() -> None:
    """Each takes a round trip (20 ms), and 1,250 bytes 1 ms of 10 Mbit/s, after 79 ms: one every 100 ms. There is one
    more, which shows that there was time for more than was thought."""
    (user,) = users_of({"size": "1250B", "think": "79ms"})
    assert [one.time_ns for one in user] == [0, *[79_000_000] * 100]
    (fresh,) = users_of({"size": "1250B", "think": "59ms", "connections": "new"})
    assert len(fresh) == 101


@pytest.mark.parametrize(
    ("varies", "least_ms"),
    [
        ({"delay": {"steps": [{"at": "0s", "delay": "60ms"}, {"at": "1s", "delay": "4ms"}]}}, 24),
        ({"delay": "60ms", "jitter": {"uniform": "50ms"}}, 30),
        ({"reverse": {"rate": "10Mbit", "buffer": "9packets", "delay": "60ms", "jitter": {"normal": "12ms"}}}, 32),
    ],
    ids=["steps", "jitter", "reverse"],
)
def test_a_closed_loop_has_requests_for_the_shortest_round_trips(varies: dict[str, Any], least_ms: int) -> None:
    """The base RTT is 80 ms, of which a part goes: 1,250 bytes take 1 ms beside what is left."""
    bottleneck = {"rate": "10Mbit", "buffer": "9packets", "rtt": "20ms", **varies}
    (user,) = plan_of({"size": "1250B", "think": "0s"}, bottleneck=bottleneck).flows[0].payload.users
    assert len(user) == -(-10_000 // (least_ms + 1)) + 1


def test_a_closed_loop_that_has_time_for_more_requests_fails() -> None:
    """A driver may make its links faster than the experiment has them; a flow does not end before its time unsaid."""
    (user,) = plan_of({"size": "1kB", "think": "0s"}).flows[0].payload.users
    assert len(user) > 2
    found = played({"size": "1kB", "think": "0s"}, duration_s=60, users=[[[0, 1000], [0, 1000]]])
    assert [event.why for event in found if isinstance(event, wire.Failure)] == [
        "had time for more requests than its links allow as the experiment has them"
    ]


def test_requests_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("0s 1kB\n\n500ms 20kB\n11s 3kB\n")
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: x\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\n"
        "flows: [{cca: reno, start: 1s, duration: 10s, requests: {trace: {file: asked.txt}, users: 2}}]\n"
    )
    # The last one is after the end.
    exchange = make_plan(load(file)).flows[0].payload
    assert isinstance(exchange, Requests)
    asked = [(one.time_ns / SECOND, one.size) for one in exchange.users[1]]
    assert asked == [(1, 1000), (1.5, 20_000)]


def test_distributions_of_files_and_the_resolved_file(tmp_path: Path) -> None:
    """What a run keeps as its experiment is one, and asks for the same."""
    (tmp_path / "sizes.txt").write_text("1000 0\n1000 0.5\n3000 1\n")
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: x\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\n"
        "flows: [{cca: reno, duration: 10s, requests: {think: 100ms, size: {cdf: sizes.txt}}}]\n"
    )
    experiment = load(file)
    flow = make_plan(experiment).flows[0]
    assert isinstance(flow.payload, Requests)
    sizes = [one.size for one in flow.payload.users[0]]
    # Half of them at the jump.
    assert min(sizes) == 1000 and max(sizes) <= 3000 and len(sizes) < 100
    assert sizes.count(1000) == pytest.approx(len(sizes) / 2, abs=2 * len(sizes) ** 0.5)
    again = tmp_path / "elsewhere" / "x.yaml"
    again.parent.mkdir()
    again.write_text(yaml.safe_dump(experiment.as_yaml_data()))
    assert make_plan(load(again)).flows[0] == flow


BOTH = {"from": "a", "to": "b"}


@pytest.mark.parametrize(
    ("requests", "group", "message"),
    [
        ({"size": "1kB"}, {}, "needs exactly one of gaps, think and trace"),
        ({"size": "1kB", "gaps": "1s", "think": "1s"}, {}, "needs exactly one of gaps, think and trace"),
        ({"gaps": "1s"}, {}, "has no size"),
        ({"size": "1kB", "gaps": "0s"}, {}, "has gaps of 0"),
        ({"size": "1kB", "think": "1s", "request": "15B"}, {}, "flows.0.requests.request"),
        ({"trace": {"file": "f", "text": "1s 1kB\n1s"}}, {}, "has '1s' in line 2 of f"),
        ({"trace": {"file": "f", "text": "1s 1kB\n0s 1kB"}}, {}, "has an earlier time in request 2 of f"),
        ({"size": "1kB", "think": "1s"}, {"count": 2}, "has count, and requests"),
        ({"size": "1kB", "think": "1s"}, {"duration": None}, "has no duration, and requests"),
        ({"size": "1kB", "think": "1s"}, {"size": "1kB"}, "has size, and requests"),
        ({"size": "1kB", "think": "1s"}, {"cca": None, "udp": {"rate": "1Mbit"}}, "has requests, and flows of udp"),
        ({"size": "1B", "gaps": "1us"}, {}, "flows.0.requests: may make more than 100000 requests"),
        ({"size": "1kB", "gaps": "200us", "connections": "new"}, {}, "flows.0: its requests may be 49999 connections"),
    ],
)
def test_what_cannot_be_is_refused(requests: dict[str, Any], group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(requests, group)


def test_packets_between_two_hosts_are_of_one_flow_of_requests() -> None:
    with pytest.raises(InputError, match="'rival' is between the same hosts as requests"):
        plan_of({"size": "1kB", "think": "1s"}, BOTH, {"name": "rival", "cca": "reno", "duration": "1s", **BOTH})


# In the order of connections, which nothing else needs.
PORTS = [45_330, 45_310, 45_325, *range(45_311, 45_325)]


def played(requests: dict[str, Any], duration_s: float, **changes: Any) -> list[wire.Event]:
    """Events of a flow whose hosts are this one."""
    (flow,) = plan_of(requests, {"duration": "10s"}).flows
    here: dict[str, Any] = {
        "server": "127.0.0.1", "client": "127.0.0.2", "server_port": 45_301,
        "client_ports": PORTS, "end_s": duration_s, **changes,
    }  # fmt: skip
    spec = replace(specify(flow, None), **here)
    events: queue.Queue[wire.Event] = queue.Queue()
    exchanges = RequestSockets(Surroundings(open_here, events.put, lambda _: False, 0))
    exchanges.listen("server", [spec])
    exchanges.prepare([spec])
    thread = threading.Thread(target=exchanges.run, args=(time.monotonic(),))
    thread.start()
    found: list[wire.Event] = []
    try:
        while not any(isinstance(event, wire.Done | wire.Failure) for event in found):
            found.append(events.get(timeout=10))
    finally:
        exchanges.stop()
        thread.join()
        exchanges.close()
    return found


@pytest.mark.parametrize("connections", ["kept", "new"])
def test_every_response_has_its_times(connections: str) -> None:
    started, ended, done = played(
        {"size": "3MB", "think": "100ms", "users": 3, "connections": connections}, duration_s=0.35
    )
    assert isinstance(started, wire.Started) and isinstance(ended, wire.Ended) and isinstance(done, wire.Done)
    record = RequestsRecord.model_validate(ended.record)
    assert (started.number, record.ending) == (0, "delivered")
    asked = record.responses or ()
    # At 0, and after 0.1, 0.2 and 0.3 s and the responses: four at most, as long as loopback takes no 50 ms for each.
    assert all(2 <= sum(one.user == user for one in asked) <= 4 for user in range(3))
    assert sorted({one.src_port for one in asked}) == sorted(PORTS[: 3 if connections == "kept" else len(asked)])
    for user in range(3):
        own = [one for one in asked if one.user == user]
        for before, after in itertools.pairwise(own):
            assert before.done_s is not None and after.due_s == pytest.approx(before.done_s + 0.1, abs=0.05)
        for one in own:
            assert one.first_byte_s is not None and one.done_s is not None
            assert one.due_s <= one.sent_s <= one.first_byte_s <= one.done_s
    assert record.bytes_sent == len(asked) * 3_000_000


def test_an_open_loop_does_not_wait_for_responses() -> None:
    users = [[[0.1, 50_000_000], [0.1, 1000], [0.1, 1000]]]
    *_, ended, _ = played({"size": "1kB", "gaps": "1s"}, duration_s=1, users=users)
    assert isinstance(ended, wire.Ended)
    record = RequestsRecord.model_validate(ended.record)
    asked = record.responses or ()
    assert [one.bytes for one in asked] == [50_000_000, 1000, 1000]
    # Nothing more is asked from then on, and the flow has all of its second.
    assert record.ended_s >= 1
    large, *small = asked
    # One connection: what was asked first comes first, and the others have waited.
    assert all(one.sent_s < (large.done_s or 0) <= (one.done_s or 0) for one in small)


def test_a_port_in_use_fails_the_flow() -> None:
    found = played({"size": "1kB", "gaps": "1s"}, duration_s=1, server="127.0.0.1", start_s=0.0, cca="reno",
                   client_ports=[45_301], client="127.0.0.1")  # fmt: skip
    assert [event.why for event in found if isinstance(event, wire.Failure)] == ["Address already in use"]
