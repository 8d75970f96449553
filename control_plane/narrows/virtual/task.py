# SPDX-License-Identifier: Apache-2.0
"""What a guest is to do: the part of a run that measures, as it is handed into it and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from narrows.experiment.plan import Plan
from narrows.run.results import RunDirectory

# Beside which a guest is booted.
TASK_FILE = "task.pickle"


@dataclass(frozen=True)
class GuestTask:
    """One measurement.

    ``target`` is a pickled `narrows.targets.base.Target`: its modules are imported when it is read. ``found`` is the
    file that takes what was measured; ``environment`` are variables that the guest's processes have from outside,
    ``needed`` directories that they use. It is
    ``driven`` from outside or not. ``date_s`` is the guest's date (UTC, seconds since 1970), and a system call of
    a user's program takes ``syscall_ns``. ``kernel_command`` builds the kernel that it is booted with.
    """

    plan: Plan
    target: bytes
    results: RunDirectory
    seed: int
    socket_interval_ns: int
    found: Path
    environment: dict[str, str]
    needed: tuple[Path, ...]
    driven: bool
    date_s: int
    syscall_ns: int
    kernel_command: str
