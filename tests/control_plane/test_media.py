# SPDX-License-Identifier: Apache-2.0
"""The media of calls: what is planned of them, and what their hosts send and report."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.flows.media import CCAS
from narrows.onhost import wire
from narrows.onhost.media import Media, MediaSockets
from narrows.onhost.sockets import Surroundings
from narrows.traffic import datagrams


def plan_of(**group: Any) -> Any:
    link = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    return make_plan(validate({"name": "x", "bottleneck": link, "flows": [{"cca": "nada", **group}]}, "x"))


def test_rates_are_those_of_the_rfc_unless_they_are_given() -> None:
    """8000 bits at 1.5 Mbit/s take 5.33 ms."""
    (planned,) = plan_of(media={}, start="2s", duration="3s").flows
    span = ((2_000_000_000, 5_000_000_000),)
    assert planned.payload == Media(1000, 8000 / 1.5e6 * 1e9, span, "not-ect", 150_000, 1_500_000)
    assert (planned.kind, planned.protocol, planned.cca, planned.ack_links) == ("media", socket.IPPROTO_UDP, "nada", ())
    (given,) = plan_of(media={"least": "1Mbit", "most": "4Mbit", "ecn": "ect0"}, duration="3s").flows
    assert given.payload.own.least_bps == 1_000_000 and given.payload.own.most_bps == 4_000_000
    assert CCAS == ("nada",)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"cca": "cubic"}, r"has cca: cubic, and flows of media; allowed: cca: nada with media"),
        ({"cca": None}, r"has no cca, and flows of media"),
        ({"size": "1MB"}, r"has size, and flows of media"),
        ({"udp": {"rate": "1Mbit"}}, r"has udp, and flows of media"),
        ({"tcp": {"initial_window": 3}}, r"has tcp, and flows of media"),
        ({"bpf": "x.o"}, r"has bpf without a cca"),
        ({"media": {"least": "2Mbit"}}, r"has least 2Mbit above most 1.5Mbit"),
        ({"media": {"payload": "15B"}}, r"media.payload"),
        ({"media": {"payload": "9kB"}}, r"datagrams of 9000 bytes"),
        ({"media": {"bursts": {"length": "1us", "pause": "1us"}}, "duration": "10s"}, r"more than 1000000 bursts"),
        ({"duration": None}, r"has no duration, and flows of media"),
    ],
)
def test_contradictions_are_refused(group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(**{"media": {}, "duration": "1s", **group})


def test_a_socket_of_tcp_is_not_asked_for() -> None:
    with pytest.raises(InputError, match="asks for the TCP socket of 'nada', which has none"):
        link = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
        group = {"cca": "nada", "media": {}, "duration": "1s"}
        text = ["senders.nada.cwnd_bytes.max < 1kB"]
        validate({"name": "x", "bottleneck": link, "flows": [group], "expect": text}, "x")


def test_reports_raise_the_rate_over_the_loopback_device() -> None:
    """Where nothing queues, the rate grows from the first full window on; a foreign datagram changes nothing."""
    (planned,) = plan_of(media={"most": "4Mbit"}, duration="2s").flows
    flow = datagrams.specify(planned, one_clock=True)
    flow.src, flow.src_port, flow.dst, flow.dst_port = "127.0.0.2", 45_411, "127.0.0.1", 45_412
    events: list[wire.Event] = []
    surroundings = Surroundings(
        lambda _, family, kind: socket.socket(family, kind), events.append, lambda _: False, batch_bytes=0
    )
    sockets = MediaSockets(surroundings)
    sockets.listen("here", [flow])
    sockets.prepare([flow])
    running = threading.Thread(target=sockets.run, args=(time.monotonic(),))
    running.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign:
        for size in (0, 3, 15):
            foreign.sendto(bytes(size), ("127.0.0.1", 45_412))
            foreign.sendto(bytes(size), ("127.0.0.2", 45_411))
    running.join(2.5)
    sockets.stop()
    running.join(5)
    sockets.close()
    ended = next(event for event in events if isinstance(event, wire.Ended))
    reports = ended.record["reports"]
    rates = [one["rate_bps"] for one in reports]
    assert ended.record["kind"] == "media" and ended.record["congestion_control"] == "nada"
    assert 10 <= len(reports) <= 21 and rates[0] == 150_000 and rates[-1] > 200_000
    assert all(0 <= one["rtt_s"] < 1 and one["signal_s"] >= 0 for one in reports)
    received = next(event for event in events if isinstance(event, wire.Received)).received
    assert received["packets"] == received["bytes"] / 1000 == ended.record["packets_sent"]
