# SPDX-License-Identifier: Apache-2.0
"""What a shell completes beside options and files: names that this machine knows, and directories of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

# Where runs are put by default.
RESULTS = Path("results")


def of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Those of ``names`` that begin with what was typed."""
    known = list(names)

    def beginning(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return beginning


def kernels(incomplete: str) -> list[str]:
    """Kernels that were built."""
    from narrows.virtual.kernels import installed

    return of(kernel.name for kernel in installed())(incomplete)


def results(incomplete: str) -> list[str]:
    """Runs and sweeps, those in ``results`` where nothing was typed; without any the shell completes files."""
    from narrows_formats import files

    typed = Path(incomplete)
    place = typed if incomplete.endswith("/") else typed.parent if incomplete else RESULTS
    found = {str(record.parent) for name in (files.RUN, files.SWEEP) for record in place.glob(f"*/{name}")}
    return of(sorted(found))(incomplete)
