# SPDX-License-Identifier: Apache-2.0
"""Links drawn at random, one for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from narrows.api import InputError

Range = tuple[float, float]


@dataclass(frozen=True)
class Links:
    """Ranges and choices from which each episode's link is drawn; both ends may be equal.

    Attributes:
        rate_bps: bit/s; drawn log-uniformly, as its scale is.
        rtt_s: seconds without queue; log-uniform.
        buffer_bdp: of that rate and RTT; log-uniform.
        loss: ratio of packets lost at random; uniform.
        traces: files with varying rates, one of which replaces the rate; none: the rate is constant.
        queues: AQMs as an experiment's ``queue`` has them (``{"kind": "codel", ...}``), one of which is drawn;
            none: tail drop.
    """

    rate_bps: Range = (5e6, 50e6)
    rtt_s: Range = (0.01, 0.1)
    buffer_bdp: Range = (0.5, 4.0)
    loss: Range = (0.0, 0.0)
    traces: Sequence[str] = ()
    queues: Sequence[Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: one is empty, or has a value that no link has.
        """
        for name, least in (("rate_bps", 1e3), ("rtt_s", 1e-5), ("buffer_bdp", 1e-3)):
            low, high = getattr(self, name)
            if not least <= low <= high < float("inf"):
                raise InputError(f"links: {name} {low:g} to {high:g}: allowed: a range from {least:g} up")
        if not 0 <= self.loss[0] <= self.loss[1] < 1:
            raise InputError(f"links: loss {self.loss[0]:g} to {self.loss[1]:g}: allowed: a range from 0 to below 1")

    def draw(self, random: np.random.Generator) -> dict[str, object]:
        """The ``bottleneck`` of an experiment."""
        link: dict[str, object] = {
            "rate": f"{_log_uniform(random, self.rate_bps):.0f}bit",
            "rtt": f"{_log_uniform(random, self.rtt_s) * 1e6:.0f}us",
            "buffer": f"{_log_uniform(random, self.buffer_bdp):.4g}bdp",
        }
        if self.traces:
            link["rate"] = {"trace": self.traces[int(random.integers(len(self.traces)))]}
        if self.loss[1] > 0:
            link["loss"] = float(random.uniform(*self.loss))
        if self.queues:
            link["queue"] = self.queues[int(random.integers(len(self.queues)))]
        return link


def _log_uniform(random: np.random.Generator, bounds: Range) -> float:
    return float(np.exp(random.uniform(*np.log(bounds))))
