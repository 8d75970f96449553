# SPDX-License-Identifier: Apache-2.0
"""The state of a sender's socket, as its kernel gives it: ``struct tcp_info`` of linux/tcp.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass

CA_STATES = ("open", "disorder", "cwr", "recovery", "loss")
NO_MIN_RTT = (1 << 32) - 1
UNLIMITED = (1 << 64) - 1
MICROSECONDS = 1_000_000
ECN = 8  # TCPI_OPT_ECN
# Byte offset and form of each field of the kernel's structure; those that older kernels do not have are 0.
LAYOUT = {
    "ca_state": (1, "B"), "rto": (8, "I"), "mss": (16, "I"), "unacked": (24, "I"), "sacked": (28, "I"),
    "lost": (32, "I"), "retrans": (36, "I"), "rtt": (68, "I"), "rttvar": (72, "I"), "ssthresh": (76, "I"),
    "cwnd": (80, "I"), "reordering": (88, "I"), "total_retrans": (100, "I"), "pacing_rate": (104, "Q"),
    "bytes_acked": (120, "Q"), "notsent_bytes": (144, "I"), "min_rtt": (148, "I"), "segs_out": (156, "I"),
    "delivery_rate": (160, "Q"), "busy_time": (168, "Q"), "rwnd_limited": (176, "Q"), "sndbuf_limited": (184, "Q"),
    "delivered": (192, "I"), "delivered_ce": (196, "I"), "bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q"),
    "dsack_dups": (216, "I"), "reord_seen": (220, "I"), "snd_wnd": (228, "I"),
}  # fmt: skip
LENGTH = 232
OPTIONS, APP_LIMITED = 5, 7


@dataclass(frozen=True)
class TcpInfo:
    """A sender's socket at ``time_ns`` since the experiment's start.

    Segments are of ``mss`` bytes; rates in bit/s of TCP payload; times in seconds; counts since the connection began.
    """

    time_ns: int
    cwnd: int
    """Congestion window in segments."""
    ssthresh: int
    """Slow-start threshold in segments."""
    mss: int
    """Bytes of payload in a full segment."""
    pacing_rate_bps: float | None
    """None: nothing is paced."""
    delivery_rate_bps: float
    """The kernel's last sample of the delivery rate."""
    app_limited: bool
    """Whether that sample was limited by the application."""
    rtt_s: float | None
    """Smoothed RTT (RFC 6298); None before the first sample."""
    rttvar_s: float
    min_rtt_s: float | None
    """Least RTT in the kernel's window of 300 s; None before the first sample."""
    rto_s: float
    in_flight: int
    """Segments in the network: sent, and neither acknowledged, SACKed nor lost, plus those sent again."""
    sacked: int
    lost: int
    """Segments that the kernel takes for lost, and that are not yet acknowledged."""
    resent: int
    """Of the segments in flight those that were sent again."""
    retransmits: int
    """Segments sent again, in all."""
    delivered: int
    """Segments that have arrived, in all, those sent again included."""
    delivered_ce: int
    """Of these the ones that were marked CE."""
    segments_sent: int
    bytes_acked: int
    bytes_sent: int
    """Bytes of payload that were sent, those sent again included."""
    bytes_retransmitted: int
    not_sent_bytes: int
    """Bytes in the socket that have not been sent."""
    receiver_window_bytes: int
    busy_s: float
    """Time with data outstanding."""
    receiver_limited_s: float
    sender_limited_s: float
    reordering: int
    reordering_seen: int
    dsack_duplicates: int
    ca_state: str
    """Of the kernel's loss recovery: one of `CA_STATES`."""
    ecn: bool
    """Whether ECN was negotiated."""


def tcp_info(time_ns: int, data: bytes) -> TcpInfo:
    """A reading.

    Args:
        time_ns: when, since the experiment's start.
        data: what the socket option TCP_INFO has, of a kernel of any version.
    """
    data = data.ljust(LENGTH, b"\0")
    word = {name: int(struct.unpack_from(f"={form}", data, offset)[0]) for name, (offset, form) in LAYOUT.items()}
    return TcpInfo(
        time_ns=time_ns,
        cwnd=word["cwnd"],
        ssthresh=word["ssthresh"],
        mss=word["mss"],
        pacing_rate_bps=None if word["pacing_rate"] == UNLIMITED else 8.0 * word["pacing_rate"],
        delivery_rate_bps=8.0 * word["delivery_rate"],
        app_limited=bool(data[APP_LIMITED] & 1),
        rtt_s=word["rtt"] / MICROSECONDS if word["rtt"] else None,
        rttvar_s=word["rttvar"] / MICROSECONDS,
        min_rtt_s=None if word["min_rtt"] == NO_MIN_RTT else word["min_rtt"] / MICROSECONDS,
        rto_s=word["rto"] / MICROSECONDS,
        in_flight=word["unacked"] - word["sacked"] - word["lost"] + word["retrans"],
        sacked=word["sacked"],
        lost=word["lost"],
        resent=word["retrans"],
        retransmits=word["total_retrans"],
        delivered=word["delivered"],
        delivered_ce=word["delivered_ce"],
        segments_sent=word["segs_out"],
        bytes_acked=word["bytes_acked"],
        bytes_sent=word["bytes_sent"],
        bytes_retransmitted=word["bytes_retrans"],
        not_sent_bytes=word["notsent_bytes"],
        receiver_window_bytes=word["snd_wnd"],
        busy_s=word["busy_time"] / MICROSECONDS,
        receiver_limited_s=word["rwnd_limited"] / MICROSECONDS,
        sender_limited_s=word["sndbuf_limited"] / MICROSECONDS,
        reordering=word["reordering"],
        reordering_seen=word["reord_seen"],
        dsack_duplicates=word["dsack_dups"],
        ca_state=CA_STATES[word["ca_state"]],
        ecn=bool(data[OPTIONS] & ECN),
    )
