# SPDX-License-Identifier: Apache-2.0
"""What notebooks load: a run with its frames and figures, a sweep, a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from narrows_formats import files
from narrows_formats.suggestion import suggestion

from narrows_analysis import gallery
from narrows_analysis.errors import AnalysisError
from narrows_analysis.loaded_sweep import LoadedSweep
from narrows_analysis.run_data import RunData
from narrows_analysis.study_results import read_variants
from narrows_analysis.sweep import load_sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LoadedRun(RunData):
    """A run with its frames (see `RunData`), and `figures` as matplotlib's; shown, it is the table of its flows."""

    def figure(self, name: str) -> Figure:
        """A figure as matplotlib's: one of `figures`, such as "goodput", "queue_depth" or "cwnd".

        Raises:
            AnalysisError: there is none of this name, or the run has no data for it.
        """
        if name not in gallery.NAMES:
            raise AnalysisError(f"figure {name}: is not known{suggestion(name, gallery.NAMES)}")
        return gallery.figure(self, name)

    @property
    def figures(self) -> dict[str, Figure]:
        """Every figure that the run has data for, by name, as matplotlib's."""
        return gallery.gallery(self)


class LoadedStudy:
    """A study's measured points: `results` of each variant as written, and all as `frame`; shown, it is the frame."""

    def __init__(self, path: Path) -> None:
        """Read a results file.

        Raises:
            AnalysisError: it is not a study's results.
        """
        self.path = path
        self.results = read_variants(path)

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each point: variant, experiment, repetition and directory, its parameters, and its measures."""
        return pd.DataFrame(
            [
                {
                    "variant": one.variant,
                    "experiment": point.experiment,
                    "repetition": point.repetition,
                    "directory": point.directory,
                    **point.parameters,
                    **point.measures,
                }
                for one in self.results
                for point in one.points
            ]
        )

    def __repr__(self) -> str:
        """How many points, of how many variants."""
        points = sum(len(one.points) for one in self.results)
        return f"Study {self.path}: {points} points of {len(self.results)} variants"

    def _repr_html_(self) -> str:
        return str(self.frame.to_html(index=False))


def load(path: Path | str) -> Any:
    """Open what `narrows run` or `narrows study` wrote: a run, a sweep, or a study, whichever the directory holds.

    The frames of a run (`LoadedRun`) are read, and its figures drawn, on first use: `load(dir).flows`, `.queue`,
    `.sockets`, `.reports()` are pandas frames in SI units; `.table` and `.summary` are the run's final results;
    `.figure("goodput")` is a matplotlib figure. For a sweep or repetitions (`LoadedSweep`) and a study (`LoadedStudy`,
    also from its results file alone), `.frame` is the table of all runs; `.figure("share", hue="group")` of a sweep
    draws a metric over a swept field, with intervals.

    Raises:
        AnalysisError: it is none of these.
    """
    path = Path(path)
    if path.is_file():
        return LoadedStudy(path)
    if not (path / files.RUN).exists():
        if (path / files.SWEEP).exists():
            return LoadedSweep.of(load_sweep(path))
        if (path / files.STUDY).exists():
            return LoadedStudy(path / files.STUDY)
    return LoadedRun(path)
