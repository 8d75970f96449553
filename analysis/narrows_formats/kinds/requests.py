# SPDX-License-Identifier: Apache-2.0
"""Requests and their responses: each in hosts/NAME.json, and what of them is in summary.json and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from narrows_formats.connection_record import ConnectionRecord, NotNegative, Positive, Record, Time, Whole
from narrows_formats.distribution import DelayDistribution, distribution
from narrows_formats.kinds import Column, KindOfFlow, Value


class Response(Record):
    """A request and its response; times from the start of the experiment, null where it did not come so far."""

    user: Whole
    """Who asked, from 0."""
    due_s: Time
    """When the request was to be made."""
    sent_s: Time
    """When it was made."""
    first_byte_s: Time | None = None
    """When the first byte of the response was read."""
    done_s: Time | None = None
    """When its last byte was read."""
    bytes: Whole
    """Bytes of the response."""
    src_port: Whole
    """Port of who asked: which connection it was."""
    bitrate_bps: Positive | None = None
    """Bitrate of a segment of a video."""
    buffer_s: NotNegative | None = None
    """What the player held with it."""


# Units of its fields, in their order.
UNITS = {
    "user": "", "due_s": "s", "sent_s": "s", "first_byte_s": "s", "done_s": "s", "bytes": "bytes", "src_port": "",
    "bitrate_bps": "bit/s", "buffer_s": "s",
}  # fmt: skip


@with_config(ConfigDict(extra="forbid"))
class ResponseSummary(TypedDict):
    """Requests of a flow and, of those that are complete, times from when they were to be made."""

    requests: int
    completed: int
    first_byte_s: DelayDistribution | None
    time_s: DelayDistribution | None


class RequestsRecord(ConnectionRecord):
    """What users asked for, and when it came."""

    pauses: ClassVar[bool] = True

    responses: tuple[Response, ...]
    """Requests and their responses, in the order in which they were made."""

    def own_summary(self) -> Mapping[str, object]:
        """How long responses took."""
        return {"responses": self._responses()}

    def _responses(self) -> ResponseSummary:
        found = self.responses
        return {
            "requests": len(found),
            "completed": sum(one.done_s is not None for one in found),
            "first_byte_s": distribution(
                [one.first_byte_s - one.due_s for one in found if one.first_byte_s is not None]
            ),
            "time_s": distribution([one.done_s - one.due_s for one in found if one.done_s is not None]),
        }


def _time(
    of: Literal["first_byte_s", "time_s"], part: Literal["mean", "p50", "p99", "max"]
) -> Callable[[ResponseSummary], Value]:
    def value(found: ResponseSummary) -> Value:
        times = found[of]
        return None if times is None else times[part]

    return value


KIND = KindOfFlow(
    ("requests",),
    RequestsRecord,
    "responses",
    "Responses",
    "Times of responses as those who asked measured them, from when the request was to be made to the last byte of the "
    "response (to the first one in the fourth column).",
    (
        Column("Requests", "count", lambda found: found["requests"]),
        Column("Complete", "count", lambda found: found["completed"]),
        Column("First byte\nmedian", "duration", _time("first_byte_s", "p50")),
        Column("Time\nmean", "duration", _time("time_s", "mean")),
        Column("Time\nmedian", "duration", _time("time_s", "p50")),
        Column("Time\n99 %", "duration", _time("time_s", "p99")),
        Column("Time\nmost", "duration", _time("time_s", "max")),
    ),
)
