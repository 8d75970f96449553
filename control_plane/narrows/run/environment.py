# SPDX-License-Identifier: Apache-2.0
"""Where runs are measured: on this machine in real time, or elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import bpf, machine
from narrows.hosts.state import STATE_ROOT, RunState
from narrows.run.driver import Driver
from narrows.run.duration import traffic_time_s
from narrows.run.measured import Measured
from narrows.run.measurement import Measurement
from narrows.run.metrics_sink import MetricsSink
from narrows.run.progress import RunProgress
from narrows.run.results import RunDirectory
from narrows.targets.base import Target

OVERHEAD_S = 12.0


class Measuring(Protocol):
    """The part of a run that measures."""

    async def run(self, progress: RunProgress) -> Measured:
        """Measure; telemetry and what the hosts say is in the result directory afterwards.

        Raises:
            RunError: it failed before any traffic flowed, or something cannot be removed.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        ...

    def host_metadata(self, measured: Measured) -> Mapping[str, Mapping[str, object]]:
        """What run.json says of where it was measured: ``host``, and of virtual time what the guest was."""
        ...


class Environment(Protocol):
    """Where runs are measured."""

    @property
    def kernel(self) -> str:
        """What ``--kernel`` calls the hosts' kernel; empty for this machine's own."""
        ...

    @property
    def made_with(self) -> dict[str, str]:
        """What makes a run there beside the code, by the names that provenance has: the hosts' kernel."""
        ...

    @property
    def programs(self) -> dict[str, Path]:
        """Programs that every run there is made by, by the names that messages have."""
        ...

    @property
    def records(self) -> Path:
        """Directory of the records of runs there."""
        ...

    def unsupported(self, plan: Plan) -> list[str]:
        """Parts of the plan that are not supported there on any machine; each begins with the experiment's field."""
        ...

    def problems(self, plan: Plan) -> list[str]:
        """What it lacks, each with how to get it; empty when the plan can be run there."""
        ...

    def notes(self, plan: Plan, target: Target) -> list[str]:
        """What a user should know before a plan is run there; it is run all the same."""
        ...

    def missing_cca(self, name: str) -> str:
        """A message for a user who wants an algorithm that senders do not have there; empty if they have it."""
        ...

    def at_once(self, plans: Iterable[Plan], wanted: int | None) -> int:
        """How many runs can be made at once without disturbing each other; not more than are wanted."""
        ...

    def expected_s(self, plan: Plan) -> float:
        """How many seconds a run takes there, analysis included, roughly."""
        ...

    @property
    def remade(self) -> tuple[Path, ...]:
        """Directories in which it makes those above a program's own working directory itself, open to all."""
        ...

    def computes_unknown(self, plan: Plan) -> bool:
        """Whether a run takes longer than is expected by what users' programs compute, which is not known."""
        ...

    def memory_bytes(self, plan: Plan) -> int | None:
        """What is set aside for a run there; None where nothing is."""
        ...

    def state(self) -> RunState:
        """The record of a run.

        Raises:
            RunError: it cannot be written.
        """
        ...

    def measurement(
        self, experiment: Experiment, plan: Plan, target: Target, state: RunState, results: RunDirectory
    ) -> Measuring:
        """What measures a run; nothing is created yet."""
        ...


class ThisMachine:
    """Runs are measured in network namespaces, or with other machines, in real time."""

    kernel, records = "", STATE_ROOT

    def __init__(self, metrics_sink: MetricsSink | None = None, driver: Driver | None = None) -> None:
        """Show ``metrics_sink`` what is measured; ``driver`` drives the run."""
        self._metrics_sink = metrics_sink
        self._driver = driver

    @property
    def made_with(self) -> dict[str, str]:
        """The running kernel."""
        return {"kernel": platform.release()}

    @property
    def programs(self) -> dict[str, Path]:
        """None: the running kernel's image need not be on this machine."""
        return {}

    def unsupported(self, plan: Plan) -> list[str]:
        """Models of hosts, which real hosts do not have."""
        modelled = {
            "hosts.rate": plan.access_rate_bps, "hosts.jitter": plan.jitter_ns, "hosts.rx_usecs": plan.coalescing
        }  # fmt: skip
        return [
            f"{name}: hosts' NICs are modelled in virtual time only; fix: --virtual, or leave it out"
            for name, value in modelled.items()
            if value is not None
        ]

    def problems(self, plan: Plan) -> list[str]:
        """Permissions, and limits of this process."""
        missing = machine.missing_permissions() + machine.few_open_files()
        return missing + [
            f"cca {cca}: {problem}" for cca, file in plan.bpf for problem in bpf.problems(cca, Path(file))
        ]

    def notes(self, plan: Plan, target: Target) -> list[str]:
        """What the target may be too slow for."""
        return target.real_time_notes(plan)

    def missing_cca(self, name: str) -> str:
        """The running kernel's."""
        return machine.missing_cca(name)

    def at_once(self, plans: Iterable[Plan], wanted: int | None) -> int:
        """One: what the machine does beside a run is seen in it."""
        return 1

    def expected_s(self, plan: Plan) -> float:
        """Its traffic, and testbed and analysis."""
        return OVERHEAD_S + traffic_time_s(plan)

    @property
    def remade(self) -> tuple[Path, ...]:
        """None: programs run in this machine's own."""
        return ()

    def computes_unknown(self, plan: Plan) -> bool:
        """No: programs compute while traffic flows."""
        return False

    def memory_bytes(self, plan: Plan) -> int | None:
        """Nothing: hosts are namespaces of this machine."""
        return None

    def state(self) -> RunState:
        """In the system's directory for such records."""
        return RunState.create()

    def measurement(
        self, experiment: Experiment, plan: Plan, target: Target, state: RunState, results: RunDirectory
    ) -> Measuring:
        """On a testbed of namespaces or machines."""
        interval_ns = experiment.telemetry.sockets
        return Measurement(
            plan, target, state, results, interval_ns, self._metrics_sink, self._driver, counts_marks=True
        )


THIS_MACHINE = ThisMachine()
