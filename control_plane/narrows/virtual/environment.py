# SPDX-License-Identifier: Apache-2.0
"""Virtual time as an environment of runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from narrows_formats.host_jitter import host_jitter
from narrows_formats.provenance import KERNEL_IMAGE
from narrows_formats.suggestion import suggestion
from narrows_formats.units import NANOSECONDS

from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run.driver import Driver
from narrows.run.duration import packets, packets_of_programs
from narrows.run.results import RunDirectory
from narrows.targets.base import Target
from narrows.targets.soft.virtual_time import MIN_WINDOW_NS, adapted, settings
from narrows.virtual import durations, guest_memory
from narrows.virtual.init import MEMORIES
from narrows.virtual.kernels import About, Kernel, installed, remembered, runs
from narrows.virtual.measurement import VirtualMeasurement
from narrows.virtual.probing import about

# The RTT lies half on each way, and a window in half of that.
MIN_MODERATED_RTT_NS = 4 * MIN_WINDOW_NS
# How long a run takes on one core, roughly.
BOOT_AND_ANALYSIS_S, PACKETS_PER_S = 3.0, 60_000
# Of programs such as QUIC stacks (experiments/quic.yaml); what one computes in addition is not known before.
PACKETS_OF_PROGRAMS_PER_S = 4_000


class Guests:
    """Runs are measured in guests of one kernel, each on a processor of its own."""

    def __init__(self, kernel: Kernel, driver: Driver | None = None) -> None:
        """Take the kernel, and the driver of the run if there is one.

        Raises:
            RunError: it does not work here.
        """
        self._kernel = kernel
        self._driver = driver
        about(kernel)

    @property
    def _about(self) -> About:
        """What the kernel is now: it may be built anew while runs are made."""
        return about(self._kernel)

    @property
    def kernel(self) -> str:
        """The name of the guests' kernel."""
        return self._kernel.name

    @property
    def made_with(self) -> dict[str, str]:
        """The guests' kernel and its configuration."""
        known = self._about
        return {"kernel": known.release, "kernel_config_sha256": known.config_sha256}

    @property
    def programs(self) -> dict[str, Path]:
        """The kernel's image."""
        return {KERNEL_IMAGE: self._kernel.path}

    @property
    def records(self) -> Path:
        """In the user's own directories."""
        return runs()

    def unsupported(self, plan: Plan) -> list[str]:
        """Interrupt moderation on a path too short for it."""
        if plan.coalescing is None or settings(adapted(plan)).window_ns:
            return []
        return [f"hosts.rx_usecs: takes an RTT of {MIN_MODERATED_RTT_NS // 1000} us or more in virtual time"]

    def problems(self, plan: Plan) -> list[str]:
        """What this machine lacks to boot a guest for a plan."""
        return guest_memory.problems(guest_memory.memory_bytes(plan)) + machine.few_open_files()

    def notes(self, plan: Plan, target: Target) -> list[str]:
        """In what the kernel is not exact, and a jitter of hosts that is long for the shortest RTT."""
        flaws = [f"kernel {self._kernel.name}: {flaw}" for flaw in self._about.flaws]
        longest_ns = max(settings(adapted(plan)).jitter_ns.values(), default=0)
        shortest_ns = min(flow.rtt_ns for flow in plan.flows)
        why = host_jitter(longest_ns / NANOSECONDS, shortest_ns / NANOSECONDS)
        return flaws if why is None else [*flaws, f"hosts.jitter: {why}"]

    def missing_cca(self, name: str) -> str:
        """What to tell a user who wants an algorithm that the kernel does not have."""
        ccas = self._about.ccas
        if name in ccas:
            return ""
        others = [one.name for one in installed() if (known := remembered(one)) and name in known.ccas]
        having = f"; fix: --kernel {others[0]}" if others else ""
        return f"'{name}' is not in kernel {self._kernel.name}{suggestion(name, ccas)}{having}"

    def at_once(self, plans: Iterable[Plan], wanted: int | None) -> int:
        """One guest a core, as many as their memory allows."""
        sizes = [guest_memory.memory_bytes(plan) for plan in plans]
        cores = len(os.sched_getaffinity(0))
        fitting = guest_memory.available_bytes() // max(sizes)
        return max(1, min(wanted or cores, fitting, len(sizes)))

    def expected_s(self, plan: Plan) -> float:
        """Boot, analysis, and the links' packets: the run's own time passes at any speed.

        With programs what such a run took here last, if there was one.
        """
        if plan.has_applications and (known_s := durations.remembered(plan, self._kernel)) is not None:
            return BOOT_AND_ANALYSIS_S + known_s
        of_programs = packets_of_programs(plan)
        own_s = (packets(plan) - of_programs) / PACKETS_PER_S
        return BOOT_AND_ANALYSIS_S + own_s + of_programs / PACKETS_OF_PROGRAMS_PER_S

    @property
    def remade(self) -> tuple[Path, ...]:
        """A guest's file systems in memory, to which what a run needs is brought."""
        return MEMORIES

    def computes_unknown(self, plan: Plan) -> bool:
        """Of programs that have not run here yet."""
        return plan.has_applications and durations.remembered(plan, self._kernel) is None

    def memory_bytes(self, plan: Plan) -> int:
        """The guest's memory, and what its kernel's file system takes."""
        return guest_memory.memory_bytes(plan)

    def state(self) -> RunState:
        """A record in the user's own directories."""
        return RunState.create(self.records)

    def measurement(
        self, experiment: Experiment, plan: Plan, target: Target, state: RunState, results: RunDirectory
    ) -> VirtualMeasurement:
        """In a guest, by a copy of the target."""
        return VirtualMeasurement(experiment, plan, target, state, results, self._kernel, self._about, self._driver)
