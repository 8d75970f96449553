# SPDX-License-Identifier: Apache-2.0
"""hosts/NAME.json: one connection as its sender knows it, whatever made it; the model of its writers and its reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

Text = Annotated[StrictStr, Field(min_length=1)]
Whole = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
Time = Annotated[StrictFloat, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Fields that newer versions add are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)


class ConnectionSample(Record):
    """What the sender's socket says at a moment."""

    time_s: Time
    """When, from the start of the experiment."""
    rtt_s: Positive | None = None
    """Smoothed round-trip time; null: none was measured yet."""
    cwnd_bytes: Whole | None = None
    """Congestion window."""


class ApplicationChange(Record):
    """A change of a flow's application that an event asked for."""

    event: Whole
    """The event's number in the experiment's `events`, from 0."""
    time_s: Time
    """When, from the start of the experiment."""
    bytes: Whole
    """Payload handed to the socket until then."""


class ConnectionRecord(Record):
    """One connection as its sender knows it; what the transport does not have, or the sender does not know, is null.

    Kinds of flows that have more to say have models of their own (`narrows_formats.kinds`).
    """

    congestion_control: Text | None = None
    """What it ran with, read back."""
    src_port: Whole
    """Port of the sender."""
    dst_port: Whole
    """Port of the receiver."""
    started_s: Time
    """When the sender began, from the start of the experiment."""
    ended_s: Time
    """When the sender ended."""
    ending: Literal["delivered", "time_over", "interrupted", "failed"]
    """How it ended: all had arrived; its time was over; the run was stopped; it failed."""
    bytes_sent: Whole
    """Payload handed to the socket; of requests and video, what complete responses carried."""
    retransmits: Whole | None = None
    """Segments sent again."""
    mss_bytes: Whole | None = None
    """Payload of a full-size segment."""
    rtt_min_s: NotNegative | None = None
    """Smallest round-trip time of a packet (of Linux: within the last `net.ipv4.tcp_min_rtt_wlen`)."""
    ecn: Literal["off", "classic", "accurate"] | None = None
    """Feedback of congestion that both ends agreed on: RFC 3168's, or accurate ECN; null: not TCP, or its kernel does
    not say which."""
    delivered_ce: Whole | None = None
    """Segments that came with the ECN field CE, by the receiver's feedback; the classic one does not count them: its
    sender takes all that an acknowledgement with ECE acknowledges."""
    kind: Text = "tcp"
    """What it is: `tcp`, or another kind, which has fields of its own, see below."""
    samples: tuple[ConnectionSample, ...] = ()
    """The socket once a second, and at the end."""
    changes: tuple[ApplicationChange, ...] = ()
    """What its application did when events said so."""

    pauses: ClassVar[bool] = False
    """Whether such flows may send nothing for long while their time is not over."""

    @property
    def stopped_s(self) -> float | None:
        """When it sent for the last time, of a kind that may do so long before it ends; None: until it ended."""
        return None

    @property
    def distinct_datagrams(self) -> int | None:
        """Datagrams that its receiver has got, each counted once; None if it does not say."""
        return None

    def own_summary(self) -> Mapping[str, object]:
        """What is its kind's own of a flow in summary.json, by field."""
        return {}
