# SPDX-License-Identifier: Apache-2.0
"""A run as notebooks open it: its frames and its figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from narrows_formats.suggestion import suggestion

from narrows_analysis.errors import AnalysisError
from narrows_analysis.gallery import FIGURES, gallery
from narrows_analysis.run_data import RunData


class LoadedRun(RunData):
    """A run with its frames (see `RunData`), and `figures` as matplotlib's; shown, it is the table of its flows."""

    def figure(self, name: str) -> Figure:
        """A figure as matplotlib's: one of `figures`, such as "goodput", "queue_depth" or "cwnd".

        Raises:
            AnalysisError: there is none of this name, or the run has no data for it.
        """
        if name not in FIGURES:
            raise AnalysisError(f"figure {name}: is not known{suggestion(name, FIGURES)}")
        return FIGURES[name](self)

    @property
    def figures(self) -> dict[str, Figure]:
        """Every figure that the run has data for, by name, as matplotlib's."""
        return gallery(self)


def load(run_dir: Path | str) -> LoadedRun:
    """Open a run's directory: frames are read, and figures drawn, when they are asked for.

    `load(dir).flows`, `.queue`, `.sockets`, `.reports()` are pandas frames in SI units; `.table` and `.summary` are
    what the run ended with; `.figure("goodput")` is matplotlib's.

    Raises:
        AnalysisError: it is not the directory of a run.
    """
    return LoadedRun(run_dir)
