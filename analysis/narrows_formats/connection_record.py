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


class Distribution(_Record):
    """Least, mean, percentiles (nearest rank) and most of something, in seconds."""

    min: Time
    """Least."""
    mean: Time
    """Mean."""
    p50: Time
    """Median."""
    p95: Time
    """95th percentile."""
    p99: Time
    """99th percentile."""
    max: Time
    """Most."""


class Received(_Record):
    """Datagrams of a flow as its receiver counted them; of a probe, those that came back to its sender."""

    packets: Whole
    """Datagrams that arrived, repetitions among them."""
    bytes: Whole
    """Payload of those that were no repetitions."""
    duplicates: Whole
    """Repetitions."""
    reordered: Whole
    """Those that one with a higher number had come before (RFC 4737)."""
    ce_marked: Whole
    """Those with the ECN field CE."""
    unread: Whole
    """Those that the socket had no room for."""
    delay_s: Distribution | None = None
    """Time from sending to arrival, one way where both hosts have one clock; of a probe, the round-trip time."""


class Response(_Record):
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


class VideoSession(_Record):
    """What a video player did; times from the start of the experiment."""

    segment_s: Positive
    """Length of a segment."""
    playing_s: Time | None = None
    """When playback began; null: it did not."""
    stalls: tuple[tuple[Time, Time], ...] = ()
    """Begin and end of each time at which nothing was left to play."""


class ConnectionRecord(_Record):
    """One connection as its sender knows it; what the transport does not have, or the sender does not know, is null."""

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
    """What it is: `tcp`, `udp`, `probe`, `requests`, `video`, or another kind, which has fields of its own
    (`narrows_formats.kinds`)."""
    packets_sent: Whole | None = None
    """Datagrams handed to the socket; null of TCP."""
    packets_unsent: Whole | None = None
    """Datagrams that the socket had no room for when their time came; null of TCP."""
    last_sent_s: Time | None = None
    """When the last datagram was sent, which may be before its sender ended; null of TCP."""
    received: Received | None = None
    """What arrived of them; null of TCP."""
    responses: tuple[Response, ...] | None = None
    """Requests and their responses, in the order in which they were made; null of others."""
    video: VideoSession | None = None
    """What a video player did; null of others."""
    samples: tuple[ConnectionSample, ...] = ()
    """The socket once a second, and at the end."""
