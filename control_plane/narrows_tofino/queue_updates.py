# SPDX-License-Identifier: Apache-2.0
"""PI2, PIE and DualPI2 on Tofino: this machine reads the delays of the latest departures, and writes what follows.

The integers are those of the program on the softswitch (p4src/v1model/queue_management), so that the same delays give
the same probabilities. Updates are timed by software: how late they were, and how many were left out, is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from narrows.experiment.plan import Link
from narrows.queues.aqm import Call
from narrows.queues.pi2 import CERTAIN as PI2_CERTAIN
from narrows.queues.pi2 import DualPi2, Pi2
from narrows.queues.pie import CERTAIN as PIE_CERTAIN
from narrows.queues.pie import Pie
from narrows_formats.software_timing import AppliedUpdates
from narrows_formats.units import NANOSECONDS

from narrows_tofino.link_tasks import LinkTasks, Updated
from narrows_tofino.writes.queue_aqms import couples, picks

PROBABILITY_BITS = 32
# Of PI2's gains, and of PIE's probabilities beyond those of a pick.
_PI2_SHIFT, _PIE_SHIFT = 6, 24
_PIE_BURST_NS = 150_000_000
_PIE_VERY_LATE_NS = 250_000_000
# Of a run's updates, those that may be left out because the one before came too late.
MISSED = 0.01


@dataclass(frozen=True)
class Pick:
    """What an AQM does with arriving packets until its next update: probability in units of 2^-32, marks or drops."""

    probability: int
    marks: bool

    @property
    def call(self) -> Call:
        """Action and parameters of the program."""
        return picks(self.probability, marks=self.marks)


@dataclass(frozen=True)
class CoupledPick:
    """The same of DualPI2's queues: ``probability`` is the classic one's, ``low`` of the other; see `couples`."""

    probability: int
    low: int
    overload: bool

    @property
    def call(self) -> Call:
        """Action and parameters of the program."""
        return couples(self.probability, self.low, overload=self.overload)


class Aqm(Protocol):
    """An AQM with its state."""

    def update(self, delay_ns: int) -> Pick | CoupledPick:
        """A period is over; the delay is 0 where nothing waits."""
        ...


class Controller:
    """The proportional integral controller of PI2 and DualPI2, whose probability is linear (RFC 9332, appendix A.1)."""

    def __init__(self, target: int, alpha: int, beta: int) -> None:
        """Gains are for each 64 ns of delay, in units of 2^-32."""
        self._target, self._alpha, self._beta = target, alpha, beta
        self._old_ns = 0
        self._probability = 0

    def update(self, delay_ns: int) -> int:
        """A period is over; returns the probability in units of 2^-32."""
        change = self._alpha * (delay_ns - self._target) + self._beta * (delay_ns - self._old_ns)
        # Towards zero, as the program's differences are of unsigned numbers.
        step = (abs(change) >> _PI2_SHIFT) * (1 if change >= 0 else -1)
        self._probability = min(max(self._probability + step, 0), PI2_CERTAIN)
        self._old_ns = delay_ns
        return self._probability


def _squared(probability: int) -> int:
    return probability * probability >> PROBABILITY_BITS


class Pi2Law:
    """PI2 (De Schepper et al. 2016): what is picked is the square of what is controlled."""

    def __init__(self, controller: Controller, ecn: bool) -> None:
        """With its controller at the beginning; ``ecn``: it marks what allows it."""
        self._controller, self._ecn = controller, ecn

    def update(self, delay_ns: int) -> Pick:
        """See `Aqm.update`."""
        return Pick(_squared(self._controller.update(delay_ns)), self._ecn)


class DualPi2Law:
    """DualPI2 (RFC 9332) without its step: the classic queue picks with p'^2, the other with ``coupling`` times p'."""

    def __init__(self, controller: Controller, coupling: int) -> None:
        """With its controller at the beginning."""
        self._controller, self._coupling = controller, coupling

    def update(self, delay_ns: int) -> CoupledPick:
        """See `Aqm.update`; the delay is that of the queue that waits longer."""
        probability = self._controller.update(delay_ns)
        coupled, squared = probability * self._coupling, _squared(probability)
        if coupled > PI2_CERTAIN:
            return CoupledPick(squared, squared, overload=True)
        return CoupledPick(squared, coupled, overload=False)


class PieLaw:
    """PIE (RFC 8033) without section 5.4: picks are not kept apart from each other."""

    def __init__(self, target: int, tupdate: int, alpha: int, beta: int, ecn: bool) -> None:
        """Gains are for each nanosecond of delay, in units of 2^-56."""
        self._target, self._period, self._alpha, self._beta, self._ecn = target, tupdate, alpha, beta, ecn
        self._old_ns = 0
        self._probability = 0
        self._burst_ns = 0

    def update(self, delay_ns: int) -> Pick:
        """See `Aqm.update`; sections 4.1, 4.2 and 5.1 of the RFC."""
        before = self._probability
        shift = 0
        if before < PIE_CERTAIN // 10:
            # An eighth, then a quarter of the one before, for each decade below.
            shift = 1 + 2 * sum(before < PIE_CERTAIN // 10**decade for decade in range(2, 7))
        alpha, beta = self._alpha >> shift, self._beta >> shift
        step = alpha * (delay_ns - self._target) + beta * (delay_ns - self._old_ns)
        if before >= PIE_CERTAIN // 10:
            step = min(step, PIE_CERTAIN // 100 * 2)
        if delay_ns > _PIE_VERY_LATE_NS:
            step += PIE_CERTAIN // 50
        self._probability = min(max(before + step, 0), PIE_CERTAIN)
        if delay_ns == 0 and self._old_ns == 0:
            self._probability -= self._probability >> 6
        if self._burst_ns < _PIE_BURST_NS:
            self._burst_ns += self._period
        if self._probability == 0 and max(delay_ns, self._old_ns) < self._target >> 1:
            self._burst_ns = 0
        self._old_ns = delay_ns
        calm = delay_ns < self._target >> 1 and self._probability < PIE_CERTAIN // 5
        picks = self._burst_ns >= _PIE_BURST_NS and not calm
        marks = self._ecn and self._probability <= PIE_CERTAIN // 10
        return Pick(self._probability >> _PIE_SHIFT if picks else 0, marks)


def aqm_of(aqm: Updated) -> Aqm:
    """An AQM at its beginning, with the parameters that the program on the softswitch has."""
    _, parameters = aqm.update
    match aqm:
        case Pi2(ecn=ecn):
            return Pi2Law(Controller(**parameters), ecn)
        case DualPi2(coupling=coupling):
            return DualPi2Law(Controller(**parameters), coupling)
        case Pie(ecn=ecn):
            return PieLaw(**parameters, ecn=ecn)


def unpicked(aqm: Updated) -> Pick | CoupledPick:
    """What an AQM does until its first update."""
    return CoupledPick(0, 0, overload=False) if isinstance(aqm, DualPi2) else Pick(0, aqm.ecn)


Read = Callable[[Link], Awaitable[int]]
Write = Callable[[Link, Call], Awaitable[None]]


class QueueUpdater(LinkTasks):
    """Keeps the probabilities of a run's links up to date, each link's in a task of its own."""

    def __init__(self, read: Read, write: Write) -> None:
        """``read`` tells a link's delay in ns, 0 where nothing waits; ``write`` sets what its AQM does on arrival."""
        super().__init__()
        self._read = read
        self._write = write
        self.applied: dict[str, AppliedUpdates] = {}

    def start(self, links: Sequence[tuple[Link, Updated]]) -> None:
        """Begin now: an AQM's timer runs whether packets come or not."""
        for link, aqm in links:
            self.applied[link.name] = AppliedUpdates(period_ns=aqm.tupdate_ns)
            self.begin(self._follow(link, aqm))

    def problems(self) -> list[str]:
        """Links with too many updates left out, in words."""
        return [
            f"{name}: {one.missed} of {one.made + one.missed} updates of its queue's probability were left out, as the "
            "one before came too late; fix: a longer tupdate, or narrows calibrate"
            for name, one in self.applied.items()
            if one.missed > MISSED * (one.made + one.missed)
        ]

    async def _follow(self, link: Link, settings: Updated) -> None:
        aqm, applied = aqm_of(settings), self.applied[link.name]
        due_ns = time.monotonic_ns() + settings.tupdate_ns
        latest = unpicked(settings).call
        while True:
            await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / NANOSECONDS)
            pick = aqm.update(await self._read(link))
            call = pick.call
            if call != latest:
                await self._write(link, call)
                latest = call
            late_ns = time.monotonic_ns() - due_ns
            applied.made += 1
            applied.largest_error_ns = max(applied.largest_error_ns, late_ns)
            applied.largest_probability = max(applied.largest_probability, pick.probability / (1 << PROBABILITY_BITS))
            # An AQM counts periods: those that are over already are not made up for.
            over = late_ns // settings.tupdate_ns
            applied.missed += over
            due_ns += (over + 1) * settings.tupdate_ns
