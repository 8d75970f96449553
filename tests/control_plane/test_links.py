# SPDX-License-Identifier: Apache-2.0
"""Links between namespaces leave packets as they are, as another program sees it, or say what they cannot do."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts.links import End, add_cable, call_inside, namespace, run, set_offloads
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.offloads import ALWAYS_OFF, OFFLOADS
from narrows.hosts.state import RunState

NAMES = (*(offload.name for offload in OFFLOADS.values()), *ALWAYS_OFF)
pytestmark = pytest.mark.needs("root", "ip", "ethtool")


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    with namespace(f"one-{os.getpid()}") as one, namespace(f"other-{os.getpid()}") as other:
        yield End(one, "eth0"), End(other, "port1")


def as_ethtool_says(end: End) -> dict[str, str]:
    listing = run(["ip", "netns", "exec", end.namespace, "ethtool", "-k", end.interface])
    features = dict(line.strip().split(": ", 1) for line in listing.splitlines() if ": " in line)
    # Of its group this is the one that senders go by.
    features["tcp-segmentation-offload"] = features["tx-tcp-segmentation"]
    return {name: features[name].split()[0] for name in NAMES}


def test_a_cable_has_no_offloads(ends: tuple[End, End]) -> None:
    add_cable(*ends)
    for end in ends:
        assert as_ethtool_says(end) == dict.fromkeys(NAMES, "off")


@pytest.mark.parametrize("short", OFFLOADS)
def test_each_offload_is_turned_by_its_own_name(ends: tuple[End, End], short: str) -> None:
    add_cable(*ends)
    # Segmentation needs scatter-gather, and that needs checksums.
    on = {"tso": {"tso", "tx", "sg"}, "gso": {"gso", "tx", "sg"}, "sg": {"sg", "tx"}}.get(short, {short})
    found = set_offloads(ends[0], on)
    assert found == as_ethtool_says(ends[0])
    assert {name for name, value in found.items() if value == "on"} == {OFFLOADS[each].name for each in on}


def test_what_cannot_be_turned_off_is_named(ends: tuple[End, End]) -> None:
    with pytest.raises(RunError, match=f"{ends[0].namespace}: lo: tx-checksumming cannot be turned off"):
        set_offloads(End(ends[0].namespace, "lo"))


def test_an_interface_that_is_not_there_is_named(ends: tuple[End, End]) -> None:
    with pytest.raises(RunError, match=f"{ends[0].namespace}: eth7: tcp-segmentation-offload cannot be read: No such"):
        set_offloads(End(ends[0].namespace, "eth7"))


def send(end: End, count: int) -> None:
    """Send frames of no protocol from an interface."""
    with call_inside(end.namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
        raw.bind((end.interface, 0))
        for _ in range(count):
            # The kernel may say at once that one was lost.
            with suppress(OSError):
                raw.send(bytes(60))


def test_what_a_link_has_lost_is_named_by_its_way() -> None:
    flow = {"cca": "reno", "duration": "1s"}
    bottleneck = {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp"}
    plan = make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": [flow]}, "x"))
    state = RunState.create()
    try:
        testbed = NetnsTestbed(plan, state, 1500)
        testbed.create()
        host, collector = plan.senders[0], plan.collector_host
        end, port = End(state.namespace(host.name), "eth0"), End(state.namespace("switch"), f"port{host.port}")
        send(end, 2)
        assert testbed.losses() == []
        # An end that is down takes nothing, as one whose backlog is full.
        run(["ip", "-n", port.namespace, "link", "set", port.interface, "down"])
        send(end, 3)
        run(["ip", "-n", port.namespace, "link", "set", port.interface, "up"])
        run(["ip", "-n", end.namespace, "link", "set", end.interface, "down"])
        send(port, 5)
        run(["ip", "-n", state.namespace(collector.name), "link", "set", "eth0", "down"])
        send(End(port.namespace, f"port{collector.port}"), 7)
        assert testbed.losses() == [
            f"3 packets lost from {host.name} to the switch: the kernel had no room for them",
            f"5 packets lost from the switch to {host.name}: the kernel had no room for them",
        ]
    finally:
        state.destroy()
