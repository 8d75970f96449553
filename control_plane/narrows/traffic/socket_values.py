# SPDX-License-Identifier: Apache-2.0
"""One reading of a socket in SI units, value by value: what `narrows.traffic.socket_table` makes of all of them.

A guest, which would wait for pandas, evaluates conditions with these while traffic flows; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narrows.traffic import bbr_phase

Raw = Mapping[str, int]
"""The numbers of `narrows.traffic.socket_sampler.FIELDS`, by name."""
Value = float | str | None

UNLIMITED = 2**64 - 1  # the kernel's word for a pacing rate that nothing has set
NO_MIN_RTT = 2**32 - 1  # and for a smallest RTT of none; its smoothed RTT is 0 then
NO_BOUND = 2**32 - 1  # and BBRv3's for bytes in flight that nothing bounds
GAIN_UNIT = 256


def _of_bbr(name: str, factor: float) -> Callable[[Raw], Value]:
    return lambda raw: raw[name] * factor if raw["bbr_bandwidth"] > 0 else None


def _bound(name: str) -> Callable[[Raw], Value]:
    """Of BBRv3, in segments there, in bytes here."""
    return lambda raw: raw[name] * raw["mss"] if raw["bbr_phase"] > 0 and raw[name] < NO_BOUND else None


def _acked(raw: Raw) -> int:
    """Payload acknowledged at the end that opened the connection: the kernel counts its SYN like a byte."""
    return max(raw["acked_bytes"] - 1, 0)


VALUES: dict[str, Callable[[Raw], Value]] = {
    "cwnd_bytes": lambda raw: raw["cwnd_packets"] * raw["mss"],
    "pacing_rate_bps": lambda raw: raw["pacing_rate"] * 8 if raw["pacing_rate"] < UNLIMITED else None,
    "rtt_s": lambda raw: raw["rtt_us"] / 1e6 if raw["rtt_us"] > 0 else None,
    "min_rtt_s": lambda raw: raw["min_rtt_us"] / 1e6 if raw["min_rtt_us"] < NO_MIN_RTT else None,
    "delivery_rate_bps": lambda raw: raw["delivery_rate"] * 8,
    "inflight_bytes": lambda raw: max(raw["sent_bytes"] - _acked(raw), 0),
    "retransmits": lambda raw: raw["retransmits"],
    "acked_bytes": _acked,
    "data_packets": lambda raw: raw["data_packets"],
    "bbr_bandwidth_bps": _of_bbr("bbr_bandwidth", 8),
    "bbr_min_rtt_s": _of_bbr("bbr_min_rtt_us", 1e-6),
    "bbr_pacing_gain": _of_bbr("bbr_pacing_gain", 1 / GAIN_UNIT),
    "bbr_cwnd_gain": _of_bbr("bbr_cwnd_gain", 1 / GAIN_UNIT),
    "busy_s": lambda raw: raw["busy_us"] / 1e6,
    "buffer_limited_s": lambda raw: raw["buffer_limited_us"] / 1e6,
    "bbr_phase": bbr_phase.name,
    "bbr_max_bandwidth_bps": lambda raw: raw["bbr_max_bandwidth"] * 8 if raw["bbr_phase"] > 0 else None,
    "bbr_shortterm_bandwidth_bps": lambda raw: (
        raw["bbr_shortterm_bandwidth"] * 8
        if raw["bbr_phase"] > 0 and raw["bbr_shortterm_bandwidth"] < UNLIMITED
        else None
    ),
    "bbr_shortterm_inflight_bytes": _bound("bbr_shortterm_inflight"),
    "bbr_longterm_inflight_bytes": _bound("bbr_longterm_inflight"),
    "bbr_extra_acked_bytes": _bound("bbr_extra_acked"),
}
