# SPDX-License-Identifier: Apache-2.0
"""Traces in JSON that say how long each rate lasts: Sabre's, and OpenNetLab's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from narrows_formats import bounded_json

from narrows.experiment.traces.base import RatePoint, TraceError, nanoseconds, number

MILLISECONDS = 1000


@dataclass(frozen=True)
class Periods:
    """Rates from their times on, how long all of them last, and what else the file has, which is not used."""

    points: list[RatePoint]
    period_ns: int
    unused: tuple[str, ...]


def sabre(text: str) -> Periods:
    """A list of ``duration_ms``, ``bandwidth_kbps`` and ``latency_ms``.

    Raises:
        TraceError: it is none.
    """
    return _periods(_parsed(text), "duration_ms", "bandwidth_kbps")


def opennetlab(text: str, direction: str | None) -> Periods:
    """The ``trace_pattern`` (``duration`` in ms, ``capacity`` in kbit/s) of ``uplink`` or ``downlink``.

    Raises:
        TraceError: it is none, or both have one and no ``direction`` says which is meant.
    """
    data = _parsed(text)
    patterns = {
        name: data[name]["trace_pattern"]
        for name in ("uplink", "downlink")
        if isinstance(data, dict) and isinstance(data.get(name), dict) and data[name].get("trace_pattern")
    }
    if direction is None and len(patterns) == 1:
        (direction,) = patterns
    if direction is None or direction not in patterns:
        there = ", ".join(patterns) or "there is none"
        raise TraceError("has no trace_pattern that is clearly meant", f"direction with one that there is: {there}")
    return _periods(patterns[direction], "duration", "capacity")


def _parsed(text: str) -> Any:
    try:
        return bounded_json.parse(text)
    except bounded_json.NotJsonError as error:
        raise TraceError(f"{error.place.replace(':', 'line ')} {error}".strip(), "a JSON file") from None


def _periods(entries: Any, duration: str, rate: str) -> Periods:
    if not isinstance(entries, list) or not entries:
        raise TraceError("has no list of periods", f"a list of {duration} and {rate}")
    points, now, unused = [], 0, set[str]()
    for place, entry in enumerate(entries, 1):
        where = f"entry {place}"
        if not isinstance(entry, dict):
            raise TraceError(f"{where} is not a mapping", f"{duration} and {rate}")
        lasts = nanoseconds(number(entry.get(duration), f"{where} ({duration})") / MILLISECONDS)
        if lasts == 0:
            raise TraceError(f"{where} has no duration", f"{duration} of more than 0")
        points.append(RatePoint(now, round(number(entry.get(rate), f"{where} ({rate})") * 1000), where))
        unused |= entry.keys() - {duration, rate}
        now += lasts
    return Periods(points, now, tuple(sorted(unused)))
