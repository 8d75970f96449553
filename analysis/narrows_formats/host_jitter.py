# SPDX-License-Identifier: Apache-2.0
"""When the random time that modelled hosts take for a frame shows in what they measure."""

from __future__ import annotations

from narrows_formats.units import NANOSECONDS, format_time

# Of the base round-trip time.
MOST = 0.05


def host_jitter(jitter_s: float, rtt_s: float) -> str | None:
    """Why a jitter of hosts is too long for the shortest base RTT, in words; None if it is not.

    Args:
        jitter_s: the most that a sender takes for a frame, in seconds.
        rtt_s: in seconds; 0 if there is none.
    """
    if jitter_s <= MOST * rtt_s or not jitter_s:
        return None
    jitter, rtt = (format_time(round(time_s * NANOSECONDS)) for time_s in (jitter_s, rtt_s))
    return (
        f"Senders take up to {jitter} for each frame, more than {MOST:.0%} of the base RTT of {rtt}: it is in RTTs, "
        "half of it on average, and may move shares; hosts.jitter sets it"
    )
