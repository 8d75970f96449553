# SPDX-License-Identifier: Apache-2.0
"""A group of equal flows: what all kinds have in common, and what a kind is.

A kind is a class of `FlowGroup`: the fields that only its groups have, and the payload that a plan has of each flow.
In a file all groups are flat: a group may have the fields of every kind, and those that are set say what it is
(`narrows.flows.kinds`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from narrows_formats.flow_names import connection_name, flow_name
from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import AfterValidator, BaseModel, Field, SerializationInfo

from narrows.field_types import Count, Name, Time
from narrows.flows.tcp_settings import TcpFields, TcpSettings
from narrows.onhost.payload import DATA_PORTS, Payload, Tcp


@dataclass(frozen=True)
class Place:
    """What a flow's payload may depend on: when it is sent, over what, and the seeds of its group and its own.

    Times are nanoseconds since the experiment's start. A round trip takes ``least_rtt_ns`` at least, and the path never
    carries more than ``most_bps``.
    """

    start_ns: int
    duration_ns: int | None
    least_rtt_ns: int
    most_bps: int
    group_seed: int
    seed: int

    @property
    def end_ns(self) -> int:
        """When the flow's duration is over; its start, if it has none."""
        return self.start_ns + (self.duration_ns or 0)


def _whole_seconds(duration: int) -> int:
    if duration == 0 or duration % NANOSECONDS:
        raise refuse("is not one or more whole seconds", "whole seconds, such as 30s")
    return duration


class FlowGroup(TcpFields):
    """Equal flows: TCP, bulk (`duration`), finite (`size`, with `repeat` and `gap`) or a `workload` of many; or `udp`;
    or a `probe` of the round-trip time; or what programs make (`client`, `server`)."""

    made_of: ClassVar[type[Payload]]
    """Payload of such flows."""
    key: ClassVar[str] = ""
    """The field that says that a group is of this kind; empty: none does."""
    as_written: ClassVar[type[BaseModel]]
    """A group as files have it, of whichever kind."""

    name: Name = Field(
        default="",
        description="Names the group in results and in sweeps; unique. Without it, the CCA's name (or `udp`, `probe`, "
        "the client's program), with a number from the second group on; `swept` if a sweep varies that.",
    )
    cca: Name | None = Field(
        default=None,
        description="Congestion control, as the senders' kernel calls it (`narrows doctor` lists them). One that is "
        "missing fails the run. With `client`, what TCP sockets on the sending host have by default (else cubic). Of "
        "`media`: `nada`.",
    )
    count: Count = Field(default=1, description="Flows in the group.")
    senders: Count = Field(
        default=1,
        description="Hosts that send the group's flows, which take turns on them: each has a link of its own to the "
        "switch (incast). At most `count`, and 1 with `from`.",
    )
    start: Time = Field(default=0, description="When the group's first flow starts, from the start of the experiment.")
    stagger: Time = Field(default=0, description="Time between the starts of two flows of the group.")
    duration: Annotated[Time, AfterValidator(_whole_seconds)] | None = Field(
        default=None,
        description="How long a bulk flow sends, in whole seconds. Together with `size`: no further connection starts "
        "once this time has passed since the first one.",
    )
    rtt: Time | None = Field(
        default=None,
        description="Base round-trip time of this group's flows, of the whole path. Without it, the sum over the links "
        "of the path: `rtt`, and `delay` of both directions.",
    )
    path: Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="The links that the flows cross, in the order of the forward direction. Without it, the only link.",
    )
    direction: Literal["forward", "reverse"] = Field(
        default="forward",
        description="`reverse`: data cross the `reverse` of each link of the path, the last link first, and "
        "acknowledgements the forward direction.",
    )
    sender: Name | None = Field(
        default=None,
        alias="from",
        description="Host that sends. Groups that name the same one share it. Without it, a host of the group's own.",
    )
    receiver: Name | None = Field(
        default=None,
        alias="to",
        description="Host that receives. Without it, the host behind the last link, shared by all that end there.",
    )

    def written(self, info: SerializationInfo) -> dict[str, object]:
        """The group as files have it, where fields of other kinds have their defaults."""
        written = self.as_written.model_construct(**dict(self))
        return written.model_dump(
            mode=info.mode, by_alias=bool(info.by_alias), exclude_none=info.exclude_none, warnings=False
        )

    @property
    def kind(self) -> str:
        """Its kind, as results and messages call it."""
        return self.made_of.kind

    @property
    def kernel_cca(self) -> str | None:
        """The congestion control that its senders' kernel must have; None of one that the application has itself."""
        return self.cca if self.made_of.has_tcp() else None

    @property
    def planned_tcp(self) -> Tcp:
        """What its TCP is set to."""
        return (self.tcp or TcpSettings()).planned(self.rate)

    @property
    def connections_each(self) -> int:
        """Connections of one flow that results tell apart."""
        return 1

    @property
    def ends_with(self) -> str | None:
        """The group with whose end no further connection starts."""
        return None

    @property
    def largest_datagram(self) -> int:
        """Bytes of the largest UDP payload that it sends, which is not to be fragmented."""
        return 0

    @property
    def takes_marks(self) -> bool:
        """Whether a switch may mark its packets."""
        return self.tcp is None or self.tcp.ecn is not False

    @property
    def names(self) -> tuple[str, ...]:
        """What results call its flows, of repeated ones each connection."""
        flows = [flow_name(self.name, number + 1) for number in range(self.count)]
        of = self.connections_each
        return tuple(connection_name(flow, number, of) for flow in flows for number in range(of))

    @abstractmethod
    def payload(self, place: Place) -> Payload:
        """What one of its flows sends.

        Raises:
            ValueError: it is too much; the message begins with the field.
        """

    def check(self, others: Collection[str]) -> None:
        """Refuse what contradicts itself; ``others`` are the fields of other kinds that are set.

        Raises:
            PydanticCustomError: something does.
        """
        # Before anything is made for each connection, or drawn.
        if (connections := self.count * self.connections_each) > len(DATA_PORTS):
            raise refuse(f"makes {connections} connections", f"up to {len(DATA_PORTS)}, each with a port of its own")
        self.check_kind(others)
        self.refuse_tcp(self.kind, self.made_of.has_tcp(), self.kernel_cca)
        if self.senders > 1 and self.sender is not None:
            raise refuse(f"has senders: {self.senders}, and from '{self.sender}', which is one host", "one of the two")
        if self.senders > self.count:
            raise refuse(f"has {self.senders} senders for {self.count} flows (count)", f"up to {self.count}")

    @abstractmethod
    def check_kind(self, others: Collection[str]) -> None:
        """Refuse what contradicts the kind; see `check`."""

    def needs_cca(self) -> None:
        """Refuse a group of TCP flows without a congestion control."""
        if self.cca is None:
            raise refuse("has no cca", "one of cca (TCP), udp and probe, or a client")

    def no_op(self) -> Iterator[tuple[str, str]]:
        """Fields that change nothing of its flows, each with why."""
        if self.stagger and self.count == 1:
            yield "stagger", "has no effect: the group has one flow (count: 1)"


def alone(others: Collection[str], what: str, allowed: str, *, but: Collection[str] = ()) -> None:
    """Refuse the fields of other kinds; those of ``but`` change nothing."""
    for name in others:
        if name not in but:
            raise refuse(f"has {name}, and {what}", allowed)
