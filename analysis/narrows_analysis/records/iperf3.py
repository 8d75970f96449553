# SPDX-License-Identifier: Apache-2.0
"""What iperf3, which made the bulk flows of runs before 0.3.0, says of one."""

from __future__ import annotations

from typing import Any

from narrows_analysis.records.host_record import HostRecord

MICROSECONDS = 1e-6
SOURCE = "the hosts (iperf3, TCP_INFO)"


def _seconds(value: Any) -> float | None:
    """Microseconds of iperf3 as seconds; None where it measured nothing."""
    return value * MICROSECONDS if isinstance(value, int | float) and value > 0 else None


def parse(raw: dict[str, Any], name: str, start_s: float) -> HostRecord:
    """A result of iperf3, of a flow that starts at ``start_s``; anything else gives a record with `error` set."""
    try:
        return _record(raw, start_s)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return HostRecord(error=f"{name} is not a result of iperf3.")


def _record(raw: dict[str, Any], start_s: float) -> HostRecord:
    rtt: list[tuple[float, float]] = []
    cwnd: list[tuple[float, float]] = []
    for interval in raw.get("intervals") or []:
        for stream in (interval.get("streams") or [])[:1]:
            time_s = start_s + float(stream.get("end", 0.0))
            value = _seconds(stream.get("rtt"))
            if value is not None:
                rtt.append((time_s, value))
            if isinstance(stream.get("snd_cwnd"), int | float):
                cwnd.append((time_s, float(stream["snd_cwnd"])))
    end = raw.get("end") or {}
    sender: dict[str, Any] = {}
    for stream in end.get("streams") or []:
        sender = stream.get("sender") or {}
        break
    retransmits = sender.get("retransmits")
    local_port, remote_port = _ports(raw)
    return HostRecord(
        source=SOURCE,
        retransmits=int(retransmits) if isinstance(retransmits, int | float) else None,
        rtt_min_s=_seconds(sender.get("min_rtt")),
        rtt_mean_s=_seconds(sender.get("mean_rtt")),
        rtt_series=tuple(rtt),
        cwnd_series=tuple(cwnd),
        cca=end.get("sender_tcp_congestion") if isinstance(end.get("sender_tcp_congestion"), str) else None,
        local_port=local_port,
        remote_port=remote_port,
        error=str(raw["error"]) if raw.get("error") else None,
    )


def _ports(raw: dict[str, Any]) -> tuple[int | None, int | None]:
    try:
        first = raw["start"]["connected"][0]
        return int(first["local_port"]), int(first["remote_port"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None, None
