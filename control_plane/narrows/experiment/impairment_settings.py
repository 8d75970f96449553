# SPDX-License-Identifier: Apache-2.0
"""Loss, delay and jitter of a link as users write them; what becomes of them is in `narrows.experiment.impairments`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby, pairwise
from typing import Annotated, Any, Literal, Self

from narrows_formats.schedules import DelaySteps, RateSteps
from narrows_formats.units import ALLOWED_TIME, UnitError, format_time, parse_time
from narrows_formats.validation import refuse
from pydantic import Discriminator, Field, StrictInt, Tag, model_validator

from narrows.experiment.impairments import Bursts, Framing, GilbertElliott, Jitter, LossPattern, Policer
from narrows.field_types import Count, Model, Probability, Rate, Ratio, Size, TextFile, Time

# Runs of lost packets and samples that a switch takes.
MAX_RUNS, MAX_SAMPLES = 65_536, 4_000_000
# Of a burst, in nanoseconds: what the switch takes.
MAX_OVERHEAD = 100_000_000_000
Positive = Annotated[float, Field(gt=0)]


class PolicerSettings(Model):
    """Token buckets in front of the queue; they are full at the start."""

    rate: Rate = Field(description="Committed rate, of Ethernet frames (L2): RFC 2697's and RFC 2698's CIR.")
    burst: Size = Field(
        description="Bytes that pass at once after silence (CBS); at least a full-size frame, or none would pass."
    )
    peak_rate: Rate | None = Field(
        default=None, description="A second bucket's rate (RFC 2698's PIR), at least `rate`; with `peak_burst`."
    )
    peak_burst: Size | None = Field(default=None, description="Bytes that it holds (PBS); at least a full-size frame.")
    excess: Literal["drop", "mark"] = Field(
        default="drop",
        description="What becomes of a packet that does not conform. `mark`: one that is ECN-capable goes on, with CE "
        "(RFC 3168); others are dropped.",
    )

    @model_validator(mode="after")
    def _whole_peak(self) -> Self:
        if (self.peak_rate is None) != (self.peak_burst is None):
            raise refuse("has one of peak_rate and peak_burst", "both, for two rates, or neither")
        if self.peak_rate is not None and self.peak_rate < self.rate:
            raise refuse("has a peak_rate below its rate", "a peak_rate of at least the rate (RFC 2698, section 2)")
        return self

    @property
    def planned(self) -> Policer:
        """The same in a plan."""
        return Policer(self.rate, self.burst, self.peak_rate, self.peak_burst, self.excess == "mark")


class FramingSettings(Model):
    """What frames take on a medium that is not Ethernet, by the names of tc-stab(8) and tc-cake(8)."""

    overhead: Annotated[StrictInt, Field(ge=-14, le=256)] = Field(
        default=0,
        description="Bytes added to each Ethernet frame, whose header of 14 bytes counts: -14 (the IP packet) to 256.",
    )
    mpu: Annotated[StrictInt, Field(ge=0, le=256)] = Field(
        default=0, description="Bytes that no frame has less than with it, up to 256."
    )
    linklayer: Literal["ethernet", "atm", "ptm"] = Field(
        default="ethernet",
        description="`atm`: cells of 53 bytes with 48 of a frame in each, the last one filled up. `ptm`: a byte more "
        "for each 64, or part of it.",
    )

    @property
    def planned(self) -> Framing:
        """The same in a plan."""
        return Framing(self.overhead, self.mpu, self.linklayer)


class AggregationSettings(Model):
    """A link that hands packets over in bursts: at set intervals (`period`), or of a number of `frames` or a `size`."""

    period: Annotated[Time, Field(gt=0)] | None = Field(
        default=None,
        description="Packets whose last bit passes the link in such an interval leave it together at its end.",
    )
    frames: Count | None = Field(
        default=None,
        description="Packets of a burst, at most.",
    )
    size: Size | None = Field(
        default=None,
        description="Bytes of a burst, at most; at least a full-size frame. Alone or with `frames`; not where a link "
        "has several queues.",
    )
    overhead: Time = Field(
        default=0,
        description="Time in which the link carries nothing, at the beginning of each interval or burst.",
    )

    @model_validator(mode="after")
    def _carries_something(self) -> Self:
        bursts = self.frames is not None or self.size is not None
        if bursts == (self.period is not None):
            raise refuse("needs exactly one kind of burst", "period; or frames, size or both")
        if self.period is not None and self.overhead >= self.period:
            raise refuse("has an overhead that leaves no time for packets", "an overhead shorter than the period")
        if self.overhead > MAX_OVERHEAD:
            raise refuse(f"has an overhead of {format_time(self.overhead)}", f"up to {format_time(MAX_OVERHEAD)}")
        return self

    @property
    def bursts(self) -> Bursts | None:
        """Those of a number of packets or bytes, as a plan has them; None: they are of a time."""
        return Bursts(self.frames, self.size, self.overhead) if self.period is None else None

    @property
    def takes_any_rate(self) -> bool:
        """Whether the link's rate may vary: what has passed it leaves at set times, and takes no time of it."""
        return self.period is not None and not self.overhead

    def rates(self, rate_bps: int) -> RateSteps | None:
        """What a link of that rate offers; None: that rate."""
        if self.period is None or not self.overhead:
            return None
        return RateSteps(((0, 0), (self.overhead, rate_bps)), self.period)

    def delays(self, delay_ns: int) -> DelaySteps | None:
        """What packets are delayed by behind the queue, with that delay of the link's; None: by that."""
        return None if self.period is None else DelaySteps(((0, delay_ns),), self.period, gathers=True)


class GilbertElliottSettings(Model):
    """Loss in bursts: a link is in a good or in a bad state."""

    p: Probability = Field(description="Probability that the good state turns bad, after each packet.")
    r: Probability = Field(description="Probability that the bad state turns good; bursts last 1/r packets on average.")
    loss_in_bad: Probability = Field(default=1.0, description="Loss in the bad state (netem's `1-h`).")
    loss_in_good: Probability = Field(default=0.0, description="Loss in the good state (netem's `1-k`).")

    @model_validator(mode="after")
    def _loses_something(self) -> Self:
        if not self.p or not self.r:
            raise refuse("never leaves a state", "p and r above 0")
        if not self.loss_in_bad and not self.loss_in_good:
            raise refuse("loses nothing", "loss_in_bad or loss_in_good above 0")
        return self

    @property
    def planned(self) -> GilbertElliott:
        """As a plan has it."""
        return GilbertElliott(self.p, self.r, self.loss_in_good, self.loss_in_bad)


class LossTrace(TextFile):
    """Loss as it was recorded."""

    loop: bool = Field(default=True, description="It starts over at its end. Otherwise nothing is lost from then on.")

    @cached_property
    def planned(self) -> LossPattern:
        """The positions that are lost."""
        fates = re.sub(r"[\s,]", "", self.text or "")
        runs, at = [], 0
        for fate, same in groupby(fates):
            length = sum(1 for _ in same)
            if fate == "1":
                runs.append((at, at + length - 1))
            at += length
        return LossPattern(tuple(runs), len(fates), self.loop)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        allowed = "a 0 for each packet that passes and a 1 for each that is lost, some of both"
        if strange := re.search(r"[^01\s,]", self.text or ""):
            raise refuse(f"has '{strange.group()}' in {self.file}", allowed)
        pattern = self.planned
        if not pattern.runs or pattern.mean_loss == 1:
            raise refuse(f"{self.file} loses {'everything' if pattern.runs else 'nothing'}", allowed)
        if len(pattern.runs) > MAX_RUNS:
            raise refuse(f"{self.file} has {len(pattern.runs)} runs of lost packets", f"up to {MAX_RUNS}")
        return self


class LossModel(Model):
    """Loss that is not independent from packet to packet: exactly one of `gilbert_elliott` and `trace`."""

    gilbert_elliott: GilbertElliottSettings | None = Field(default=None, description="Loss in bursts.")
    trace: LossTrace | None = Field(
        default=None, description="A file with a 0 for each packet that passes and a 1 for each that is lost, in order."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.gilbert_elliott is None) == (self.trace is None):
            raise refuse("needs exactly one of gilbert_elliott and trace", "gilbert_elliott or trace")
        return self

    @property
    def planned(self) -> GilbertElliott | LossPattern:
        """As a plan has it."""
        return next(one.planned for one in (self.gilbert_elliott, self.trace) if one is not None)


class DelayStep(Model):
    """A delay from a time on."""

    at: Time = Field(description="From when on, from the start of the experiment; the first is 0, and they ascend.")
    delay: Time = Field(description="The one-way delay.")


class VaryingDelay(Model):
    """A delay that changes: `steps` here, or a `trace` of them."""

    steps: Annotated[tuple[DelayStep, ...], Field(min_length=1)] | None = Field(
        default=None, description="Delays from given times on. The first is part of the base RTT."
    )
    trace: TextFile | None = Field(
        default=None,
        description="A file of steps: a time and the delay from then on, both with units (`1.5s 40ms`), one a line.",
    )
    period: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="After this time they begin again. Without it the last delay holds."
    )

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if (self.steps is None) == (self.trace is None):
            raise refuse("needs exactly one of steps and trace", "steps or trace")
        steps = self.schedule.steps
        if not steps or steps[0][0] or any(after <= before for (before, _), (after, _) in pairwise(steps)):
            raise refuse("has steps that do not ascend from 0", "at: 0s first, each step later than the one before it")
        if self.period is not None and steps[-1][0] >= self.period:
            raise refuse("has a step that is not before the period's end", "a period longer than the last step's time")
        return self

    @cached_property
    def schedule(self) -> DelaySteps:
        """As the switch has it."""
        if self.trace is None:
            return DelaySteps(tuple((step.at, step.delay) for step in self.steps or ()), self.period)
        return DelaySteps(tuple(_pairs(self.trace)), self.period)


class ParetoJitter(Model):
    """Long tails, never negative: Pareto's second kind (Lomax)."""

    scale: Annotated[Time, Field(gt=0)] = Field(description="The mean is scale / (shape - 1).")
    shape: Annotated[float, Field(gt=1, allow_inf_nan=False)] = Field(description="Exponent of the tail, above 1.")


class JitterSettings(Model):
    """What is added to each packet's delay: exactly one of `uniform`, `normal`, `pareto` and `samples`."""

    uniform: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="Uniform between minus and plus this time."
    )
    normal: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="Standard deviation of a normal distribution of mean 0."
    )
    pareto: ParetoJitter | None = Field(default=None, description="A Pareto distribution.")
    samples: TextFile | None = Field(
        default=None, description="A file of times with units, one a line (`1.5ms`, `-200us`), equally likely."
    )
    reorder: bool = Field(
        default=False, description="Packets may overtake each other. Else each leaves with or after the one before it."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("uniform", "normal", "pareto", "samples") if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse("needs exactly one distribution", "uniform, normal, pareto or samples")
        return self

    @cached_property
    def planned(self) -> Jitter:
        """As a plan has it."""
        pareto = None if self.pareto is None else (self.pareto.scale, self.pareto.shape)
        samples = () if self.samples is None else _times(self.samples)
        return Jitter(self.uniform, self.normal, pareto, samples, self.reorder)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.samples is not None and not 0 < len(self.planned.samples_ns) <= MAX_SAMPLES:
            raise refuse(f"has {len(self.planned.samples_ns)} times in {self.samples.file}", f"1 to {MAX_SAMPLES}")
        return self


def _pairs(trace: TextFile) -> Iterator[tuple[int, int]]:
    """Nanoseconds of each line: a time, and the delay from then on."""
    for number, line in enumerate((trace.text or "").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            at, delay = map(parse_time, words)
        except ValueError:
            raise refuse(
                f"has '{line.strip()}' in line {number} of {trace.file}",
                "a time and a delay with units, as in 1.5s 40ms",
            ) from None
        yield at, delay


def _times(samples: TextFile) -> tuple[int, ...]:
    """Nanoseconds of each line."""
    found = []
    for number, line in enumerate((samples.text or "").splitlines(), 1):
        if not (written := line.strip()):
            continue
        try:
            time = int(parse_time(written.removeprefix("-")))
        except UnitError:
            raise refuse(f"has '{written}' in line {number} of {samples.file}", ALLOWED_TIME) from None
        found.append(-time if written.startswith("-") else time)
    return tuple(found)


def _kind(value: Any) -> str:
    return "(varying)" if isinstance(value, dict | LossModel | VaryingDelay) else "(constant)"


# The tags are in no message: see `narrows_formats.validation`.
LinkLoss = Annotated[Annotated[Ratio, Tag("(constant)")] | Annotated[LossModel, Tag("(varying)")], Discriminator(_kind)]
LinkDelay = Annotated[
    Annotated[Time, Tag("(constant)")] | Annotated[VaryingDelay, Tag("(varying)")], Discriminator(_kind)
]
