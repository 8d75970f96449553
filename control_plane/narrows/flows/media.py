# SPDX-License-Identifier: Apache-2.0
"""The media of calls as users write them: datagrams at a rate that a congestion control of the application adapts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Self

from narrows_formats.units import NANOSECONDS, format_rate, format_size
from narrows_formats.validation import refuse
from pydantic import Field, model_validator

from narrows.field_types import Model, Rate, Size
from narrows.flows.datagrams import MIN_PAYLOAD, Bursts, Ecn
from narrows.flows.group import FlowGroup, Place, alone
from narrows.onhost import media as on_host

# RFC 8698, figure 3: RMIN and RMAX.
_LEAST, _MOST = 150_000, 1_500_000
CCAS = (on_host.NADA,)
"""Congestion controls of applications, which no kernel has."""
_Rate = Annotated[Rate, Field(gt=0)]


class Media(Model):
    """Datagrams between a least and a most rate, as an encoder makes them that meets its rate exactly."""

    least: _Rate = Field(
        default=_LEAST,
        json_schema_extra={"default": format_rate(_LEAST)},
        description="Least rate of the payload, with which it begins.",
    )
    most: _Rate = Field(
        default=_MOST, json_schema_extra={"default": format_rate(_MOST)}, description="Most rate of the payload."
    )
    payload: Annotated[Size, Field(ge=MIN_PAYLOAD)] = Field(
        default=1000,
        json_schema_extra={"default": format_size(1000)},
        description="UDP payload of each datagram; 16 bytes at least.",
    )
    bursts: Bursts | None = Field(
        default=None, description="Times of sending and pauses in turn, as of a call that is muted."
    )
    ecn: Ecn = Field(default="not-ect", description="ECN field of each datagram; marks count as congestion.")

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if self.least > self.most:
            raise refuse(f"has least {format_rate(self.least)} above most {format_rate(self.most)}", "least up to most")
        return self


class MediaGroup(FlowGroup):
    """Flows whose receivers report ten times a second."""

    made_of = on_host.Media
    key = "media"

    media: Media = Field(
        description="The media of a call: UDP datagrams at a rate that `cca: nada` (RFC 8698) adapts to delay, loss "
        "and marks, for a `duration`."
    )

    @property
    def largest_datagram(self) -> int:
        """See `FlowGroup.largest_datagram`."""
        return self.media.payload

    @property
    def takes_marks(self) -> bool:
        """See `FlowGroup.takes_marks`."""
        return self.media.ecn != "not-ect"

    def payload(self, place: Place) -> on_host.Media:
        """See `FlowGroup.payload`."""
        media, (start_ns, end_ns) = self.media, (place.start_ns, place.end_ns)
        try:
            bursts = (
                ((start_ns, end_ns),) if media.bursts is None else media.bursts.bursts(start_ns, end_ns, place.seed)
            )
        except ValueError as error:
            raise ValueError(f"{self.key}.bursts: {error}") from None
        gap_ns = media.payload * 8 * NANOSECONDS / media.most
        return on_host.Media(media.payload, gap_ns, bursts, media.ecn, media.least, media.most)

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        if self.cca not in CCAS:
            given = "no cca" if self.cca is None else f"cca: {self.cca}"
            raise refuse(f"has {given}, and flows of {self.key}", f"cca: {', '.join(CCAS)} with {self.key}")
        allowed = f"a duration with {self.key}"
        alone(others, f"flows of {self.key}", allowed)
        if self.duration is None:
            raise refuse(f"has no duration, and flows of {self.key}", allowed)
