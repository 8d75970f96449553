# SPDX-License-Identifier: Apache-2.0
"""Which algorithm of this kernel is the one that a study means; another one is never taken in its place.

Studies write ``bbr`` for BBRv1, ``bbr2`` and ``bbr3``. A kernel with BBRv3 calls it ``bbr``, and says so by a version
of its module, which mainline's BBRv1 does not have; Google's kernel with BBRv3 calls BBRv1 ``bbr1``.
"""

from __future__ import annotations

from pathlib import Path

from narrows.experiment.model import Experiment
from narrows.hosts import machine

BBR_VERSION = Path("/sys/module/tcp_bbr/version")
# Types of the kernel's code, where BBR can be a module and where it is part of the kernel.
KERNEL_TYPES = (Path("/sys/kernel/btf/tcp_bbr"), Path("/sys/kernel/btf/vmlinux"))
AGGREGATION_FIELD = b"\0extra_acked\0"  # of BBR's state, since Linux 5.1


def bbr_version() -> int:
    """The version of BBR that the kernel calls ``bbr``."""
    try:
        return int(BBR_VERSION.read_text().strip() or 1)
    except (OSError, ValueError):
        return 1


def bbr_ack_aggregation() -> bool | None:
    """Whether the kernel's BBR widens its window for acknowledgements in bursts; None if the kernel does not tell."""
    for path in KERNEL_TYPES:
        try:
            return AGGREGATION_FIELD in path.read_bytes()
        except OSError:
            continue
    return None


def kernel_name(cca: str) -> str | None:
    """What this kernel calls the algorithm that a study means; None if it does not have it."""
    if cca == "bbr" and bbr_version() != 1:
        return "bbr1" if "bbr1" in machine.kernel_ccas() else None
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
