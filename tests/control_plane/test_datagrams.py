# SPDX-License-Identifier: Apache-2.0
"""UDP flows and probes as experiments say them, and how their receiver counts."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import base
from narrows.onhost import wire
from narrows.onhost.datagrams import STAMP, Arrivals, Counter, DatagramSockets, DatagramsSpecification, distribution
from narrows.onhost.sockets import Surroundings
from narrows.traffic.datagrams import DatagramFlows

BOTTLENECK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}


def sockets(kind: type[socket.socket] = socket.socket, events: list[wire.Event] | None = None) -> DatagramSockets:
    told = [] if events is None else events
    return DatagramSockets(Surroundings(lambda _, *words: kind(*words), told.append, lambda _: False, 0))


def plan_of(group: dict[str, Any], **others: Any) -> Any:
    return make_plan(validate({"name": "x", "bottleneck": BOTTLENECK, "flows": [group], **others}, "x"))


def test_a_constant_rate_is_payload_at_even_gaps() -> None:
    """1,250 bytes are 10,000 bits: at 1 Mbit/s one every 10 ms."""
    (flow,) = plan_of({"udp": {"rate": "1Mbit", "payload": "1250B"}, "start": "1s", "duration": "2s"}).flows
    assert (flow.name, flow.kind, flow.cca, flow.protocol) == ("udp-1", "udp", None, 17)
    assert flow.payload.gap_ns == 10_000_000
    assert flow.payload.bursts == ((1_000_000_000, 3_000_000_000),)


def test_fixed_bursts_and_pauses_follow_one_another_to_the_end() -> None:
    bursts = {"length": "300ms", "pause": "200ms"}
    (flow,) = plan_of({"udp": {"rate": "1Mbit", "bursts": bursts}, "duration": "1s"}).flows
    milliseconds = [(begin // 10**6, end // 10**6) for begin, end in flow.payload.bursts]
    assert milliseconds == [(0, 300), (500, 800)]


def test_drawn_bursts_have_the_mean_that_was_asked_and_repeat_with_the_seed() -> None:
    """The mean of n exponential draws lies within 4 / sqrt(n) of theirs but once in 16,000 times."""
    bursts = {"length": "1ms", "pause": "3ms", "distribution": "exponential"}
    group = {"udp": {"rate": "1Mbit", "bursts": bursts}, "duration": "40s", "count": 2}
    first, second = plan_of(group).flows
    again = plan_of(group).flows[0]
    other = plan_of(group, seed=2).flows[0]
    assert first.payload == again.payload
    assert first.payload.bursts != second.payload.bursts
    assert first.payload.bursts != other.payload.bursts
    lengths = [end - begin for begin, end in first.payload.bursts]
    assert sum(lengths) / len(lengths) == pytest.approx(1e6, rel=4 / len(lengths) ** 0.5)
    # Bursts take a quarter of the time.
    assert sum(lengths) == pytest.approx(10e9, rel=8 / len(lengths) ** 0.5)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"duration": "1s"}, "flows.0: has no cca; allowed: one of cca"),
        ({"cca": "reno", "udp": {"rate": "1Mbit"}, "duration": "1s"}, "has cca beside udp"),
        ({"udp": {"rate": "1Mbit"}}, "has no duration, and flows of udp"),
        ({"probe": {"interval": "1ms"}, "size": "1kB"}, "has size, and flows of probe"),
        ({"udp": {"rate": "1Mbit", "payload": "15B"}, "duration": "1s"}, "flows.0.udp.payload"),
        ({"udp": {"rate": "1Mbit", "payload": "1473B"}, "duration": "1s"}, "up to 1472"),
        ({"probe": {"interval": "0ms"}, "duration": "1s"}, "flows.0.probe.interval"),
    ],
)
def test_what_cannot_be_is_refused(group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(group)


def test_the_largest_datagram_is_one_packet() -> None:
    """RFC 768 and 8200: 1,500 bytes less 40 and 8."""
    group = {"udp": {"rate": "1Mbit", "payload": "1452B"}, "duration": "1s"}
    plan_of(group, ip_version=6)
    group["udp"]["payload"] = "1453B"  # type: ignore[index]
    with pytest.raises(InputError, match="up to 1452"):
        plan_of(group, ip_version=6)


def test_what_arrives_is_counted_as_rfc_4737_does() -> None:
    """0, 2, 1, 2, 4, 3: two came after a higher number, one twice; six arrived, five of them different."""
    arrivals = Arrivals()
    for place, number in enumerate((0, 2, 1, 2, 4, 3)):
        datagram = bytearray(100)
        STAMP.pack_into(datagram, 0, number, 1.0)
        arrivals.take(memoryview(datagram), 1.5, marked=place == 0)
    arrivals.take(memoryview(b"foreign"), 1.5, marked=False)
    found = arrivals.summary()
    assert found.pop("delay_s") == dict.fromkeys(("min", "mean", "p50", "p95", "p99", "max"), 0.5)
    assert found == {"packets": 6, "bytes": 500, "duplicates": 1, "reordered": 2, "ce_marked": 1}


@settings(max_examples=int(os.environ.get("NARROWS_CASES", "25")))
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1000), st.booleans()), max_size=40))
def test_arrivals_are_counted_as_by_looking_at_all_that_came_before(datagrams: list[tuple[int, int, bool]]) -> None:
    arrivals, delays, late = Arrivals(), list[float](), 0
    for place, (number, milliseconds, marked) in enumerate(datagrams):
        datagram = bytearray(50 + number)
        STAMP.pack_into(datagram, 0, number, float(place))
        arrivals.take(memoryview(datagram), place + milliseconds / 1000, marked)
        before = [other for other, _, _ in datagrams[:place]]
        if number not in before:
            delays.append(milliseconds / 1000)
            late += any(other > number for other in before)
    found, numbers = arrivals.summary(), {number for number, _, _ in datagrams}
    times = found.pop("delay_s")
    assert found == {
        "packets": len(datagrams), "bytes": sum(50 + number for number in numbers),
        "duplicates": len(datagrams) - len(numbers), "reordered": late, "ce_marked": sum(one[2] for one in datagrams),
    }  # fmt: skip
    assert (times is None) == (not delays)
    if times is not None:
        ranks = {part: sorted(delays)[max(1, math.ceil(len(delays) * part / 100)) - 1] for part in (50, 95, 99)}
        right = {"min": min(delays), "max": max(delays), "mean": sum(delays) / len(delays)}
        assert times == pytest.approx(right | {f"p{part}": value for part, value in ranks.items()}, abs=1e-9)


@pytest.mark.parametrize(("ahead_s", "one_clock"), [({"sender0": 0.0, "receiver": 0.0}, True),
                                                   ({"sender0": 0.0, "receiver": 86_400.0}, False)])  # fmt: skip
def test_clocks_of_two_machines_make_no_delay(tmp_path: Path, ahead_s: dict[str, float], one_clock: bool) -> None:
    """A machine's monotonic clock begins when it does: the difference of two is that of their starts."""

    class Machines:
        async def clock_offset_s(self, host: str) -> float:
            return ahead_s[host]

    plan = plan_of({"udp": {"rate": "1Mbit"}, "duration": "1s"})
    made = DatagramFlows(plan, cast("base.Testbed", Machines()), tmp_path, plan.flows)
    flow = asyncio.run(made.specify(plan.flows[0]))
    assert (flow.host, flow.one_clock) == ("sender0", one_clock)
    datagrams = sockets()
    datagrams.listen("receiver", [replace(flow, dst="127.0.0.1", dst_port=45_402)])
    (receiver,) = datagrams._receivers.values()
    assert isinstance(receiver, Counter)
    datagram = bytearray(100)
    STAMP.pack_into(datagram, 0, 0, 1.0)
    receiver._arrivals.take(memoryview(datagram), 1.5, marked=False)
    found = receiver._arrivals.summary()
    assert (found["packets"], found["delay_s"] is not None) == (1, one_clock)
    datagrams.prepare([])
    datagrams.close()


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: of 1 to 200 the p-th percentile is 2 p."""
    found = distribution([float(value) for value in range(1, 201)])
    assert found == {"min": 1, "mean": 100.5, "p50": 100, "p95": 190, "p99": 198, "max": 200}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_ecn_field_that_is_ignored_fails_the_flow(address: str) -> None:
    class Ignoring(socket.socket):
        """A socket that takes the ECN field, and has another one."""

        def setsockopt(self, level: int, option: int, value: Any, *_: Any) -> None:
            tos = (level, option) in ((socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, socket.IPV6_TCLASS))
            super().setsockopt(level, option, 0 if tos else value)

    flow = DatagramsSpecification(
        name="x", held=False, kind="udp", own=None, host="here", src=address, src_port=0, dst=address, dst_port=45_401,
        payload=100, gap_s=0.1, bursts=[], end_s=1.0, ecn="ect1", echo=False, one_clock=True,
    )  # fmt: skip
    for kind in (socket.socket, Ignoring):
        datagrams = sockets(kind)
        if kind is Ignoring:
            with pytest.raises(OSError, match=f"the ECN field of {address} is 0, not 1"):
                datagrams.listen("here", [flow])
        else:
            datagrams.listen("here", [flow])
        datagrams.prepare([])
        datagrams.close()


def test_a_host_that_has_sent_everything_receives_until_it_is_stopped() -> None:
    """What comes back to a probe, or arrives late, is counted; the end is reported once per flow."""
    events: list[wire.Event] = []
    flow = DatagramsSpecification(
        name="x", held=False, kind="probe", own=None, host="here", src="127.0.0.2", src_port=45_403, dst="127.0.0.1",
        dst_port=45_404, payload=100, gap_s=0.02, bursts=[(0.0, 0.1)], end_s=0.1, ecn="not-ect", echo=True,
        one_clock=True,
    )  # fmt: skip
    datagrams = sockets(events=events)
    datagrams.listen("here", [flow])
    datagrams.prepare([flow])
    running = threading.Thread(target=datagrams.run, args=(time.monotonic(),))
    running.start()
    running.join(1)
    assert running.is_alive(), "it does not end by itself"
    datagrams.stop()
    running.join(5)
    datagrams.close()
    datagrams.close()
    assert [type(event) for event in events] == [wire.Started, wire.Ended, wire.Done, wire.Received]
    # At 0, 20, 40, 60 and 80 ms.
    assert isinstance(events[1], wire.Ended) and events[1].record["packets_sent"] == 5
    assert isinstance(events[3], wire.Received) and events[3].received["packets"] == 5


def test_too_many_bursts_are_refused_at_once() -> None:
    """A thousand million of them would be worked out for minutes, in memory."""
    bursts = {"length": "1ns", "pause": "1ns"}
    with pytest.raises(InputError, match=r"flows.0.udp.bursts: has more than 1000000 bursts; allowed: fewer"):
        plan_of({"udp": {"rate": "1Mbit", "bursts": bursts}, "duration": "2s"})
