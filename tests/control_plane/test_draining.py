# SPDX-License-Identifier: Apache-2.0
"""A run's counters are final once its queue is empty and nothing that was sent can still come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.run import draining
from narrows.switch.readings import QueueStats

RTT_S = 0.05
PLAN = make_plan(
    validate(
        {
            "name": "test",
            "bottleneck": {"rate": "10Mbit", "rtt": "50ms", "buffer": "1bdp"},
            "flows": [{"cca": "bbr", "duration": "1s"}],
        },
        "test",
    )
)


def queue(departed: Callable[[], int], depths: list[int | None]) -> draining.Read:
    """Readings of a queue from which so much has departed; its depths one after the other, then 0."""

    async def read() -> dict[str, QueueStats]:
        depth = depths.pop(0) if depths else 0
        found = QueueStats(
            port=0, queue=0, rate_bps=1, limit_bytes=1, limit_packets=1, delay_ns=0, epoch=1, enqueued_packets=None,
            enqueued_bytes=None, dequeued_packets=departed(), dequeued_bytes=None, dropped_packets=0, dropped_bytes=0,
            depth_packets=depth, depth_bytes=None, peak_depth_bytes=None,
        )  # fmt: skip
        return {"bottleneck": found}

    return read


def test_what_waits_is_waited_for() -> None:
    depths: list[int | None] = [3, None, 1]
    asyncio.run(draining.drain(queue(lambda: 0, depths), PLAN))
    assert depths == []


def test_what_is_on_its_way_is_waited_for() -> None:
    """A packet that leaves 0.7 RTT after the senders were silenced is counted, though nothing waits before."""
    started = time.monotonic()
    late = started + 0.7 * RTT_S
    asyncio.run(draining.wait_for_quiescence(queue(lambda: int(time.monotonic() > late), []), PLAN))
    # One RTT in which it came, and one in which nothing came.
    assert time.monotonic() - started >= 2 * RTT_S


@pytest.mark.parametrize(
    ("flow", "waits"),
    [({"cca": "bbr"}, False), ({"udp": {"rate": "1Mbit"}}, True), ({"probe": {"interval": "1s"}}, True)],
)
def test_datagrams_on_their_way_are_waited_for(flow: dict[str, object], waits: bool) -> None:
    link = {"rate": "10Mbit", "rtt": "50ms", "buffer": "1bdp"}
    plan = make_plan(validate({"name": "x", "bottleneck": link, "flows": [{**flow, "duration": "1s"}]}, "x"))
    started = time.monotonic()
    asyncio.run(draining.wait_for_datagrams(queue(lambda: 0, []), plan))
    assert (time.monotonic() - started >= RTT_S) is waits


def test_datagrams_are_not_waited_for_where_others_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """That packets still cross the links is said when the senders are down, if it is so then."""
    monkeypatch.setattr(draining, "GRACE_S", 0.1)
    link = {"rate": "10Mbit", "rtt": "50ms", "buffer": "1bdp"}
    flow = {"udp": {"rate": "1Mbit"}, "duration": "1s"}
    plan = make_plan(validate({"name": "x", "bottleneck": link, "flows": [flow]}, "x"))
    numbers = iter(range(10_000))
    asyncio.run(draining.wait_for_datagrams(queue(lambda: next(numbers), []), plan))


def test_what_a_sender_takes_its_time_for_is_waited_for_without_an_rtt() -> None:
    """A NIC that is modelled holds a frame for as long as the bottleneck takes for one: 121 ms at 100 kbit/s."""
    link = {"rate": "100kbit", "rtt": "0", "buffer": "2packets"}
    plan = make_plan(
        validate({"name": "x", "bottleneck": link, "flows": [{"cca": "reno", "duration": "1s"}]}, "x.yaml")
    )
    started = time.monotonic()
    asyncio.run(draining.wait_for_quiescence(queue(lambda: int(time.monotonic() > started + 0.1), []), plan))
    assert time.monotonic() - started >= 2 * 0.121


def test_what_cards_hold_is_waited_for() -> None:
    """Both ends' NICs deliver packets 60 ms late: the answer to one leaves a queue up to 120 ms after it."""
    link = {"rate": "10Mbit", "rtt": "10ms", "buffer": "1bdp"}
    flow = {"probe": {"interval": "1s"}, "duration": "1s"}
    plan = make_plan(
        validate({"name": "x", "bottleneck": link, "flows": [flow], "hosts": {"rx_usecs": 60_000}}, "x.yaml")
    )
    started = time.monotonic()
    asyncio.run(draining.wait_for_datagrams(queue(lambda: int(time.monotonic() > started + 0.12), []), plan))
    assert time.monotonic() - started >= 2 * 0.13


def test_what_comes_late_and_has_to_wait_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue of half a second that what was on its way fills again: no packets without an end."""
    monkeypatch.setattr(draining, "GRACE_S", 0.1)
    link = {"rate": "10Mbit", "rtt": "1ms", "buffer": "500ms"}
    plan = make_plan(validate({"name": "x", "bottleneck": link, "flows": [{"cca": "reno", "duration": "1s"}]}, "x"))
    started = time.monotonic()
    departed = queue(lambda: int(min(0.4, time.monotonic() - started) / 0.02), [])
    asyncio.run(draining.wait_for_quiescence(departed, plan))
    assert time.monotonic() - started >= 0.4


def test_packets_without_end_and_a_queue_that_stays_full_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "GRACE_S", 0.1)
    numbers = iter(range(10_000))
    with pytest.raises(RunError, match="after the senders were taken down"):
        asyncio.run(draining.wait_for_quiescence(queue(lambda: next(numbers), []), PLAN))
    with pytest.raises(RunError, match="does not drain"):
        asyncio.run(draining.drain(queue(lambda: 0, [1] * 10_000), PLAN))
