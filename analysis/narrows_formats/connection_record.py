# SPDX-License-Identifier: Apache-2.0
"""hosts/NAME.json: one connection as its sender knows it, whatever made it; the model of its writers and its reader."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

Text = Annotated[StrictStr, Field(min_length=1)]
Whole = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
Time = Annotated[StrictFloat, Field(allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)


class ConnectionSample(_Record):
    """What the sender's socket says at a moment."""

    time_s: Time
    """When, from the start of the experiment."""
    rtt_s: Positive | None = None
    """Smoothed round-trip time; null: none was measured yet."""
    cwnd_bytes: Whole | None = None
    """Congestion window."""


class ConnectionRecord(_Record):
    """One connection as its sender knows it; what the transport has not, or the sender does not know, is null."""

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
    """Payload handed to the socket."""
    retransmits: Whole | None = None
    """Segments sent again."""
    mss_bytes: Whole | None = None
    """Payload of a full-size segment."""
    rtt_min_s: NotNegative | None = None
    """Smallest round-trip time of a packet (of Linux: within the last `net.ipv4.tcp_min_rtt_wlen`)."""
    samples: tuple[ConnectionSample, ...] = ()
    """The socket once a second, and at the end."""
