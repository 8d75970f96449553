# SPDX-License-Identifier: Apache-2.0
"""The network of an experiment: its hosts, the links that each group's packets cross, and the switch's part in them.

A link is a queue of one port. Where all that crosses it goes to one host, and all that goes to the host crosses it, it
is the queue of that host's port; else it is that of a loopback port, whose frames come in again and go on from there by
their destination, as in a routed network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count, pairwise
from typing import TYPE_CHECKING

from narrows_formats.link_names import REVERSE
from narrows_formats.schedules import DelaySteps, Opportunities, RateSchedule, RateSteps
from narrows_formats.suggestion import suggestion
from narrows_formats.units import QueueDepth, format_size, format_time

from narrows.errors import InputError
from narrows.experiment.delays import NoDelays, host_delays
from narrows.experiment.events import delay_steps, of_link, rate_steps
from narrows.experiment.impairment_settings import LossModel
from narrows.experiment.impairments import Bursts, Framing, Policer
from narrows.experiment.plan import (
    COLLECTOR_PORT,
    ETHERNET_HEADER_BYTES,
    L1_OVERHEAD_BYTES,
    LOSS_BITS,
    MAX_PORT,
    Cable,
    ForwardingRule,
    Host,
    Link,
    ReportedLink,
    SwitchPort,
    Threshold,
)
from narrows.queues.aqm import LinkBasis

if TYPE_CHECKING:
    from narrows.experiment.events import Event
    from narrows.experiment.model import DirectionSettings, Experiment
    from narrows.experiment.program_settings import HostPlace, NamedProgram
    from narrows.flows.group import FlowGroup

COLLECTOR = "collector"
# Names that no host of flows can have.
TAKEN = (COLLECTOR, "switch")
# What v1model's depth in packets holds.
MOST_PACKETS = (1 << 19) - 1
UNPLACED = -1
# What messages call the program of links that name none.
OURS = "Narrows' own program"


@dataclass(frozen=True)
class Route:
    """The way of packets from a host of a group: ``data`` and ``acks`` are names of links, in the order of crossing."""

    group: int
    sender: str
    receiver: str
    data: tuple[str, ...]
    acks: tuple[str, ...]
    rtt_ns: int

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the links that it crosses, in whichever direction."""
        return tuple(dict.fromkeys(name.removesuffix(REVERSE) for name in (*self.data, *self.acks)))

    @property
    def ways(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """From, across and to: of data, and of acknowledgements."""
        return ((self.sender, self.data, self.receiver), (self.receiver, self.acks, self.sender))


@dataclass(frozen=True)
class Topology:
    """Hosts of flows and of the collector, ports, links, the forwarding between them, and the groups' ``routes``."""

    end_hosts: tuple[Host, ...]
    collector_host: Host
    ports: tuple[SwitchPort, ...]
    links: tuple[Link, ...]
    unlimited: tuple[ReportedLink, ...]
    paths: tuple[ForwardingRule, ...]
    routes: tuple[Route, ...]

    def of_group(self, number: int) -> list[Route]:
        """The routes of a group, one for each host that sends its flows."""
        return [route for route in self.routes if route.group == number]

    def host(self, name: str) -> Host:
        """A host of flows by its name."""
        return next(host for host in self.end_hosts if host.name == name)


def make_topology(experiment: Experiment) -> Topology:
    """Work out the network of an experiment.

    Raises:
        InputError: a group's path is not a path, hosts cannot have the RTTs asked for, or a switch has too few ports.
    """
    unplaced = {link.name: link for link in _links(experiment)}
    routes = tuple(
        replace(route, sender=sender)
        for number, group in enumerate(experiment.flows)
        for route in (_route(experiment, group, number, unplaced),)
        for sender in _senders(group, route.sender)
    )
    programs = {name: named for named in experiment.programs for name in named.links}
    end_hosts, collector = _hosts(routes, experiment.ip_version, programs)
    used = {name for route in routes for _, links, _ in route.ways for name in links}
    links = _place(
        {name: link for name, link in unplaced.items() if name in used},
        routes,
        (*end_hosts, collector),
        programs,
    )
    ports = _ports(end_hosts, collector, links, routes)
    if (highest := max(port.number for port in ports)) > MAX_PORT:
        raise InputError(
            f"flows, links: {len(end_hosts)} hosts and {highest - len(end_hosts) - 1} links between them need "
            f"{highest} ports of the switch; allowed: up to {MAX_PORT}"
        )
    by_name = {link.name: link for link in links}
    return Topology(
        end_hosts,
        collector,
        ports,
        tuple(link for link in links if isinstance(link, Link)),
        tuple(link for link in links if not isinstance(link, Link)),
        _paths(routes, end_hosts, by_name),
        routes,
    )


def mac_address(port: int) -> str:
    """Locally administered address that names its port."""
    return f"02:4e:57:00:{port >> 8:02x}:{port & 0xFF:02x}"


def _links(experiment: Experiment) -> Iterator[ReportedLink]:
    """Each direction of each link; those without limits only where they are to be reported. They have no port yet."""
    index = 0
    field = "links.{}" if experiment.links else "{}"
    for name, settings in experiment.all_links.items():
        yield _limited(experiment, name, settings, settings.rtt, index, field.format(name))
        index += 1
    for name, settings in experiment.all_links.items():
        where = f"{field.format(name)}.reverse"
        if settings.reverse is not None:
            yield _limited(experiment, name + REVERSE, settings.reverse, settings.rtt, index, where)
        elif experiment.telemetry.acks:
            yield ReportedLink(name + REVERSE, "reverse", index, UNPLACED, False, settings.rtt)
        else:
            continue
        index += 1


def _limited(
    experiment: Experiment, name: str, settings: DirectionSettings, rtt_ns: int, index: int, field: str
) -> Link:
    frame = experiment.mtu + ETHERNET_HEADER_BYTES
    events = of_link(experiment.events, name)
    reacting = [event for event in experiment.events if event.link == name and event.when is not None]
    schedule, delays = _schedules(settings, events)
    if schedule is not None and settings.rate_layer == "l1":
        raise InputError(f"{field}.rate_layer: is l1, and the rate varies; allowed: l2")
    rate = _nominal_bps(settings, schedule)
    if settings.rate_layer == "l1":
        # Exact for full-size frames, the ones that fill a link; run.json states the L2 rate that was set.
        rate = round(Fraction(rate * frame, frame + L1_OVERHEAD_BYTES))
    limit = _limit(settings.buffer, field, (rate, rtt_ns, frame))
    later = tuple(
        (
            _limit(event.buffer, f"events.{experiment.events.index(event)}", (rate, rtt_ns, frame)),
            in_packets(event.buffer),
        )
        for event in events
        if event.buffer is not None
    )
    later += tuple(
        (_limit(row.buffer, f"{field}.trace", (rate, rtt_ns, frame)), in_packets(row.buffer))
        for row in settings.recorded
        if row.buffer is not None
    )
    # Conditions are no times: what they may make of it comes last.
    later += tuple(
        (
            _limit(event.buffer, f"events.{experiment.events.index(event)}", (rate, rtt_ns, frame)),
            in_packets(event.buffer),
        )
        for event in reacting
        if event.buffer is not None
    )
    model = settings.loss.planned if isinstance(settings.loss, LossModel) else None
    loss = settings.loss if isinstance(settings.loss, float) else settings.loss.planned.mean_loss
    if model is None:
        _check_loss(loss, field)
    for row in settings.recorded:
        _check_loss(row.loss or 0.0, f"{field}.trace")
    for event in (*events, *reacting):
        _check_loss(event.loss or 0.0, f"events.{experiment.events.index(event)}")
    sample = experiment.telemetry.sample
    return Link(
        name=name,
        field=field,
        direction="reverse" if name.endswith(REVERSE) else "forward",
        index=index,
        port=UNPLACED,
        loopback=False,
        rate_bps=rate,
        limit_bytes=limit,
        limit_packets=in_packets(settings.buffer),
        # The least buffer that there will be.
        ecn_threshold=_ecn_threshold(
            settings, field, (rate, rtt_ns, min(limit, *(least for least, _ in later), limit), frame)
        ),
        loss=loss,
        loss_model=model,
        rtt_ns=rtt_ns,
        delay_ns=settings.base_delay_ns,
        delay_steps=delays,
        later_limits=later,
        jitter=None if settings.jitter is None else settings.jitter.planned,
        duplication=settings.duplication,
        sample_shift=0 if isinstance(sample, str) else sample.bit_length() - 1,
        sample_auto=isinstance(sample, str),
        l1_rate_bps=settings.rate if isinstance(settings.rate, int) and settings.rate_layer == "l1" else None,
        schedule=schedule,
        burst_bytes=_burst(settings, schedule, field, frame),
        policer=_policer(settings, field, frame),
        aggregation=_bursts(settings, field, frame),
        ack_filter=settings.ack_filter,
        framing=_framing(settings, schedule, field),
        aqm=settings.queue.on(LinkBasis(field, settings.buffer, rate, rtt_ns, frame)),
    )


def _nominal_bps(settings: DirectionSettings, schedule: RateSchedule | None) -> int:
    """The rate that a BDP is of: where events change it the first one."""
    aggregated = settings.aggregation is not None and settings.aggregation.rates(1) is not None
    if isinstance(settings.rate, int) and (schedule is None or not aggregated):
        return settings.rate
    return schedule.nominal_bps if schedule is not None else 0


def _schedules(settings: DirectionSettings, events: Sequence[Event]) -> tuple[RateSchedule | None, DelaySteps | None]:
    """How a link's rate and delay vary; None: they do not."""
    if not isinstance(settings.rate, int):
        rates: RateSchedule | None = settings.rate.schedule
    else:
        changes = {row.at_ns: row.rate_bps for row in settings.recorded if row.rate_bps is not None}
        rates = RateSteps(tuple(({0: settings.rate} | changes).items())) if changes else None
        rates = rates or rate_steps(settings.rate, events)
        if rates is None and settings.aggregation is not None:
            rates = settings.aggregation.rates(settings.rate)
    if not isinstance(settings.delay, int):
        return rates, settings.delay.schedule
    if settings.aggregation is not None and (gathering := settings.aggregation.delays(settings.delay)) is not None:
        return rates, gathering
    if recorded := settings.recorded_delays:
        steps = tuple((at_ns, delay_ns) for at_ns, delay_ns, _ in recorded)
        jitters = tuple(jitter_ns for _, _, jitter_ns in recorded)
        return rates, DelaySteps(steps, jitters=jitters if any(jitters) else ())
    return rates, delay_steps(settings.delay, events)


def check_change(
    settings: DirectionSettings, link: Link, frame: int, buffer: QueueDepth | None, loss: float | None
) -> tuple[int, int | None] | None:
    """Check that a link may have another buffer or loss, as the experiment's file and its events may give it one.

    Args:
        settings: of the link in the experiment.
        link: as it was at the start, whose ``field`` messages name.
        frame: a full-size one, in bytes.
        buffer: the new one.
        loss: the new ratio.

    Returns:
        The new buffer in bytes, and in packets where these are counted; None without a new one.

    Raises:
        InputError: it may not.
    """
    _check_loss(loss or 0.0, link.field)
    if buffer is None:
        return None
    limit = _limit(buffer, link.field, (link.rate_bps, link.rtt_ns, frame))
    settings = settings.model_copy(update={"buffer": buffer})
    _ecn_threshold(settings, link.field, (link.rate_bps, link.rtt_ns, limit, frame))
    return limit, in_packets(buffer)


def in_packets(buffer: QueueDepth) -> int | None:
    """Packets that may wait where that is what counts; None: it is bytes."""
    return int(buffer.value) if buffer.unit == "packets" else None


def _limit(buffer: QueueDepth, field: str, at: tuple[int, int, int]) -> int:
    """What may wait in a queue, in bytes.

    Args:
        buffer: as it is written.
        field: where that is.
        at: rate, RTT and full-size frame, in base units.

    Raises:
        InputError: no full-size frame fits into it.
    """
    limit, frame = buffer.in_bytes(*at), at[-1]
    if limit < frame:
        raise InputError(
            f"{field}.buffer: {buffer} is {limit} B, which no full-size frame of {frame} B fits into; "
            f"allowed: {frame} B or more"
        )
    return limit


def _burst(settings: DirectionSettings, schedule: RateSchedule | None, field: str, frame: int) -> int:
    """Bytes that a link's token bucket holds, 0 where it has none; ``frame`` is a full-size one, in bytes.

    Raises:
        InputError: no full-size frame fits into it, or nothing fills it at times.
    """
    if settings.burst is None:
        return 0
    if settings.burst < frame:
        raise InputError(
            f"{field}.burst: {format_size(settings.burst)} holds no full-size frame of {frame} B; "
            f"allowed: {frame} B or more"
        )
    # What a full bucket lets pass in an outage, and what an opportunity that is not used leaves in it, no link says.
    if schedule is not None and schedule.span_bps.least == 0:
        raise InputError(
            f"{field}.burst: the link's rate is 0 at times, when nothing fills a bucket; allowed: a rate above 0, "
            "constant or in steps"
        )
    return settings.burst


def _policer(settings: DirectionSettings, field: str, frame: int) -> Policer | None:
    """The policer in front of a link's queue; ``frame`` is a full-size one, in bytes.

    Raises:
        InputError: no full-size frame would ever pass.
    """
    if settings.policer is None:
        return None
    for name, burst in (("burst", settings.policer.burst), ("peak_burst", settings.policer.peak_burst)):
        if burst is not None and burst < frame:
            raise InputError(
                f"{field}.policer.{name}: {format_size(burst)} lets no full-size frame of {frame} B pass; "
                f"allowed: {frame} B or more"
            )
    return settings.policer.planned


def _bursts(settings: DirectionSettings, field: str, frame: int) -> Bursts | None:
    """The bursts of packets or bytes in which a link carries them; ``frame`` is a full-size one, in bytes.

    Raises:
        InputError: no full-size frame fits into one.
    """
    bursts = None if settings.aggregation is None else settings.aggregation.bursts
    if bursts is not None and bursts.bytes is not None and bursts.bytes < frame:
        raise InputError(
            f"{field}.aggregation.size: {format_size(bursts.bytes)} holds no full-size frame of {frame} B; "
            f"allowed: {frame} B or more"
        )
    return bursts


def _framing(settings: DirectionSettings, schedule: RateSchedule | None, field: str) -> Framing | None:
    """What frames take on a link's medium.

    Raises:
        InputError: the link's rate counts them otherwise.
    """
    if settings.framing is None:
        return None
    if settings.rate_layer == "l1":
        raise InputError(f"{field}.framing: rate_layer is l1, which counts Ethernet's own overhead; allowed: l2")
    if isinstance(schedule, Opportunities):
        raise InputError(f"{field}.framing: delivery opportunities count packets in their own way; allowed: as: rate")
    return settings.framing.planned


def _check_loss(loss: float, field: str) -> None:
    if loss and not 0 < round(loss * 2**LOSS_BITS) < 2**LOSS_BITS:
        raise InputError(
            f"{field}.loss: {loss:g} cannot be distinguished from {round(loss)}; allowed: 0, or "
            f"2^-{LOSS_BITS} (2.3e-10) to 1 - 2^-{LOSS_BITS}"
        )


def _ecn_threshold(settings: DirectionSettings, field: str, at: tuple[int, int, int, int]) -> Threshold | None:
    """The depth from which packets are marked; None: nothing is.

    Args:
        settings: of the link.
        field: where they are written.
        at: its rate, RTT, buffer and full-size frame, in base units.

    Raises:
        InputError: no full-size frame that the buffer takes can find that depth, or every packet does; or it is in
            packets of several queues.
    """
    written = settings.ecn_threshold
    if written is None:
        return None
    rate_bps, rtt_ns, limit, frame = at
    counts_packets = written.unit == "packets"
    if counts_packets and settings.queue.several_queues:
        raise InputError(
            f"{field}.ecn_threshold: {written} of a link with several queues ({settings.queue.kind}), each of which "
            "counts its own packets only; allowed: a size, a time or BDPs"
        )
    unit, amount, deepest = " B", written.in_bytes(rate_bps, rtt_ns, frame), limit - frame
    if counts_packets:
        unit, amount, deepest = "packets", amount // frame, min(deepest // frame, MOST_PACKETS)
    if 0 < amount <= deepest:
        return Threshold(amount, counts_packets)
    raise InputError(
        f"{field}.ecn_threshold: {written} is {amount}{unit}, so that "
        f"{'nothing' if amount else 'everything'} is marked: a full-size frame that fits into the buffer "
        f"({settings.buffer}, {limit} B) finds 0 to {deepest}{unit} there; "
        + (f"allowed: 1{unit} to {deepest}{unit}" if deepest else "allowed: a larger buffer, or no threshold")
    )


def _route(experiment: Experiment, group: FlowGroup, number: int, links: Mapping[str, ReportedLink]) -> Route:
    """The way of a group's packets.

    Raises:
        InputError: there is none.
    """
    settings, field = experiment.all_links, f"flows.{number}"
    names = group.path or tuple(settings)
    if group.path is None and len(settings) > 1:
        raise InputError(f"{field}.path: is missing; allowed: one or more of {', '.join(settings)}")
    for name in names:
        if name not in settings:
            raise InputError(f"{field}.path: unknown link '{name}'{suggestion(name, settings)}")
        if names.count(name) > 1:
            raise InputError(f"{field}.path: crosses '{name}' twice; allowed: each link once")
    forward = tuple(names)
    reverse = tuple(name + REVERSE for name in reversed(names) if name + REVERSE in links)
    data, acks = (forward, reverse) if group.direction == "forward" else (reverse, forward)
    if not any(isinstance(links[name], Link) for name in data):
        raise InputError(
            f"{field}.direction: no link of the path has a `reverse`, so nothing would limit these flows; allowed: a "
            "reverse with rate and buffer in one of them, or forward"
        )
    receiver = group.receiver or _default_receiver(group.direction, names, len(settings))
    sender = group.sender or f"sender{number}"
    for host in (sender, receiver):
        if host in TAKEN or sender == receiver:
            problem = f"'{host}' is the {host}'s" if host in TAKEN else f"is from '{host}' to itself"
            raise InputError(f"{field}: {problem}; allowed: two hosts with names of their own")
    fixed = sum(links[name].delay_ns for name in (*data, *acks))
    rtt = fixed + sum(settings[name].rtt for name in names) if group.rtt is None else group.rtt
    if rtt < fixed:
        raise InputError(
            f"{field}.rtt: is {format_time(rtt)}, and the delays of the links on its path are {format_time(fixed)}; "
            "allowed: that or more"
        )
    return Route(number, sender, receiver, data, acks, rtt)


def _senders(group: FlowGroup, first: str) -> list[str]:
    """The hosts that send a group's flows, by the name of the first."""
    return [first, *(f"{first}-{number}" for number in range(2, group.senders + 1))]


def _default_receiver(direction: str, names: tuple[str, ...], links: int) -> str:
    """The host behind the last link: one name for it where there is one link."""
    if direction == "forward":
        return "receiver" if links == 1 else f"receiver-{names[-1]}"
    return "reverse-receiver" if links == 1 else f"reverse-receiver-{names[0]}"


def _hosts(
    routes: tuple[Route, ...], version: int, programs: Mapping[str, NamedProgram]
) -> tuple[tuple[Host, ...], Host]:
    """Senders, then receivers, and the collector; ports from the first receiver's on, but for those that users'
    programs, given by link, have.

    Raises:
        InputError: an address of these is of another version of IP, or there are some without one among hosts that
            reach each other; a host, a port or an address is of two programs, or a program has a port of what is not
            there.
    """
    named = {one.field: one for one in programs.values()}
    at = _programs_of_hosts(routes, programs)
    neighbours = _neighbours(routes, programs)
    places = _places(list(named.values()))
    senders = dict.fromkeys(route.sender for route in routes)
    receivers = dict.fromkeys(route.receiver for route in routes if route.receiver not in senders)
    first = list(receivers)[:1]
    order = [*first, COLLECTOR, *senders, *list(receivers)[1:]]
    taken = {place.port for one in named.values() for place in one.settings.ports.values()}
    free = (number for number in count(COLLECTOR_PORT - len(first)) if number not in taken)
    ports = {name: places[name].port if name in places else next(free) for name in order}
    names = (*senders, *receivers)
    crossed = {link for route in routes for link in route.links}
    for field, one in named.items():
        known = [*(name for name in names if at[name] == field), *neighbours[field]]
        for name, place in one.settings.ports.items():
            # A host of no flow, unless it is something else, or may be one that is misspelt there.
            is_unused = name not in (*names, *crossed) and all(other in one.settings.ports for other in known)
            if name not in known and not is_unused:
                raise InputError(f"{field}.ports: the program has no host '{name}'{suggestion(name, known)}")
            if name in neighbours[field] and (name in names or place.ip or place.mac):
                raise InputError(
                    f"{field}.ports.{name}: is where a cable leads to that link; allowed: a port only, and no host of "
                    "this name"
                )
    hosts = tuple(_host(name, ports[name], version) for name in names)
    port = ports[COLLECTOR]
    return _placed(hosts, places, _reachable(routes), at), Host(COLLECTOR, port, mac_address(port), "", 0, version)


def _programs_of_hosts(routes: tuple[Route, ...], programs: Mapping[str, NamedProgram]) -> dict[str, str]:
    """Where the program of each host is in the file; empty: it is ours.

    Raises:
        InputError: a host would be attached to two programs, or a link between programs has a `reverse`.
    """
    found: dict[str, str] = {}
    for route in routes:
        fields = [_field(name, programs) for name in route.links]
        if len(set(fields)) > 1 and route.data and route.acks:
            reverse = next(name for name in (*route.data, *route.acks) if name.endswith(REVERSE))
            raise InputError(
                f"flows.{route.group}.path: crosses links of several programs, and '{reverse}', by which packets come "
                "back from one to the other; allowed: no reverse on such a path"
            )
        for host, field in ((route.sender, fields[0]), (route.receiver, fields[-1])):
            if (other := found.setdefault(host, field)) != field:
                raise InputError(
                    f"flows.{route.group}: '{host}' would be at a port of {field or OURS} and of {other or OURS}; "
                    "allowed: hosts of its own (from, to) for each program"
                )
    return found


def _field(link: str, programs: Mapping[str, NamedProgram]) -> str:
    """Where a link's program is in the file; empty: it is ours."""
    return programs[link].field if link in programs else ""


def _between_programs(routes: tuple[Route, ...], programs: Mapping[str, NamedProgram]) -> set[tuple[str, str]]:
    """Pairs of links of different programs, one behind the other on a path."""
    pairs = {pair for route in routes for pair in pairwise(route.links)}
    return {pair for pair in pairs if _field(pair[0], programs) != _field(pair[1], programs)}


def _neighbours(routes: tuple[Route, ...], programs: Mapping[str, NamedProgram]) -> dict[str, set[str]]:
    """By field of a program, links of others that a cable leads to or comes from."""
    found: dict[str, set[str]] = {"": set()}
    found |= {one.field: set() for one in programs.values()}
    for before, behind in _between_programs(routes, programs):
        found[_field(before, programs)].add(behind)
        found[_field(behind, programs)].add(before)
    return found


def _reachable(routes: tuple[Route, ...]) -> list[set[str]]:
    """Hosts that have to be in one network, as some exchange packets with some."""
    found: list[set[str]] = []
    for route in routes:
        ends = {route.sender, route.receiver}
        joined = [group for group in found if group & ends]
        found = [group for group in found if not group & ends] + [ends.union(*joined)]
    return found


def _places(programs: Sequence[NamedProgram]) -> dict[str, HostPlace]:
    """Where all programs have their hosts, and the links that cables lead to.

    Raises:
        InputError: two programs have the same port, or hosts of the same address.
    """
    found: dict[str, HostPlace] = {}
    all_places: list[HostPlace] = []
    for program in programs:
        for name, place in program.settings.ports.items():
            for what in ("port", "ip", "mac"):
                value = getattr(place, what)
                if value is not None and value in {getattr(other, what) for other in all_places}:
                    raise InputError(
                        f"{program.field}.ports.{name}.{what}: {value} is that of another program; allowed: one "
                        "that no other program has"
                    )
        found |= program.settings.ports
        all_places += program.settings.ports.values()
    return found


def _placed(
    hosts: tuple[Host, ...], places: Mapping[str, HostPlace], networks: Sequence[set[str]], at: Mapping[str, str]
) -> tuple[Host, ...]:
    """The hosts with the addresses that the entries of their programs, ``at`` fields, know them by, in ``networks``."""
    found = {host.name: host for host in hosts}
    for name, host in found.items():
        if (place := places.get(name)) is not None and at[name]:
            found[name] = replace(host, mac=place.mac or host.mac)
    for network in networks:
        given = {name: place.ip for name, place in places.items() if name in network and place.ip is not None}
        if not given:
            continue
        field = at[next(iter(given))]
        for host in (one for one in hosts if one.name in network):
            if host.name not in given:
                raise InputError(f"{field}.ports: has no ip of '{host.name}', and others have one; allowed: all")
            if ip_address(given[host.name]).version != host.ip_version:
                where = f"{at[host.name]}.ports.{host.name}.ip"
                raise InputError(f"{where}: {given[host.name]} is not of ip_version {host.ip_version}")
        numbers = [int(ip_address(address)) for address in given.values()]
        bits = 32 if hosts[0].ip_version == 4 else 128
        # A bit more than those in which they differ, so that it tells them from the broadcast address.
        common = min(bits - 2, bits - (min(numbers) ^ max(numbers)).bit_length() - 1)
        for name, address in given.items():
            found[name] = replace(found[name], address=address, prefix=max(0, common))
    return tuple(found.values())


def _host(name: str, port: int, version: int) -> Host:
    if version == 6:
        return Host(name, port, mac_address(port), str(IPv6Address("2001:2::") + port), 64, 6)
    return Host(name, port, mac_address(port), str(IPv4Address("198.18.0.0") + port), 15, 4)


def _place(
    links: Mapping[str, ReportedLink],
    routes: tuple[Route, ...],
    hosts: tuple[Host, ...],
    programs: Mapping[str, NamedProgram],
) -> tuple[ReportedLink, ...]:
    """The links with their ports: that of the one host behind a link, or a loopback port.

    ``hosts`` are all, the collector among them. With a program of ``programs``, delays and what varies in them are a
    host's port's, too. A cable leads from a link of one program to that of another.

    Raises:
        InputError: a link leads to another program and elsewhere, too.
    """
    ports = {host.name: host.port for host in hosts}
    behind: dict[str, set[str]] = {name: set() for name in links}
    before: dict[str, set[str | None]] = {name: set() for name in ports}
    for route in routes:
        for _, crossed, end in route.ways:
            before[end].add(crossed[-1] if crossed else None)
            for name, following in zip(crossed, [*crossed[1:], end], strict=bool(crossed)):
                behind[name].add(following)
    named = {place.port for one in programs.values() for place in one.settings.ports.values()}
    free = (number for number in count(max(ports.values()) + 1) if number not in named)
    between = dict(_between_programs(routes, programs))
    placed: list[ReportedLink] = []
    for name, link in links.items():
        only = next(iter(behind[name])) if len(behind[name]) == 1 else None
        if name in between:
            if only is None or not isinstance(link, Link):
                raise InputError(
                    f"links.{name}: leads to '{between[name]}' of another program, and elsewhere; allowed: all of its "
                    "flows across that link"
                )
            near = _named_port(name, only, programs) or next(free)
            far = _named_port(only, name, programs) or next(free)
            placed.append(replace(link, port=near, loopback=True, cable=Cable(only, far)))
        elif not isinstance(link, Link) and behind[name] <= ports.keys():
            placed.append(replace(link, port=None))
        elif (
            only is not None
            and before.get(only) == {name}
            and (name in programs or not (link.longest_delay_ns or link.varies_behind))
        ):
            # All that crosses it is for this host, and all that is for this host crosses it.
            placed.append(replace(link, port=ports[only]))
        else:
            placed.append(replace(link, port=next(free), loopback=True))
    return tuple(placed)


def _named_port(of: str, to: str, programs: Mapping[str, NamedProgram]) -> int | None:
    """The port that the program of a link has for the cable to another link, if it says so."""
    place = programs[of].settings.ports.get(to) if of in programs else None
    return None if place is None else place.port


def _ports(
    hosts: tuple[Host, ...], collector: Host, links: tuple[ReportedLink, ...], routes: tuple[Route, ...]
) -> tuple[SwitchPort, ...]:
    """Each host's port with its part of the base RTTs and its link's delay, each loopback port with its link's.

    Raises:
        InputError: groups that share hosts ask for RTTs that these cannot have.
    """
    fixed = {link.name: link.delay_ns for link in links}
    rtts: dict[tuple[str, str], int] = {}
    for route in routes:
        rest = route.rtt_ns - sum(fixed[name] for name in (*route.data, *route.acks))
        if rtts.setdefault((route.sender, route.receiver), rest) != rest:
            raise InputError(
                f"flows.{route.group}.rtt: other flows from '{route.sender}' to '{route.receiver}' have another one; "
                "allowed: the same, or hosts of its own"
            )
    try:
        delays = host_delays(rtts)
    except NoDelays as error:
        sender, receiver = error.pair
        group = next(route.group for route in routes if {route.sender, route.receiver} == {sender, receiver})
        raise InputError(
            f"flows.{group}: the RTTs of the flows that share '{sender}' and '{receiver}' with it cannot be made "
            "together, since each host delays all packets for it alike; allowed: hosts of its own (from, to)"
        ) from None
    by_port = sorted(hosts, key=lambda host: host.port)
    own = {link.port: link.delay_ns for link in links if not link.loopback}
    at_hosts = [SwitchPort(host.port, host.name, delays[host.name] + own.get(host.port, 0)) for host in by_port]
    loopbacks = [SwitchPort(link.port, "", link.delay_ns) for link in links if link.loopback and link.port]
    far_ends = [SwitchPort(link.cable.port, "", 0) for link in links if link.cable is not None]
    return (*at_hosts[:1], SwitchPort(collector.port, COLLECTOR, 0), *at_hosts[1:], *loopbacks, *far_ends)


def _paths(
    routes: tuple[Route, ...], hosts: tuple[Host, ...], links: Mapping[str, ReportedLink]
) -> tuple[ForwardingRule, ...]:
    """Forwarding by ingress port and destination.

    Raises:
        InputError: packets for one host would have to leave the same port by two ways.
    """
    by_name = {host.name: host for host in hosts}
    found: dict[tuple[int, str], ForwardingRule] = {}
    for route in routes:
        back = [links[name] for name in reversed(route.data or route.acks) if links[name].cable is not None]
        for start, crossed, end in route.ways:
            ingress, last = by_name[start].port, by_name[end]
            # No link limits the reverse direction: its packets take the cables of the forward direction.
            for link in back if not crossed else ():
                if link.cable is not None and link.port is not None:
                    found[ingress, last.mac] = ForwardingRule(ingress, last.mac, link.cable.port, None)
                    ingress = link.port
            for hop in [*(links[name] for name in crossed), None]:
                if hop is None:
                    path = ForwardingRule(ingress, last.mac, last.port, None)
                else:
                    path = ForwardingRule(ingress, last.mac, last.port if hop.port is None else hop.port, hop.index)
                if found.setdefault((ingress, last.mac), path) != path:
                    raise InputError(
                        f"flows.{route.group}: packets for '{end}' are forwarded by their destination, and those of "
                        "another group take another route from the same place; allowed: hosts of its own (from, to)"
                    )
                if hop is not None and not hop.loopback:
                    break
                ingress = path.egress_port if hop is None or hop.cable is None else hop.cable.port
    return tuple(found.values())
