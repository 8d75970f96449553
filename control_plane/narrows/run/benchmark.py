# SPDX-License-Identifier: Apache-2.0
"""How fast this machine's softswitch forwards: RFC 2544's throughput and latency by frame size, and what it costs.

Throughput (section 26.1) is the highest rate of which not one frame is lost, found by halving between a rate that was
held and one that was not. Latency (26.2) is measured at that rate, of frames of their own among the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

# RFC 2544, section 9.1, for Ethernet: frames with their FCS, which nothing here ever sees.
FRAME_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
FCS_BYTES = 4
# Rates whose cost is measured, in frames of `COST_FRAME` bytes.
COST_RATES_BPS = (1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000)
COST_FRAME = 1518
# Between the highest rate that was held and the lowest that was not, as a part of the latter.
PRECISION = 0.03
MAX_TRIALS = 20
# A sender that is slower than this part of what it was asked for is the limit itself.
ON_TIME = 0.98
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Trial:
    """What came of frames sent at a rate; ``sent_per_s`` is what the sender made of it.

    ``processors`` are those that switch and collector kept busy, on average.
    """

    sent: int
    sent_per_s: float
    arrived: int
    reported: int
    processors: float

    @property
    def is_whole(self) -> bool:
        """Whether every frame has arrived, and its report too."""
        return 0 < self.sent <= min(self.arrived, self.reported)


class Bench(Protocol):
    """A softswitch between a sender and a receiver."""

    async def trial(self, frame_bytes: int, frames_per_s: float, seconds: float) -> Trial:
        """Send frames of one size, without FCS, at a rate.

        Raises:
            RunError: that could not be done.
        """
        ...

    async def latencies_ns(self, frame_bytes: int, frames_per_s: float, seconds: float) -> list[int]:
        """Times of probes from the sender's interface to the receiver's, while frames are sent at a rate.

        Raises:
            RunError: that could not be done.
        """
        ...


@dataclass(frozen=True)
class Throughput:
    """Of one frame size, FCS included: the highest rate without a loss, and latencies there in ns by percentile.

    ``bps`` is that of the frames without FCS, as a link's ``rate`` counts them. With ``limited_by_sender`` no higher
    rate could be sent.
    """

    frame_bytes: int
    frames_per_s: float
    bps: float
    limited_by_sender: bool
    trials: int
    latency_ns: dict[str, int]


@dataclass(frozen=True)
class Cost:
    """Processors that switch and collector need for a rate of full-size frames; None: it was not held."""

    bps: int
    processors: float | None


@dataclass(frozen=True)
class Findings:
    """All that was measured."""

    throughput: tuple[Throughput, ...]
    costs: tuple[Cost, ...]

    def as_json(self) -> dict[str, object]:
        """In base units."""
        return asdict(self)


async def measure(
    bench: Bench, tell: Callable[[str], None], seconds: float, sizes: Sequence[int] = FRAME_BYTES
) -> Findings:
    """Throughput and latency of every size, then the cost of the rates that are held.

    Args:
        bench: what is measured.
        tell: takes a line for people after each size.
        seconds: length of a trial; RFC 2544 has 60, with which this takes hours.
        sizes: of frames, FCS included.

    Raises:
        RunError: a trial could not be made.
    """
    found = []
    for size in sizes:
        one = await throughput(bench, size, seconds)
        found.append(one)
        tell(f"{size} B: {one.frames_per_s:,.0f} frames/s without a loss")
    costs = [await _cost(bench, rate, seconds) for rate in COST_RATES_BPS]
    return Findings(tuple(found), tuple(costs))


async def throughput(bench: Bench, size: int, seconds: float) -> Throughput:
    """The highest rate of frames of one size without a loss, and latencies there.

    Args:
        bench: what is measured.
        size: of frames, FCS included.
        seconds: length of a trial.

    Raises:
        RunError: a trial could not be made.
    """
    length = size - FCS_BYTES
    # As fast as the sender can: that is where to begin from.
    trial = await bench.trial(length, math.inf, seconds)
    held, not_held, trials = 0.0, trial.sent_per_s, 1
    if trial.is_whole:
        held = not_held
    while not_held - held > PRECISION * not_held and trials < MAX_TRIALS:
        asked = (held + not_held) / 2
        trial = await bench.trial(length, asked, seconds)
        trials += 1
        if trial.is_whole and trial.sent_per_s >= ON_TIME * asked:
            held = trial.sent_per_s
        else:
            not_held = asked
    times = sorted(await bench.latencies_ns(length, held, seconds)) if held else []
    return Throughput(
        frame_bytes=size,
        frames_per_s=held,
        bps=held * length * 8,
        limited_by_sender=held == not_held,
        trials=trials,
        latency_ns={f"p{percent:g}": percentile(times, percent) for percent in PERCENTILES} if times else {},
    )


async def _cost(bench: Bench, rate_bps: int, seconds: float) -> Cost:
    length = COST_FRAME - FCS_BYTES
    asked = rate_bps / 8 / length
    trial = await bench.trial(length, asked, seconds)
    is_held = trial.is_whole and trial.sent_per_s >= ON_TIME * asked
    return Cost(rate_bps, trial.processors if is_held else None)


def percentile(ascending: Sequence[int], percent: float) -> int:
    """The smallest value that at least ``percent`` of all do not exceed (nearest rank)."""
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]
