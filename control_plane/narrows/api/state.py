# SPDX-License-Identifier: Apache-2.0
"""The state of a driven run at an instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from narrows_formats.units import NANOSECONDS


@dataclass(frozen=True)
class LinkState:
    """A link: its settings, what waits in its queue, and its counters since the run began.

    Rates are in L2 bit/s, sizes in bytes of Ethernet frames; a buffer has a limit in bytes or in packets, the other one
    is None. ``delay_ns`` in nanoseconds, ``loss`` is a ratio. ``queue_delay_s`` is how long the packet has waited
    that has waited longest, in seconds; 0 while nothing waits. Departed
    packets are those whose transmission has begun, dropped packets those that found the queue full.
    """

    rate_bps: int
    limit_bytes: int | None
    limit_packets: int | None
    delay_ns: int
    loss: float
    queue_bytes: int
    queue_packets: int
    queue_delay_s: float
    departed_bytes: int
    departed_packets: int
    dropped_packets: int


@dataclass(frozen=True)
class FlowState:
    """A flow: bytes of Ethernet frames that have left its last queue, and packets that queues have dropped.

    Both are 0 until the switch has reported the flow, a tenth of a second after its first packet at most.
    """

    departed_bytes: int
    dropped_packets: int


@dataclass(frozen=True)
class State:
    """A run at ``time_ns`` since its experiment's start; ``over``: its traffic has ended, the values are final."""

    time_ns: int
    links: Mapping[str, LinkState]
    flows: Mapping[str, FlowState]
    over: bool = False

    @property
    def time_s(self) -> float:
        """Seconds since the experiment's start."""
        return self.time_ns / NANOSECONDS

    @property
    def link(self) -> LinkState:
        """The only link, of an experiment with one.

        Raises:
            ValueError: there are several.
        """
        if len(self.links) != 1:
            raise ValueError(f"there are several links: {', '.join(self.links)}; allowed: links[NAME]")
        return next(iter(self.links.values()))


def state_of(data: Mapping[str, Any]) -> State:
    """A state as `narrows.run.stepping` gives it."""
    links = {name: LinkState(**link) for name, link in data["links"].items()}
    flows = {name: FlowState(**flow) for name, flow in data["flows"].items()}
    return State(data["time_ns"], links, flows)
