# SPDX-License-Identifier: Apache-2.0
"""Applications that events pause and limit: what is planned of them, what a sender does, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.onhost.application import Application, Change, Supply
from narrows.onhost.payload import UNSENT_BYTES
from narrows_formats.connection_record import ConnectionRecord
from test_flow_host import flow, of, running, until_done

LINK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}


def plan_of(*events: dict[str, Any], **group: Any) -> Any:
    flows = [{"name": "a", "cca": "cubic", "duration": "10s", **group}, {"name": "b", "cca": "reno", "duration": "10s"}]
    return make_plan(validate({"name": "x", "bottleneck": LINK, "flows": flows, "events": list(events)}, "x"))


def test_an_application_has_its_events_in_order_of_time() -> None:
    """YAML reads a bare `off` as false; both spellings mean the same."""
    planned, other = plan_of(
        {"at": "3s", "flow": "a", "send": True, "send_rate": "unlimited"},
        {"at": "1s", "flow": "a", "send": "off"},
        {"at": "2s", "flow": "a", "send_rate": "2Mbit"},
    ).flows
    assert planned.payload == Application(
        (
            Change(1, 1_000_000_000, sends=False, bps=None),
            Change(2, 2_000_000_000, sends=None, bps=2_000_000),
            Change(0, 3_000_000_000, sends=True, bps=math.inf),
        )
    )
    assert (planned.kind, planned.tcp.notsent_lowat) == ("bulk", UNSENT_BYTES)
    assert not isinstance(other.payload, Application) and other.tcp.notsent_lowat is None


@pytest.mark.parametrize(
    ("event", "group", "message"),
    [
        ({"flow": "c", "send": "off"}, {}, r"events\.0\.flow: unknown group 'c'; allowed: a, b"),
        ({"flow": "a"}, {}, "changes nothing about its flow; allowed: flow with one or more of send, send_rate"),
        ({"send": "off"}, {}, "is not about one thing; allowed: one of link, start, stop and flow"),
        ({"link": "bottleneck", "loss": "1%", "send": "off"}, {}, "has send without a flow"),
        ({"flow": "a", "send": "off"}, {"size": "1MB"}, "are of the kind finite; allowed: of bulk flows"),
        ({"at": "10s", "flow": "a", "send": "off"}, {}, "has ended at 10s; allowed: before 10s"),
    ],
)
def test_what_cannot_be_is_refused(event: dict[str, Any], group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of({"at": "1s", **event}, **group)


def test_a_limited_application_writes_what_its_rate_gives() -> None:
    """At 2 Mbit/s a segment of 1448 bytes each 5.792 ms; at 100 Mbit/s 12,500 bytes each millisecond."""
    supply = Supply()
    assert supply.left(5000) == math.inf and supply.next_s is None
    supply.change(1.0, 5000, None, 2e6)
    assert supply.left(5000) == 0 and supply.next_s == pytest.approx(1.005792)
    for _ in range(3):
        supply.write()
    assert supply.left(5000) == 3 * 1448 and supply.next_s == pytest.approx(1.0 + 4 * 0.005792)
    # A pause keeps what the socket has not taken, and produces nothing.
    supply.change(2.0, 6000, sends=False, bps=None)
    assert supply.left(6000) == 0 and supply.next_s is None
    supply.change(3.0, 6000, sends=True, bps=100e6)
    assert supply.left(6000) == 5000 + 3 * 1448 - 6000 and supply.next_s == pytest.approx(3.001)
    supply.write()
    assert supply.left(6000) == 5000 + 3 * 1448 + 12_500 - 6000


def test_a_sender_pauses_and_is_limited() -> None:
    """Over the loopback device: 8 Mbit/s are 1448 bytes each 1.448 ms, of which 0.2 s have 138, and less if late."""
    own = [[0, 0.1, None, 8e6], [1, 0.3, False, None], [2, 0.5, True, math.inf]]
    with running(flow(0, duration_s=0.7, module="application", own=own)) as (events, _):
        found = until_done(events, 1)
    (record,) = map(ConnectionRecord.model_validate, of(found, "cubic-0", "record"))
    limited, paused, free = record.changes
    assert [one.event for one in record.changes] == [0, 1, 2]
    assert all(one.time_s >= at for one, at in zip(record.changes, (0.1, 0.3, 0.5), strict=True))
    assert (paused.bytes - limited.bytes) % 1448 == 0
    assert 0 < paused.bytes - limited.bytes <= 1448 * int((paused.time_s - limited.time_s) / 0.001448)
    assert free.bytes == paused.bytes < record.bytes_sent
