# SPDX-License-Identifier: Apache-2.0
"""Where packets went of flows through a user's program of which nothing was delivered, by what is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from narrows.experiment.loader import load
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.onhost.payload import Payload
from narrows.run.drop_accounting import RecordedDrops
from narrows.run.measured import Counters
from narrows.run.undelivered import Counted, Undelivered
from narrows.switch.readings import Discards, PortStats
from narrows.traffic.connection import Connection
from narrows_formats.digest import NewFlow

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
NONE = Discards(0, 0, 0, 0)
# What hosts of flows that run have got of TCP.
RUNNING = {"cubic-host": {"TcpInSegs": 900}, "bbr-host": {"TcpInSegs": 950}, "receiver": {"TcpInSegs": 2_000}}


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of the example: hosts `cubic-host` at port 1, `bbr-host` at 2, `receiver` at 3."""
    return make_plan(load(EXAMPLE / "cubic-and-bbr.yaml"))


def undelivered(
    plan: Plan,
    kernel: dict[str, dict[str, int]],
    ports: dict[int, tuple[int, int]],
    sent: tuple[int, int] = (0, 1_000),
    discards: Discards | None = NONE,
    drops: Counter[tuple[int, str]] | None = None,
) -> list[Undelivered]:
    """Of the flows of CUBIC and BBR, which have sent so many bytes: what is found by kernels' counters, packets that
    came in and left by each port, and recorded drops of CUBIC's flow, whose index is 7."""
    stats = [PortStats(port, came, 0, left, 0, 0, 0, 0, True) for port, (came, left) in ports.items()]
    counters = Counters([], stats, {}, [], {}, discards)
    connections = [
        Connection(flow, 0, 0.0, ended_s=20.0, bytes_sent=count) for flow, count in zip(plan.flows, sent, strict=True)
    ]
    cubic = plan.flows[0]
    learned = [NewFlow(0, 7, 1, 4, cubic.src, cubic.dst, 6, cubic.src_port, cubic.dst_port)]
    recorded = {0: RecordedDrops(by_program=drops or Counter())}
    return Counted(plan, kernel, counters, learned, recorded).undelivered(connections)


def test_flows_that_run_are_not_found(plan: Plan) -> None:
    assert undelivered(plan, RUNNING, {1: (9, 9), 2: (9, 9), 3: (9, 9)}, sent=(5, 5)) == []
    # A connection that was begun and closed at once has nothing wrong with it.
    assert undelivered(plan, RUNNING, {1: (9, 9), 2: (9, 9), 3: (9, 9)}) == []


def test_hosts_whose_kernels_are_not_asked_tell_nothing(plan: Plan) -> None:
    assert undelivered(plan, {}, {1: (3, 0), 2: (3, 0), 3: (0, 0)}, sent=(0, 0)) == []


def test_a_wrong_ethernet_address_is_seen_by_the_host_that_gets_it(plan: Plan) -> None:
    kernel = {"cubic-host": {}, "bbr-host": {}, "receiver": {"rx_otherhost_dropped": 6}}
    first, second = undelivered(plan, kernel, {1: (3, 0), 2: (3, 0), 3: (0, 6)}, sent=(0, 0))
    at_receiver = "receiver dropped 6 packets for another Ethernet address than its own, 08:00:00:00:03:33"
    left = "6 packets left for receiver (port 3)"
    assert first == Undelivered(("cubic-1",), ("3 packets came from cubic-host (port 1)", left, at_receiver))
    assert second == Undelivered(("bbr-1",), ("3 packets came from bbr-host (port 2)", left, at_receiver))


@pytest.mark.parametrize(
    ("counter", "what"),
    [
        ("rx_otherhost_dropped", "for another Ethernet address than its own, 08:00:00:00:02:22"),
        ("IpInAddrErrors", "for another IP address than its own, 10.0.2.2"),
        ("IpExtInNoRoutes", "for another IP address than its own, 10.0.2.2"),
        ("IpInHdrErrors", "with a wrong IP header or a wrong checksum of it"),
        ("TcpInErrs", "with a wrong TCP or UDP header or checksum"),
        ("UdpNoPorts", "for a UDP port at which nothing listens"),
        ("rx_nohandler", "of an EtherType that it does not speak"),
    ],
)
def test_a_wrong_port_is_seen_by_the_host_that_is_there(plan: Plan, counter: str, what: str) -> None:
    kernel = {"cubic-host": {}, "bbr-host": {counter: 1}, "receiver": {}}
    (found,) = undelivered(plan, kernel, {1: (1, 0), 2: (0, 1), 3: (0, 0)})
    left = "no packet left for receiver (port 3)"
    assert found.found == ("1 packet came from cubic-host (port 1)", left, f"bbr-host dropped 1 packet {what}")


def test_what_comes_back_to_its_sender(plan: Plan) -> None:
    """Wrong for all: what was for the receiver went to the host that sent it."""
    kernel = {"cubic-host": {"rx_otherhost_dropped": 3}, "bbr-host": {}, "receiver": {}}
    (found,) = undelivered(plan, kernel, {1: (3, 3), 2: (0, 0), 3: (0, 0)})
    assert (
        found.found[-1] == "cubic-host dropped 3 packets for another Ethernet address than its own, 08:00:00:00:01:11"
    )


def test_the_way_back_is_looked_at_where_the_way_there_is_well(plan: Plan) -> None:
    kernel = {**RUNNING, "cubic-host": {"rx_otherhost_dropped": 4}}
    (found,) = undelivered(plan, kernel, {1: (3, 4), 2: (1_200, 800), 3: (804, 1_203)})
    assert found == Undelivered(
        ("cubic-1",),
        (
            "3 packets came from cubic-host (port 1)",
            "1,203 packets left for receiver (port 3)",
            "804 packets came from receiver",
            "4 packets left for cubic-host",
            "cubic-host dropped 4 packets for another Ethernet address than its own, 08:00:00:00:01:11",
        ),
    )


def test_drops_of_the_program_are_those_of_the_flow(plan: Plan) -> None:
    """Those of other flows, as of an AQM, say nothing of it."""
    drops = Counter({(7, "ingress"): 3, (8, "egress"): 40})
    kernel = {**RUNNING, "cubic-host": {}}
    ports = {1: (3, 0), 2: (9, 9), 3: (9, 9)}
    (found,) = undelivered(plan, kernel, ports, discards=Discards(3, 40, 0, 0), drops=drops)
    assert [said for said in found.found if "the program" in said] == [
        "the program dropped 3 packets of theirs in ingress"
    ]
    # No record tells of which flow those are that go back, and how many: 5 and 2 more were counted.
    (found,) = undelivered(plan, kernel, ports, discards=Discards(8, 42, 0, 0), drops=drops)
    assert [said for said in found.found if "not recorded" in said] == [
        "the program dropped 5 packets in ingress whose flows are not recorded",
        "the program dropped 2 packets in egress whose flows are not recorded",
    ]


def test_segments_with_errors_are_not_delivered(plan: Plan) -> None:
    kernel = {"cubic-host": {}, "bbr-host": {}, "receiver": {"TcpInSegs": 3, "TcpInErrs": 3}}
    (found,) = undelivered(plan, kernel, {1: (3, 0), 2: (0, 0), 3: (0, 3)})
    # The reverse path is not mentioned: no packet was sent on it.
    assert found.found[1:] == (
        "3 packets left for receiver (port 3)",
        "receiver dropped 3 packets with a wrong TCP or UDP header or checksum",
    )


def test_packets_without_a_place_to_go_to(plan: Plan) -> None:
    kernel = {**RUNNING, "cubic-host": {}}
    (found,) = undelivered(plan, kernel, {1: (3, 0), 2: (9, 9), 3: (9, 9)}, discards=Discards(0, 0, 3, 2))
    assert "the program sent 3 packets to a port at which nothing is" in found.found
    assert "2 packets for the controller did not reach it" in found.found


def test_a_switch_that_counts_no_drops(plan: Plan) -> None:
    kernel: dict[str, dict[str, int]] = {"cubic-host": {}, "bbr-host": {}, "receiver": {}}
    found, _ = undelivered(plan, kernel, {1: (3, 0), 2: (0, 0), 3: (0, 0)}, sent=(0, 0), discards=None)
    assert found.found == ("3 packets came from cubic-host (port 1)", "no packet left for receiver (port 3)")


def test_nothing_came(plan: Plan) -> None:
    kernel: dict[str, dict[str, int]] = {"cubic-host": {}, "bbr-host": {}, "receiver": {}}
    (found, _) = undelivered(plan, kernel, {1: (0, 0), 2: (0, 0), 3: (0, 0)}, sent=(0, 0))
    assert found.found[0] == "no packet came from cubic-host (port 1)"


class OfShell(Payload):
    """What the command of a shell sends."""

    kind = "shell"
    protocol = None
    match_by_host_pair = "a command"
    ends_the_run = True


def of_programs(
    plan: Plan, kernel: dict[str, dict[str, int]], ports: dict[int, tuple[int, int]], gateway: str | None = None
) -> list[Undelivered]:
    """Of a flow that is all packets between `cubic-host` and `receiver`."""
    here = replace(plan, gateway=gateway, flows=(replace(plan.flows[0], cca=None, payload=OfShell()),))
    stats = [PortStats(port, came, 0, left, 0, 0, 0, 0, True) for port, (came, left) in ports.items()]
    counted = Counted(here, kernel, Counters([], stats, {}, [], {}, NONE), [], {})
    return counted.undelivered([Connection(here.flows[0], 0, 0.0, ended_s=1.0)])


def test_a_shell_need_not_send_anything(plan: Plan) -> None:
    assert of_programs(plan, {"cubic-host": {}, "receiver": {}}, {1: (0, 0), 3: (0, 0)}) == []
    kernel = {"cubic-host": {}, "receiver": {"rx_otherhost_dropped": 3}}
    (found,) = of_programs(plan, kernel, {1: (3, 0), 3: (0, 3)})
    assert found.found[-1].startswith("receiver dropped 3 packets for another Ethernet address")
    # Which of them begins is not known: the one that packets came from.
    (other,) = of_programs(plan, {"cubic-host": {}, "receiver": {}}, {1: (0, 3), 3: (3, 0)})
    assert other.found == ("3 packets came from receiver (port 3)", "3 packets left for cubic-host (port 1)")


def test_a_host_that_passes_packets_on_has_got_what_it_answers(plan: Plan) -> None:
    """Its own TCP and UDP get nothing of a shell's."""
    kernel: dict[str, dict[str, int]] = {"cubic-host": {"TcpInSegs": 9}, "receiver": {}}
    assert of_programs(plan, kernel, {1: (9, 9), 3: (9, 9)}, gateway="receiver") == []
    (found,) = of_programs(plan, {"cubic-host": {}, "receiver": {}}, {1: (3, 0), 3: (0, 3)}, gateway="receiver")
    assert found.found == ("3 packets came from cubic-host (port 1)", "3 packets left for receiver (port 3)")
