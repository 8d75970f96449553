# SPDX-License-Identifier: Apache-2.0
"""A run that is driven while its traffic flows: its driver says how far it advances, changes links there, starts and
stops flows, and sees the reports.

In virtual time the run halts in between. Commands and answers are mappings of plain data, so that the driver may
be anywhere; `narrows.api` is one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from narrows_formats.units import NANOSECONDS

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Change, Link, Plan, Verb
from narrows.run.changes import Made, sleep_until
from narrows.run.observer import Observer
from narrows.run.sampler import Key
from narrows.switch.readings import QueueStats, by_queue
from narrows.targets.base import Target
from narrows.traffic.traffic import Traffic

# A driver's settings of senders in a halted run are so far apart: more than it takes to pass one on.
SETTING_NS = 10_000
DRIVER_ENDED = "the program that drove the run has ended"


class Driver(Protocol):
    """The driver of a run."""

    async def receive(self) -> dict[str, Any] | None:
        """The next command; None at the end.

        ``{"until_ns": ...}``: go on until that time since the experiment's start. ``{"link": ..., "rate_bps",
        "limit", "loss", "delay_ns"}``: give a link other settings now, those that are there; ``limit`` is in bytes and,
        for a depth in packets, in packets. ``{"start": ..., "at_ns": ...}``, ``{"stop": ..., "at_ns": ...}``: a group's
        flows, or one, at that time, or for None as soon as can be. ``{"steer": ..., "window", "rate_bps"}``: one flow's
        window in segments and pacing rate from now on, None as they are. ``{"reports": true}``: all that have come.
        ``{"end": true}``: that was all.
        """

    def tell(self, answer: dict[str, Any]) -> None:
        """An answer: ``{"state": ...}`` to the first kind and once before all, ``{"made_ns": ...}`` to the next four,
        to the fourth with the ``tcp_info`` of the flow's socket, or None if it is not under way.

        To the last one ``{"reports": ...}``: the ``file`` with an Arrow stream of all reports until now and how many
        ``bytes`` of it that is, ``start_ns``, the switch's time at the experiment's start, and the ``owners`` that are
        new since the last answer: link, flow index, name of the flow. ``{"refused": ...}`` says why a command cannot be
        followed, ``{"invalid": ...}`` what is wrong with it, and ``{"over": true}`` that the traffic has ended.
        """


@dataclass(frozen=True)
class FlowRequest:
    """A driver's request that flows start or stop: those of a group, or the one of that name, and when."""

    verb: Verb
    name: str
    at_ns: int


@dataclass(frozen=True)
class SenderSetting:
    """What a driver set of a sender: its window in segments, its pacing rate, and when that was."""

    flow: str
    window: int | None
    rate_bps: int | None
    made_ns: int


# What a driver has had done.
Action = Made | FlowRequest | SenderSetting


class SteppingController:
    """Follows the commands of one run's driver."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        observer: Observer,
        traffic: Traffic,
        show_reports: Callable[[], Awaitable[tuple[Path, int] | None]],
        driver: Driver,
    ) -> None:
        """Nothing is done before `run`; ``show_reports`` gives the file of reports, and how far it is complete."""
        self._target = target
        self._observer = observer
        self._traffic = traffic
        self._show_reports = show_reports
        self._driver = driver
        self._links = {link.name: link for link in plan.links}
        self._owners: dict[Key, str] = {}
        self._origin_ns = 0
        self._offset_ns = 0
        self._held_ns = self._settings = 0
        self.done: list[Action] = []
        """The driver's changes and requests so far."""

    async def run(self, t0_s: float, clock_offset_ns: int | None) -> None:
        """Follow the driver from the experiment's start on, until it ends the run.

        Args:
            t0_s: monotonic time of the experiment's start.
            clock_offset_ns: the switch's clock minus that clock.

        Raises:
            RunError: the switch does not do it, or the driver has gone.
        """
        if clock_offset_ns is None:
            raise RunError("a run that is driven needs a switch whose clock can be read")
        self._origin_ns, self._offset_ns = round(t0_s * NANOSECONDS), clock_offset_ns
        try:
            await self._go_on(0)
            while (command := await self._driver.receive()) is not None:
                if "end" in command:
                    await self._end()
                    return
                try:
                    await self._follow(command)
                except InputError as error:
                    self._driver.tell({"invalid": str(error)})
            raise RunError(DRIVER_ENDED)
        finally:
            if self._target.pausable:
                await self._target.pause(None)
            self._driver.tell({"over": True})

    async def _follow(self, command: dict[str, Any]) -> None:
        if "until_ns" in command:
            self._settle()
            await self._go_on(command["until_ns"])
        elif "start" in command:
            at_ns = await self._traffic.start_flows(command["start"], command["at_ns"], self._next_setting_ns())
            self._requested(FlowRequest("start", command["start"], at_ns))
        elif "stop" in command:
            at_ns = await self._traffic.stop_flows(command["stop"], command["at_ns"], self._next_setting_ns())
            self._requested(FlowRequest("stop", command["stop"], at_ns))
        elif "steer" in command:
            await self._steer(command)
        elif "reports" in command:
            await self._tell_reports()
        else:
            await self._change(command)

    def _next_setting_ns(self) -> int | None:
        """When a halted run's hosts do what comes next: a time counted from the instant of the halt.

        How often processes inside read the clock, which takes time, until they are halted and after that, differs from
        run to run by some nanoseconds.
        """
        if not self._target.pausable:
            return None
        self._settings += 1
        return self._held_ns + self._settings * SETTING_NS

    def _settle(self) -> None:
        """Let the clock of a halted run come to a time that is as many settings after the halt in each run."""
        if not self._target.pausable:
            return
        until_ns = self._origin_ns + self._held_ns + (self._settings + 1) * SETTING_NS
        while (left_ns := until_ns - time.monotonic_ns()) > 0:
            # No other task has anything to do; the event loop's timers are too coarse.
            time.sleep(left_ns / NANOSECONDS)

    async def _steer(self, command: dict[str, Any]) -> None:
        try:
            answer = await self._traffic.steer(
                command["steer"], command["window"], command["rate_bps"], self._next_setting_ns()
            )
        except RunError as error:
            self._driver.tell({"refused": str(error)})
            return
        if answer["tcp_info"] is not None and (command["window"], command["rate_bps"]) != (None, None):
            self.done.append(SenderSetting(command["steer"], command["window"], command["rate_bps"], answer["made_ns"]))
        self._driver.tell(answer)

    def _requested(self, request: FlowRequest) -> None:
        self.done.append(request)
        self._driver.tell({"made_ns": request.at_ns})

    async def _tell_reports(self) -> None:
        shown = await self._show_reports()
        if shown is None:
            raise InputError("reports: are not shown while they come; allowed: with reports=True")
        await self._observer.learn()
        owners = self._observer.owners()
        new = [(*key, name) for key, name in owners.items() if self._owners.get(key) != name]
        self._owners = owners
        file, size = shown
        start_ns = self._origin_ns + self._offset_ns
        self._driver.tell({"reports": {"file": str(file), "bytes": size, "start_ns": start_ns, "owners": new}})

    async def _go_on(self, until_ns: int) -> None:
        at_ns = self._origin_ns + until_ns
        if self._target.pausable:
            reading = await self._target.read_queues(self._observer.places, at_ns + self._offset_ns)
            # Halted at one instant twice, the hosts' clock goes on.
            self._settings = self._settings + 1 if until_ns == self._held_ns else 0
            time_ns = self._held_ns = until_ns
        else:
            await sleep_until(at_ns)
            time_ns = (await self._target.now_ns() or 0) - self._offset_ns - self._origin_ns
            reading = await self._target.read_queues(self._observer.places)
        places = by_queue(reading.queues)
        links = {name: _state(link, places[link.port, link.queue]) for name, link in self._links.items()}
        flows = {name: asdict(counts) for name, counts in (await self._observer.counts(reading.drops)).items()}
        self._driver.tell({"state": {"time_ns": time_ns, "links": links, "flows": flows}})

    async def _end(self) -> None:
        """End flows of a halted run that would last longer at a time that is the same in each run."""
        if (at_ns := self._next_setting_ns()) is not None:
            await self._traffic.end_at(at_ns)
            self._settle()

    async def _change(self, command: dict[str, Any]) -> None:
        now_ns = self._held_ns if self._target.pausable else time.monotonic_ns() - self._origin_ns
        change = Change(at_ns=now_ns, **command)
        before = self._links[change.link]
        after = change.of(before)
        try:
            made_ns = await self._target.change(before, after) - self._offset_ns - self._origin_ns
        except RunError as error:
            self._driver.tell({"refused": str(error)})
            return
        self._links[before.name] = after
        self.done.append(Made(change, made_ns))
        self._driver.tell({"made_ns": made_ns})


def _state(link: Link, queue: QueueStats) -> dict[str, Any]:
    return {
        "rate_bps": link.rate_bps,
        "limit_bytes": link.byte_limit or None,
        "limit_packets": link.limit_packets,
        "delay_ns": link.delay_ns,
        "loss": link.loss,
        **queue.by_name,
    }
