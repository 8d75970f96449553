# SPDX-License-Identifier: Apache-2.0
"""Virtual time as a place where runs are measured."""

from __future__ import annotations

import os

from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts.state import RunState
from narrows.run.results import RunDirectory
from narrows.targets.base import Target
from narrows.virtual.kernels import Kernel, cache
from narrows.virtual.measurement import VirtualMeasurement


class VirtualTime:
    """Runs are measured in guests of one kernel, each on a processor of its own."""

    def __init__(self, kernel: Kernel) -> None:
        """Take the kernel."""
        self._kernel = kernel

    def problems(self, plan: Plan) -> list[str]:
        """What this machine lacks to boot a guest for a plan."""
        return []

    def missing_cca(self, name: str) -> str:
        """What to tell a user who wants an algorithm that the kernel does not have."""
        return ""

    def state(self) -> RunState:
        """A record in the user's own directories."""
        return RunState.create(cache().parent / "runs")

    def measurement(
        self, experiment: Experiment, plan: Plan, target: Target, state: RunState, results: RunDirectory
    ) -> VirtualMeasurement:
        """In a guest, whose target is one like the given one."""
        cpu = max(os.sched_getaffinity(0))
        return VirtualMeasurement(experiment, plan, state, results, self._kernel, cpu)
