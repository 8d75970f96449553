# SPDX-License-Identifier: Apache-2.0
"""Which algorithm of a kernel is the one that a study means; none is replaced by another.

Studies write ``bbr`` for BBRv1, ``bbr2`` and ``bbr3``. A kernel with BBRv3 calls it ``bbr``, and says so by a version
of its module, which mainline's BBRv1 does not have; Google's kernel with BBRv3 calls BBRv1 ``bbr1``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from narrows.experiment.model import Experiment
from narrows.hosts import machine

BBR_VERSION = Path("/sys/module/tcp_bbr/version")
# Types of the kernel's code, where BBR can be a module and where it is part of the kernel.
KERNEL_TYPES = (Path("/sys/kernel/btf/tcp_bbr"), Path("/sys/kernel/btf/vmlinux"))
AGGREGATION_FIELD = b"\0extra_acked\0"  # of BBR's state, since Linux 5.1
AGGREGATION_SINCE = (5, 1)


@dataclass(frozen=True)
class Algorithms:
    """The algorithms of a kernel.

    Attributes:
        names: as the kernel calls them.
        bbr_version: the version of BBR that it calls ``bbr``.
        ack_aggregation: whether its BBR widens its window for acknowledgements in bursts; None if that is not known.
    """

    names: tuple[str, ...]
    bbr_version: int = 1
    ack_aggregation: bool | None = None

    def kernel_name(self, cca: str) -> str | None:
        """What the kernel calls the algorithm that a study means; None if it does not have it."""
        if cca == "bbr" and self.bbr_version != 1:
            return "bbr1" if "bbr1" in self.names else None
        if cca == "bbr3" and self.bbr_version == 3 and "bbr3" not in self.names:
            return "bbr" if "bbr" in self.names else None
        return cca if cca in self.names else None

    def missing(self, experiment: Experiment) -> list[str]:
        """Algorithms of an experiment that the kernel does not have."""
        return sorted({group.cca for group in experiment.flows if group.cca and self.kernel_name(group.cca) is None})

    def in_kernel_names(self, experiment: Experiment) -> Experiment:
        """The experiment with the kernel's names of its algorithms, all of which the kernel has."""
        groups = tuple(
            group.model_copy(update={"cca": self.kernel_name(group.cca)}) if group.cca else group
            for group in experiment.flows
        )
        return experiment.model_copy(update={"flows": groups})


def of_this_machine() -> Algorithms:
    """Those of the running kernel."""
    return Algorithms(tuple(machine.kernel_ccas()), _bbr_version(), _ack_aggregation())


def of_release(release: str, names: tuple[str, ...], bbr_version: str | None) -> Algorithms:
    """Those of another kernel, as it describes itself; ``bbr_version`` as its module gives it, if it does."""
    numbers = [int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit()]
    version = int(bbr_version) if bbr_version and bbr_version.isdigit() else 1
    return Algorithms(names, version, tuple(numbers) >= AGGREGATION_SINCE if len(numbers) == 2 else None)


def _bbr_version() -> int:
    try:
        return int(BBR_VERSION.read_text().strip() or 1)
    except (OSError, ValueError):
        return 1


def _ack_aggregation() -> bool | None:
    for path in KERNEL_TYPES:
        try:
            return AGGREGATION_FIELD in path.read_bytes()
        except OSError:
            continue
    return None
