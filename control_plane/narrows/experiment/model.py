# SPDX-License-Identifier: Apache-2.0
"""The experiment as a user writes it: one YAML file, checked by these models.

Rates are held in bits per second, sizes in bytes and times in nanoseconds; written out again they take the form in
which people write them, so that a resolved experiment is itself a valid experiment file.

The descriptions of the fields are what editors show (`narrows schema`) and what docs/experiments.md says.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from narrows_formats.link_names import ONLY_LINK, REVERSE
from narrows_formats.units import MIN_IPV6_MTU, format_time
from narrows_formats.validation import refuse
from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticSerializationError

from narrows.experiment.events import Event
from narrows.experiment.expectations import BadExpectation, Expectation, parse
from narrows.experiment.impairment_settings import (
    AggregationSettings,
    FramingSettings,
    JitterSettings,
    LinkDelay,
    LinkLoss,
    PolicerSettings,
)
from narrows.experiment.joint_trace import JointTrace, Row
from narrows.experiment.program_settings import NamedProgram, ProgramSettings
from narrows.experiment.varying import LinkRate
from narrows.field_types import Count, Depth, LinkName, Model, Name, Rate, Ratio, Size, Time
from narrows.flows.datagrams import largest_payload
from narrows.flows.group import FlowGroup
from narrows.flows.kinds import Group
from narrows.flows.program import hide_env
from narrows.flows.tcp_settings import Sysctls
from narrows.queues.fifo import Fifo
from narrows.queues.registry import LinkQueue

MAX_TCP_BUFFER = (1 << 31) - 1  # of Linux
# telemetry.sample: the greatest, and the word for the least that can be had.
MAX_SAMPLE, AUTO_SAMPLE = 1 << 16, "auto"
# Beyond what NICs can be set to.
MAX_RX_USECS, MAX_RX_FRAMES = 100_000, 65_535
# hosts.syscall in virtual time
SYSCALL_NS = 200
_SOCKETS_EVERY = 100_000_000  # ns
_CONDITIONS_EVERY = 1_000_000  # ns
# A reading takes a third of a millisecond of the machine: of a second of virtual time, every 10 us takes half a minute.
_SOCKETS_AT_MOST_EVERY = 100_000  # ns
# Of the program's 64 bottlenecks one for each direction.
MAX_LINKS = 32


class DirectionSettings(Model):
    """One direction of a link: its rate, its queue, and what it does to packets."""

    rate: LinkRate = Field(
        description="Rate of the link, counted in the layer `rate_layer`: constant, or varying from the experiment's "
        "start on, by `steps`, as a `wave`, or as in the file of a `trace`."
    )
    rate_layer: Literal["l2", "l1"] = Field(
        default="l2",
        description="`l2`: bits of Ethernet frames. `l1`: preamble, frame check sequence and inter-frame gap (24 bytes "
        "a frame) are counted too; turned into an L2 rate that is exact for full-size frames.",
    )
    buffer: Depth = Field(
        description="How much may wait in the queue, the packet in service not counted; at least a full-size frame. "
        "If the rate varies, a BDP or a depth in time refers to the mean over a period, or to the first rate above 0 "
        "if nothing repeats."
    )
    framing: FramingSettings | None = Field(
        default=None,
        description="What frames take on another medium (ATM, PTM, PPPoE, DOCSIS).",
    )
    burst: Size | None = Field(
        default=None,
        description="The link is a token bucket of this many bytes, full at the start; at least a full-size frame.",
    )
    delay: LinkDelay = Field(
        default=0,
        description="One-way delay of this direction, behind the queue: constant, in `steps` or by a `trace`. The "
        "first is part of the base RTT of the flows that cross it.",
    )
    aggregation: AggregationSettings | None = Field(
        default=None,
        description="Packets leave the link in bursts: at the ends of intervals, or of a number of frames or bytes.",
    )
    trace: JointTrace | None = Field(
        default=None,
        description="A recording of rate, delay, loss and buffer, or of some of them, that change together.",
    )
    jitter: JitterSettings | None = Field(
        default=None,
        description="Random difference of each packet's `delay`, never more than the delay itself; with or without "
        "reordering.",
    )
    duplication: Ratio = Field(
        default=0.0, description="Part of the packets that leave the link twice; each packet is drawn independently."
    )
    ecn_threshold: Depth | None = Field(
        default=None,
        description="A packet that can be marked gets CE when the queue it finds has this depth or more; at most the "
        "buffer less a full-size frame. In packets: not on Tofino, nor where a link has several queues.",
    )
    queue: LinkQueue = Field(
        default=Fifo(kind="tail-drop"),
        json_schema_extra={"default": "tail-drop"},
        description="How the queue is managed: a kind, or a mapping with `kind` and its parameters (docs/queues.md).",
    )
    loss: LinkLoss = Field(
        default=0.0,
        description="Random loss in front of the queue, counted apart from the queue's drops: independent for each "
        "packet, in steps of 2^-32; or in bursts; or from a file.",
    )
    policer: PolicerSettings | None = Field(
        default=None,
        description="A policer behind `loss` and in front of the queue.",
    )
    ack_filter: Literal["conservative", "aggressive"] | None = Field(
        default=None,
        description="Of waiting TCP acknowledgements that another one makes redundant all go (`aggressive`), or all "
        "but two (`conservative`).",
    )
    capture: bool = Field(
        default=False,
        description="The results have `captures/NAME.pcapng`: the packets in front of and behind this queue, with "
        "drops in comments. Only with `sample: 1`.",
    )

    @model_validator(mode="after")
    def _no_delay_below_0(self) -> Self:
        if self.jitter is None:
            return self
        least = self.delay if isinstance(self.delay, int) else self.delay.schedule.span_ns.least
        least = min((least, *(row.delay_ns for row in self.recorded if row.delay_ns is not None)))
        if least + self.jitter.planned.least_ns < 0:
            needed = format_time(-self.jitter.planned.least_ns)
            raise refuse(f"has a jitter that takes more than its delay of {format_time(least)}", f"a delay of {needed}")
        return self

    @property
    def _delay_varies(self) -> bool:
        return not isinstance(self.delay, int)

    @model_validator(mode="after")
    def _no_recorded_delay_below_0(self) -> Self:
        for at_ns, delay_ns, jitter_ns in () if self._delay_varies else self.recorded_delays:
            if jitter_ns > delay_ns:
                at, jitter = format_time(at_ns), format_time(jitter_ns)
                problem = f"has a trace whose jitter at {at}, {jitter}, takes more than the delay of"
                raise refuse(f"{problem} {format_time(delay_ns)}", "a jitter of at most the delay")
        return self

    @property
    def recorded_delays(self) -> tuple[tuple[int, int, int], ...]:
        """Time, delay and jitter in nanoseconds where its ``trace`` changes one of them; first what holds before."""
        found = [(0, self.base_delay_ns, 0)]
        for row in self.recorded:
            _, delay_ns, jitter_ns = found[-1]
            delay_ns = delay_ns if row.delay_ns is None else row.delay_ns
            jitter_ns = jitter_ns if row.jitter_ns is None else row.jitter_ns
            if row.at_ns == 0:
                found = [(0, delay_ns, jitter_ns)]
            elif row.delay_ns is not None or row.jitter_ns is not None:
                found.append((row.at_ns, delay_ns, jitter_ns))
        return tuple(found) if self.trace is not None and {"delay", "jitter"} & {*self.trace.settings} else ()

    @property
    def recorded(self) -> tuple[Row, ...]:
        """The rows of its `trace`."""
        return () if self.trace is None else self.trace.rows

    @model_validator(mode="after")
    def _one_source_of_each(self) -> Self:
        for name in () if self.trace is None else self.trace.settings:
            if name == "jitter" and (self.jitter is not None or self._delay_varies):
                allowed = "a delay that is constant or in the trace, and no jitter, with a trace of it"
                raise refuse("has a trace with a column of jitter, and varies without it", allowed)
            if name == "jitter":
                continue
            if name != "buffer" and not isinstance(getattr(self, name), int | float):
                allowed = f"a {name} that is constant, with a trace of it"
                raise refuse(f"has a trace with a column of its {name}, which varies without it", allowed)
        return self

    @model_validator(mode="after")
    def _aggregates_what_it_can(self) -> Self:
        if self.aggregation is not None:
            recorded = set() if self.trace is None else {*self.trace.settings}
            if self.jitter is not None or not isinstance(self.delay, int) or recorded & {"delay", "jitter"}:
                allowed = "aggregation of a link whose delay is constant, without jitter"
                raise refuse("has aggregation, and jitter or a delay that varies", allowed)
            if not (self.aggregation.takes_any_rate or (isinstance(self.rate, int) and "rate" not in recorded)):
                allowed = "a rate that is constant, or a period without overhead"
                raise refuse("has aggregation, and a rate that varies", allowed)
            if self.burst is not None and self.aggregation.overhead:
                raise refuse("has burst, and aggregation with an overhead, which the bucket would make up for", "one")
            if self.aggregation.bursts is not None:
                self._check_bursts(self.aggregation)
        return self

    def _check_bursts(self, aggregation: AggregationSettings) -> None:
        if self.burst is not None:
            raise refuse("has burst, and aggregation by frames or size", "one")
        if self.duplication:
            raise refuse("has duplication, and aggregation by frames or size", "one")
        if aggregation.size is not None and self.queue.several_queues:
            raise refuse(f"has aggregation by size, and several queues ({self.queue.kind})", "aggregation by frames")

    @property
    def base_delay_ns(self) -> int:
        """The part of the base RTT."""
        return self.delay if isinstance(self.delay, int) else self.delay.schedule.steps[0][1]


class LinkSettings(DirectionSettings):
    """A link that limits its flows."""

    rtt: Time = Field(
        description="What the link adds to the base round-trip time of its flows, unless they have an `rtt` of their "
        "own; made on the reverse path. It is also the RTT of a BDP."
    )
    reverse: DirectionSettings | None = Field(
        default=None,
        description="The opposite direction, with a rate and a queue of its own: acknowledgements of the forward flows "
        "cross it, and the data of flows with `direction: reverse`. Without it the reverse path is unlimited.",
    )
    program: ProgramSettings | None = Field(
        default=None,
        description="A P4 program of your own that is the link in place of Narrows' own. Links with the same one are "
        "ports of one switch.",
    )


def _read_sample(value: object) -> object:
    power = type(value) is int and 1 <= value <= MAX_SAMPLE and not value & (value - 1)
    if value != AUTO_SAMPLE and not power:
        raise refuse(f"is not a power of two up to {MAX_SAMPLE}", f"1, 2, 4, ... {MAX_SAMPLE}, {AUTO_SAMPLE}")
    return value


_SAMPLE_SCHEMA = WithJsonSchema(
    {
        "title": f"power of two or {AUTO_SAMPLE}: up to {MAX_SAMPLE}",
        "enum": [*(1 << shift for shift in range(MAX_SAMPLE.bit_length())), AUTO_SAMPLE],
    }
)


class Telemetry(Model):
    """What is recorded of packets and of sockets."""

    sample: Annotated[int | str, BeforeValidator(_read_sample), _SAMPLE_SCHEMA] = Field(
        default=1,
        description="One report of each N packets in a row that leave the bottleneck, drawn at random; a power of two, "
        "up to 65536. `auto`: the least that a testbed's collector and its port can take; 1 on switches in software.",
    )
    sockets: Time = Field(
        default=_SOCKETS_EVERY,
        json_schema_extra={"default": format_time(_SOCKETS_EVERY)},
        description="How often the state of the senders' sockets is read (congestion window, RTT, pacing rate), 100 us "
        "or more; `0` for never. In real time less often where the machine cannot keep up.",
    )
    conditions: Time = Field(
        default=_CONDITIONS_EVERY,
        json_schema_extra={"default": format_time(_CONDITIONS_EVERY)},
        description="How often conditions of events (`when`) are evaluated, 100 us or more. In real time less often "
        "where the machine cannot keep up.",
    )
    acks: bool = Field(
        default=False,
        description="The reverse direction of each link is reported even where nothing limits it, so that the switch "
        "itself measures each flow's RTT and bytes in flight. Only with `sample: 1`.",
    )

    @field_validator("sockets")
    @classmethod
    def _not_all_the_time(cls, every: int) -> int:
        if 0 < every < _SOCKETS_AT_MOST_EVERY:
            raise refuse("is too often", "0 for never, or 100us or more")
        return every

    @field_validator("conditions")
    @classmethod
    def _often_enough(cls, every: int) -> int:
        if every < _SOCKETS_AT_MOST_EVERY:
            raise refuse("is too often", "100us or more")
        return every

    @model_validator(mode="after")
    def _acks_of_what_is_reported(self) -> Self:
        if self.acks and self.sample != 1:
            # An echo can only be matched with a packet that was seen.
            raise refuse("has acks together with a sample other than 1", "acks with sample: 1")
        return self


def _read_date(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime) or not 1970 <= value.year < 2100:
        raise refuse("is not a date", "a date between 1970 and 2099, such as 2026-11-25 or 2026-11-25T12:00:00")
    return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())


def _write_date(value: int | None) -> str | None:
    return None if value is None else datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_DATE_SCHEMA = WithJsonSchema({"title": "date: a day, or a day and a time"})


class Hosts(Model):
    """Settings of the hosts, most of them of their NICs."""

    rate: Rate | None = Field(
        default=None,
        description="Rate of the link from each host to the switch. Virtual time only; by default the smallest of 1, "
        "10, 25, 40, 100, 200, 400 and 800 Gbit/s that is four times the bottleneck's rate or more.",
    )
    jitter: Time | None = Field(
        default=None,
        description="Time that a sender takes before it sends a frame: drawn for each frame, between 0 and this. "
        "Virtual time only; by default the time of one full-size frame on the host's link (`rate`), at most 30 us. "
        "`0s`: none. See docs/virtual-time.md for phase effects.",
    )
    rx_usecs: Annotated[StrictInt, Field(ge=1, le=MAX_RX_USECS)] | None = Field(
        default=None,
        description="Interrupt moderation of each host's NIC (`ethtool -C rx-usecs`), in microseconds: frames "
        "are delivered together, this long after the first of them arrived. Virtual time only.",
    )
    rx_frames: Annotated[StrictInt, Field(ge=1, le=MAX_RX_FRAMES)] | None = Field(
        default=None,
        description="With `rx_usecs`: deliver as soon as there are this many frames (`ethtool -C rx-frames`).",
    )
    date: Annotated[int | None, BeforeValidator(_read_date), PlainSerializer(_write_date), _DATE_SCHEMA] = Field(
        default=None,
        description="Date that programs see, UTC: `2026-11-25` or `2026-11-25T12:00:00`. Virtual time only, where "
        "its default is the beginning of 2026; certificates must be valid then.",
    )
    syscall: Time | None = Field(
        default=None,
        description="Time that a system call of a program (`client`, `server`) takes. Virtual time only, where its "
        "default is `200ns`; with `0s` a program that polls a clock may keep time from passing.",
    )
    offloads: tuple[Literal["gro", "lro"], ...] = Field(
        default=(),
        description="`gro`: the receiver's kernel joins the frames that are delivered together, and acknowledges them "
        "together. `lro`: the receiver's NIC joins them, which takes less of a run's time; needs `rx_usecs`, and "
        "virtual time. In namespaces.",
    )

    sysctls: Sysctls = Field(
        default_factory=dict,
        description="TCP kernel settings of all hosts, by name (`net.ipv4.tcp_...`), read back. In namespaces.",
    )

    @model_validator(mode="after")
    def _moderation(self) -> Self:
        if self.rx_frames is not None and self.rx_usecs is None:
            # The last frames before a silence would never be delivered.
            raise refuse("has rx_frames without rx_usecs", "rx_usecs, with or without rx_frames")
        if "lro" in self.offloads and self.rx_usecs is None:
            raise refuse("has the offload lro without rx_usecs: frames are delivered one by one", "lro with rx_usecs")
        return self


# Fields that say what a group is.
KINDS = ("cca", "udp", "probe", "client")


def _what_it_is(group: dict[str, object]) -> str:
    """The CCA of a group as a file has it, or what else it is; empty if it does not say so."""
    client = group.get("client")
    if isinstance(client, list) and client and isinstance(client[0], str):
        return client[0].rpartition("/")[2]
    if isinstance(group.get("cca"), str):
        return str(group["cca"])
    return next((kind for kind in ("udp", "probe") if kind in group), "")


# What a group without a name is called that is not the same everywhere in a sweep.
SWEPT = "swept"


def group_names(settings: Iterable[Sequence[Any]], varied: Container[int] = ()) -> dict[int, str]:
    """What groups without a name are called, by their position in `flows`: at all settings of a sweep the same, so that
    results of different points are of one group where they have one name.

    That is the CCA, or what else it is, with a number from the second one on; of a group for which that is swept
    `SWEPT`. What is not a group is left to later checks.

    Args:
        settings: `flows` as a file has it, at each point of a sweep.
        varied: groups for which that is swept, even if over one value here: other machines may have other values.
    """
    kinds: dict[int, set[str]] = {}
    taken: set[str] = set()
    for groups in settings:
        for position, group in enumerate(groups):
            if isinstance(group, dict) and group.get("name"):
                taken.add(str(group["name"]))
            elif isinstance(group, dict) and (kind := _what_it_is(group)):
                kinds.setdefault(position, set()).add(kind)
    names = {}
    for position, (first, *others) in sorted(kinds.items()):
        kind = SWEPT if others or position in varied else first
        candidates = itertools.chain([kind], (f"{kind}-{number}" for number in itertools.count(2)))
        names[position] = next(name for name in candidates if name not in taken)
        taken.add(names[position])
    return names


def named_groups(groups: Sequence[Any], names: Mapping[int, str] | None = None) -> list[Any]:
    """Groups as a file has them, each with its name: those without one get that of ``names``, or of `group_names`."""
    found = group_names([groups]) if names is None else names
    return [
        {**group, "name": found[position]}
        if isinstance(group, dict) and position in found and not group.get("name")
        else group
        for position, group in enumerate(groups)
    ]


class Experiment(Model):
    """One experiment file. `sweep` and `repeat` make several runs of it."""

    name: Name = Field(description="Names the results: `results/NAME-TIME`.")
    bottleneck: LinkSettings | None = Field(
        default=None, description="The link under test, of an experiment with one; short for `links` with this name."
    )
    links: dict[LinkName, LinkSettings] = Field(
        default_factory=dict, description="The links, by name; instead of `bottleneck`. Up to 32."
    )
    flows: Annotated[tuple[Group, ...], Field(min_length=1)] = Field(
        description="Groups of flows. Each group sends from a host of its own, or from several (`senders`), if it "
        "names none, to a receiver behind the last link of its path. Up to 500 groups, and 500 hosts that send."
    )
    telemetry: Telemetry = Field(default=Telemetry(), description="Reports and socket readings.")
    hosts: Hosts | None = Field(default=None, description="Settings of the hosts, most of them of their NICs.")
    mtu: Annotated[StrictInt, Field(ge=576, le=9000)] = Field(
        default=1500,
        description="IP MTU of all hosts, in bytes; a full-size frame is 14 bytes longer. IPv6 takes 1280 or more.",
    )
    tcp_buffer: Annotated[Size, Field(le=MAX_TCP_BUFFER)] | None = Field(
        default=None,
        description="Largest size of a socket's send and receive buffer, which bounds its window. Without it, four "
        "times what path and queue hold, 64 MiB at least, so that it limits nothing.",
    )
    ip_version: Literal[4, 6] = Field(default=4, description="Which IP the flows use.")
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] = Field(
        default=1,
        description="Seed of all random numbers of a run: loss emulation, workloads. Repetition r uses seed + r - 1.",
    )
    repeat: Count = Field(default=1, description="Runs of every point.")
    events: tuple[Event, ...] = Field(
        default=(),
        description="What changes at given times: settings of links, and which flows send.",
    )
    expect: tuple[str, ...] = Field(
        default=(),
        description="What `narrows test` checks: in each entry a number of summary.json, a comparison and a bound, "
        "such as `flows.bbr.share >= 0.4` or `links.cell.queue_delay_s.p99 < 50ms`.",
    )
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Fields, written with dots, and the values that each takes: every combination is run.",
    )

    @model_validator(mode="before")
    @classmethod
    def _name_groups(cls, data: Any) -> Any:
        """A group without a name is called after its CCA or its kind, with a number from the second one on."""
        if not isinstance(data, dict) or not isinstance(data.get("flows"), list | tuple):
            return data
        return {**data, "flows": named_groups(data["flows"])}

    @field_validator("ip_version")
    @classmethod
    def _ipv6_fits(cls, version: int, given: ValidationInfo) -> int:
        """A link that carries less than RFC 8200 (section 5) asks for has no IPv6."""
        if version == 6 and given.data.get("mtu", MIN_IPV6_MTU) < MIN_IPV6_MTU:
            raise refuse(
                f"does not go with mtu: {given.data['mtu']}", f"ip_version 4, or an mtu of {MIN_IPV6_MTU} or more"
            )
        return version

    @field_validator("flows")
    @classmethod
    def _distinct_names(cls, groups: tuple[FlowGroup, ...]) -> tuple[FlowGroup, ...]:
        names = [group.name for group in groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise refuse(f"has two groups named '{twice}'", "one name per group")
        return groups

    @model_validator(mode="after")
    def _datagrams_fit(self) -> Self:
        most = largest_payload(self.mtu, self.ip_version)
        for group in self.flows:
            if group.largest_datagram > most:
                raise refuse(
                    f"has the group '{group.name}' with datagrams of {group.largest_datagram} bytes",
                    f"up to {most}: mtu less the headers, so that none is fragmented",
                )
        return self

    @model_validator(mode="after")
    def _some_link(self) -> Self:
        if (self.bottleneck is None) == (not self.links):
            problem = "has neither bottleneck nor links" if self.bottleneck is None else "has bottleneck and links"
            raise refuse(problem, "bottleneck for one link, links for links by name")
        if len(self.links) > MAX_LINKS:
            raise refuse(f"has {len(self.links)} links", f"up to {MAX_LINKS}")
        return self

    @model_validator(mode="after")
    def _captures_are_whole(self) -> Self:
        captured = [name for name, direction in self.directions.items() if direction.capture]
        if captured and self.telemetry.sample != 1:
            raise refuse(
                f"has the link '{captured[0]}' with capture, and telemetry.sample: {self.telemetry.sample}",
                "capture with sample: 1, where every packet is reported",
            )
        return self

    @model_validator(mode="after")
    def _expects_what_there_is(self) -> Self:
        for text in self.expect:
            try:
                self.expectation(text)
            except BadExpectation as error:
                raise refuse(f"expects '{text}', which {error}", error.allowed) from None
        return self

    @property
    def programs(self) -> tuple[NamedProgram, ...]:
        """The users' programs that the switch runs; links that have none are those of ours."""
        found: list[NamedProgram] = []
        for name, link in self.all_links.items():
            if link.program is None:
                continue
            same = next((number for number, one in enumerate(found) if one.settings == link.program), None)
            if same is None:
                field = f"links.{name}.program" if self.links else f"{name}.program"
                found.append(NamedProgram(field, link.program, (name,)))
            else:
                found[same] = replace(found[same], links=(*found[same].links, name))
        return tuple(found)

    @property
    def directions(self) -> dict[str, DirectionSettings]:
        """Each direction of each link that has settings, by name."""
        reverse = {
            f"{name}{REVERSE}": link.reverse for name, link in self.all_links.items() if link.reverse is not None
        }
        return {**self.all_links, **reverse}

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """What `narrows test` checks."""
        return tuple(map(self.expectation, self.expect))

    def expectation(self, text: str) -> Expectation:
        """An expectation of this experiment.

        Raises:
            BadExpectation: it cannot be.
        """
        found = parse(text, {group.name: group.names for group in self.flows}, tuple(self.directions))
        if found.question is not None:
            if not self.telemetry.sockets:
                raise BadExpectation("asks for what sockets said, with telemetry.sockets: 0", "a time above 0 there")
            group = next(group for group in self.flows if found.name in group.names)
            if group.kernel_cca is None and not group.made_of.is_program:
                raise BadExpectation(
                    f"asks for the TCP socket of '{group.name}', which has none", "flows with a cca, or programs"
                )
        return found

    def results_of(self, groups: Mapping[str, str]) -> dict[str, str]:
        """What results call groups and flows that get other names: new names by the ones here."""
        found = dict(groups)
        for group in self.flows:
            if group.name in groups:
                renamed = group.model_copy(update={"name": groups[group.name]})
                found |= zip(group.names, renamed.names, strict=True)
        return found

    @property
    def all_links(self) -> dict[str, LinkSettings]:
        """The links by name, whichever way they are written."""
        return self.links if self.bottleneck is None else {ONLY_LINK: self.bottleneck}

    @model_validator(mode="after")
    def _until_another_group(self) -> Self:
        """A group that lasts until another one must not be waited for itself, or nothing might ever end."""
        lasting = [group.name for group in self.flows if group.ends_with is None]
        for group in self.flows:
            if group.ends_with is not None and group.ends_with not in lasting:
                raise refuse(
                    f"has the group '{group.name}' that lasts until '{group.ends_with}'",
                    f"until with the name of a group that has no until: {', '.join(lasting) or 'there is none'}",
                )
        return self

    def as_stored(self) -> dict[str, object]:
        """`as_yaml_data` as results have it, without values of programs' environments."""
        return hide_env(self.as_yaml_data())

    def as_yaml_data(self) -> dict[str, object]:
        """Plain data that, written as YAML, is this experiment again; defaults are written out."""
        try:
            data = self.model_dump(mode="json", exclude_none=True, by_alias=True)
            return data if self.links else {key: value for key, value in data.items() if key != "links"}
        except PydanticSerializationError as error:
            # pydantic gives its name to whatever a function of ours raises that it calls, even an interruption.
            raise error.__cause__ or error from None
