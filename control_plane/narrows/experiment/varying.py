# SPDX-License-Identifier: Apache-2.0
"""A rate that varies, as users write it, and the schedule that is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from narrows_formats.schedules import RateSchedule, RateSteps
from narrows_formats.units import RATE_UNITS, TIME_UNITS, format_time
from narrows_formats.validation import refuse
from pydantic import Discriminator, Field, StrictInt, Tag, field_validator, model_validator

from narrows.experiment.traces import holding, mahimahi, pensieve, periods, table
from narrows.experiment.traces.base import RatePoint, TraceError
from narrows.experiment.waves import STEPS, Kind, wave_steps
from narrows.field_types import Model, Rate, RateOrNone, Time

# What the switch takes of steps or opportunities.
MAX_ENTRIES = 4_000_000
# Formats whose file does not say from when to when a rate holds.
OPEN = ("csv", "pensieve")


class RateStep(Model):
    """A rate from a time on."""

    at: Time = Field(description="From when on, from the start of the experiment; the first is 0, and they ascend.")
    rate: RateOrNone = Field(description="The rate; `0bit`: nothing passes (an outage).")


class Wave(Model):
    """A rate that rises and falls periodically."""

    kind: Kind = Field(
        description="`sine` begins at its mean and rises, `square` begins high, `sawtooth` rises from `low` to `high`. "
        f"Sine and sawtooth are {STEPS} steps a period; over a period, what they carry is exact."
    )
    low: RateOrNone = Field(description="The lowest rate; `0bit`: nothing passes.")
    high: Rate = Field(description="The highest rate.")
    period: Time = Field(description="Length of a period, a whole number of milliseconds.")

    @model_validator(mode="after")
    def _a_wave(self) -> Self:
        if self.low >= self.high:
            raise refuse("has a low that is not below its high", "low below high")
        if self.period == 0 or self.period % TIME_UNITS["ms"]:
            raise refuse("has a period that is not a whole number of milliseconds", "1ms or more")
        return self


class TraceColumns(Model):
    """Columns of a CSV file: names in its first line, or numbers from 1 of a file without one."""

    time: str | Annotated[StrictInt, Field(ge=1)] = Field(description="The column of times.")
    rate: str | Annotated[StrictInt, Field(ge=1)] = Field(description="The column of rates.")


class Trace(Model):
    """A rate that was measured."""

    file: str = Field(description="The file, relative to the experiment file.")
    format: Literal["mahimahi", "csv", "pensieve", "sabre", "opennetlab"] = Field(
        description="`mahimahi`: lines of milliseconds, each an opportunity for 1504 bytes. `csv`: with `columns` and "
        "`unit`. `pensieve`: lines of seconds and Mbit/s. `sabre`, `opennetlab`: JSON with durations."
    )
    as_: Literal["opportunities", "rate"] | None = Field(
        default=None,
        alias="as",
        description="With `mahimahi`: delivery opportunities, as in Mahimahi (default), or the rate of each `bin`.",
    )
    bin: Annotated[Time, Field(gt=0)] | None = Field(default=None, description="With `as: rate`: length of a step.")
    holds: Literal["from", "until"] | None = Field(
        default=None,
        description="Required with `csv` and `pensieve`. `from`: a rate holds from its time on; a loop ends at the "
        "last time, whose rate is unused. `until`: up to its time, as in Pensieve's simulator; the first is unused.",
    )
    columns: TraceColumns | None = Field(default=None, description="With `csv`: the columns of times and rates.")
    unit: Literal["bit", "kbit", "Mbit", "Gbit"] | None = Field(
        default=None, description="With `csv`: unit of the rates, per second."
    )
    time_unit: Literal["ns", "us", "ms", "s", "min"] | None = Field(
        default=None, description="With `csv`: unit of times that are numbers."
    )
    time_format: str | None = Field(
        default=None, description="With `csv`: format of times that are dates, such as `%Y.%m.%d_%H.%M.%S`."
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = Field(
        default=",", description="With `csv`: what separates columns."
    )
    duplicates: holding.Duplicates | None = Field(
        default=None,
        description="With `csv` and `pensieve`: which of several rates at one time holds; without it they are refused.",
    )
    direction: Literal["uplink", "downlink"] | None = Field(
        default=None, description="With `opennetlab`: which of the file's two directions."
    )
    loop: bool = Field(default=True, description="It starts over at its end. Otherwise its last rate holds.")
    offset: Time = Field(default=0, description="Where in the trace the experiment starts.")
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(default=1.0, description="Factor of all rates.")
    start_at_zero: bool = Field(
        default=False,
        description="The first time is 0, whatever it says. Without it a late start is refused.",
    )
    text: str | None = Field(
        default=None,
        description="Contents of the file, filled in when it is read: a resolved experiment needs no file.",
    )

    @field_validator("format", mode="before")
    @classmethod
    def _has_one_capacity(cls, given: Any) -> Any:
        if given == "cellreplay":
            problem = "has two traces by load, and what the link carries under any other load is in neither"
            raise refuse(problem, "a recording of one capacity, in another format")
        return given

    @model_validator(mode="after")
    def _readable(self) -> Self:
        for field, formats in _ONLY_WITH.items():
            given = getattr(self, field)
            if given != type(self).model_fields[field].default and self.format not in formats:
                raise refuse(f"has {field.rstrip('_')} with format {self.format}", f"with {' or '.join(formats)}")
        if self.format in OPEN and self.holds is None:
            raise refuse("does not say whether a rate holds from or until its time", "holds: from, or until")
        if self.format == "csv" and (self.columns is None or self.unit is None):
            raise refuse("has no columns or no unit", "columns: {time, rate}, and unit")
        if self.format == "csv" and (self.time_unit is None) == (self.time_format is None):
            raise refuse("needs either time_unit or time_format", "the one that the file's times have")
        if (self.as_ == "rate") != (self.bin is not None):
            raise refuse("has only one of as: rate and bin", "both, or none")
        if self.opportunities and (self.scale != 1 or not self.loop):
            what = "a scale" if self.scale != 1 else "no loop, so that what waits at its end would never leave"
            raise refuse(f"has opportunities with {what}", "as: rate with bin, or neither")
        if self.text is None:
            raise refuse("has not been read", "an experiment that is read from a file, or text with what it has")
        try:
            entries = self.schedule
        except TraceError as error:
            raise refuse(f"{self.file}: {error}", error.allowed) from None
        _check(entries)
        return self

    @property
    def opportunities(self) -> bool:
        """Whether it is used as Mahimahi does."""
        return self.format == "mahimahi" and self.as_ != "rate"

    @cached_property
    def schedule(self) -> RateSchedule:
        """What the link offers.

        Raises:
            TraceError: the file is not of its format.
        """
        text = self.text or ""
        if self.format == "mahimahi":
            at_ns = mahimahi.read(text)
            if self.bin is None:
                return mahimahi.moved(at_ns, self.offset)
            found = mahimahi.as_rate(at_ns, self.bin)
        elif self._periods is not None:
            starts = tuple((point.time_ns, point.rate_bps) for point in self._periods.points)
            found = RateSteps(starts, self._periods.period_ns)
        else:
            assert self.holds is not None
            points = holding.distinct(self._points, self.duplicates)
            found = holding.steps(points, self.holds, self.start_at_zero, self.loop)
        if not self.loop:
            found = RateSteps(found.steps)
        return holding.scaled(holding.moved(found, self.offset), Fraction(str(self.scale)))

    def notes(self) -> Iterator[str]:
        """What a reader of the file might not expect."""
        if self.format in OPEN:
            yield from holding.notes(self._points, holding.distinct(self._points, self.duplicates))
            if self.start_at_zero and self._points[0].time_ns:
                yield f"starts at {format_time(self._points[0].time_ns)}, which is taken as 0"
        elif self._periods is not None and self._periods.unused:
            yield f"has {', '.join(self._periods.unused)} beside rates, which are not used"

    @cached_property
    def _points(self) -> list[RatePoint]:
        if self.format == "pensieve":
            return pensieve.read(self.text or "")
        assert self.columns is not None and self.unit is not None
        unit_s = Fraction(TIME_UNITS[self.time_unit or "s"], TIME_UNITS["s"])
        columns = table.Columns(
            self.columns.time, self.columns.rate, RATE_UNITS[self.unit], unit_s, self.time_format, self.delimiter
        )
        return table.read(self.text or "", columns)

    @cached_property
    def _periods(self) -> periods.Periods | None:
        if self.format == "sabre":
            return periods.sabre(self.text or "")
        return periods.opennetlab(self.text or "", self.direction) if self.format == "opennetlab" else None


_ONLY_WITH: dict[str, tuple[str, ...]] = {
    "as_": ("mahimahi",),
    "bin": ("mahimahi",),
    "holds": OPEN,
    "duplicates": OPEN,
    "start_at_zero": OPEN,
    **dict.fromkeys(("columns", "unit", "time_unit", "time_format", "delimiter"), ("csv",)),
    "direction": ("opennetlab",),
}


class VaryingRate(Model):
    """A rate that varies: exactly one of `steps`, `wave` and `trace`."""

    steps: Annotated[tuple[RateStep, ...], Field(min_length=1)] | None = Field(
        default=None, description="Rates from given times on."
    )
    period: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="With `steps`: after this time they begin again. Without it the last rate holds."
    )
    wave: Wave | None = Field(default=None, description="A sine, a square wave or a sawtooth.")
    trace: Trace | None = Field(default=None, description="A file.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(given is not None for given in (self.steps, self.wave, self.trace)) != 1:
            raise refuse("needs exactly one of steps, wave and trace", "steps, wave or trace")
        if self.period is not None and self.steps is None:
            raise refuse("has a period without steps", "period with steps")
        for before, after in pairwise(self.steps or ()):
            if after.at <= before.at:
                raise refuse("has steps that do not ascend", "each step later than the one before it")
        if self.steps is not None and self.steps[0].at:
            raise refuse("has a first step that is not at 0", "at: 0s first")
        if self.steps is not None and self.period is not None and self.steps[-1].at >= self.period:
            raise refuse("has a step that is not before the period's end", "a period longer than the last step's time")
        _check(self.schedule)
        return self

    @cached_property
    def schedule(self) -> RateSchedule:
        """What the link offers from the experiment's start on."""
        if self.trace is not None:
            return self.trace.schedule
        if self.wave is not None:
            return wave_steps(self.wave.kind, self.wave.low, self.wave.high, self.wave.period)
        return RateSteps(tuple((step.at, step.rate) for step in self.steps or ()), self.period)


def _check(schedule: RateSchedule) -> None:
    entries = len(schedule.steps) if isinstance(schedule, RateSteps) else len(schedule.at_ns)
    if entries > MAX_ENTRIES:
        raise refuse(f"has {entries} changes", f"up to {MAX_ENTRIES}")
    if schedule.stops:
        raise refuse("ends with a rate of 0, so that what waits then would never leave", "a last rate above 0")


def _kind(value: Any) -> str:
    return "(varying)" if isinstance(value, dict | VaryingRate) else "(constant)"


# The tags are in no message: see `narrows_formats.validation`.
LinkRate = Annotated[
    Annotated[Rate, Tag("(constant)")] | Annotated[VaryingRate, Tag("(varying)")], Discriminator(_kind)
]
