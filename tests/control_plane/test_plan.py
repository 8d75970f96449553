# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import DATA_PORTS, EPHEMERAL_PORTS, Plan, Threshold
from narrows.experiment.planning import make_plan
from narrows.switch.link_models import variation

MS = 1_000_000
BASE: dict[str, Any] = {
    "name": "test",
    "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
    "flows": [
        {"cca": "bbr", "duration": "30s", "count": 2},
        {"cca": "cubic", "size": "1MB", "repeat": 3, "count": 2, "rtt": "10ms", "start": "5s"},
    ],
}


def plan(bottleneck: dict[str, Any] | None = None, **changes: Any) -> Plan:
    data = {**BASE, **changes, "bottleneck": {**BASE["bottleneck"], **(bottleneck or {})}}
    return make_plan(validate(data, "test"))


def test_every_flow_has_its_own_5_tuples() -> None:
    flows = plan().flows
    each = [(flow, number) for flow in flows for number in range(flow.payload.repeat)]
    tuples = [(flow.src, flow.dst, flow.src_port + number, flow.dst_port) for flow, number in each]
    assert len(set(tuples)) == len(tuples) == 8
    # Two sockets of one host cannot both be bound to a port.
    assert len({(src, port) for src, _, port, _ in tuples}) == len(tuples)
    assert all(port in DATA_PORTS for _, _, port, _ in tuples)
    assert not set(DATA_PORTS) & set(range(EPHEMERAL_PORTS[0], EPHEMERAL_PORTS[1] + 1))


def test_the_rtt_is_made_on_the_way_back() -> None:
    delays = {port.host: port.delay_ns for port in plan().ports}
    assert delays == {"receiver": 0, "collector": 0, "sender0": 40 * MS, "sender1": 10 * MS}


def test_only_data_passes_the_bottleneck() -> None:
    built = plan()
    (receiver,) = built.receivers
    for path in built.paths:
        assert path.link == (built.bottleneck.index if path.dst_mac == receiver.mac else None)
        assert path.egress_port == next(host.port for host in built.hosts if host.mac == path.dst_mac)
    assert {path.ingress_port for path in built.paths if path.link == 0} == {s.port for s in built.senders}


def test_addresses_are_those_for_benchmarks() -> None:
    for version, network in ((4, "198.18.0.0/15"), (6, "2001:2::/48")):
        hosts = [host for host in plan(ip_version=version).hosts if host.address]
        addresses = {ipaddress.ip_address(host.address) for host in hosts}
        assert len(addresses) == len(hosts) == 3
        assert all(address in ipaddress.ip_network(network) for address in addresses)


@pytest.mark.parametrize(
    ("settings", "rate", "limit", "packets"),
    [
        ({}, 100_000_000, 500_000, None),
        ({"buffer": "0.5bdp"}, 100_000_000, 250_000, None),
        ({"buffer": "30ms"}, 100_000_000, 375_000, None),
        ({"buffer": "100packets"}, 100_000_000, 151_400, 100),
        # 100 Mbit/s on the wire with 24 B of preamble, FCS and gap a frame of 1514 B.
        ({"rate_layer": "l1", "buffer": "1MB"}, 98_439_532, 1_000_000, None),
    ],
)
def test_rate_and_buffer_are_planned_in_base_units(
    settings: dict[str, Any], rate: int, limit: int, packets: int | None
) -> None:
    bottleneck = plan(settings).bottleneck
    assert (bottleneck.rate_bps, bottleneck.limit_bytes, bottleneck.limit_packets) == (rate, limit, packets)


def test_sampling_and_ecn_are_planned_in_base_units() -> None:
    bottleneck = plan({"ecn_threshold": "20packets"}, telemetry={"sample": 16}).bottleneck
    assert bottleneck.sample_shift == 4
    assert bottleneck.ecn_threshold == Threshold(20, in_packets=True)
    assert plan({"ecn_threshold": "30kB"}).bottleneck.ecn_threshold == Threshold(30_000)


def test_socket_buffers_limit_nothing_unless_asked_to() -> None:
    assert plan().tcp_buffer_bytes == 64 << 20
    # Four times 10 Gbit/s x 40 ms and as much again in the queue.
    assert plan({"rate": "10Gbit"}).tcp_buffer_bytes == 4 * 100_000_000
    assert plan(tcp_buffer="10MiB").tcp_buffer_bytes == 10 << 20
    with pytest.raises(InputError, match="tcp_buffer"):
        plan(tcp_buffer="2GiB")


def test_end_is_known_for_bulk_flows_only() -> None:
    assert plan().end_ns is None
    flows = [{"cca": "bbr", "duration": "30s"}, {"cca": "cubic", "duration": "10s", "start": "25s"}]
    assert plan(flows=flows).end_ns == 35_000_000_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bottleneck": {"buffer": "1000B"}}, "bottleneck.buffer: 1kB is 1000 B, which no full-size frame of 1514 B"),
        ({"flows": [{"cca": "bbr", "duration": "1s"}] * 501}, "flows: 501 groups; allowed: up to 500"),
        ({"flows": [{"cca": "bbr", "size": "1MB", "repeat": 30001}]}, "30001 connections; allowed: up to 30000"),
        ({"flows": [{"cca": "bbr", "duration": "1s", "count": 4800}]}, "flows: 4800 flows in all; allowed: up to 4799"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_what_is_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match="allowed") as caught:
        plan(**changes)
    assert message in str(caught.value)


def test_nothing_is_drawn_twice_in_the_repetitions_of_a_run() -> None:
    """Repetition r has the seed + r - 1: neither another group's draws, nor another link's, nor those of loss."""
    drawn: dict[str, Any] = {
        "workload": {"flows": 20, "sizes": {"cdf": [[1, 0], [1e6, 1]]}, "gaps": {"exponential": {"mean": "5ms"}}},
        "requests": {"size": {"cdf": [[1, 0], [1e6, 1]]}, "gaps": "50ms", "users": 2},
        "udp": {"rate": "1Mbit", "bursts": {"length": "1ms", "pause": "1ms", "distribution": "exponential"}},
    }
    cca, duration = {"cca": "cubic"}, {"duration": "1s"}
    common: dict[str, Any] = {"workload": cca, "requests": {**cca, **duration}, "udp": {**duration, "count": 2}}
    groups = [{"name": f"{kind}{n}", kind: drawn[kind], **common[kind]} for kind in drawn for n in range(3)]
    link = {"rate": "10Mbit", "rtt": "10ms", "buffer": "1bdp", "duplication": "1%"}
    found: list[object] = []
    for seed in (1, 2, 3):
        data = {"name": "x", "links": {"a": link, "b": link}, "flows": [{**one, "path": ["a", "b"]} for one in groups]}
        plan = make_plan(validate({**data, "seed": seed}, "x"))
        for flow in plan.flows:
            # Of users their sizes: their times are alike.
            users = getattr(flow.payload, "users", ())
            bursts = getattr(flow.payload, "bursts", ())[:9]
            drawn_of = [tuple(request.size for request in user) for user in users]
            drawn_of += [tuple(end - begin for begin, end in bursts), flow.payload.sizes]
            found += [one for one in drawn_of if one]
        found += [seed, *(one.seed for one in (variation(link, seed) for link in plan.links) if one)]
    assert len(found) == len(set(found)) == 3 * (3 + 3 * 2 + 3 * 2 + 1 + 2)
