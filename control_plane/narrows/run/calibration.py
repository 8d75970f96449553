# SPDX-License-Identifier: Apache-2.0
"""Measures a switch's queue: what its shaper counts, how exact its rate and depth are, how long an empty one takes.

UDP of two sizes of frames keeps the queue full, one after the other. The shaper gives out the same bytes a second for
both, so that ``packets_per_second * (frame + unknown)`` is the same: two equations for the unknown and the true rate.
Departures are counted and timed by the reports, in the switch's own clock, which the sender's is compared with first: a
rate that is off as much as the clock that it is measured by looks right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from narrows.errors import RunError
from narrows.switch.calibration import Findings, MeasuredRate, QueueFacts

IntArray = npt.NDArray[np.int64]
# Frames of two sizes keep the queue full; full-size frames try the other rates.
FRAMES = (256, 1514)
OVERLOAD = 1.5
IDLE = 0.05
LOAD_S = 4.0
# Share of a stretch that does not count: the shaper's bucket empties.
EDGE = 0.2
MIN_REPORTS = 2000
# How far from a whole number of bytes, and from the rate set, the answer may be.
BYTE_TOLERANCE = 0.3
RATE_TOLERANCE = 0.005
MAX_BYTES = 24
# The clocks of switch and sender are compared over so many parts of a load: a sender may be held up in one of them.
CLOCK_PARTS = 5
MIN_PACED = 100


@dataclass(frozen=True)
class Departures:
    """What reports say of the packets of one load: departures so far, times in ns that do not wrap, delays in ns.

    ``found`` is the depth that a packet found, in the target's units.
    """

    sequence: IntArray
    time_ns: IntArray
    delay_ns: IntArray
    found: IntArray


class Bench(Protocol):
    """A configured switch with a sender in front of its bottleneck."""

    async def load(self, frame_bytes: int, rate_bps: float, seconds: float) -> Departures:
        """Send UDP in frames of one size at an L2 rate, and wait until all of it has left.

        Raises:
            RunError: it could not be sent, or no report came.
        """
        ...

    async def facts(self) -> QueueFacts:
        """The queue as it was since it was configured.

        Raises:
            RunError: the switch does not tell.
        """
        ...

    async def rate_step_ns(self) -> int | None:
        """How long a new rate takes at most; None where rates change by themselves.

        Raises:
            RunError: the switch refuses.
        """
        ...


OpenBench = Callable[[int], AbstractAsyncContextManager[Bench]]


async def measure(open_bench: OpenBench, rates_bps: Sequence[int], tell: Callable[[str], None]) -> Findings:
    """Measure one switch.

    Args:
        open_bench: makes a bench whose bottleneck has a rate (L2, bit/s).
        rates_bps: the first one is loaded with frames of both sizes, the others with full-size ones.
        tell: called with what is being done.

    Raises:
        RunError: the answers contradict each other, or the sender does not fill the queue.
    """
    first, *others = rates_bps
    points: list[tuple[int, float]] = []
    moved: set[str] = set()
    async with open_bench(first) as bench:
        tell("an empty queue")
        idle = await bench.load(FRAMES[-1], IDLE * first, LOAD_S)
        refuse_another_clock(idle, IDLE * first / 8 / FRAMES[-1])
        for frame in FRAMES:
            tell(f"a full queue of {frame} B frames at {first / 1e6:g} Mbit/s")
            points.append((frame, departure_rate(await bench.load(frame, OVERLOAD * first, LOAD_S))))
        facts = await bench.facts()
        tell("how long a new rate takes")
        rate_step_ns = await bench.rate_step_ns()
    moved |= facts.moved.keys()
    counted = shaper_bytes(points, facts.compensation_bytes)
    found = [_rate(facts, *points[-1], counted)]
    overshoot = facts.deepest - facts.limit
    for rate in others:
        tell(f"a full queue at {rate / 1e6:g} Mbit/s")
        async with open_bench(rate) as bench:
            packets = departure_rate(await bench.load(FRAMES[-1], OVERLOAD * rate, LOAD_S))
            other = await bench.facts()
        found.append(_rate(other, FRAMES[-1], packets, counted))
        overshoot = max(overshoot, other.deepest - other.limit)
        moved |= other.moved.keys()
    wrong = [one for one in found if abs(one.measured_bps / one.set_bps - 1) > RATE_TOLERANCE]
    if wrong:
        words = "; ".join(f"{one.measured_bps / 1e6:.3f} instead of {one.set_bps / 1e6:.3f} Mbit/s" for one in wrong)
        raise RunError(
            f"the shaper does not keep its rate: {words} ({wrong[0].measured_bps / wrong[0].set_bps:.4f} of it); "
            "fix: switch.shaper_clock_hz in the inventory must be the clock that the driver computes with"
        )
    return Findings(
        shaper_bytes=counted,
        rates=tuple(found),
        limit=facts.limit,
        overshoot=max(0, overshoot),
        depth_unit=facts.depth_unit,
        latency_ns=latency(idle),
        moved=tuple(sorted(moved)),
        rate_step_ns=rate_step_ns,
        device=facts.device,
    )


def refuse_another_clock(load: Departures, packets_per_s: float) -> None:
    """Compares the switch's clock with the sender's, which has sent so many packets a second into an empty queue.

    Raises:
        RunError: by the switch's clock they came faster or more slowly than `RATE_TOLERANCE` allows, or too few came.
    """
    count = len(load.time_ns)
    if count < MIN_PACED:
        raise RunError(
            f"{count} packets sent at a steady pace were reported; allowed: {MIN_PACED} or more; fix: doctor"
        )
    parts = np.array_split(np.arange(count), CLOCK_PARTS)
    spacing_ns = [np.polyfit(load.sequence[part], load.time_ns[part], 1)[0] for part in parts]
    clock = float(np.median(spacing_ns)) * packets_per_s / 1e9
    if abs(clock - 1) > RATE_TOLERANCE:
        raise RunError(
            f"the switch's clock makes {clock:.4f} s of a second of the sender's: times in reports, and rates measured "
            f"by them, are off by as much; allowed: up to {RATE_TOLERANCE:.1%}; fix: the chip's clock (its board's, or "
            "the SDE's setting of it), or a sender that has its processor to itself"
        )


def departure_rate(load: Departures) -> float:
    """Packets a second in the longest stretch in which the queue was never empty, its beginning left out.

    Raises:
        RunError: that stretch is too short, or reports are missing in it.
    """
    # A packet that found nothing waiting ends a stretch: the link may have been idle before it.
    ends = np.flatnonzero(load.found <= 0)
    edges = np.concatenate(([-1], ends, [len(load.found)]))
    longest = int(np.argmax(np.diff(edges)))
    first, last = int(edges[longest]) + 1, int(edges[longest + 1]) - 1
    first += int((last - first) * EDGE)
    if last - first < MIN_REPORTS:
        raise RunError(
            f"the sender kept the queue full for {max(0, last - first)} packets; allowed: {MIN_REPORTS} or more; "
            "fix: a faster sender, or see whether reports are lost"
        )
    packets, elapsed = (int(values[last] - values[first]) for values in (load.sequence, load.time_ns))
    return packets / elapsed * 1e9


def shaper_bytes(points: Sequence[tuple[int, float]], compensation: int) -> int:
    """What the shaper counts of a packet beside frame and compensation, from packets a second at two frame sizes.

    Raises:
        RunError: it is not a whole number of bytes, or none that can be.
    """
    (small, fast), (large, slow) = points
    found = (slow * large - fast * small) / (fast - slow) - compensation
    whole = round(found)
    if abs(found - whole) > BYTE_TOLERANCE or not 0 <= whole <= MAX_BYTES:
        raise RunError(
            f"the shaper counts {found:.2f} B a packet beside the frame, which is impossible; allowed: a whole number "
            f"from 0 to {MAX_BYTES}; fix: see that nothing else uses the bottleneck's port, and no host pauses the link"
        )
    return whole


def latency(load: Departures) -> int:
    """What reports give as queue delay of a packet that found nothing waiting, in ns: the median.

    Raises:
        RunError: there was no such packet.
    """
    empty = load.delay_ns[load.found == 0]
    if not len(empty):
        raise RunError("no packet found the queue empty, though little was sent; fix: see that nothing else uses it")
    return int(np.median(empty))


def _rate(facts: QueueFacts, frame: int, packets_per_s: float, counted: int) -> MeasuredRate:
    return MeasuredRate(facts.shaper_bps, packets_per_s * (frame + counted + facts.compensation_bytes) * 8)
