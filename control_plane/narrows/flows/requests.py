# SPDX-License-Identifier: Apache-2.0
"""Flows of requests and responses as users write them, and what a seed has each user ask for."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, Self

from narrows_formats.units import NANOSECONDS, UnitError, format_size, parse_size, parse_time
from narrows_formats.validation import refuse
from pydantic import Discriminator, Field, Tag, model_validator

from narrows.field_types import Count, Model, Size, TextFile, Time
from narrows.flows.group import FlowGroup, Place, alone
from narrows.flows.workload import Gaps, Sizes, inside
from narrows.onhost import requests as on_host

# What a request carries: how many bytes it asks for.
MIN_REQUEST = 16
# The most that a flow can have, if each response takes no longer than it must.
MAX_REQUESTS = 100_000


def _kind(value: Any) -> str:
    return "(drawn)" if isinstance(value, dict | Sizes | Gaps) else "(constant)"


# The tags are in no message: see `narrows_formats.validation`.
_Size = Annotated[Annotated[Size, Tag("(constant)")] | Annotated[Sizes, Tag("(drawn)")], Discriminator(_kind)]
_Time = Annotated[Annotated[Time, Tag("(constant)")] | Annotated[Gaps, Tag("(drawn)")], Discriminator(_kind)]


class Requests(Model):
    """Requests of `users` to a server, whose responses are the flow's data."""

    size: _Size | None = Field(
        default=None, description="Bytes of a response: a size, or a distribution as a workload's `sizes` have it."
    )
    gaps: _Time | None = Field(
        default=None,
        description="Open loop: time from one request of a user to the next, whatever became of the first: a time, or "
        "a distribution as a workload's `gaps` have it (`exponential`: a Poisson process).",
    )
    think: _Time | None = Field(
        default=None,
        description="Closed loop: time from the end of a response to the user's next request: a time, or a "
        "distribution. `0s`: none.",
    )
    trace: TextFile | None = Field(
        default=None,
        description="Open loop as in a file: a time after the flow's start and the size of a response on each line "
        "(`1.5s 100kB`), in order of time; every user has the same.",
    )
    users: Count = Field(default=1, description="Users, each with random draws and waits of its own.")
    connections: Literal["kept", "new"] = Field(
        default="kept",
        description="`kept`: a user has one connection, from the flow's start on, and its responses come in order. "
        "`new`: each request opens one, which its response ends.",
    )
    request: Annotated[Size, Field(ge=MIN_REQUEST)] = Field(
        default=300,
        json_schema_extra={"default": format_size(300)},
        description="Bytes of a request; 16 at least.",
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if sum(value is not None for value in (self.gaps, self.think, self.trace)) != 1:
            raise refuse("needs exactly one of gaps, think and trace", "gaps or trace (open loop), or think (closed)")
        if (self.size is None) == (self.trace is None):
            raise refuse("has no size" if self.trace is None else "has size beside trace", "size without a trace")
        if self.trace is not None:
            last_ns = 0
            for number, (at_ns, _) in enumerate(self._recorded(self.trace), 1):
                if at_ns < last_ns:
                    raise refuse(f"has an earlier time in request {number} of {self.trace.file}", "ascending times")
                last_ns = at_ns
        if isinstance(self.gaps, int) and not self.gaps:
            raise refuse("has gaps of 0", "gaps above 0")
        return self

    def payload(self, start_ns: int, duration_ns: int, rtt_ns: int, rate_bps: int, seed: int) -> on_host.Requests:
        """What each user asks for; in a closed loop that is one request more than there is time for.

        Args:
            start_ns: when the flow starts; no request begins ``duration_ns`` after it or later.
            duration_ns: see ``start_ns``.
            rtt_ns: the shortest round-trip time, which a response takes at least.
            rate_bps: the most that the flow's path ever carries.
            seed: of what is drawn.
        """
        users = []
        for user in range(self.users):
            numbers = random.Random(seed * self.users + user)
            users.append(tuple(self._asks(numbers, start_ns, duration_ns, rtt_ns, rate_bps)))
            if sum(map(len, users)) > MAX_REQUESTS:
                raise ValueError(f"requests: may make more than {MAX_REQUESTS} requests; allowed: fewer")
        keep_alive = self.connections == "kept"
        return on_host.Requests(
            tuple(users), closed_loop=self.think is not None, keep_alive=keep_alive, request_bytes=self.request
        )

    def _asks(
        self, numbers: random.Random, start_ns: int, duration_ns: int, rtt_ns: int, rate_bps: int
    ) -> Iterator[on_host.Request]:
        if self.trace is not None:
            yield from (
                on_host.Request(start_ns + at, size) for at, size in self._recorded(self.trace) if at < duration_ns
            )
            return
        trips = 1 if self.connections == "kept" else 2  # the handshake takes another one
        passed_ns = 0
        for count in range(MAX_REQUESTS + 1):
            size = self.size if isinstance(self.size, int) else self.size.draw(inside(numbers)) if self.size else 0
            drawn = self.think if self.gaps is None else self.gaps
            wait_ns = drawn.draw(inside(numbers)) if isinstance(drawn, Gaps) else drawn or 0
            if self.gaps is not None:
                # The first one, too, is as far from the start as two are from each other.
                passed_ns += wait_ns
            elif count:
                passed_ns += wait_ns + trips * rtt_ns + size * 8 * NANOSECONDS // rate_bps
            is_late = passed_ns >= duration_ns
            if not is_late or self.gaps is None:
                yield on_host.Request(start_ns + passed_ns if self.gaps is not None else wait_ns if count else 0, size)
            if is_late:
                return

    @staticmethod
    def _recorded(trace: TextFile) -> Iterator[tuple[int, int]]:
        for number, line in enumerate((trace.text or "").splitlines(), 1):
            words = line.split()
            if not words:
                continue
            try:
                at, size = words
                yield parse_time(at), parse_size(size)
            except (ValueError, UnitError):
                raise refuse(
                    f"has '{line.strip()}' in line {number} of {trace.file}", "a time and a size, as in 1.5s 100kB"
                ) from None


class RequestsGroup(FlowGroup):
    """Requests of users to a server: one flow."""

    made_of = on_host.Requests
    key = "requests"

    requests: Requests = Field(
        description="Requests of users to a server, whose responses are the data, for a `duration`. The group is one "
        "flow, between hosts that no other group has both of."
    )

    def payload(self, place: Place) -> on_host.Requests:
        """See `FlowGroup.payload`."""
        times = (place.start_ns, place.duration_ns or 0)
        return self.requests.payload(*times, place.least_rtt_ns, place.most_bps, place.group_seed)

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        one_flow(self, others, "users instead of count")


def one_flow(group: FlowGroup, others: Collection[str], instead: str) -> None:
    """Refuse what does not go with a group that is one flow, of a duration; ``instead`` is what it has in its place."""
    group.needs_cca()
    allowed = f"a duration with {group.key}; {instead}"
    alone([name for name in others if name not in ("repeat", "gap")], group.key, allowed)
    if group.count != 1:
        raise refuse(f"has count, and {group.key}", allowed)
    if group.duration is None:
        raise refuse(f"has no duration, and {group.key}", allowed)
    if others:
        raise refuse("has repeat or gap without size", "repeat and gap together with size")
