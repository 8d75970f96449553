# SPDX-License-Identifier: Apache-2.0
"""What a buffer that is written as a time, or in BDPs, comes to where the rate varies: bytes, which do not."""

from __future__ import annotations

from collections.abc import Iterator

from narrows_analysis.report import units
from narrows_formats.schedules import RateSteps
from narrows_formats.units import QueueDepth

from narrows.experiment.model import Experiment
from narrows.experiment.plan import Link, Plan

# Units of a depth that a rate makes bytes of.
OF_A_RATE = ("time", "bdp")


def depends_on_rate(buffer: QueueDepth, link: Link) -> bool:
    """Whether a depth would be other bytes at another rate that its link has."""
    return link.schedule is not None and buffer.unit in OF_A_RATE


def buffer_notes(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """A note for each link whose buffer is bytes at one of its rates, with the time that it holds at the others."""
    for link in plan.links:
        buffer = experiment.directions[link.name].buffer
        if depends_on_rate(buffer, link):
            yield f"{link.field}.buffer: {buffer} is {_at(link)}, and as many bytes at any rate{_span(link)}"


def _at(link: Link) -> str:
    if isinstance(link.schedule, RateSteps) and link.schedule.period_ns is None:
        which = "its first rate" if link.schedule.steps[0][1] else "its first rate above 0"
    else:
        which = "its mean rate"
    return f"{units.size(link.limit_bytes)} at {units.rate(link.rate_bps)}, {which}"


def _span(link: Link) -> str:
    """How long the bytes take at the greatest and at the least rate of steps."""
    if not isinstance(link.schedule, RateSteps):
        return ""
    rates = [rate for _, rate in link.schedule.steps if rate]
    times = [
        f"{units.duration(link.limit_bytes * 8 / rate)} at {units.rate(rate)}"
        for rate in dict.fromkeys((max(rates), min(rates)))
    ]
    return f": {', '.join(times)}"
