# SPDX-License-Identifier: Apache-2.0
"""A run that Python drives: it advances step by step, and links and flows change in between."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from narrows_formats.units import (
    NANOSECONDS,
    QueueDepth,
    UnitError,
    format_time,
    parse_rate_or_none,
    parse_ratio,
    parse_time,
)

from narrows.api.child import Child
from narrows.api.reports import LiveReports
from narrows.api.runs import Source, directory_of, experiment, single
from narrows.api.sender import Sender
from narrows.errors import InputError, RunError
from narrows.experiment.driving import Driving, driven
from narrows.experiment.event_checks import unchangeable
from narrows.experiment.plan import Link
from narrows.experiment.planning import make_plan
from narrows.experiment.topology import check_change
from narrows.run.driver import (
    ChangeLink,
    Command,
    EndTraffic,
    Invalid,
    MadeAt,
    Over,
    Refused,
    RequestFlows,
    RunUntil,
    ShowReports,
    State,
)
from narrows.switch.entries import DELAY_BITS
from narrows.switch.widths import unreported_depths, unreported_waits

if TYPE_CHECKING:
    import pyarrow as pa
    from narrows_analysis import RunData

# Seconds, or a time with its unit.
Duration = float | int | str
NOT_BEGUN = "the run has not begun; fix: with api.testbed(...) as bed"


class Session:
    """A run under way; made by `testbed`.

    Attributes:
        state: its state when it last halted, or was last read.
    """

    def __init__(
        self,
        source: Source,
        virtual: bool,
        kernel: str | None,
        out: Path | str | None,
        held: Collection[str],
        reports: bool,
        scratch: Path | None = None,
    ) -> None:
        """See `testbed`; ``scratch`` is a directory that goes with the run."""
        self._experiment = single(experiment(source))
        self._driving = Driving(list(held), reports)
        self._plan = driven(make_plan(self._experiment), self._experiment, self._driving)
        self._reports = LiveReports({link.index: link.name for link in self._plan.reported})
        self._virtual, self._kernel = virtual, kernel
        self._directory, self._scratch = directory_of(self._experiment, out), scratch
        self._child: Child | None = None
        self._state: State | None = None
        self._result: RunData | None = None

    def __enter__(self) -> Self:
        """Make the testbed; returns when the experiment begins."""
        self._child = Child(
            self._experiment, self._virtual, self._kernel, self._directory, self._driving, scratch=self._scratch
        )
        try:
            self._state = self._child.answer()
        except BaseException:
            self._child.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the traffic, if it has not ended, and analyse the run; after an error the run is interrupted."""
        child = self._begun
        try:
            if error is None:
                if not self.state.over:
                    child.tell(EndTraffic())
                self._result = child.result()
        finally:
            self._state = replace(self.state, over=True)
            child.end()

    def abandon(self) -> None:
        """End the run without a result, in place of leaving the with block; what it had measured may be left there."""
        self._begun.end()
        if self._state is not None:
            self._state = replace(self._state, over=True)

    @property
    def _begun(self) -> Child:
        if self._child is None:
            raise RunError(NOT_BEGUN)
        return self._child

    @property
    def state(self) -> State:
        """The state at the last step.

        Raises:
            RunError: the run has not begun.
        """
        if self._state is None:
            raise RunError(NOT_BEGUN)
        return self._state

    @property
    def time_ns(self) -> int:
        """Nanoseconds since the experiment's start at the last step."""
        return self.state.time_ns

    @property
    def over(self) -> bool:
        """Whether the traffic has ended."""
        return self.state.over

    @property
    def result(self) -> RunData:
        """The run, as `narrows_analysis.load` returns it, once the with block has ended.

        Raises:
            RunError: it has not ended, or the run has failed.
        """
        if self._result is None:
            raise RunError("the run has no result yet; fix: ask after the with block")
        return self._result

    def run_until(self, time_ns: int) -> State:
        """Let the run continue until a time since the experiment's start, in nanoseconds.

        In virtual time the run halts there, at that exact nanosecond, until the next call. In real time it never
        halts, and the state is that of the moment when it was read. If the traffic ends before that time, it is the
        state before, with its time, and ``over`` is true.

        Raises:
            InputError: that time is past, or the run is over.
            RunError: the run has failed.
        """
        if self.over:
            raise InputError(f"time {time_ns} ns: the run is over; allowed: while not bed.over")
        if time_ns < self.time_ns:
            raise InputError(f"time {time_ns} ns: is past; allowed: {self.time_ns} ns (now) or later")
        answer: State | None = self._ask(RunUntil(time_ns))
        self._state = replace(self.state, over=True) if answer is None else answer
        return self._state

    def step(self, duration: Duration) -> State:
        """Let the run continue for a time: seconds, or a time with its unit such as ``"10ms"``. See `run_until`."""
        return self.run_until(self.time_ns + _nanoseconds(duration))

    def steps(self, every: Duration) -> Iterator[State]:
        """The state after each step, until the traffic ends."""
        while not self.step(every).over:
            yield self.state

    def change(
        self,
        link: str | None = None,
        *,
        rate: float | str | None = None,
        buffer: float | str | None = None,
        loss: float | str | None = None,
        delay: Duration | None = None,
    ) -> int:
        """Change settings of a link, from now on. In virtual time, now is exactly `time_ns`.

        Args:
            link: its name, or ``NAME.reverse``; the only link if left out.
            rate: bit/s, to the nearest whole one, or with a unit; 0: nothing passes.
            buffer: bytes, likewise, or with a unit: ``"50packets"``, ``"1bdp"`` (of the rate and RTT at the start).
            loss: a ratio, or ``"1%"``.
            delay: of a link that has one from the start on; seconds, or with a unit.

        Returns:
            When it was done, in nanoseconds since the experiment's start.

        Raises:
            InputError: there is no such link, a value would not be valid in the experiment's file either, or the
                run is over.
            RunError: the switch refuses.
        """
        links = {one.name: one for one in self._plan.links}
        name = next(iter(links)) if link is None and len(links) == 1 else link
        if name not in links:
            raise InputError(f"link '{link}': there is no such link; allowed: {', '.join(links)}")
        one = replace(links[name], field=f"link {name}")
        settings = self._experiment.directions[name]
        given = {"rate": rate, "buffer": buffer, "loss": loss, "delay": delay}
        changed = [setting for setting, value in given.items() if value is not None]
        if not changed:
            raise InputError(f"link {name}: nothing is changed; allowed: rate, buffer, loss, delay")
        try:
            rate_bps = None if rate is None else parse_rate_or_none(_with_unit(rate, "bit"))
            depth = None if buffer is None else QueueDepth.parse(_with_unit(buffer, "B"))
            ratio = None if loss is None else parse_ratio(loss)
            delay_ns = None if delay is None else _nanoseconds(delay)
        except UnitError as error:
            raise InputError(f"link {name}: {error}; allowed: {error.allowed}") from None
        limit = check_change(settings, one, self._plan.frame_bytes, depth, ratio)
        if limit is not None:
            self._check_reported(replace(one, later_limits=(limit,)))
        for setting in changed:
            if any(event.link == name and setting in event.settings for event in self._experiment.events):
                raise InputError(f"link {name}: {setting}: events of the experiment change it; allowed: one of the two")
        for setting, why in unchangeable(settings, changed, delay_ns):
            raise InputError(f"link {name}: {setting}: {why}")
        limit_bytes, limit_packets = limit or (None, None)
        return self._request(ChangeLink(name, rate_bps, limit_bytes, limit_packets, ratio, delay_ns))

    def start(self, name: str, at_ns: int | None = None) -> int:
        """Start flows that were held back (`held` of `testbed`), while others run.

        In virtual time a flow begins at that exact nanosecond, like one that the experiment's file starts then.

        Args:
            name: of a group, whose flows begin as its `stagger` says, or of one flow of it, such as ``cubic-2``.
            at_ns: when, in nanoseconds since the experiment's start; without it as soon as the flow's host can. It has
                to know that before: a time that is too soon is refused.

        Returns:
            When it begins.

        Raises:
            InputError: there is none of that name, it has been started or is not held, that time is past or too soon,
                or the run is over.
        """
        return self._request(RequestFlows("start", name, at_ns))

    def stop(self, name: str, at_ns: int | None = None) -> int:
        """Stop flows before their `duration` is over; parameters and errors are those of `start`.

        Bulk flows, UDP and probes can be stopped, once they have begun or been started; others end by themselves.

        Returns:
            When they stop.
        """
        return self._request(RequestFlows("stop", name, at_ns))

    @property
    def flows(self) -> Mapping[str, Sender]:
        """The senders of the run's flows by name: what a driver sets of them, and what their kernel knows.

        In virtual time each request at one halt is made 10 us after the one before, the first 10 us after the halt.
        """
        return {flow.name: Sender(flow.name, flow.rtt_ns / NANOSECONDS, self._have) for flow in self._plan.flows}

    def reports(self) -> pa.Table:
        """The reports that have come since the last call, a row for each packet that left a queue.

        In virtual time they are those of all packets up to `time_ns`, and no others; in real time they are some tens of
        milliseconds late. The first columns are ``time_ns`` (departure, since the experiment's start), ``link`` and
        ``flow_name``, which is null for acknowledgements and until the switch has reported the flow (see `FlowState`);
        those of [the telemetry files](telemetry-schema.md) follow. `.to_pandas()` converts the table to a frame.

        Raises:
            InputError: the run is over, or was made without ``reports=True``.
        """
        return self._reports.take(self._have(ShowReports()))

    def _check_reported(self, link: Link) -> None:
        """Check that reports can say what a link may hold."""
        plan = replace(self._plan, links=(link,))
        if problems := [*unreported_depths(plan), *unreported_waits(plan, DELAY_BITS, 1)]:
            raise InputError("\n".join(problems))

    def _request(self, command: ChangeLink | RequestFlows) -> int:
        made: MadeAt = self._have(command)
        return made.made_ns

    def _have(self, command: Command) -> Any:
        """The answer to a command that only a run in progress can follow."""
        answer = None if self.over else self._ask(command)
        if answer is None:
            self._state = replace(self.state, over=True)
            raise InputError("the run is over; allowed: while not bed.over")
        if isinstance(answer, Invalid):
            raise InputError(answer.why)
        if isinstance(answer, Refused):
            raise RunError(answer.why)
        return answer

    def _ask(self, command: Command) -> Any:
        """The answer to a command; None: the traffic has ended before it."""
        self._begun.tell(command)
        answer = self._begun.answer()
        return None if isinstance(answer, Over) else answer


def _with_unit(value: float | str, unit: str) -> str:
    """A number of a base unit, to the nearest whole one, as text.

    Raises:
        UnitError: it is infinite, or NaN.
    """
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise UnitError(f"{value} is not finite", f"a finite number of {unit}")
    return f"{round(value)}{unit}"


def _nanoseconds(duration: Duration) -> int:
    if isinstance(duration, str):
        try:
            return parse_time(duration)
        except UnitError as error:
            raise InputError(f"{duration}: {error}; allowed: {error.allowed}") from None
    if not 0 <= duration < float("inf"):
        raise InputError(f"{duration}: is not a time; allowed: {format_time(0)} or more")
    return round(duration * NANOSECONDS)


def testbed(
    source: Source,
    *,
    virtual: bool = False,
    kernel: str | None = None,
    out: Path | str | None = None,
    held: Collection[str] = (),
    reports: bool = False,
) -> Session:
    """A run to be driven, on the softswitch: ``with api.testbed(experiment, virtual=True) as bed:``.

    Args:
        source: the experiment, without sweep and repetitions; see `narrows.api.experiment`.
        virtual: in virtual time, where the run halts between two steps, however long the driver takes.
        kernel: of virtual time: a name of ``narrows kernel list``, or a path.
        out: directory of the results, which must not exist; `results/NAME-TIME` by default.
        held: groups whose flows do not begin before `Session.start` is called; the run continues until they have ended,
            or until the block is left.
        reports: whether each packet's report can be read during the run, see `Session.reports`.

    Raises:
        InputError: the experiment is not valid, or there is no such group.
    """
    return Session(source, virtual, kernel, out, held, reports)
