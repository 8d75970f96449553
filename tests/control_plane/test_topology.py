# SPDX-License-Identifier: Apache-2.0
"""The network of an experiment: hosts, links and their ports, and every packet's path through the switch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.model import MAX_LINKS
from narrows.experiment.plan import Flow, Plan
from narrows.experiment.planning import make_plan

MS = 1_000_000
LINK = {"rate": "100Mbit", "buffer": "1bdp", "rtt": "10ms"}
BACK = {"rate": "10Mbit", "buffer": "20packets"}


def plan(links: dict[str, Any], *flows: dict[str, Any], **changes: Any) -> Plan:
    groups = [{"cca": "reno", "duration": "1s", "name": f"g{number}"} | flow for number, flow in enumerate(flows)]
    return make_plan(validate({"name": "test", "links": links, "flows": groups, **changes}, "test"))


def way(built: Plan, start: str, end: str) -> tuple[list[str], list[int]]:
    """Walk a packet through ports as the switch does: the links that it crosses, and the ports that it leaves by."""
    paths = {(path.ingress_port, path.dst_mac): path for path in built.paths}
    ports = {port.number: port for port in built.ports}
    names = {link.index: link.name for link in built.reported}
    crossed, left, ingress = [], [], built.host(start).port
    while True:
        path = paths[ingress, built.host(end).mac]
        left.append(path.egress_port)
        crossed += [] if path.link is None else [names[path.link]]
        assert len(left) <= 2 * len(built.reported) + 1, "a loop"
        if ports[path.egress_port].host:
            assert ports[path.egress_port].host == end
            return crossed, left
        assert path.egress_port in built.loopbacks
        ingress = path.egress_port


def base_rtt(built: Plan, flow: Flow) -> int:
    """The delays of all ports that a packet and its answer leave by."""
    delays = {port.number: port.delay_ns for port in built.ports}
    ports = [*way(built, flow.sender, flow.receiver)[1], *way(built, flow.receiver, flow.sender)[1]]
    return sum(delays[port] for port in ports)


def follows_its_links(built: Plan) -> None:
    """Each flow's packets cross the links that it names, each at the port whose queue it is, in its RTT."""
    for flow in built.flows:
        assert way(built, flow.sender, flow.receiver)[0] == list(flow.links)
        assert way(built, flow.receiver, flow.sender)[0] == list(flow.ack_links)
        assert base_rtt(built, flow) == flow.rtt_ns
    queues = [(link.port, link.queue) for link in built.links]
    assert len(set(queues)) == len(queues)
    numbers = [port.number for port in built.ports]
    assert len(set(numbers)) == len(numbers) and len({link.index for link in built.reported}) == len(built.reported)
    for link in built.links:
        assert {path.egress_port for path in built.paths if path.link == link.index} == {link.port}


def test_a_parking_lot() -> None:
    built = plan({"a": LINK, "b": LINK, "c": LINK}, {"path": ["a", "b", "c"]}, *({"path": [name]} for name in "abc"))
    follows_its_links(built)
    assert [flow.rtt_ns for flow in built.flows] == [30 * MS, 10 * MS, 10 * MS, 10 * MS]
    # Behind the last there is one host; from the others, packets go on or are delivered.
    assert [link.loopback for link in built.links] == [True, True, False]
    assert [flow.receiver for flow in built.flows] == ["receiver-c", "receiver-a", "receiver-b", "receiver-c"]
    assert [host.name for host in built.senders] == ["sender0", "sender1", "sender2", "sender3"]


def test_a_link_alone_is_what_it_was() -> None:
    """Ports, addresses and indices of an experiment with one link: receiver 1, collector 2, then senders."""
    flows = [{"cca": "reno", "duration": "1s"}, {"cca": "cubic", "duration": "1s"}]
    built = make_plan(validate({"name": "test", "bottleneck": LINK, "flows": flows}, "test"))
    follows_its_links(built)
    assert {host.name: (host.port, host.address) for host in built.hosts} == {
        "receiver": (1, "198.18.0.1"), "collector": (2, ""), "sender0": (3, "198.18.0.3"), "sender1": (4, "198.18.0.4"),
    }  # fmt: skip
    assert (built.bottleneck.port, built.bottleneck.index, built.loopbacks) == (1, 0, ())
    assert (
        make_plan(validate({"name": "test", "links": {"bottleneck": LINK}, "flows": flows}, "test")).paths
        == built.paths
    )


def test_acknowledgements_cross_the_reverse_links_the_last_first() -> None:
    built = plan(
        {"a": {**LINK, "reverse": BACK}, "b": LINK, "c": {**LINK, "reverse": BACK}}, {"path": ["a", "b", "c"]},
        {"path": ["a", "b", "c"], "direction": "reverse"},
    )  # fmt: skip
    follows_its_links(built)
    down, up = built.flows
    assert (down.links, down.ack_links) == (("a", "b", "c"), ("c.reverse", "a.reverse"))
    assert (up.links, up.ack_links) == (down.ack_links, down.links)
    # All of them send what a link limits.
    assert set(built.sources) == set(built.end_hosts)
    # A BDP of a reverse direction is its rate times the link's RTT.
    assert {link.name: int(link.bdp_bytes) for link in built.links} == {
        "a": 125_000, "a.reverse": 12_500, "b": 125_000, "c": 125_000, "c.reverse": 12_500,
    }  # fmt: skip


def test_delays_of_links_are_behind_their_queues_and_part_of_the_rtt() -> None:
    far = {**LINK, "delay": "3ms", "reverse": {**BACK, "delay": "4ms"}}
    built = plan({"near": LINK, "far": far}, {"path": ["near", "far"]}, {"path": ["far"], "rtt": "7ms"})
    follows_its_links(built)
    assert [flow.rtt_ns for flow in built.flows] == [27 * MS, 7 * MS]
    delays = {port.number: port.delay_ns for port in built.ports}
    assert {link.name: delays[link.port] for link in built.links if link.loopback} == {
        "near": 0, "far": 3 * MS, "far.reverse": 4 * MS,
    }  # fmt: skip


def test_groups_share_hosts_that_they_name() -> None:
    there = {"path": ["a"], "from": "alice", "to": "bob"}
    built = plan({"a": LINK, "b": LINK}, there, there, {"path": ["b"], "from": "alice", "to": "carol"})
    follows_its_links(built)
    assert sorted(host.name for host in built.end_hosts) == ["alice", "bob", "carol"]
    assert len({(flow.src, flow.src_port) for flow in built.flows}) == 3


@given(
    st.lists(
        st.tuples(st.permutations("abcd").flatmap(lambda names: st.integers(1, 4).map(lambda n: names[:n])),
                  st.sampled_from(["forward", "reverse"])),
        min_size=1, max_size=6,
    ),
    st.sets(st.sampled_from("abcd")),
)  # fmt: skip
def test_every_packet_takes_its_way_whatever_the_paths(routes: list[tuple[list[str], str]], two_way: set[str]) -> None:
    links = {name: {**LINK, **({"reverse": BACK} if name in two_way else {})} for name in "abcd"}
    flows = [{"path": list(path), "direction": direction, "to": f"to{n}"} for n, (path, direction) in enumerate(routes)]
    assume(all(direction == "forward" or two_way & set(path) for path, direction in routes))
    follows_its_links(plan(links, *flows))


@pytest.mark.parametrize(
    ("links", "flows", "message"),
    [
        ({"a": LINK, "b": LINK}, [{}], "flows.0.path: is missing; allowed: one or more of a, b"),
        ({"left": LINK}, [{"path": ["lft"]}], "flows.0.path: unknown link 'lft', did you mean 'left'?"),
        ({"a": LINK, "b": LINK}, [{"path": ["a", "b", "a"]}], "flows.0.path: crosses 'a' twice; allowed: each link"),
        ({"a": LINK}, [{"direction": "reverse"}], "flows.0.direction: no link of the path has a `reverse`"),
        ({"a": LINK}, [{"from": "x", "to": "x"}], "flows.0: is from 'x' to itself; allowed"),
        ({"a": LINK}, [{"to": "collector"}], "flows.0: 'collector' is the collector's; allowed"),
        ({"a": {**LINK, "delay": "5ms"}}, [{"rtt": "4ms"}], "flows.0.rtt: is 4ms, and the delays of the links"),
        (
            {"a": LINK, "b": LINK},
            [{"path": ["a"], "from": "x", "to": "y"}, {"path": ["b"], "from": "x", "to": "y"}],
            "flows.1: packets for 'y' are forwarded by their destination",
        ),
        (
            {"a": LINK},
            [{"from": "x", "to": "y"}, {"from": "x", "to": "y", "rtt": "20ms"}],
            "flows.1.rtt: other flows from 'x' to 'y' have another one; allowed: the same, or hosts of its own",
        ),
        (
            {"a": LINK},
            [
                {"from": one, "to": other, "rtt": rtt}
                for one, other, rtt in (("a", "x", "9ms"), ("a", "y", "20ms"), ("b", "x", "30ms"), ("b", "y", "30ms"))
            ],
            "cannot be made together, since each host delays all packets for it alike; allowed: hosts of its own "
            "(from, to)",
        ),
        (
            {f"l{n}": LINK for n in range(20)},
            [{"path": [f"l{n % 20}"], "to": f"to{n}"} for n in range(260)],
            "ports of the switch; allowed: up to 510",
        ),
        ({f"l{n}": LINK for n in range(MAX_LINKS + 1)}, [{"path": ["l0"]}], f"33 links; allowed: up to {MAX_LINKS}"),
    ],
)
def test_what_is_no_network_is_refused_by_name(
    links: dict[str, Any], flows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match="allowed") as caught:
        plan(links, *flows)
    assert message in str(caught.value)


def test_a_group_has_as_many_hosts_as_it_says() -> None:
    """Its flows take turns on them, each host with its own link to the switch and its own ports."""
    built = plan({"a": LINK}, {"count": 5, "senders": 2, "rtt": "30ms"}, {"count": 2}, {"senders": 1})
    assert [(flow.name, flow.sender) for flow in built.flows] == [
        ("g0-1", "sender0"), ("g0-2", "sender0-2"), ("g0-3", "sender0"), ("g0-4", "sender0-2"), ("g0-5", "sender0"),
        ("g1-1", "sender1"), ("g1-2", "sender1"), ("g2-1", "sender2"),
    ]  # fmt: skip
    assert [host.name for host in built.senders] == ["sender0", "sender0-2", "sender1", "sender2"]
    assert {flow.receiver for flow in built.flows} == {"receiver"}
    assert len({host.address for host in built.hosts}) == len(built.hosts) == 6
    assert len({(flow.src, flow.src_port) for flow in built.flows}) == 8
    follows_its_links(built)


def test_hosts_of_a_group_are_those_of_as_many_groups() -> None:
    """Names apart: hosts, ports, paths and delays are the same."""
    one = plan({"a": LINK}, {"count": 7, "senders": 7}, {"rtt": "20ms"})
    apart = plan({"a": LINK}, *[{}] * 7, {"rtt": "20ms"})
    assert (one.paths, one.links) == (apart.paths, apart.links)
    numbers, others = ([(port.number, port.delay_ns) for port in built.ports] for built in (one, apart))
    assert numbers == others
    assert [(flow.src, flow.dst, flow.rtt_ns) for flow in one.flows] == [
        (flow.src, flow.dst, flow.rtt_ns) for flow in apart.flows
    ]
