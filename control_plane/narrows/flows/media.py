# SPDX-License-Identifier: Apache-2.0
"""The media of calls as users write them: datagrams at a rate that a congestion control of the application adapts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Self

from narrows_formats.units import NANOSECONDS, format_rate, format_size
from narrows_formats.validation import refuse
from pydantic import Field, model_validator

from narrows.field_types import Model, Rate, Size
from narrows.flows.datagrams import MIN_PAYLOAD, Bursts, DatagramGroup, Ecn, spans
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

    def sending(self, start_ns: int, end_ns: int, seed: int) -> on_host.Media:
        """What is sent between two times."""
        gap_ns = self.payload * 8 * NANOSECONDS / self.most
        bursts = spans(self.bursts, start_ns, end_ns, seed)
        return on_host.Media(self.payload, gap_ns, bursts, self.ecn, self.least, self.most)


class MediaGroup(DatagramGroup):
    """Flows whose receivers report ten times a second."""

    made_of = on_host.Media
    key = "media"

    media: Media = Field(
        description="The media of a call: UDP datagrams at a rate that `cca: nada` (RFC 8698) adapts to delay, loss "
        "and marks, for a `duration`."
    )

    @property
    def sent(self) -> Media:
        """See `DatagramGroup.sent`."""
        return self.media

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        if self.cca not in CCAS:
            given = "no cca" if self.cca is None else f"cca: {self.cca}"
            raise refuse(f"has {given}, and flows of {self.key}", f"cca: {', '.join(CCAS)} with {self.key}")
        self.lasts_alone(others)
