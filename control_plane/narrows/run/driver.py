# SPDX-License-Identifier: Apache-2.0
"""A driven run and its driver: the state of the run, the driver's commands and the answers to them.

They are messages of `narrows.onhost.wire`, so that the driver may be anywhere; `narrows.api` is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Verb
from narrows.onhost.wire import message


@message
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


@message
@dataclass(frozen=True)
class FlowState:
    """A flow: bytes of Ethernet frames that have left its last queue, and packets that queues have dropped.

    Both are 0 until the switch has reported the flow, a tenth of a second after its first packet at most.
    """

    departed_bytes: int
    dropped_packets: int


@message
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


@message
@dataclass(frozen=True)
class RunUntil:
    """Continue until that time since the experiment's start. The answer is a `State`."""

    until_ns: int


@message
@dataclass(frozen=True)
class ChangeLink:
    """Give a link other settings now, those that are not None; a depth in packets has both limits. Answer: `MadeAt`."""

    link: str
    rate_bps: int | None
    limit_bytes: int | None
    limit_packets: int | None
    loss: float | None
    delay_ns: int | None


@message
@dataclass(frozen=True)
class RequestFlows:
    """Start or stop a group's flows, or one, at that time; None: as soon as can be. The answer is `MadeAt`."""

    verb: Verb
    name: str
    at_ns: int | None


@message
@dataclass(frozen=True)
class SetSender:
    """One flow's window in segments and pacing rate from now on, None as they are. The answer is `SenderAnswer`."""

    flow: str
    window: int | None
    rate_bps: int | None


@message
@dataclass(frozen=True)
class ShowReports:
    """All reports that have come. The answer is `Reports`."""


@message
@dataclass(frozen=True)
class EndTraffic:
    """That was all. The answer is `Over`."""


Command = RunUntil | ChangeLink | RequestFlows | SetSender | ShowReports | EndTraffic


@message
@dataclass(frozen=True)
class MadeAt:
    """When something was done, since the experiment's start."""

    made_ns: int


@message
@dataclass(frozen=True)
class SenderAnswer:
    """The same of a sender, and its socket's ``tcp_info`` in hexadecimal digits; None: it is not under way."""

    made_ns: int
    tcp_info: str | None


@message
@dataclass(frozen=True)
class Reports:
    """A ``file`` with an Arrow stream of all reports until now, and how many ``bytes`` of it that is.

    ``start_ns`` is the switch's time at the experiment's start; ``owners`` are those that are new since the last
    answer: link, flow index, name of the flow.
    """

    file: str
    bytes: int
    start_ns: int
    owners: Sequence[tuple[int, int, str]]


@message
@dataclass(frozen=True)
class Refused:
    """Why a command cannot be followed."""

    why: str


@message
@dataclass(frozen=True)
class Invalid:
    """What is wrong with a command."""

    why: str


@message
@dataclass(frozen=True)
class Over:
    """The traffic has ended."""


Answer = State | MadeAt | SenderAnswer | Reports | Refused | Invalid | Over


class Driver(Protocol):
    """The driver of a run."""

    async def receive(self) -> Command | None:
        """The next command; None at the end."""

    def tell(self, answer: Answer) -> None:
        """An answer, and before all commands a `State`."""
