# SPDX-License-Identifier: Apache-2.0
"""The guest's side of a run: its first process, which prepares the machine, measures, and turns it off.

Started by `narrows.python.in_guest`, through `narrows.virtual.start`. What happens goes to the second console, a JSON
object a line. Little is imported: opening a file costs ten times as much in a guest as outside.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.onhost import wire
from narrows.run.stop_signals import stop_signals_wait
from narrows.virtual import init, messages
from narrows.virtual.clock_pause import ClockPause
from narrows.virtual.driven import GuestDriver
from narrows.virtual.task import TASK_FILE, GuestTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.run.measured import Measured
    from narrows.run.sampler import Snapshot
    from narrows.targets.base import Target

# The directory that the guest's kernel runs in, outside: as long as nothing else is mounted, /proc is the host's. The
# command line would be another place to say it, but older kernels make random numbers of that.
TASK = Path("/proc/self/cwd") / TASK_FILE


UNCHARGED = (
    "warning: with this kernel system calls of programs take no time: those that poll a clock, or round their timers, "
    "may keep time from passing; fix: {}"
)


class Channel(init.Channel):
    """The outside, as a measurement reports to it."""

    def listen(self, driver: GuestDriver | None) -> None:
        """From now on a signal that the outside names, one a line, is sent to this process; others are the driver's."""

        def listen() -> None:
            rest = ""
            while words := self.read():
                *lines, rest = (rest + words).split("\n")
                for line in lines:
                    if driver is not None and line.startswith("{"):
                        driver.take(line)
                    else:
                        os.kill(os.getpid(), signal.Signals[line])

        threading.Thread(target=listen, daemon=True).start()

    def send(self, message: object) -> None:
        """One of `narrows.virtual.messages`."""
        self.write(wire.dumps(message))

    def phase(self, text: str, total_s: float | None = None) -> None:
        """A phase of the run begins."""
        self.send(messages.Phase(text, total_s))

    def show(self, snapshot: Snapshot) -> None:
        """Figures of the moment."""
        self.send(snapshot)

    def note(self, text: str) -> None:
        """A line for the user."""
        self.send(messages.Note(text))


def measure(task: GuestTask, channel: Channel, driver: GuestDriver | None, came: Sequence[signal.Signals]) -> None:
    """Make the run, and tell how it ended; ``came`` are signals until it begins, which end it."""
    with init.imports_at_once():
        # Imported later by the target: then without memory at once.
        import narrows.switch.p4runtime_entries  # noqa: F401
        from narrows.errors import NarrowsError
        from narrows.hosts.process import Launch
        from narrows.hosts.state import RunState
        from narrows.run.measurement import Measurement

        target: Target = pickle.loads(task.target)

    class GuestState(RunState):
        """What goes with the guest need not be removed before, and nothing outlives it."""

        def launch(self) -> Launch:
            return subprocess.Popen

        def release(self) -> list[str]:
            return []

    plan = target.prepare_for_guest(task.plan)
    target.will_pause = task.driven or bool(task.plan.changes or task.plan.reactions) or task.plan.watches
    measurement = Measurement(plan, target, GuestState.create(), task.results, task.socket_interval_ns, driver=driver)

    async def run() -> Measured:
        measuring = asyncio.create_task(measurement.run(channel))
        # Then signals are its own.
        await asyncio.sleep(0)
        if came:
            signal.raise_signal(came[0])
        return await measuring

    try:
        measured = asyncio.run(run())
    except asyncio.CancelledError:
        channel.send(messages.Interrupted())
    except NarrowsError as error:
        channel.send(messages.Failed(str(error)))
    else:
        # What the host cannot take is one more reason why the run is not complete.
        if problems := init.write_out(task.results.path):
            measured = replace(measured, status="failed", reasons=(*measured.reasons, *problems))
        # Into the room that the host has kept for it.
        with task.found.open("rb+") as file:
            file.write(pickle.dumps(measured))
            file.flush()
            os.fsync(file)
        channel.send(messages.Completed(time.monotonic()))


def main() -> None:
    """Does not return."""
    try:
        # The kernel keeps signals that have no handler from the first process.
        with stop_signals_wait() as came:
            _live(came)
    except BaseException:
        traceback.print_exc()
    finally:
        init.power_off()


def _live(came: Sequence[signal.Signals]) -> None:
    task: GuestTask = pickle.loads(TASK.read_bytes())
    init.seed_random_numbers(task.seed)
    init.prepare(task.needed, (task.found.parent, task.results.path))
    init.set_date(task.date_s)
    channel = Channel()
    driver = GuestDriver(channel, ClockPause()) if task.driven else None
    channel.listen(driver)
    channel.send(messages.Up())
    if task.plan.has_applications and not init.charge_system_calls(task.syscall_ns):
        channel.note(UNCHARGED.format(task.kernel_command))
    os.environ |= task.environment
    try:
        measure(task, channel, driver, came)
    except Exception as error:
        traceback.print_exc()
        channel.send(messages.Failed(f"{type(error).__name__} in the guest: {error}"))
