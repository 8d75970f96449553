# SPDX-License-Identifier: Apache-2.0
"""What a direction of a link does to packets beside its queue, as a plan has it: loss before it, delays behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Of a normal distribution, which has no end: a draw lies further out once in 30,000 times, and once in 10^9.
CUT_DEVIATIONS, LONGEST_DEVIATIONS = 4, 6
# Of a Pareto distribution, what one value in this number exceeds.
LONGEST_OF = 1_000_000
# Without its checksum.
MIN_FRAME_BYTES = 60


@dataclass(frozen=True)
class GilbertElliott:
    """Two states (Gilbert 1960, Elliott 1963): a packet is judged by the state that it finds, then the state moves.

    All are probabilities: ``p`` that the good state turns bad, ``r`` that the bad one turns good, and that a packet is
    lost in each. The first packet finds the good state.
    """

    p: float
    r: float
    loss_in_good: float
    loss_in_bad: float

    @property
    def mean_loss(self) -> float:
        """Part of all packets that is lost in the long run."""
        bad = self.p / (self.p + self.r)
        return (1 - bad) * self.loss_in_good + bad * self.loss_in_bad


@dataclass(frozen=True)
class LossPattern:
    """Packets that are lost by their position, from 0: ``runs`` of first and last ones, among ``packets``.

    With ``loop`` the positions begin again after that number of packets; else nothing is lost then.
    """

    runs: tuple[tuple[int, int], ...]
    packets: int
    loop: bool

    @property
    def mean_loss(self) -> float:
        """Part of the packets of the pattern that is lost."""
        return sum(last - first + 1 for first, last in self.runs) / self.packets


@dataclass(frozen=True)
class Policer:
    """Token buckets in front of a queue, which drop what RFC 2697 (one rate) or RFC 2698 (two) does not mark green.

    Rates are bit/s of Ethernet frames, bursts bytes; both of the peak are None where there is one rate. With ``marks``
    ECN-capable packets are marked (CE) in place of that.
    """

    rate_bps: int
    burst_bytes: int
    peak_rate_bps: int | None = None
    peak_burst_bytes: int | None = None
    marks: bool = False


@dataclass(frozen=True)
class Framing:
    """Bytes of a frame on a medium: ``overhead`` more, ``mpu`` at least, divided as ``linklayer`` does (tc-stab(8))."""

    overhead: int
    mpu: int
    linklayer: str

    def most(self, size_bytes: int) -> int:
        """The most that so many bytes of Ethernet frames may be there: of the shortest frames, in bytes."""
        frame = max(MIN_FRAME_BYTES + self.overhead, self.mpu)
        if self.linklayer == "atm":
            frame = math.ceil((frame / 48 + 1) * 53)
        elif self.linklayer == "ptm":
            frame += frame // 64 + 1
        return math.ceil(size_bytes * max(1.0, frame / MIN_FRAME_BYTES))


@dataclass(frozen=True)
class Bursts:
    """Bursts in which a link carries what waits when it is free: up to ``packets`` or ``bytes``, None: any number.

    Each takes ``overhead_ns`` and its bytes at the link's rate.
    """

    packets: int | None
    bytes: int | None
    overhead_ns: int

    def overheads_ns(self, size_bytes: int) -> int:
        """The most that the overheads of so many waiting bytes take."""
        # Two bursts in a row have more bytes than one may have.
        at_least = [] if self.bytes is None else [self.bytes / 2]
        at_least += [] if self.packets is None else [self.packets * MIN_FRAME_BYTES]
        return (math.ceil(size_bytes / min(at_least)) + 1) * self.overhead_ns


@dataclass(frozen=True)
class Jitter:
    """What is added to each packet's delay in nanoseconds, drawn independently; exactly one distribution is set.

    ``uniform_ns`` is the most either way, ``normal_ns`` the standard deviation, both of mean 0; ``pareto`` is scale in
    nanoseconds and shape of Pareto's second kind (Lomax), ``samples_ns`` are equally likely. With ``reorder`` packets
    may overtake each other.
    """

    uniform_ns: int | None = None
    normal_ns: int | None = None
    pareto: tuple[int, float] | None = None
    samples_ns: tuple[int, ...] = ()
    reorder: bool = False

    @property
    def least_ns(self) -> int:
        """The least of all draws, but for one in 30,000 of a normal distribution."""
        if self.uniform_ns is not None:
            return -self.uniform_ns
        if self.normal_ns is not None:
            return -CUT_DEVIATIONS * self.normal_ns
        return min((0, *self.samples_ns))

    @property
    def lowest_ns(self) -> int:
        """The least of all draws, but for one in 10^9 of a normal distribution."""
        return self.least_ns if self.normal_ns is None else -LONGEST_DEVIATIONS * self.normal_ns

    @property
    def most_ns(self) -> int:
        """The most of all draws, but for very few of a distribution that has no end."""
        if self.uniform_ns is not None:
            return self.uniform_ns
        if self.normal_ns is not None:
            return LONGEST_DEVIATIONS * self.normal_ns
        if self.pareto is not None:
            scale, shape = self.pareto
            return round(scale * (math.pow(LONGEST_OF, 1 / shape) - 1))
        return max((0, *self.samples_ns))
