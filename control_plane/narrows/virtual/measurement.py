# SPDX-License-Identifier: Apache-2.0
"""The measuring part of a run, made inside a guest: the same as `narrows.run.measurement`, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from narrows_formats import storage
from narrows_formats.programs import COLLECTOR, COMPARED_VARIABLE, SOFTSWITCH, find_binary

from narrows import python
from narrows.errors import RunError
from narrows.experiment.model import SYSCALL_NS, Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.hosts.users import as_environment
from narrows.paths import REPOSITORY
from narrows.run.driver import Driver
from narrows.run.measured import Measured
from narrows.run.progress import RunProgress
from narrows.run.results import RunDirectory
from narrows.run.stop_signals import stop_signals_call
from narrows.targets.base import Target
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.virtual import durations, guest_memory, start
from narrows.virtual.conversation import Conversation
from narrows.virtual.cores import core
from narrows.virtual.ending import GuestEnding, measured_in
from narrows.virtual.guard import Guard
from narrows.virtual.guest import START_S, Guest
from narrows.virtual.kernels import About, Kernel, build_command, built_by
from narrows.virtual.task import TASK_FILE, GuestTask

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

    async def run(self, progress: RunProgress) -> Measured:
        """Measure, on a core of its own.

        Raises:
            RunError: it failed before any traffic flowed, or the guest did not end well.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        with core() as cpu:
            progress.phase("booting the guest")
            task = self._task()
            self._hand_over(task)
            ending = await self._run_guest(cpu, progress)
        measured = measured_in(ending, task.found)
        # A driver takes time of its own.
        if self._plan.has_applications and self._driver is None and measured.status == "complete":
            durations.remember(self._plan, self._kernel, ending.wall_s)
        return measured

    def _hand_over(self, task: GuestTask) -> None:
        """Write what the guest is to do, and make room for what it finds."""
        try:
            with storage.replacing(self._state.directory / TASK_FILE, storage.PRIVATE) as file:
                pickle.dump(task, file)
            storage.reserve(task.found, FOUND_BYTES, storage.PRIVATE)
        except OSError as error:
            raise RunError(f"{self._state.directory}: cannot be written: {error.strerror}") from error

    async def _run_guest(self, cpu: int, progress: RunProgress) -> GuestEnding:
        """Boot the guest, follow it, and wait for its end."""
        init = python.in_guest("-m", start.__name__)
        started = datetime.now(UTC)
        guest = await Guest.start(self._kernel, self._memory_bytes, init, cpu, self._state.directory)
        began = time.monotonic()
        threading.Thread(target=import_afterwards).start()
        guard = Guard(self._kernel, guest, progress)
        conversation = Conversation(guest, guard, progress, self._driver)
        following = asyncio.create_task(guard.follow(conversation.up))
        commands = asyncio.create_task(conversation.pass_commands_on())
        killed = asyncio.Event()
        with _signals_go_in(guest, progress, killed):
            try:
                said = await conversation.until_ended()
            finally:
                guard.over()
                guest.kill()
                code = await guest.wait()
                wall_s = time.monotonic() - began
                following.cancel()
                commands.cancel()
        return GuestEnding(
            said=said,
            code=code,
            was_up=conversation.up.is_set(),
            killed=killed.is_set(),
            driver_ended=conversation.driver_ended,
            guarded=guard.guarded,
            memory_bytes=self._memory_bytes,
            out_of_memory=tuple(guest.killed_for_memory()),
            tail=guest.stderr_tail(),
            started=started,
            ended=datetime.now(UTC),
            wall_s=wall_s,
        )

    def host_metadata(self, measured: Measured) -> Mapping[str, Mapping[str, object]]:
        """This machine, and the guest that was on it. The times of the run are this machine's too."""
        return {
            "host": {**machine.describe(), "kernel": self._about.release},
            "virtual_time": {
                "kernel": self._kernel.name,
                "release": self._about.release,
                "config_sha256": self._about.config_sha256,
                "built_by": built_by(self._kernel),
                "cca_versions": {name: label for name in self._about.ccas if (label := self._about.label(name))},
                "clock_step_ns": self._about.clock_step_ns,
                "failed_call_ns": self._about.failed_call_ns,
                "starts_ns": self._about.starts_ns,
                "late_ns": self._about.late_ns,
                "paced_ratio": self._about.paced_ratio,
                "repeatable": self._about.repeatable,
                "memory_bytes": self._memory_bytes,
                **({} if measured.guest is None else asdict(measured.guest)),
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
            | {COMPARED_VARIABLE: "yes"}
            | (as_environment() if self._plan.has_applications else {}),
            needed=(*needed_directories(), *program_directories(self._plan)),
            driven=self._driver is not None,
            date_s=self._date_s,
            syscall_ns=self._syscall_ns,
            kernel_command=build_command(self._kernel),
        )


@contextlib.contextmanager
def _signals_go_in(guest: Guest, progress: RunProgress, killed: asyncio.Event) -> Iterator[None]:
    """The first signal ends traffic in the guest, in order; the second one ends the guest, which is then ``killed``."""
    stopped = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopped
        if stopped:
            progress.note(f"{number.name}: ending the guest at once")
            killed.set()
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


def describe_hosts(plan: Plan) -> dict[str, object]:
    """What hosts and their NICs are in virtual time, for run.json."""
    nic = settings(adapted(plan))
    moderation = None if nic.coalescing is None else asdict(nic.coalescing)
    return {
        "processors": HOSTS, "rate_bps": nic.access_rate_bps, "jitter_ns": nic.jitter_ns, "interrupts": moderation,
        "offloads": list(plan.offloads),
    }  # fmt: skip


def needed_directories() -> tuple[Path, ...]:
    """Directories that a measurement reads: the interpreter's, its modules', and the programs'."""
    programs = [found.parent for name in (SOFTSWITCH, COLLECTOR) if (found := find_binary(name))]
    modules = [place for entry in sys.path if (place := Path(entry).absolute()).is_dir()]
    return tuple(dict.fromkeys((REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *modules, *programs)))


def program_directories(plan: Plan) -> tuple[Path, ...]:
    """Directories of users' programs, of the P4 programs of theirs, too."""
    of_flows = (Path(path) for flow in plan.flows for path in flow.payload.directories)
    of_p4 = (path.absolute().parent for program in plan.programs for path in program.files.values())
    of_controllers = (program.cwd for program in plan.programs if program.controller)
    return tuple(dict.fromkeys((*of_flows, *of_p4, *of_controllers)))
