# SPDX-License-Identifier: Apache-2.0
"""TCP on/off sources: what is planned of them, what a sender does, and what its record says."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.onhost.onoff import OnOff
from narrows.onhost.payload import UNSENT_BYTES
from narrows_formats.kinds import record_of
from test_flow_host import flow, of, running, until_done

BURSTS = {"length": "300ms", "pause": "200ms"}


def plan_of(**group: Any) -> Any:
    link = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    return make_plan(validate({"name": "x", "bottleneck": link, "flows": [{"cca": "cubic", **group}]}, "x"))


def test_bursts_count_from_the_start_of_the_flow_to_its_end() -> None:
    (planned,) = plan_of(onoff=BURSTS, start="2s", duration="1s").flows
    assert planned.payload == OnOff(((0, 300_000_000), (500_000_000, 800_000_000)))
    assert planned.payload.own == [[0.0, 0.3], [0.5, 0.8]]
    assert (planned.kind, planned.protocol, planned.tcp.notsent_lowat) == ("onoff", socket.IPPROTO_TCP, UNSENT_BYTES)


def test_what_the_socket_may_hold_can_be_set() -> None:
    (planned,) = plan_of(onoff=BURSTS, duration="1s", tcp={"notsent_lowat": "4kB"}).flows
    assert planned.tcp.notsent_lowat == 4000


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"size": "1MB", "duration": "1s"}, "has size, and onoff"),
        ({}, "has no duration, and onoff"),
        ({"udp": {"rate": "1Mbit"}, "duration": "1s"}, "has udp, and onoff"),
    ],
)
def test_contradictions_are_refused(group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(onoff=BURSTS, **group)


def test_too_many_bursts_are_refused() -> None:
    with pytest.raises(InputError, match=r"flows\.0\.onoff: has more than 1000000 bursts"):
        plan_of(onoff={"length": "1us", "pause": "1us"}, duration="10s")


def test_a_sender_gives_the_socket_data_in_bursts_only() -> None:
    """Over the loopback device; times are late by what a busy machine makes of them, and never early."""
    bursts = [[0.1, 0.2], [0.4, 0.5]]
    with running(flow(0, duration_s=0.8, module="onoff", own=bursts)) as (events, _):
        found = until_done(events, 1)
    (record,) = of(found, "cubic-0", "record")
    assert (record["kind"], len(record["bursts"]), record["ending"]) == ("onoff", 2, "time_over")
    for one, (begin_s, end_s) in zip(record["bursts"], bursts, strict=True):
        assert one["begun_s"] >= begin_s and one["ended_s"] >= end_s and one["bytes"] > 0
    # All was given to the socket within bursts.
    assert record["bytes_sent"] == sum(one["bytes"] for one in record["bursts"])


def test_figures_are_those_of_the_bursts() -> None:
    common = {"src_port": 1, "dst_port": 2, "started_s": 0.0, "ended_s": 3.0, "ending": "time_over", "bytes_sent": 0}
    bursts = [{"begun_s": 0.0, "ended_s": 1.0, "bytes": 1_000_000}, {"begun_s": 2.0, "ended_s": 3.0, "bytes": 500_000}]

    def figures(bursts: list[dict[str, float]]) -> object:
        return record_of("onoff").model_validate({**common, "bursts": bursts}).own_summary()["figures"]

    assert figures(bursts) == {"bursts": 2, "on_s": 2.0, "rate_on_bps": 6e6}
    assert figures([]) == {"bursts": 0, "on_s": 0, "rate_on_bps": None}
