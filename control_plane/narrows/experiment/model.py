# SPDX-License-Identifier: Apache-2.0
"""The experiment as a user writes it: one YAML file, checked by these models.

Rates are held in bits per second, sizes in bytes and times in nanoseconds; written out again they take the form in
which people write them, so that a resolved experiment is itself a valid experiment file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import Field, StrictInt, field_validator, model_validator
from pydantic_core import PydanticSerializationError

from narrows.experiment.quantities import Count, Depth, Model, Name, Rate, Ratio, Size, Time
from narrows.experiment.workload import Workload

MAX_TCP_BUFFER = (1 << 31) - 1  # of Linux
# Beyond what network cards can be set to.
MAX_RX_USECS, MAX_RX_FRAMES = 100_000, 65_535


class BottleneckSettings(Model):
    """The one link that is too narrow. ``buffer`` is the queue behind it, the packet in service not counted."""

    rate: Rate
    rate_layer: Literal["l2", "l1"] = "l2"
    buffer: Depth
    rtt: Time
    ecn_threshold: Depth | None = None
    loss: Ratio = 0.0


class FlowGroup(Model):
    """``count`` like flows. A flow is bulk (``duration``), sized (``size``, ``repeat`` times, ``gap`` between) or a
    ``workload`` of many flows; each starts ``stagger`` after the one before it in the group.

    With duration and size, no further connection of a sized flow starts ``duration`` after its first one did; with
    ``until``, none starts after the flows of that other group have ended.
    """

    name: Name = ""
    cca: Name
    count: Count = 1
    start: Time = 0
    stagger: Time = 0
    duration: Time | None = None
    size: Size | None = None
    repeat: Count = 1
    gap: Time = 0
    until: Name | None = None
    workload: Workload | None = None
    rtt: Time | None = None

    @model_validator(mode="after")
    def _bulk_sized_or_workload(self) -> Self:
        if self.workload is not None:
            if self.size is not None or self.duration is not None:
                raise refuse("has a workload beside duration or size", "one of duration, size and workload")
        elif self.duration is None and self.size is None:
            raise refuse("has neither duration nor size", "duration for a bulk flow, size for a sized one")
        if self.size is None and (self.repeat != 1 or self.gap != 0):
            raise refuse("has repeat or gap without size", "repeat and gap together with size")
        if self.size is None and self.until is not None:
            raise refuse("has until without size", "until together with size and repeat")
        return self

    @field_validator("duration")
    @classmethod
    def _some_duration(cls, duration: int | None) -> int | None:
        if duration is not None and (duration == 0 or duration % NANOSECONDS):
            raise refuse("is not one or more whole seconds", "whole seconds, such as 30s")
        return duration


class Telemetry(Model):
    """``sample``: one report in so many packets that leave the bottleneck, a power of two.

    ``sockets``: how often the state of the senders' sockets is read; 0 for never. ``acks``: the way back is reported
    as well, packet by packet, so that the switch measures RTT and bytes in flight.
    """

    sample: Count = 1
    sockets: Time = 100_000_000
    acks: bool = False

    @field_validator("sample")
    @classmethod
    def _power_of_two(cls, sample: int) -> int:
        if sample & (sample - 1) or sample > 1 << 16:
            raise refuse("is not a power of two up to 65536", "1, 2, 4, ... 65536")
        return sample

    @model_validator(mode="after")
    def _acks_of_what_is_reported(self) -> Self:
        if self.acks and self.sample > 1:
            # An echo can only be matched with a packet that was seen.
            raise refuse("has acks together with a sample above 1", "acks with sample: 1")
        return self


class Hosts(Model):
    """What the hosts' network cards do.

    ``rate``: of the link from each host to the switch, at which the frames of a burst arrive. ``rx_usecs``,
    ``rx_frames``: a card delivers what has arrived so many microseconds after the first frame, or as soon as there are
    so many frames (``ethtool -C``). ``offloads``: ``gro`` joins what is delivered together.
    """

    rate: Rate | None = None
    rx_usecs: Annotated[StrictInt, Field(ge=1, le=MAX_RX_USECS)] | None = None
    rx_frames: Annotated[StrictInt, Field(ge=1, le=MAX_RX_FRAMES)] | None = None
    offloads: tuple[Literal["gro"], ...] = ()

    @model_validator(mode="after")
    def _moderation(self) -> Self:
        if self.rx_frames is not None and self.rx_usecs is None:
            # The last frames before a silence would never be delivered.
            raise refuse("has rx_frames without rx_usecs", "rx_usecs, with or without rx_frames")
        return self


class Experiment(Model):
    """One experiment file. ``sweep`` and ``repeat`` make several runs of it (`narrows.experiment.sweep`).

    ``tcp_buffer`` is the greatest size of a socket's send and receive buffer; without it they limit nothing.
    """

    name: Name
    bottleneck: BottleneckSettings
    flows: Annotated[tuple[FlowGroup, ...], Field(min_length=1)]
    telemetry: Telemetry = Telemetry()
    hosts: Hosts | None = None
    mtu: Annotated[StrictInt, Field(ge=576, le=9000)] = 1500
    tcp_buffer: Annotated[Size, Field(le=MAX_TCP_BUFFER)] | None = None
    ip_version: Literal[4, 6] = 4
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] = 1
    repeat: Count = 1
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_groups(cls, data: Any) -> Any:
        """A group without a name is called after its CCA, with a number from the second one on."""
        if not isinstance(data, dict) or not isinstance(data.get("flows"), list | tuple):
            return data
        groups = [dict(group) if isinstance(group, dict) else group for group in data["flows"]]
        taken = {str(group.get("name")) for group in groups if isinstance(group, dict)}
        for group in groups:
            if isinstance(group, dict) and not group.get("name") and isinstance(group.get("cca"), str):
                candidates = (group["cca"], *(f"{group['cca']}-{n}" for n in range(2, len(groups) + 2)))
                group["name"] = next(name for name in candidates if name not in taken)
                taken.add(group["name"])
        return {**data, "flows": groups}

    @field_validator("flows")
    @classmethod
    def _distinct_names(cls, groups: tuple[FlowGroup, ...]) -> tuple[FlowGroup, ...]:
        names = [group.name for group in groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise refuse(f"has two groups named '{twice}'", "one name a group")
        return groups

    @model_validator(mode="after")
    def _until_another_group(self) -> Self:
        """A group that lasts until another one must not be waited for itself, or nothing might ever end."""
        lasting = [group.name for group in self.flows if group.until is None]
        for group in self.flows:
            if group.until is not None and group.until not in lasting:
                raise refuse(
                    f"has the group '{group.name}' that lasts until '{group.until}'",
                    f"until with the name of a group that has no until: {', '.join(lasting) or 'there is none'}",
                )
        return self

    def as_yaml_data(self) -> dict[str, Any]:
        """Plain data that, written as YAML, is this experiment again; defaults are written out."""
        try:
            return self.model_dump(mode="json", exclude_none=True)
        except PydanticSerializationError as error:
            # pydantic gives its name to whatever a function of ours raises that it calls, be it an interruption.
            raise error.__cause__ or error from None
