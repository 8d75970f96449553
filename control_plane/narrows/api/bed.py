# SPDX-License-Identifier: Apache-2.0
"""A run that is driven from Python: it goes on for as long as it is told to, and its links change in between."""

from __future__ import annotations

from collections.abc import Iterator
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
from narrows.api.runs import Source, directory_of, experiment, single
from narrows.api.state import State, state_of
from narrows.errors import InputError, RunError
from narrows.experiment.event_checks import unchangeable
from narrows.experiment.planning import make_plan

if TYPE_CHECKING:
    from narrows_analysis import RunData

# Seconds, or a time with its unit.
Duration = float | int | str


class Bed:
    """A run under way; made by `testbed`.

    Attributes:
        state: what it was like when it last stood still, or was last looked at.
    """

    def __init__(self, source: Source, virtual: bool, kernel: str | None, out: Path | str | None) -> None:
        """See `testbed`."""
        self._experiment = single(experiment(source))
        self._plan = make_plan(self._experiment)
        self._virtual, self._kernel = virtual, kernel
        self._directory = directory_of(self._experiment, out)
        self._child: Child | None = None
        self._state: State | None = None
        self._result: RunData | None = None

    def __enter__(self) -> Self:
        """Make the testbed; returns when the experiment begins."""
        self._child = Child(self._experiment, self._virtual, self._kernel, self._directory, driven=True)
        try:
            self._state = state_of(self._child.answer()["state"])
        except BaseException:
            self._child.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the traffic, if it has not ended, and analyse the run; after an error the run is interrupted."""
        assert self._child is not None
        try:
            if error is None:
                if not self.state.over:
                    self._child.tell({"end": True})
                self._result = self._child.result()
        finally:
            self._child.end()

    @property
    def state(self) -> State:
        """The state at the last step.

        Raises:
            RunError: the run has not begun.
        """
        if self._state is None:
            raise RunError("the run has not begun; fix: with api.testbed(...) as bed")
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
        """The run, as `narrows_analysis.load` gives it, once the with block has ended.

        Raises:
            RunError: it has not, or not well.
        """
        if self._result is None:
            raise RunError("the run has no result yet; fix: ask after the with block")
        return self._result

    def run_until(self, time_ns: int) -> State:
        """Let the run go on until a time since the experiment's start, in nanoseconds.

        In virtual time the run stands still there, at that very nanosecond, until it is told to go on. In real time it
        goes on all the while, and the state is that of the moment when it was read.

        Raises:
            InputError: that time is past, or the run is over.
            RunError: the run has failed.
        """
        if self.over:
            raise InputError(f"time {time_ns} ns: the run is over since {self.time_ns} ns; allowed: while not bed.over")
        if time_ns < self.time_ns:
            raise InputError(f"time {time_ns} ns: is past; allowed: {self.time_ns} ns (now) or later")
        answer = self._ask({"until_ns": time_ns})
        self._state = replace(self.state, over=True) if answer is None else state_of(answer["state"])
        return self._state

    def step(self, duration: Duration) -> State:
        """Let the run go on for a while: seconds, or a time with its unit such as ``"10ms"``. See `run_until`."""
        return self.run_until(self.time_ns + _nanoseconds(duration))

    def steps(self, every: Duration) -> Iterator[State]:
        """The state after each step, until the traffic ends."""
        while not self.step(every).over:
            yield self.state

    def change(
        self,
        link: str | None = None,
        *,
        rate: int | str | None = None,
        buffer: int | str | None = None,
        loss: float | str | None = None,
        delay: Duration | None = None,
    ) -> int:
        """Give a link other settings, from now on. In virtual time now is exactly `time_ns`.

        Args:
            link: its name, or ``NAME.reverse``; the only link if left out.
            rate: bit/s, or with a unit; 0: nothing passes.
            buffer: bytes, or with a unit: ``"50packets"``, ``"1bdp"`` (of the rate and RTT at the start).
            loss: a ratio, or ``"1%"``.
            delay: of a link that has one from the start on; seconds, or with a unit.

        Returns:
            When it was done, in nanoseconds since the experiment's start.

        Raises:
            InputError: there is no such link, a value is not valid, or the run is over.
            RunError: the switch refuses.
        """
        links = {one.name: one for one in self._plan.links}
        name = next(iter(links)) if link is None and len(links) == 1 else link
        if name not in links:
            raise InputError(f"link '{link}': there is none; allowed: {', '.join(links)}")
        if self.over:
            raise InputError("the run is over; allowed: while not bed.over")
        one = links[name]
        asked: dict[str, Any] = {}
        try:
            if rate is not None:
                asked["rate_bps"] = parse_rate_or_none(f"{rate}bit" if isinstance(rate, int) else rate)
            if buffer is not None:
                depth = QueueDepth.parse(f"{buffer}B" if isinstance(buffer, int) else buffer)
                limit = depth.in_bytes(one.rate_bps, one.rtt_ns, self._plan.frame_bytes)
                if limit < self._plan.frame_bytes:
                    raise UnitError(f"{buffer} holds no full-size frame", f"{self._plan.frame_bytes} B or more")
                asked["limit"] = [limit, int(depth.value) if depth.unit == "packets" else None]
            if loss is not None:
                asked["loss"] = parse_ratio(loss)
            if delay is not None:
                asked["delay_ns"] = _nanoseconds(delay)
        except UnitError as error:
            raise InputError(f"link {name}: {error}; allowed: {error.allowed}") from None
        if not asked:
            raise InputError(f"link {name}: nothing is changed; allowed: rate, buffer, loss, delay")
        given = {"rate": rate, "buffer": buffer, "loss": loss, "delay": delay}
        changed = [setting for setting, value in given.items() if value is not None]
        for setting, why in unchangeable(self._experiment.directions[name], changed, asked.get("delay_ns")):
            raise InputError(f"link {name}: {setting}: {why}")
        answer = self._ask({"link": name, **asked})
        if answer is None:
            self._state = replace(self.state, over=True)
            raise InputError("the run is over; allowed: while not bed.over")
        if "refused" in answer:
            raise RunError(answer["refused"])
        return int(answer["made_ns"])

    def _ask(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a command; None: the traffic has ended before it."""
        assert self._child is not None
        self._child.tell(command)
        answer = self._child.answer()
        return None if "over" in answer else answer


def _nanoseconds(duration: Duration) -> int:
    if isinstance(duration, str):
        try:
            return parse_time(duration)
        except UnitError as error:
            raise InputError(f"{duration}: {error}; allowed: {error.allowed}") from None
    if not 0 <= duration < float("inf"):
        raise InputError(f"{duration}: is not a time; allowed: {format_time(0)} or more")
    return round(duration * NANOSECONDS)


def testbed(source: Source, *, virtual: bool = False, kernel: str | None = None, out: Path | str | None = None) -> Bed:
    """A run to be driven, on the softswitch: ``with api.testbed(experiment, virtual=True) as bed:``.

    Args:
        source: the experiment, without sweep and repetitions; see `narrows.api.experiment`.
        virtual: in virtual time, where the run stands still between two steps, however long that takes.
        kernel: of virtual time: a name of ``narrows kernel list``, or a path.
        out: directory of the results, which must not exist; `results/NAME-TIME` by default.

    Raises:
        InputError: the experiment is not valid.
    """
    return Bed(source, virtual, kernel, out)
