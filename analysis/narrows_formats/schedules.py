# SPDX-License-Identifier: Apache-2.0
"""Links that vary: what they offer at each time since an epoch, the experiment's start. Nanoseconds, bit/s."""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from narrows_formats.span import Span
from narrows_formats.units import NANOSECONDS

MILLISECOND = 1_000_000
TENTH = 100 * MILLISECOND
# A delivery opportunity (Mahimahi's link_queue.cc: PACKET_SIZE): an IP packet and four bytes of the TUN device.
OPPORTUNITY_BYTES = 1504
OPPORTUNITY_BITS = 8 * OPPORTUNITY_BYTES
# What an opportunity does not count of an Ethernet frame: its header, less those four bytes.
UNCOUNTED_BYTES = 10


@dataclass(frozen=True)
class RateSteps:
    """A rate in bit/s from each start on; ``period_ns`` after the epoch the steps begin again, if it is given."""

    steps: tuple[tuple[int, int], ...]
    period_ns: int | None = None

    @property
    def span_bps(self) -> Span:
        """The lowest and highest rate of a step."""
        rates = [rate for _, rate in self.steps]
        return Span(min(rates), max(rates))

    @property
    def nominal_bps(self) -> int:
        """What a BDP and a buffer in time are of: the mean over a period, or else the first rate above 0."""
        if self.period_ns is None:
            return next((rate for _, rate in self.steps if rate), 0)
        return round(self._carried(self.period_ns) / self.period_ns)

    @property
    def stops(self) -> bool:
        """Whether nothing passes from some time on."""
        return self.steps[-1][1] == 0 if self.period_ns is None else self.span_bps.most == 0

    def longest_ns(self, size_bytes: int) -> int:
        """Time that these bytes take at most, whenever they begin; rounded up."""
        bits = 8 * size_bytes * NANOSECONDS
        if self.period_ns is None:
            return self.steps[-1][0] - bits // -self.steps[-1][1]
        return (1 - bits // -self._carried(self.period_ns)) * self.period_ns

    def longest_wait_ns(self, size_bytes: int) -> int:
        """The same to the nanosecond: an outage or a low rate counts as long as the bytes may meet it.

        What passes meanwhile changes at the steps only, so that the longest wait begins or ends at one of them.
        """
        bits = 8 * size_bytes * NANOSECONDS
        turns = 0 if self.period_ns is None else bits // -self._carried(self.period_ns) * -self.period_ns
        waits = [self.finish_ns(start, size_bytes) - start for start in self._starts]
        ends = [start + turns for start in self._starts if self._carried(start + turns) >= bits]
        waits += [
            end + 1 - bisect.bisect_right(range(end), self._carried(end) - bits, key=self._carried) for end in ends
        ]
        return max(waits)

    def bits(self, start_ns: int, end_ns: int) -> Fraction:
        """What passes from one time after the epoch to another: the integral of the rate."""
        return Fraction(self._carried(end_ns) - self._carried(start_ns), NANOSECONDS)

    def down_ns(self, start_ns: int, end_ns: int) -> int:
        """For how long the rate is 0 from one time after the epoch to another."""
        down = RateSteps(tuple((start, int(rate == 0)) for start, rate in self.steps), self.period_ns)
        return down._carried(end_ns) - down._carried(start_ns)

    def extremes_bps(self, start_ns: int, end_ns: int) -> Span:
        """The lowest and highest rate that holds at any time from one to another."""
        if self.period_ns is not None and end_ns - start_ns >= self.period_ns:
            return self.span_bps
        begin, end = self._phase(start_ns), self._phase(max(start_ns, end_ns - 1))
        first, last = (bisect.bisect_right(self._starts, time) - 1 for time in (begin, end))
        between = range(first, last + 1) if begin <= end else [*range(first, len(self.steps)), *range(last + 1)]
        rates = [self.steps[number][1] for number in between]
        return Span(min(rates), max(rates))

    def finish_ns(self, start_ns: int, frame_bytes: int) -> int:
        """When the transmission of a frame that starts at a time is complete, rounded up to a nanosecond; of one that
        never is, when the rate becomes 0 for good."""
        wanted = self._carried(start_ns) + 8 * frame_bytes * NANOSECONDS
        last_ns = max(start_ns, self.steps[-1][0]) if self.stops else start_ns + self.longest_ns(frame_bytes)
        times = range(start_ns, last_ns)
        return start_ns + bisect.bisect_left(times, wanted, key=self._carried)

    def frame_bytes(self, size_bytes: float, frames: float) -> float:
        """What of a number of frames counts: all of it."""
        return size_bytes

    def _phase(self, time_ns: int) -> int:
        return time_ns if self.period_ns is None else time_ns % self.period_ns

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(start for start, _ in self.steps)

    @cached_property
    def _sums(self) -> tuple[int, ...]:
        """The integral up to each start."""
        parts = ((after - before) * rate for (before, rate), (after, _) in pairwise(self.steps))
        return (0, *accumulate(parts))

    def _carried(self, until_ns: int) -> int:
        """The integral from the epoch on, in bit/s times nanoseconds."""
        if self.period_ns is not None and until_ns > self.period_ns:
            rounds, rest = divmod(until_ns, self.period_ns)
            return rounds * self._carried(self.period_ns) + self._carried(rest)
        last = max(0, bisect.bisect_right(self._starts, until_ns) - 1)
        start, rate = self.steps[last]
        return self._sums[last] + (until_ns - start) * rate


@dataclass(frozen=True)
class Opportunities:
    """Mahimahi's delivery opportunities; looped ones begin again at the last."""

    at_ns: tuple[int, ...]
    loop: bool = True

    @property
    def span_bps(self) -> Span:
        """From 0, between opportunities, to what passes in the busiest millisecond."""
        busiest = first = 0
        for number, at in enumerate(self.at_ns):
            while self.at_ns[first] <= at - MILLISECOND:
                first += 1
            busiest = max(busiest, number - first + 1)
        # The last one of a round and those at 0 of the next come at one time.
        if self.loop:
            counts = Counter(self.at_ns)
            busiest = max(busiest, counts[self.at_ns[-1]] + counts[0])
        return Span(0, busiest * OPPORTUNITY_BITS * NANOSECONDS // MILLISECOND)

    @property
    def nominal_bps(self) -> int:
        """What a BDP and a buffer in time are of: the mean over a round, an opportunity as 1504 bytes."""
        return round(Fraction(len(self.at_ns) * OPPORTUNITY_BITS * NANOSECONDS, self.at_ns[-1]))

    @property
    def stops(self) -> bool:
        """Whether nothing passes from some time on."""
        return not self.loop

    def longest_ns(self, size_bytes: int) -> int:
        """Time that these bytes take at most, whenever they begin; each may need an opportunity more."""
        needed = size_bytes // OPPORTUNITY_BYTES + 2
        return (1 - needed // -len(self.at_ns)) * self.at_ns[-1]

    def bits(self, start_ns: int, end_ns: int) -> Fraction:
        """What passes after one time from the epoch on and up to another; an opportunity as 1504 bytes."""
        return Fraction((self._until(end_ns) - self._until(start_ns)) * OPPORTUNITY_BITS)

    def extremes_bps(self, start_ns: int, end_ns: int) -> Span:
        """The least and most that passes in whole tenths of a second from one time to another."""
        tenths = range(start_ns, max(start_ns + 1, end_ns - TENTH + 1), TENTH)
        rates = [int(self.bits(start, start + TENTH)) * (NANOSECONDS // TENTH) for start in tenths]
        return Span(min(rates), max(rates))

    def finish_ns(self, start_ns: int, frame_bytes: int) -> int:
        """When a frame that starts at a time is through: what its first opportunity carries is."""
        return start_ns

    def frame_bytes(self, size_bytes: float, frames: float) -> float:
        """What of a number of frames counts: IP packets and four bytes each."""
        return size_bytes - UNCOUNTED_BYTES * frames

    def down_ns(self, start_ns: int, end_ns: int) -> None:
        """Between opportunities nothing passes; which of that is an outage is not said."""

    def _until(self, time_ns: int) -> int:
        """Opportunities from the epoch up to a time."""
        rounds, rest = divmod(time_ns, self.at_ns[-1]) if self.loop else (0, time_ns)
        return rounds * len(self.at_ns) + bisect.bisect_right(self.at_ns, rest)


RateSchedule = RateSteps | Opportunities


def as_json(schedule: RateSchedule) -> dict[str, object]:
    """A rate that varies as run.json has it: starts and rates, or opportunities; ``period_ns`` null: once."""
    if isinstance(schedule, RateSteps):
        starts, rates = zip(*schedule.steps, strict=True)
        return {"start_ns": starts, "rate_bps": rates, "period_ns": schedule.period_ns}
    return {"opportunities_ns": schedule.at_ns, "period_ns": schedule.at_ns[-1] if schedule.loop else None}


@dataclass(frozen=True)
class DelaySteps:
    """A delay in nanoseconds from each start on.

    With ``jitters``, one for each step, each packet's delay is more or less by up to so much, uniformly.
    With ``gathers`` the delays of packets that pass the link in a period begin together, at its end.
    """

    steps: tuple[tuple[int, int], ...]
    period_ns: int | None = None
    gathers: bool = False
    jitters: tuple[int, ...] = ()

    def at(self, time_ns: int) -> int:
        """The delay that holds at a time."""
        within = time_ns if self.period_ns is None else time_ns % self.period_ns
        return next((delay for start, delay in reversed(self.steps) if start <= within), self.steps[0][1])

    def later_by(self, more_ns: int) -> DelaySteps:
        """The same with so much more, or less, delay at all times."""
        return replace(self, steps=tuple((start, delay + more_ns) for start, delay in self.steps))

    def changes(self, begin_ns: int, end_ns: int) -> list[int]:
        """``begin_ns``, the starts of all steps after it and before ``end_ns``, in order, and ``end_ns``."""
        turns = range(1) if self.period_ns is None else range(begin_ns // self.period_ns, end_ns // self.period_ns + 1)
        starts = [turn * (self.period_ns or 0) + start for turn in turns for start, _ in self.steps]
        return [begin_ns, *(start for start in starts if begin_ns < start < end_ns), end_ns]

    @property
    def span_ns(self) -> Span:
        """The shortest and the longest one, with jitters of its own."""
        jitters = self.jitters or (0,) * len(self.steps)
        least = min(delay - jitter for (_, delay), jitter in zip(self.steps, jitters, strict=True))
        most = max(delay + jitter for (_, delay), jitter in zip(self.steps, jitters, strict=True))
        return Span(least, most + (self.period_ns or 0 if self.gathers else 0))
