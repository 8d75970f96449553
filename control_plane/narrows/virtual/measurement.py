# SPDX-License-Identifier: Apache-2.0
"""The measuring part of a run, made inside a guest: the same as `narrows.run.measurement`, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from narrows_formats import storage
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary
from narrows_formats.units import NANOSECONDS

from narrows import python
from narrows.errors import Interrupted, RunError
from narrows.experiment.model import SYSCALL_NS, Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.hosts.users import as_environment
from narrows.paths import REPOSITORY
from narrows.run.conductor import DRIVER_ENDED, Driver
from narrows.run.measured import Measured
from narrows.run.measurement import TRAFFIC
from narrows.run.progress import RunProgress
from narrows.run.results import RunDirectory
from narrows.run.sampler import FlowRate, LinkState, Snapshot
from narrows.run.stop_signals import stop_signals_call
from narrows.targets.base import Target
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.virtual import guest_memory, guest_supervisor, start
from narrows.virtual.cores import core
from narrows.virtual.guest import START_S, Guest
from narrows.virtual.kernels import About, Kernel, build_command
from narrows.virtual.task import TASK_FILE, GuestTask
from narrows.virtual.watch import Still, Watch, cpu_s

PACE_EVERY_S = 0.5
# A guest is up after a second or two of processor time, for which a machine with other work may take minutes.
BOOT_CPU_S = 60.0
# A guest tells that it is up within a second; from then on, or from here on, its clock is watched.
SOON_S = 5.0
# A user's program that keeps time from passing gets a signal that a guest's kernel passes on to it, at first after
# `watch.STILL_CPU_S` of processor time, and any that does so after it soon, but no more of them than that.
SPIN_SIGNAL, SPINS_AGAIN_CPU_S, MOST_SPINS = signal.SIGILL, 1.0, 60
# The run ends by itself when a program of a flow has ended so; whatever else spun, it ends that long after.
SPUN_END_S = 3.0
# A program that takes more processor time than that for each second of virtual time is named at the end.
NOTED_CPU_S = 10.0
# What a measurement is written to when everything else is, so perhaps on a full disk.
FOUND_BYTES = 4 << 20
# What comes after a guest's end, and takes longer to import than short runs take to analyse.
AFTERWARDS = ("narrows.traffic.socket_table", "narrows_analysis.summary.analyze", "narrows_analysis.report")
# What is modelled about hosts, as run.json says it.
HOSTS = "ideal: what processors do takes no time, scheduling costs nothing"


class VirtualMeasurement:
    """One run in one guest."""

    def __init__(
        self,
        experiment: Experiment,
        plan: Plan,
        target: Target,
        state: RunState,
        results: RunDirectory,
        kernel: Kernel,
        about: About,
        driver: Driver | None = None,
    ):
        """Nothing is started before `run`."""
        self._experiment = experiment
        self._plan = plan
        self._target = target
        self._state = state
        self._results = results
        self._kernel = kernel
        self._about = about
        self._driver = driver
        self._memory_bytes = guest_memory.memory_bytes(plan)
        self._watch: Watch | None = None
        self._still = ""
        self._spun: list[str] = []
        self._ended_for_it = self._driver_ended = False
        self._flows = False
        self._traffic: tuple[int, float, float] | None = None
        self._killed = False
        self._code = 0
        self._wall_s = 0.0
        self._virtual_s = 0.0

    async def run(self, progress: RunProgress) -> Measured:
        """Measure on a core of its own; see `_run`."""
        with core() as cpu:
            return await self._run(progress, cpu)

    async def _run(self, progress: RunProgress, cpu: int) -> Measured:
        """Measure.

        Raises:
            RunError: it failed before any traffic flowed, or the guest did not end well.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        progress.phase("booting the guest")
        task = self._task()
        try:
            with storage.replacing(self._state.directory / TASK_FILE, storage.PRIVATE) as file:
                pickle.dump(task, file)
            storage.reserve(task.found, FOUND_BYTES, storage.PRIVATE)
        except OSError as error:
            raise RunError(f"{self._state.directory}: cannot be written: {error.strerror}") from error
        init = python.in_guest("-m", start.__name__)
        started = datetime.now(UTC)
        guest = await Guest.start(self._kernel, self._memory_bytes, init, cpu, self._state.directory)
        began = time.monotonic()
        threading.Thread(target=import_afterwards).start()
        ended: dict[str, Any] = {}
        up = asyncio.Event()
        watching = asyncio.create_task(self._follow(guest, up, progress))
        commands = asyncio.create_task(self._pass_commands_on(guest))
        with self._signals_go_in(guest, progress):
            try:
                async for line in guest.lines():
                    event = json.loads(line)
                    up.set()
                    if self._driver is not None and "driver" in event:
                        self._answer(event["driver"], self._driver, guest)
                    else:
                        ended = self._tell(event, progress) or ended
            finally:
                self._flows = False
                guest.kill()
                self._code = await guest.wait()
                self._wall_s = time.monotonic() - began
                watching.cancel()
                commands.cancel()
        full = self._full_memory(guest)
        if self._still:
            raise RunError("\n".join((*full, f"{self._still}; the guest was ended{guest.stderr_tail()}")))
        if "interrupted" in ended:
            raise asyncio.CancelledError
        if self._killed and "measured" not in ended:
            raise Interrupted("the guest was ended before it could end by itself; nothing was kept")
        if "failed" in ended:
            raise RunError("\n".join((*self._spun[:1], *full, ended["failed"])))
        if "measured" not in ended:
            raise RunError("\n".join((*full, f"{how_it_ended(self._code, up.is_set())}{guest.stderr_tail()}")))
        self._virtual_s = ended["virtual_s"]
        measured: Measured = pickle.loads(task.found.read_bytes())
        # The guest's calendar is one of its own.
        notes = (*measured.notes, *self._slow_programs())
        measured = replace(measured, started=started, ended=datetime.now(UTC), notes=notes)
        if self._driver_ended:
            # The signal that ended it was not the user's.
            measured = replace(measured, status="failed", reasons=(DRIVER_ENDED,))
        if full:
            measured = replace(measured, status="failed", reasons=(*full, *measured.reasons))
        if not self._spun:
            return measured
        followed = () if self._ended_for_it else measured.reasons
        return replace(measured, status="failed", reasons=(self._spun[0], *followed))

    def _full_memory(self, guest: Guest) -> list[str]:
        """In a sentence, what the guest's kernel ended for want of memory; nothing if it did not have to."""
        if not (killed := guest.killed_for_memory()):
            return []
        names = ", ".join(f"'{name}'" for name in dict.fromkeys(killed))
        return [f"the guest's memory of {self._memory_bytes >> 20} MB was full, and its kernel killed {names}"]

    @property
    def _programs_s(self) -> dict[str, float]:
        return {} if self._watch is None else dict(self._watch.programs_s)

    def _slow_programs(self) -> Iterator[str]:
        """Notes about programs that took much of this machine."""
        for name, used_s in self._programs_s.items():
            each_s = used_s / self._virtual_s
            if each_s > NOTED_CPU_S:
                yield (
                    f"the program '{name}' took about {used_s:.0f} s of this machine's processor time, {each_s:.0f} s "
                    "for each second of virtual time: what polls a clock, or computes much, makes runs long"
                )

    async def _pass_commands_on(self, guest: Guest) -> None:
        """Tell the guest what the driver says; without a driver any more it ends in order."""
        if self._driver is None:
            return
        while (command := await self._driver.receive()) is not None:
            self._awaited(False)
            guest.say(json.dumps(command))
        self._driver_ended = True
        guest.say(signal.SIGTERM.name)

    def _answer(self, answer: dict[str, Any], driver: Driver, guest: Guest) -> None:
        """Pass an answer on to the driver, for which the guest waits until its traffic is over."""
        is_awaited = "over" not in answer
        self._awaited(is_awaited)
        if is_awaited:
            guest.halt()
        driver.tell(answer)

    def _awaited(self, is_awaited: bool) -> None:
        """The guest waits for its driver, or does not any more: no time passes meanwhile."""
        if self._watch is not None:
            self._watch.held = is_awaited

    async def _follow(self, guest: Guest, up: asyncio.Event, progress: RunProgress) -> None:
        """Tell how time passes inside, and end the guest when it does not, even before it is up."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(up.wait(), SOON_S)
        if (pid := guest.pid) is None:
            return
        try:
            self._watch = Watch(self._kernel, pid)
        except RunError as error:
            if guest.pid is not None:
                self._end(guest, str(error))
            return
        looking = asyncio.create_task(self._watch.until_still())
        try:
            while True:
                await asyncio.wait((looking,), timeout=PACE_EVERY_S)
                if not up.is_set() and cpu_s(pid) > BOOT_CPU_S:
                    self._end(guest, f"the guest is not up after {BOOT_CPU_S:g} s of processor time")
                    return
                self._tell_pace(progress)
                if not looking.done():
                    continue
                if (still := looking.result()) is None:
                    return
                if still.program is None or len(self._spun) == MOST_SPINS:
                    self._end(guest, still.why)
                    return
                self._end_program(guest, still)
                looking = asyncio.create_task(self._watch.until_still(SPINS_AGAIN_CPU_S))
        finally:
            looking.cancel()
            self._watch.close()

    def _end_program(self, guest: Guest, still: Still) -> None:
        """End a user's program that keeps time from passing, and with it, in order, the run."""
        assert still.program is not None
        self._spun.append(still.why)
        # It may have ended meanwhile.
        with contextlib.suppress(ProcessLookupError):
            os.kill(still.program, SPIN_SIGNAL)
        if len(self._spun) == 1:
            asyncio.get_running_loop().call_later(SPUN_END_S, self._end_traffic, guest)

    def _end_traffic(self, guest: Guest) -> None:
        if self._flows:
            self._ended_for_it = True
            guest.say(signal.SIGTERM.name)

    def _end(self, guest: Guest, why: str) -> None:
        self._still = why
        guest.kill()

    def _tell_pace(self, progress: RunProgress) -> None:
        if self._traffic is None or self._watch is None:
            return
        began_ns, began, total_s = self._traffic
        time_s, wall_s = (self._watch.now_ns - began_ns) / NANOSECONDS, time.monotonic() - began
        if time_s < total_s:
            left_s = None if time_s <= 0 else wall_s / time_s * (total_s - time_s)
            progress.pace(max(0.0, time_s), total_s, left_s)

    def host_metadata(self) -> dict[str, Any]:
        """This machine, and the guest that was on it. The times of the run are this machine's too."""
        return {
            "host": {**machine.describe(), "kernel": self._about.release},
            "virtual_time": {
                "kernel": self._kernel.name,
                "release": self._about.release,
                "config_sha256": self._about.config_sha256,
                "built_by": build_command(self._kernel),
                "cca_versions": {name: label for name in self._about.ccas if (label := self._about.label(name))},
                "clock_step_ns": self._about.clock_step_ns,
                "failed_call_ns": self._about.failed_call_ns,
                "starts_ns": self._about.starts_ns,
                "late_ns": self._about.late_ns,
                "paced_ratio": self._about.paced_ratio,
                "repeatable": self._about.repeatable,
                "memory_bytes": self._memory_bytes,
                "wall_s": self._wall_s,
                "cpu_s": 0.0 if self._watch is None else self._watch.cpu_s,
                "programs_cpu_s": self._programs_s,
                "virtual_s": self._virtual_s,
                "date": datetime.fromtimestamp(self._date_s, UTC).isoformat(),
                "syscall_ns": self._syscall_ns if self._plan.has_applications else None,
                "hosts": describe_hosts(self._plan),
            },
        }

    @property
    def _date_s(self) -> int:
        hosts = self._experiment.hosts
        return START_S if hosts is None or hosts.date is None else hosts.date

    @property
    def _syscall_ns(self) -> int:
        hosts = self._experiment.hosts
        return SYSCALL_NS if hosts is None or hosts.syscall is None else hosts.syscall

    def _task(self) -> GuestTask:
        return GuestTask(
            plan=self._plan,
            target=pickle.dumps(self._target),
            results=self._results,
            seed=self._experiment.seed,
            socket_interval_ns=self._experiment.telemetry.sockets,
            found=self._state.directory / "measured.pickle",
            environment={key: value for key, value in os.environ.items() if key.startswith("NARROWS_")}
            | (as_environment() if self._plan.has_applications else {}),
            needed=(*needed_directories(self._results.path.parent), *program_directories(self._plan)),
            driven=self._driver is not None,
            date_s=self._date_s,
            syscall_ns=self._syscall_ns,
            kernel_command=build_command(self._kernel),
        )

    def _tell(self, event: dict[str, Any], progress: RunProgress) -> dict[str, Any] | None:
        """Pass an event on; returns it if it says how the run ended."""
        if "phase" in event:
            progress.phase(event["phase"], event["total_s"])
            self._flows, self._traffic = event["phase"] == TRAFFIC, None
            if event["total_s"] and self._watch is not None:
                self._traffic = (self._watch.now_ns, time.monotonic(), event["total_s"])
        elif "snapshot" in event:
            progress.show(_snapshot(event["snapshot"]))
        elif "note" in event:
            progress.note(event["note"])
        elif "up" not in event:
            return event
        return None

    @contextlib.contextmanager
    def _signals_go_in(self, guest: Guest, progress: RunProgress) -> Iterator[None]:
        """The first signal ends traffic in the guest, in order; the second one ends the guest."""
        stopped = False

        def stop(number: signal.Signals) -> None:
            nonlocal stopped
            if stopped:
                progress.note(f"{number.name}: ending the guest at once")
                self._killed = True
                guest.kill()
            else:
                stopped = True
                guest.say(number.name)

        with stop_signals_call(stop):
            yield


def import_afterwards() -> None:
    """Import what the end of a run needs, while the guest works."""
    for name in AFTERWARDS:
        import_module(name)


def describe_hosts(plan: Plan) -> dict[str, Any]:
    """What hosts and their network cards are in virtual time, for run.json."""
    card = settings(adapted(plan))
    moderation = None if card.moderation is None else asdict(card.moderation)
    return {
        "processors": HOSTS, "rate_bps": card.access_rate_bps, "jitter_ns": card.jitter_ns, "interrupts": moderation,
        "offloads": list(plan.offloads),
    }  # fmt: skip


def needed_directories(results: Path) -> tuple[Path, ...]:
    """Directories that a measurement uses: the interpreter's, its modules', the programs', and where its results go."""
    programs = [found.parent for name in (SOFTSWITCH, COLLECTOR) if (found := find_binary(name))]
    modules = [place for entry in sys.path if (place := Path(entry).absolute()).is_dir()]
    return tuple(dict.fromkeys((REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *modules, *programs, results)))


def program_directories(plan: Plan) -> tuple[Path, ...]:
    """Directories of users' programs, of the P4 program of theirs, too."""
    of_flows = (Path(path) for flow in plan.flows for path in flow.payload.directories)
    of_p4 = () if plan.program is None else (path.absolute().parent for path in plan.program.files.values())
    return tuple(dict.fromkeys((*of_flows, *of_p4)))


def how_it_ended(code: int, was_up: bool) -> str:
    """What became of a guest that did not say so itself."""
    number = code - guest_supervisor.SIGNALLED
    # A kernel that gives up ends like a program that does.
    if number in set(signal.Signals) and number != signal.SIGABRT:
        return f"the guest was ended by {signal.Signals(number).name}"
    return "the guest's kernel failed" if was_up else "the guest does not boot"


def _snapshot(data: dict[str, Any]) -> Snapshot:
    flows = {name: tuple(FlowRate(**rate) for rate in data[name]) for name in ("flows", "groups")}
    links = tuple(LinkState(**link) for link in data["links"])
    return Snapshot(**{**data, **flows, "links": links})
