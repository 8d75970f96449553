# SPDX-License-Identifier: Apache-2.0
"""The measuring part of a run, made inside a guest: the same as `narrows.measurement`, in virtual time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts.state import RunState
from narrows.run.measurement import Progress, Status
from narrows.run.results import RunDirectory
from narrows.run.sampler import FlowRate, Snapshot
from narrows.virtual import inside
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel

MEMORY_BYTES = 4 << 30


class VirtualMeasurement:
    """One run in one guest."""

    def __init__(
        self, experiment: Experiment, plan: Plan, state: RunState, results: RunDirectory, kernel: Kernel, cpu: int
    ):
        """Nothing is started before `run`."""
        self._experiment = experiment
        self._plan = plan
        self._state = state
        self._results = results
        self._kernel = kernel
        self._cpu = cpu
        self.status: Status = "complete"
        self.reason = ""
        self.notes: list[str] = []

    async def run(self, progress: Progress) -> None:
        """Measure, and write everything but the analysis into the result directory."""
        self._state.add_directory(self._results.path)
        progress.phase("booting the guest")
        task = self._state.directory / "task.json"
        task.write_text(json.dumps(self._task()))
        init = [sys.executable, "-m", inside.__name__, str(task)]
        guest = await Guest.start(self._kernel, MEMORY_BYTES, init, self._cpu, self._state.directory)
        ended: dict[str, Any] | None = None
        try:
            async for line in guest.lines():
                event = json.loads(line)
                if "phase" in event:
                    progress.phase(event["phase"], event["total_s"])
                elif "snapshot" in event:
                    progress.show(_snapshot(event["snapshot"]))
                elif "note" in event:
                    progress.note(event["note"])
                elif "up" not in event:
                    ended = event
        except BaseException:
            guest.kill()
            raise
        finally:
            await guest.wait()
        if ended is None:
            raise RunError(f"the guest ended unexpectedly:\n{guest.last_words()}")
        if "failed" in ended:
            raise RunError(ended["failed"])
        if "interrupted" in ended:
            raise asyncio.CancelledError
        self.status, self.reason, self.notes = ended["status"], ended["reason"], ended["notes"]

    def _task(self) -> dict[str, Any]:
        return {
            "experiment": self._experiment.as_yaml_data(),
            "directory": str(self._results.final),
            "run_id": self._state.run_id,
            "environment": {key: value for key, value in os.environ.items() if key.startswith("NARROWS_")},
        }


def _snapshot(data: dict[str, Any]) -> Snapshot:
    flows = {name: tuple(FlowRate(**rate) for rate in data[name]) for name in ("flows", "groups")}
    return Snapshot(**{**data, **flows})
