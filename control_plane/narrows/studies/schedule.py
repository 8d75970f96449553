# SPDX-License-Identifier: Apache-2.0
"""How long runs take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from narrows_analysis.studies.catalogue import STUDIES
from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Plan, make_plan
from narrows.studies.catalogue import study_points
from narrows.traffic.base import is_sized
from narrows.traffic.sized import size_of

OVERHEAD_S = 12.0
SHARED_LINK = 1.5  # by how much a sized flow takes longer than alone on the link, roughly


def traffic_time_s(plan: Plan) -> float:
    """Seconds of traffic of a run; an estimate where flows end by their size."""
    if plan.end_ns is not None:
        return plan.end_ns / NANOSECONDS
    ends = []
    for flow in plan.flows:
        if not is_sized(flow):
            ends.append((flow.start_ns + (flow.duration_ns or 0)) / NANOSECONDS)
        elif flow.until is None:
            size = sum(size_of(flow, number) for number in range(flow.repeat))
            arriving = flow.arrivals[-1].start_ns / NANOSECONDS if flow.arrivals else 0.0
            ends.append(max(arriving, SHARED_LINK * size * 8 / plan.bottleneck.rate_bps))
    return max(ends, default=0.0)


class TimeLeft:
    """Time that the rest of a study takes: traffic as planned, and what else a run takes as it was so far."""

    def __init__(self, traffic_s: Sequence[float], at_once: int = 1) -> None:
        """Take the traffic time of every run that is to be made."""
        self._left = list(traffic_s)
        self._at_once = at_once
        self._took_s: list[float] = []

    def done(self, traffic_s: float, took_s: float) -> None:
        """Take note of a run that has ended."""
        self._left.remove(traffic_s)
        self._took_s.append(took_s - traffic_s)

    @property
    def seconds(self) -> float:
        """Seconds left."""
        overhead = sum(self._took_s) / len(self._took_s) if self._took_s else OVERHEAD_S
        return sum(max(0.0, traffic + overhead) for traffic in self._left) / self._at_once


def in_words(seconds: float) -> str:
    """``50 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@cache
def published(name: str) -> Mapping[str, float]:
    """Size of a study's full variant: ``points`` (runs) and ``traffic_s``; of a study without files nothing."""
    if name not in STUDIES:
        return {}
    points = study_points(STUDIES[name], quick=False)
    return {"points": len(points), "traffic_s": sum(traffic_time_s(make_plan(one.point.experiment)) for one in points)}
