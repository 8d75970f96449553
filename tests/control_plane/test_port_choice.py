# SPDX-License-Identifier: Apache-2.0
"""Source ports keep flows apart in the switch, and are the first ones wherever those do."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import DATA_PORTS, Flow, Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.port_choice import FlowTable, avoid_index_collisions
from narrows.run.sampler import Sampler
from narrows.traffic import datagrams, requests, tcp
from narrows.traffic.connection import Connection
from narrows_formats.digest import NewFlow

LINK: dict[str, Any] = {"rate": "10Mbit", "rtt": "10ms", "buffer": "20packets"}
BOTH_WAYS: dict[str, Any] = {**LINK, "reverse": {"rate": "10Mbit", "buffer": "20packets"}}
BULK: dict[str, Any] = {"cca": "cubic", "duration": "3s"}
PORTS_OF_A_HOST = 30_000


def plan_of(links: dict[str, Any], *groups: dict[str, Any], **changes: Any) -> Plan:
    return make_plan(validate({"name": "x", "links": links, "flows": list(groups), **changes}, "test"))


def octets(address: str) -> bytes:
    return int(ip_address(address)).to_bytes(16, "big")


def indexes(plan: Plan, flow: Flow, port: int, mask: int = 0xFFFF) -> list[int]:
    """Flow indexes of a connection from a port, as docs/report-format.md and p4src say: data, and what answers."""
    bottlenecks = {link.name: link.index for link in plan.reported}
    # Users ask a server, whose responses are the data.
    ports = (port, flow.dst_port) if flow.payload.sender_opens else (flow.dst_port, port)
    found = []
    for links, (src, dst), (src_port, dst_port) in (
        (flow.links, (flow.src, flow.dst), ports),
        (flow.ack_links, (flow.dst, flow.src), ports[::-1]),
    ):
        for name in links:
            ends = octets(src) + octets(dst)
            head = bytes([bottlenecks[name]]) + ends + bytes([flow.protocol or 0])
            found.append(zlib.crc32(head + struct.pack("!HH", src_port, dst_port)) & mask)
    return found


def connections(plan: Plan) -> Iterator[tuple[Flow, int]]:
    """All that are not programs', by their numbers."""
    for flow in plan.flows:
        if flow.protocol is not None:
            yield from ((flow, number) for number in range(flow.payload.connections))


def of_first_ports(plan: Plan) -> list[int]:
    """The indexes that there would be with ports that only count up."""
    return [index for flow, number in connections(plan) for index in indexes(plan, flow, flow.src_port + number)]


def check(plan: Plan) -> int:
    """No cell is of two, ports are of one connection each, and only those that met one before are others.

    Returns:
        How many are others.
    """
    cells = [index for flow, number in connections(plan) for index in indexes(plan, flow, flow.port_of(number))]
    assert len(set(cells)) == len(cells)
    ends = [(flow.initiator, flow.port_of(number)) for flow, number in connections(plan)]
    assert len(set(ends)) == len(ends) and all(port in DATA_PORTS for _, port in ends)
    first: set[int] = set()
    moved = 0
    for flow, number in connections(plan):
        mine = indexes(plan, flow, flow.src_port + number)
        meets = not first.isdisjoint(mine) or len(set(mine)) < len(mine)
        assert (flow.port_of(number) != flow.src_port + number) == meets
        first |= set() if meets else set(mine)
        moved += meets
    return moved


def test_a_flow_that_would_meet_one_of_another_link_has_the_next_free_port() -> None:
    """left-7 at link a and both-2 at link b have one index; both-2 has the last port of its host."""
    groups = [{**BULK, "name": "left", "path": ["a"], "count": 7}, {**BULK, "name": "right", "path": ["b"]}]
    plan = plan_of({"a": LINK, "b": LINK}, *groups, {**BULK, "name": "both", "path": ["a", "b"], "count": 2})
    assert len(set(of_first_ports(plan))) == len(of_first_ports(plan)) - 1
    ports = {flow.name: flow.port_of(0) for flow in plan.flows}
    assert ports == {
        **{f"left-{number + 1}": 10_000 + number for number in range(7)},
        "right-1": 10_000, "both-1": 10_000, "both-2": 10_002,
    }  # fmt: skip
    assert check(plan) == 1
    # One flow fewer, and all have what counting gives.
    fewer = plan_of({"a": LINK, "b": LINK}, {**groups[0], "count": 6}, groups[1])
    assert check(fewer) == 0 and not any(flow.port_overrides for flow in fewer.flows)


def drawn(draw: random.Random) -> dict[str, Any]:
    """An experiment of 50 to 1,000 flows at links, of all kinds whose ports are ours."""
    names = ["a", "b", "c"]
    kinds: list[dict[str, Any]] = [
        {**BULK, "count": draw.randint(1, 20)},
        {"cca": "reno", "size": "1MB", "repeat": draw.randint(1, 40)},
        {"udp": {"rate": "1Mbit"}, "duration": "3s"},
        {"probe": {"interval": "10ms"}, "duration": "3s", "count": 3},
        {"cca": "bbr", "workload": {"flows": 50, "sizes": {"cdf": [[1000, 0], [2000, 1]]},
                                    "gaps": {"exponential": {"mean": "1ms"}}}},
        {"cca": "cubic", "duration": "3s",
         "requests": {"size": "1kB", "gaps": "50ms", "users": 2, "connections": draw.choice(["kept", "new"])}},
    ]  # fmt: skip
    flows = []
    for number in range(draw.randint(8, 16)):
        first = draw.randrange(3)
        path = names[first : draw.randint(first, 2) + 1]
        hosts = {"from": f"s{number}", "to": f"r{number}"}
        flows.append({**draw.choice(kinds), "path": path, **hosts})
    links = {name: draw.choice([LINK, BOTH_WAYS]) for name in names}
    acks = {"telemetry": {"acks": True}} if draw.random() < 0.3 else {}
    return {"links": links, "groups": flows, "ip_version": draw.choice([4, 6]), **acks}


def test_nothing_meets_and_nothing_moves_that_need_not() -> None:
    draw = random.Random(7)
    moved = kinds = 0
    for _ in range(40):
        experiment = drawn(draw)
        plan = plan_of(experiment.pop("links"), *experiment.pop("groups"), **experiment)
        moved += check(plan)
        kinds |= sum({1 << flow.payload.receiver_initiates for flow in plan.flows if flow.port_overrides})
        assert make_plan_again(plan) == plan
    assert moved > 50 and kinds == 3, "flows of both kinds were to be moved"


def make_plan_again(plan: Plan) -> Plan:
    """From a plan whose addresses were others, as from one made afresh."""
    moved = avoid_index_collisions(replace(plan, flows=tuple(replace(flow, src="192.0.2.1") for flow in plan.flows)))
    return avoid_index_collisions(
        replace(moved, flows=tuple(replace(new, src=old.src) for new, old in zip(moved.flows, plan.flows, strict=True)))
    )


def test_all_that_makes_or_recognises_a_connection_has_its_port() -> None:
    moved = {1: 12_345, 2: 10_007}
    groups: list[dict[str, Any]] = [
        {"name": "many", "cca": "reno", "size": "1MB", "repeat": 4, "path": ["a"]},
        {"name": "udp", "udp": {"rate": "1Mbit"}, "duration": "3s", "path": ["a"]},
        {"name": "users", "cca": "reno", "duration": "1s", "path": ["a"], "from": "server", "to": "users",
         "requests": {"size": "1kB", "think": "1s", "users": 4}},
    ]  # fmt: skip
    plan = plan_of({"a": LINK}, *groups)
    many, udp, users = plan.flows
    many, users = replace(many, port_overrides=moved), replace(users, port_overrides=moved)
    expected = [10_000, 12_345, 10_007, 10_003]
    assert [one.src_port for one in tcp.specify(many, None).connections] == expected
    assert [Connection(many, number, 0.0).src_port for number in range(4)] == expected
    assert requests.specify(users, None).client_ports == expected
    assert datagrams.specify(replace(udp, port_overrides={0: 12_345}), one_clock=True).src_port == 12_345
    sampler = Sampler(replace(plan, flows=(many, udp, users)))
    for index, port in enumerate([*expected, 10_001]):
        sampler.learn(NewFlow(0, index, 0, 4, many.src, many.dst, 6, port, many.dst_port))
    assert sampler.owners == {(0, index): "many-1" for index in range(4)}, "port 10,001 belongs to no flow of the plan"


def test_ports_of_users_servers_are_left_to_them() -> None:
    """The next free port is 10,003, behind that of the program's flow; the program may listen there."""
    groups = [{**BULK, "name": "left", "path": ["a"], "count": 7}, {**BULK, "name": "right", "path": ["b"]}]
    both = {**BULK, "name": "both", "path": ["a", "b"], "count": 2, "from": "host"}
    program = {"name": "program", "client": ["nc"], "server": ["nc"], "path": ["a"], "from": "host"}
    for ready, port in (({"udp": 10_004}, 10_003), ({"tcp": 10_003}, 10_004), ({"udp": 10_003}, 10_004)):
        plan = plan_of({"a": LINK, "b": LINK}, *groups, both, {**program, "ready": ready})
        assert {flow.name: flow.port_of(0) for flow in plan.flows}["both-2"] == port


def many(count: int) -> dict[str, Any]:
    return {"cca": "reno", "workload": {"flows": count, "sizes": {"cdf": [[1000, 0], [2000, 1]]},
                                        "gaps": {"exponential": {"mean": "1ms"}}}}  # fmt: skip


def test_from_half_of_the_cells_on_flows_stay_as_they_are() -> None:
    """60,000 connections and their acknowledgements at two links are 240,000 pairs: the first 8,192 are kept apart."""
    plan = plan_of({"a": BOTH_WAYS, "b": BOTH_WAYS}, *[{**many(15_000), "path": ["a", "b"]}] * 4)
    apart = list(connections(plan))[: 32_768 // 4]
    cells = [index for flow, number in apart for index in indexes(plan, flow, flow.port_of(number))]
    assert len(set(cells)) == len(cells) == 32_768
    first, *others = plan.flows
    assert max(first.port_overrides) < 8192 and not any(flow.port_overrides for flow in others)


def test_a_host_without_free_ports_keeps_those_that_it_has() -> None:
    links = {"a": BOTH_WAYS, "b": LINK}
    plan = plan_of(links, {**many(9000), "path": ["b"]}, {**many(PORTS_OF_A_HOST), "path": ["a"]})
    assert len(set(of_first_ports(plan))) < len(of_first_ports(plan))
    crowded = next(flow for flow in plan.flows if flow.payload.repeat == PORTS_OF_A_HOST)
    assert not crowded.port_overrides


@pytest.mark.parametrize("bits", [15, 13])
def test_a_switch_with_fewer_cells_has_other_ports(bits: int) -> None:
    plan = avoid_index_collisions(
        plan_of({"a": BOTH_WAYS, "b": LINK}, *[{**BULK, "path": ["a", "b"], "count": 60}] * 4), FlowTable(bits)
    )
    mask = (1 << bits) - 1
    cells = [index for flow in plan.flows for index in indexes(plan, flow, flow.port_of(0), mask)]
    first = [index for flow in plan.flows for index in indexes(plan, flow, flow.src_port, mask)]
    assert len(set(cells)) == len(cells) == 720 > len(set(first))


def test_what_comes_in_at_ports_of_several_pipes_has_a_quarter_each() -> None:
    """As p4src/common/flow_share.p4 has it: the quarter in the two highest bits, the hash in the others."""
    plan = plan_of({"a": LINK}, *[{**BULK, "path": ["a"], "count": 400}] * 3)
    partitions = {host.port: number for number, host in enumerate(plan.senders[:2])}
    ports = {host.name: host.port for host in plan.senders}

    def cell(flow: Flow, port: int) -> int:
        quarter = partitions.get(ports[flow.sender])
        (index,) = indexes(plan, flow, port, 0x7FFF if quarter is None else 0x1FFF)
        return index if quarter is None else quarter * 8192 + index

    first = [cell(flow, flow.src_port) for flow in plan.flows]
    apart = avoid_index_collisions(plan, FlowTable(15, partitions)).flows
    assert len(set(first)) < 1200 == len({cell(flow, flow.port_of(0)) for flow in apart})
