# SPDX-License-Identifier: Apache-2.0
"""Bulk flows and finite ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from narrows_formats.validation import refuse
from pydantic import Field

from narrows.field_types import Count, Name, Size, Time
from narrows.flows.group import FlowGroup, Place, alone
from narrows.onhost import tcp


class BulkGroup(FlowGroup):
    """Flows that send for a duration."""

    made_of = tcp.Bulk

    def payload(self, place: Place) -> tcp.Bulk:
        """See `FlowGroup.payload`."""
        return tcp.Bulk()

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        self.needs_cca()
        if self.duration is None:
            raise refuse("has neither duration nor size", "duration for a bulk flow, size for a finite one")
        if {"repeat", "gap"} & set(others):
            raise refuse("has repeat or gap without size", "repeat and gap together with size")
        if "until" in others:
            raise refuse("has until without size", "until together with size and repeat")


class FiniteGroup(FlowGroup):
    """Flows of connections of a size, one after the other."""

    made_of = tcp.Finite
    key = "size"

    size: Size = Field(
        description="Bytes of each connection of a finite flow. It ends when the receiver has read the last one."
    )
    repeat: Count = Field(default=1, description="With `size`: connections of a flow, one after the other.")
    gap: Time = Field(
        default=0, description="With `size`: pause between the end of one connection and the start of the next."
    )
    until: Name | None = Field(
        default=None,
        description="With `size`: no further connection starts after the flows of that other group have ended. That "
        "group has no `until` itself. With `client`: `exit`, as without a `duration`.",
    )

    @property
    def ends_with(self) -> str | None:
        """See `FlowGroup.ends_with`."""
        return self.until

    @property
    def connections_each(self) -> int:
        """See `FlowGroup.connections_each`."""
        return self.repeat

    def payload(self, place: Place) -> tcp.Finite:
        """See `FlowGroup.payload`."""
        return tcp.Finite(self.size, self.repeat, self.gap, self.until)

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        self.needs_cca()
        alone(others, "size", "one of duration, size and workload")

    def no_op(self) -> Iterator[tuple[str, str]]:
        """See `FlowGroup.no_op`."""
        yield from super().no_op()
        if self.repeat == 1:
            given = {"gap": self.gap, "until": self.until, "duration": self.duration}
            for field in (name for name, value in given.items() if value):
                yield field, "has no effect: each flow has one connection (repeat: 1)"
