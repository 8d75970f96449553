# SPDX-License-Identifier: Apache-2.0
"""What a target between the machines of an inventory offers beside runs: ``doctor``, ``plan`` and ``calibrate``.

These commands find it by its name (`narrows.targets.registry.lab_target`). The package ``narrows_tofino`` is such a
target, added as another distribution would add one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from narrows.experiment.plan import Plan
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab.preflight import Preflight
from narrows.switch.calibration import Findings
from narrows.targets.base import Target

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment


class PlannedWrite(Protocol):
    """One setting that a run would make. As a string it is one line for people."""

    @property
    def operation(self) -> str:
        """What is done, such as insert or modify."""

    @property
    def table(self) -> str:
        """What is written to. Writes in a row with the same operation and table are shown together."""

    @property
    def why(self) -> str:
        """The reason, for people."""


class Planner(NamedTuple):
    """Plans the writes of an experiment in one testbed; ``switch`` says what they go to."""

    writes: Callable[[Experiment], Sequence[PlannedWrite]]
    switch: str


class LabTarget(Target):
    """A switch between machines.

    What takes the path of an inventory raises InputError if that file is not valid.
    """

    hosts_are_machines = True

    _preflight: Preflight
    """Asks the machines; shared by the targets that one `factory` makes."""

    @classmethod
    @abstractmethod
    def example_inventory(cls) -> Path:
        """An inventory for those who have no testbed: ``narrows plan`` shows what a run would write there."""

    @classmethod
    @abstractmethod
    def examine(cls, inventory: Path) -> list[Diagnosis]:
        """Everything that a run in this testbed depends on. Looks only; nothing is changed."""

    @classmethod
    @abstractmethod
    def planner(cls, inventory: Path) -> Planner:
        """What plans experiments for this testbed. Nothing is connected to."""

    @classmethod
    def keep_calibration(cls, inventory: Path, found: Findings) -> Path | None:
        """Keep what a calibration found, for later runs.

        Returns:
            The file that was written; None for a switch that needs no correction.
        """
        return None

    def machine_problems(self, plan: Plan) -> list[str]:
        """What the machines lack: access, tools, the interface, congestion controls."""
        return self._preflight.problems(plan)
