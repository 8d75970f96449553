# SPDX-License-Identifier: Apache-2.0
"""A run that is driven while its traffic flows: its driver says how far it advances, changes links there, starts and
stops flows, and sees the reports. In virtual time the run halts in between."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from narrows_formats.units import NANOSECONDS

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Change, Link, Plan, Verb
from narrows.run.changes import Made, sleep_until
from narrows.run.driver import (
    ChangeLink,
    Command,
    Driver,
    EndTraffic,
    Invalid,
    LinkState,
    MadeAt,
    Over,
    Refused,
    Reports,
    RequestFlows,
    RunUntil,
    SenderAnswer,
    SetSender,
    ShowReports,
    State,
)
from narrows.run.observer import Observer
from narrows.run.sampler import Key
from narrows.switch.readings import QueueStats, by_queue
from narrows.targets.base import Target
from narrows.traffic.traffic import Traffic

# A driver's settings of senders in a halted run are so far apart: more than it takes to pass one on.
SETTING_NS = 10_000
DRIVER_ENDED = "the program that drove the run has ended"


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
                if isinstance(command, EndTraffic):
                    await self._end()
                    return
                try:
                    await self._follow(command)
                except InputError as error:
                    self._driver.tell(Invalid(str(error)))
            raise RunError(DRIVER_ENDED)
        finally:
            if self._target.pausable:
                await self._target.pause(None)
            self._driver.tell(Over())

    async def _follow(self, command: Command) -> None:
        match command:
            case RunUntil(until_ns):
                self._settle()
                await self._go_on(until_ns)
            case RequestFlows(verb, name, at_ns):
                traffic = self._traffic
                request = traffic.start_flows if verb == "start" else traffic.stop_flows
                at_ns = await request(name, at_ns, self._next_setting_ns())
                self.done.append(FlowRequest(verb, name, at_ns))
                self._driver.tell(MadeAt(at_ns))
            case SetSender():
                await self._steer(command)
            case ShowReports():
                await self._tell_reports()
            case ChangeLink():
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

    async def _steer(self, command: SetSender) -> None:
        flow, window, rate_bps = command.flow, command.window, command.rate_bps
        try:
            answer = await self._traffic.steer(flow, window, rate_bps, self._next_setting_ns())
        except RunError as error:
            self._driver.tell(Refused(str(error)))
            return
        made_ns = round(answer.at_s * NANOSECONDS)
        if answer.tcp_info is not None and (window, rate_bps) != (None, None):
            self.done.append(SenderSetting(flow, window, rate_bps, made_ns))
        self._driver.tell(SenderAnswer(made_ns, answer.tcp_info))

    async def _tell_reports(self) -> None:
        shown = await self._show_reports()
        if shown is None:
            raise InputError("reports: are not shown while they come; allowed: with reports=True")
        await self._observer.learn()
        owners = self._observer.owners()
        new = [(*key, name) for key, name in owners.items() if self._owners.get(key) != name]
        self._owners = owners
        file, size = shown
        self._driver.tell(Reports(str(file), size, self._origin_ns + self._offset_ns, new))

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
        self._driver.tell(State(time_ns, links, await self._observer.counts(reading.drops)))

    async def _end(self) -> None:
        """End flows of a halted run that would last longer at a time that is the same in each run."""
        if (at_ns := self._next_setting_ns()) is not None:
            await self._traffic.end_at(at_ns)
            self._settle()

    async def _change(self, command: ChangeLink) -> None:
        now_ns = self._held_ns if self._target.pausable else time.monotonic_ns() - self._origin_ns
        limit = None if command.limit_bytes is None else (command.limit_bytes, command.limit_packets)
        change = Change(now_ns, command.link, limit, command.loss, command.rate_bps, command.delay_ns)
        before = self._links[change.link]
        after = change.of(before)
        try:
            made_ns = await self._target.change(before, after) - self._offset_ns - self._origin_ns
        except RunError as error:
            self._driver.tell(Refused(str(error)))
            return
        self._links[before.name] = after
        self.done.append(Made(change, made_ns))
        self._driver.tell(MadeAt(made_ns))


def _state(link: Link, queue: QueueStats) -> LinkState:
    return LinkState(
        rate_bps=link.rate_bps,
        limit_bytes=link.byte_limit or None,
        limit_packets=link.limit_packets,
        delay_ns=link.delay_ns,
        loss=link.loss,
        queue_bytes=_counted(queue.depth_bytes),
        queue_packets=_counted(queue.depth_packets),
        queue_delay_s=_counted(queue.waited_ns) / NANOSECONDS,
        departed_bytes=_counted(queue.dequeued_bytes),
        departed_packets=queue.dequeued_packets,
        dropped_packets=_counted(queue.dropped_packets),
    )


def _counted(value: int | None) -> int:
    if value is None:
        raise RunError("a run that is driven needs a switch that counts what waits, leaves and is dropped")
    return value
