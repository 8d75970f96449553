# SPDX-License-Identifier: Apache-2.0
"""Which algorithm of this kernel is the one that a study means; another one is never taken in its place.

Studies write ``bbr`` for BBRv1, ``bbr2`` and ``bbr3``. A kernel with BBRv3 calls it ``bbr``, and says so by a version
of its module, which mainline's BBRv1 does not have.
"""

from __future__ import annotations

from pathlib import Path

from narrows import machine
from narrows.experiment import Experiment

BBR_VERSION = Path("/sys/module/tcp_bbr/version")


def bbr_version() -> int:
    """The version of BBR that the kernel calls ``bbr``."""
    try:
        return int(BBR_VERSION.read_text().strip() or 1)
    except (OSError, ValueError):
        return 1


def kernel_name(cca: str) -> str | None:
    """What this kernel calls the algorithm that a study means; None if it does not have it."""
    if cca == "bbr" and bbr_version() != 1:
        return None
    if cca == "bbr3" and bbr_version() == 3 and "bbr3" not in machine.kernel_ccas():
        return "bbr" if "bbr" in machine.kernel_ccas() else None
    return None if machine.missing_cca(cca) else cca


def missing(experiment: Experiment) -> str:
    """Why an experiment cannot run on this kernel; empty if it can."""
    lacking = sorted({group.cca for group in experiment.flows if kernel_name(group.cca) is None})
    return f"this kernel does not have {', '.join(lacking)}" if lacking else ""


def in_kernel_names(experiment: Experiment) -> Experiment:
    """The experiment with the kernel's names of its algorithms, all of which the kernel has."""
    groups = tuple(group.model_copy(update={"cca": kernel_name(group.cca)}) for group in experiment.flows)
    return experiment.model_copy(update={"flows": groups})
