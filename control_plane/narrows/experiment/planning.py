# SPDX-License-Identifier: Apache-2.0
"""From an experiment to the plan of its run, before anything is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from narrows_formats.flow_names import flow_name

from narrows.errors import InputError
from narrows.experiment.comparison import Condition
from narrows.experiment.event_checks import check_events, conditions, flow_times
from narrows.experiment.events import application_changes, at_ns, of_link
from narrows.experiment.model import MAX_TCP_BUFFER, Experiment, Hosts
from narrows.experiment.own_program import planned_programs
from narrows.experiment.plan import (
    DATA_PORTS,
    ETHERNET_HEADER_BYTES,
    FIRST_SERVER_PORT,
    MAX_SENDERS,
    MIN_TCP_BUFFER,
    REPORT_LENGTH_BYTES,
    REPORT_SOURCE_PORT,
    REPORT_UDP_PORT,
    Change,
    Collector,
    Flow,
    InterruptCoalescing,
    Plan,
    Reaction,
    derive_seed,
)
from narrows.experiment.port_choice import avoid_index_collisions
from narrows.experiment.tcp_settings import check as check_tcp
from narrows.experiment.topology import Topology, check_change, mac_address, make_topology
from narrows.flows.group import FlowGroup, Place
from narrows.onhost.application import Application
from narrows.onhost.application import Change as ApplicationChange
from narrows.onhost.payload import Payload, Tcp

REPORTS_FROM, REPORTS_TO = "198.19.255.254", "198.19.255.1"


def make_plan(experiment: Experiment) -> Plan:
    """Work out the plan of one run (an experiment whose sweep and repeats are already resolved).

    Raises:
        InputError: the network cannot be made, or the experiment needs more senders or ports than a switch has.
    """
    if (senders := sum(group.senders for group in experiment.flows)) > MAX_SENDERS:
        what = "groups" if senders == len(experiment.flows) else "hosts that send"
        raise InputError(f"flows: {senders} {what}; allowed: up to {MAX_SENDERS}, one switch port each")
    check_events(experiment)
    found = conditions(experiment)
    hosts = experiment.hosts or Hosts()
    network = make_topology(experiment)
    flows = _flows(experiment, network)
    plan = Plan(
        end_hosts=network.end_hosts,
        collector_host=network.collector_host,
        ports=network.ports,
        paths=network.paths,
        links=network.links,
        unlimited=network.unlimited,
        collector=Collector(
            port=network.collector_host.port,
            src_mac=mac_address(0),
            dst_mac=network.collector_host.mac,
            src_address=REPORTS_FROM,
            dst_address=REPORTS_TO,
            src_port=REPORT_SOURCE_PORT,
            dst_port=REPORT_UDP_PORT,
            report_length=REPORT_LENGTH_BYTES,
        ),
        flows=flows,
        bpf=_bpf(experiment),
        ip_version=experiment.ip_version,
        frame_bytes=experiment.mtu + ETHERNET_HEADER_BYTES,
        end_ns=_end_ns(flows),
        tcp_buffer_bytes=experiment.tcp_buffer or _tcp_buffer(network),
        access_rate_bps=hosts.rate,
        jitter_ns=hosts.jitter,
        coalescing=None if hosts.rx_usecs is None else InterruptCoalescing(hosts.rx_usecs, hosts.rx_frames),
        offloads=hosts.offloads,
        changes=_changes(experiment, network),
        reactions=tuple(_reaction(experiment, network, number, one) for number, one in found.items()),
        conditions_every_ns=experiment.telemetry.conditions,
        seed=experiment.seed,
        sysctls=tuple(hosts.sysctls.items()),
        programs=planned_programs(experiment, network),
    )
    return avoid_index_collisions(plan)


def _changes(experiment: Experiment, network: Topology) -> tuple[Change, ...]:
    """What of events and recordings no schedule of the switch has; topology checked them, and gives limits in bytes."""
    found = []
    for link in network.links:
        limits = iter(link.later_limits)
        asked = [(at_ns(event), event.buffer, event.loss) for event in of_link(experiment.events, link.name)]
        asked += [(row.at_ns, row.buffer, row.loss) for row in experiment.directions[link.name].recorded]
        for time_ns, buffer, loss in asked:
            limit = None if buffer is None else next(limits)
            if limit is not None or loss is not None:
                found.append(Change(time_ns, link.name, limit, loss))
    return tuple(sorted(found, key=lambda change: change.at_ns))


def _reaction(experiment: Experiment, network: Topology, number: int, condition: Condition) -> Reaction:
    """What an event does once its condition holds."""
    event = experiment.events[number]
    if event.link is not None:
        link = next(link for link in network.links if link.name == event.link)
        settings = experiment.directions[event.link]
        frame = experiment.mtu + ETHERNET_HEADER_BYTES
        limit = check_change(settings, link, frame, event.buffer, event.loss)
        return Reaction(number, condition, Change(0, event.link, limit, event.loss, event.rate))
    if event.flow is not None:
        application = ApplicationChange(number, 0, event.sends, event.send_rate)
        return Reaction(number, condition, group=event.flow, application=application)
    verb, name = event.request
    return Reaction(number, condition, group=name, verb=verb)


def _tcp_buffer(network: Topology) -> int:
    """Upper bound of a socket's buffers with which they limit nothing: four times what path and queues can hold."""
    links = {link.name: link for link in network.links}
    longest = max(route.rtt_ns for route in network.routes)
    most = 0
    for route in network.routes:
        crossed = [links[name] for name in route.data if name in links]
        rate = min(link.rates_bps.most for link in crossed)
        most = max(most, rate * longest // 8_000_000_000 + sum(link.most_limit_bytes for link in crossed))
    return min(max(MIN_TCP_BUFFER, 4 * most), MAX_TCP_BUFFER)


def _flows(experiment: Experiment, network: Topology) -> tuple[Flow, ...]:
    flows: list[Flow] = []
    # Two sockets of one host cannot both be bound to a port.
    taken: Counter[str] = Counter()
    for position, group in enumerate(experiment.flows):
        drawn = derive_seed(experiment.seed, position)
        routes = network.of_group(position)
        # Each flow draws numbers of its own.
        seed = drawn * len(DATA_PORTS)
        first_ns, stop_ns = flow_times(group, experiment)
        starts_ns = [first_ns + number * group.stagger for number in range(group.count)]
        lasting = [group.duration if stop_ns is None else stop_ns - start_ns for start_ns in starts_ns]
        held = any(event.start == group.name and event.when is not None for event in experiment.events)
        payloads = [
            _payload(experiment, network, position, (start_ns, duration_ns), (drawn, seed + number))
            for number, (start_ns, duration_ns) in enumerate(zip(starts_ns, lasting, strict=True))
        ]
        first_ports = []
        for place, route in enumerate(routes):
            connections = sum(payload.connections for payload in payloads[place :: len(routes)])
            begins = route.receiver if payloads[place].receiver_initiates else route.sender
            first_ports.append(DATA_PORTS.start + taken[begins])
            taken[begins] += connections
            if taken[begins] > len(DATA_PORTS):
                at = "" if taken[begins] == connections else f", {taken[begins]} with all groups from its host"
                what = "its requests may be" if payloads[place].receiver_initiates else "count x repeat is"
                raise InputError(
                    f"flows.{position}: {what} {connections} connections{at}; allowed: up to {len(DATA_PORTS)}"
                )
        for number, payload in enumerate(payloads):
            turn, place = divmod(number, len(routes))
            route = routes[place]
            flows.append(
                Flow(
                    name=flow_name(group.name, number + 1),
                    group=group.name,
                    cca=group.cca,
                    sender=route.sender,
                    receiver=route.receiver,
                    links=route.data,
                    ack_links=route.acks if payload.acknowledged else (),
                    src=network.host(route.sender).address,
                    dst=network.host(route.receiver).address,
                    src_port=first_ports[place] + turn * payload.connections,
                    dst_port=FIRST_SERVER_PORT + len(flows),
                    start_ns=starts_ns[number],
                    duration_ns=lasting[number],
                    rtt_ns=route.rtt_ns,
                    payload=payload,
                    tcp=_tcp(group, payload),
                    held=held,
                )
            )
    _check_applications(experiment, flows)
    check_tcp(flows, experiment.mtu, experiment.ip_version)
    last_port = FIRST_SERVER_PORT + len(flows) - 1
    if last_port >= DATA_PORTS.start:
        most = DATA_PORTS.start - FIRST_SERVER_PORT
        raise InputError(f"flows: {len(flows)} flows in all; allowed: up to {most}")
    return tuple(flows)


def _bpf(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """The congestion controls in BPF, each with its object file.

    Raises:
        InputError: two groups have different files for one.
    """
    found: dict[str, str] = {}
    for number, group in enumerate(experiment.flows):
        if group.bpf is None or group.cca is None:
            continue
        if (file := found.setdefault(group.cca, group.bpf)) != group.bpf:
            raise InputError(f"flows.{number}.bpf: '{group.cca}' is of {file} in another group; allowed: one file each")
    return tuple(found.items())


def _check_applications(experiment: Experiment, flows: Sequence[Flow]) -> None:
    """Packets of programs and of requests are recognised by their two addresses alone, and a host has one default CCA.

    Raises:
        InputError: a group shares both hosts of such a flow, or the default.
    """
    for position, group in enumerate(experiment.flows):
        for flow in (one for one in flows if one.group == group.name and one.match_by_host_pair):
            what = flow.payload.match_by_host_pair
            for other in flows:
                if other is flow:
                    continue
                if {other.sender, other.receiver} == {flow.sender, flow.receiver}:
                    raise InputError(
                        f"flows.{position}: '{other.group}' is between the same hosts as {what}, whose packets are "
                        "identified by their addresses; allowed: hosts of its own (from, to)"
                    )
                both = other.payload.is_program and flow.payload.is_program
                if both and other.sender == flow.sender and other.cca != flow.cca:
                    raise InputError(
                        f"flows.{position}.cca: '{other.group}' has another one on the same host; allowed: the same, "
                        "or a host of its own (from)"
                    )


def _payload(
    experiment: Experiment, network: Topology, position: int, times: tuple[int, int | None], seeds: tuple[int, int]
) -> Payload:
    """What a flow of a group sends.

    Args:
        experiment: the whole.
        network: its links.
        position: of the group.
        times: the flow's start and its duration.
        seeds: of the group and of the flow.

    Raises:
        InputError: it is too much.
    """
    route = network.of_group(position)[0]
    crossed = [link for link in network.links if link.name in (*route.data, *route.acks)]
    place = Place(
        *times,
        least_rtt_ns=route.rtt_ns - sum(link.delay_ns - link.shortest_delay_ns for link in crossed),
        most_bps=min(link.rates_bps.most for link in network.links if link.name in route.data),
        group_seed=seeds[0],
        seed=seeds[1],
    )
    name = experiment.flows[position].name
    try:
        if any(event.flow == name for event in experiment.events):
            return Application(application_changes(experiment.events, name))
        return experiment.flows[position].payload(place)
    except ValueError as error:
        raise InputError(f"flows.{position}.{error}") from None


def _tcp(group: FlowGroup, payload: Payload) -> Tcp:
    """What the TCP of a flow is set to."""
    asked = group.planned_tcp
    return asked if asked.notsent_lowat is not None else replace(asked, notsent_lowat=payload.notsent_lowat)


def _end_ns(flows: tuple[Flow, ...]) -> int | None:
    """When the last flow ends, or None if a finite flow, or one that a condition starts, decides that itself."""
    ends = [flow.end_ns for flow in flows if flow.end_ns is not None and not flow.held]
    return max(ends) if len(ends) == len(flows) else None
