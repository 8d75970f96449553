# SPDX-License-Identifier: Apache-2.0
"""The entries that make our P4 program the bottleneck of a plan, whatever the switch and its protocol.

Tables, actions and fields are named by the last part of their names in the program (``delay_bins`` is
``NarrowsEgress.bottleneck.delay_bins``), so that this file reads like the program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from narrows_formats.link_names import ONLY_LINK

from narrows.experiment.impairments import GilbertElliott, LossPattern
from narrows.experiment.plan import LOSS_BITS, Link, Plan, ReportedLink
from narrows.queues.aqm import Call

COLLECTOR_SESSION = 1
ECN_OFF = 0xFFFFFFFF
# The settings generation that reports carry; settings stay as they are through a run.
EPOCH = 0
FIRST_PRIORITY = 1000
# Of `set_loss_model` (p4src/v1model/narrows.p4).
LOSS_BY_STATE, LOSS_BY_PATTERN = 1, 2
# Of a queue delay: those of a report. A program that has room for fewer has fewer bins.
DELAY_BITS = 48
BINS_AN_OCTAVE = 4
AqmsOf = Callable[[Link, int], Iterator[tuple[str, Call]]]


def aqm_entries(link: Link, frame_bytes: int) -> Iterator[tuple[str, Call]]:
    """The managing program's tables that have an entry for a link, with its action and parameters."""
    return iter(()) if link.aqm is None else link.aqm.entries(link, frame_bytes)


@dataclass(frozen=True)
class Prefix:
    """Values whose first ``length`` bits are those of ``value``."""

    value: int
    length: int


@dataclass(frozen=True)
class Range:
    """Values from ``first`` to ``last``, both included."""

    first: int
    last: int


@dataclass(frozen=True)
class ProgramEntry:
    """One table entry; MAC and IP addresses are numbers.

    A key that leaves a field out matches any value. ``priority`` is of tables with ternary or range keys only. ``why``
    and ``units``, what a field's number means, are for people.
    """

    table: str
    key: Mapping[str, int | Prefix | Range]
    action: str
    data: Mapping[str, int]
    why: str
    units: Mapping[str, str] = field(default_factory=dict)
    priority: int | None = None


LossesOf = Callable[[int, GilbertElliott | LossPattern], Iterator[ProgramEntry]]


@dataclass(frozen=True)
class Observation:
    """The depth from which on packets of a link are marked, `ECN_OFF` for none, and its ``unit``, for people.

    ``others`` are settings that only some architectures have.
    """

    threshold: int
    unit: str
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DelayBin:
    """A bin of the queue-delay histogram: delays whose first ``prefix_length`` bits are those of ``lowest``."""

    number: int
    lowest: int
    prefix_length: int


def delay_bins(bits: int = DELAY_BITS) -> Iterator[DelayBin]:
    """All bins of delays of that number of bits, 188 for 48 and 124 for 32.

    One each for the delays 0 to 3, then four equal ones for every octave ``2^o .. 2^(o+1) - 1``.
    """
    for delay in range(BINS_AN_OCTAVE):
        yield DelayBin(delay, delay, bits)
    for octave in range(2, bits):
        for quarter in range(BINS_AN_OCTAVE):
            number = BINS_AN_OCTAVE * (octave - 1) + quarter
            lowest = (BINS_AN_OCTAVE + quarter) << (octave - 2)
            yield DelayBin(number, lowest, bits - (octave - 2))


def loss_threshold(loss: float) -> int:
    """A packet is lost when 32 random bits are below this: the loss ratio in units of 2^-32."""
    return round(loss * (1 << LOSS_BITS))


def loss_model_entries(index: int, model: GilbertElliott | LossPattern) -> Iterator[ProgramEntry]:
    """Loss of a bottleneck that depends on earlier packets, in v1model's program."""
    by_state = isinstance(model, GilbertElliott)
    kind, words = (LOSS_BY_STATE, "in bursts") if by_state else (LOSS_BY_PATTERN, "by position")
    yield ProgramEntry("loss", {"bottleneck": index}, "set_loss_model", {"model": kind}, f"emulated loss, {words}")
    if isinstance(model, GilbertElliott):
        for is_bad, loss, leave in ((0, model.loss_in_good, model.p), (1, model.loss_in_bad, model.r)):
            yield ProgramEntry(
                "loss_states",
                {"bottleneck": index, "is_bad": is_bad},
                "set_chances",
                {"loss": loss_threshold(loss), "leave": loss_threshold(leave)},
                f"in the {'bad' if is_bad else 'good'} state",
                {"loss": f"2^-32, a loss ratio of {loss:g}", "leave": f"2^-32, a probability of {leave:g}"},
            )
        return
    length = {"packets": model.packets if model.loop else 0}
    yield ProgramEntry("loss_pattern", {"bottleneck": index}, "set_length", length, "when the pattern begins again")
    for number, (first, last) in enumerate(model.runs):
        key: dict[str, int | Range] = {"bottleneck": index, "position": Range(first, last)}
        yield ProgramEntry("lost_positions", key, "lose", {}, "packets that are lost", priority=FIRST_PRIORITY + number)


def program_entries(
    plan: Plan,
    observation: Callable[[ReportedLink], Observation],
    share_of: Callable[[int], int] = lambda _: 0,
    delay_bits: int = DELAY_BITS,
    aqms_of: AqmsOf = aqm_entries,
    losses_of: LossesOf = loss_model_entries,
) -> Iterator[ProgramEntry]:
    """All entries of a plan, in the order in which they are to be installed.

    Args:
        plan: the run.
        observation: of a link, as the program can have it.
        share_of: share of the flow indices of the pipe of an ingress port; 0 is all of them.
        delay_bits: width of a queue delay in the program.
        aqms_of: the program's entries that manage the queue of a link with frames of so many bytes.
        losses_of: its entries of a bottleneck whose losses depend on earlier packets.
    """
    for bin_ in delay_bins(delay_bits):
        yield ProgramEntry(
            "delay_bins",
            {"queue_delay": Prefix(bin_.lowest, bin_.prefix_length)},
            "set_bin",
            {"bin": bin_.number},
            f"queue delays from {bin_.lowest} ns on",
        )
    for link in plan.reported:
        yield _collector(plan, link.index)
        yield from link_entries(link, plan.frame_bytes, aqms_of, losses_of)
        whose = "" if link.name == ONLY_LINK else f"{link.name}: "
        marks = "no CE marks by depth" if link.ecn_threshold is None else "mark CE from a depth on"
        reports = f"one departure in {1 << link.sample_shift}" if link.sample_shift else "each departure"
        why = f"{whose}{marks}, report {reports}"
        yield _observe(link.index, observation(link), link.sample_shift, why)
    # Last: packets take a link only once all of it is there.
    yield from _paths(plan, share_of)


def link_entries(
    link: ReportedLink, frame_bytes: int, aqms_of: AqmsOf = aqm_entries, losses_of: LossesOf = loss_model_entries
) -> Iterator[ProgramEntry]:
    """What the program has of a link's own settings: its loss, and how its queue is managed."""
    if link.loss_model is not None:
        yield from losses_of(link.index, link.loss_model)
    elif link.loss:
        yield _loss(link)
    if isinstance(link, Link):
        for table, (action, data) in aqms_of(link, frame_bytes):
            yield aqm_entry(link, table, action, data)


def aqm_entry(link: Link, table: str, action: str, data: Mapping[str, int]) -> ProgramEntry:
    """An entry that manages the queue of a link."""
    return ProgramEntry(table, {"bottleneck": link.index}, action, data, "how the queue is managed")


def _loss(link: ReportedLink) -> ProgramEntry:
    """Loss of each packet, independently of the others."""
    return ProgramEntry(
        "loss",
        {"bottleneck": link.index},
        "set_loss",
        {"threshold": loss_threshold(link.loss)},
        "emulated loss, counted apart from the queue's drops",
        {"threshold": f"2^-32, a loss ratio of {link.loss:g}"},
    )


def passthrough_entries(cables: Collection[tuple[int, str | None, int]]) -> Iterator[ProgramEntry]:
    """Entries that connect ports with nothing in between; what they do not name is discarded.

    Args:
        cables: ingress port, destination MAC (None for any) and egress port of each direction.
    """
    for number, (ingress, dst_mac, egress) in enumerate(cables):
        key = {"ingress_port": ingress} | ({} if dst_mac is None else {"dst_mac": mac_number(dst_mac)})
        why = f"{dst_mac or 'whatever comes'} from port {ingress}: forwarded as by a cable"
        yield ProgramEntry("cross_connect", key, "wire", {"port": egress}, why, priority=FIRST_PRIORITY + number)


def _collector(plan: Plan, index: int) -> ProgramEntry:
    collector = plan.collector
    data = {
        "src_mac": mac_number(collector.src_mac),
        "dst_mac": mac_number(collector.dst_mac),
        "src_ip": int(IPv4Address(collector.src_address)),
        "dst_ip": int(IPv4Address(collector.dst_address)),
        "src_port": collector.src_port,
        "dst_port": collector.dst_port,
        "length": collector.report_length,
    }
    units = {
        "dst_mac": collector.dst_mac,
        "src_mac": collector.src_mac,
        "src_ip": collector.src_address,
        "dst_ip": collector.dst_address,
        "length": "B, encapsulation included",
    }
    return ProgramEntry("collector", {"bottleneck": index}, "encapsulate", data, "address of the reports", units)


def _observe(index: int, observation: Observation, sample_shift: int, why: str) -> ProgramEntry:
    """ECN and sampling of a bottleneck; the settings never change under way, so that there is one generation."""
    data = {
        "threshold": observation.threshold,
        **observation.others,
        "mask": (1 << sample_shift) - 1,
        "shift": sample_shift,
        "epoch": EPOCH,
        "mirror": COLLECTOR_SESSION,
    }
    units = {"threshold": "off" if observation.threshold == ECN_OFF else observation.unit}
    return ProgramEntry("bottleneck", {"bottleneck": index}, "observe", data, why, units)


def _paths(plan: Plan, share_of: Callable[[int], int]) -> Iterator[ProgramEntry]:
    links = {link.index: link for link in plan.reported}
    for number, path in enumerate(plan.paths):
        link = None if path.link is None else links[path.link]
        if link is None:
            action, words, data = "wire", "forwarded as by a cable", {"port": path.egress_port}
        else:
            action, words = "bottleneck", "the bottleneck" if link.name == ONLY_LINK else link.name
            data = {"index": link.index, "port": path.egress_port, "queue": link.queue}
            if share := share_of(path.ingress_port):
                # Pipes count arrivals apart and departures together: they may not have an index in common.
                action = "bottleneck_of_pipe"
                data["share"] = share
        yield ProgramEntry(
            "cross_connect",
            {"ingress_port": path.ingress_port, "dst_mac": mac_number(path.dst_mac), **_of_vlan(path.vlan)},
            action,
            data,
            f"{path.dst_mac} from port {path.ingress_port}: {words}",
            priority=FIRST_PRIORITY + number,
        )


def _of_vlan(vlan: int | None) -> Mapping[str, int]:
    """The part of a key that matches frames of a VLAN alone."""
    return {} if vlan is None else {"is_tagged": 1, "vlan": vlan}


def mac_number(mac: str) -> int:
    """A MAC address as the number that tables hold."""
    return int(mac.replace(":", ""), 16)
