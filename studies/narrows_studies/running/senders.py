# SPDX-License-Identifier: Apache-2.0
"""Where the points of a study are measured, and the algorithms that its hosts have there."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from narrows.errors import InputError
from narrows.run.environment import THIS_MACHINE, Environment
from narrows.virtual import kernels
from narrows.virtual.environment import Guests
from narrows.virtual.probing import about

from narrows_studies.running import ccas
from narrows_studies.running.ccas import Algorithms


@dataclass(frozen=True)
class Senders:
    """One kernel that hosts can have.

    Attributes:
        name: what `--kernel` calls it; empty for the running one.
        release: its version.
        environment: where runs with it are measured.
        algorithms: that it has.
    """

    name: str
    release: str
    environment: Environment
    algorithms: Algorithms


def this_machine() -> Senders:
    """Hosts that are network namespaces of this machine, or machines of a testbed, in real time."""
    return Senders("", platform.release(), THIS_MACHINE, ccas.of_this_machine())


def guests(names: Sequence[str]) -> list[Senders]:
    """Hosts in virtual time, with each of several kernels; without names with every one that is built.

    Raises:
        InputError: there is no such kernel, or none at all.
        RunError: a kernel does not boot.
    """
    chosen = [kernels.find(name) for name in names or [kernel.name for kernel in kernels.installed()]]
    if not chosen:
        raise InputError("no kernel for virtual time is built; fix: narrows kernel build, or run with --real-time")
    found = []
    for name, kernel in zip(names or [kernel.name for kernel in chosen], chosen, strict=True):
        known = about(kernel)
        algorithms = ccas.of_release(known.release, known.ccas, known.versions.get("bbr"))
        found.append(Senders(name, known.release, Guests(kernel), algorithms))
    return found
