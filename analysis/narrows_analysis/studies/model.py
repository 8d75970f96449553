# SPDX-License-Identifier: Apache-2.0
"""What a study is made of: figures, the statements that the publication makes about them, and measured points.

A statement is data: which measure of which points, and which values agree with the publication. `evaluate` judges it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# A parameter's value as written in the experiment file, or a range (least, greatest) of its number.
Condition = str | tuple[float, float]
Where = Mapping[str, Condition]
Unit = Literal["%", "BDP", "s", "Mbit/s", "x", ""]
# ``tbf`` are controls too: see benchmarks/through_tbf.py.
Variant = Literal["quick", "full", "controls", "tbf"]

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def number(value: object) -> float | None:
    """The number that a parameter's value begins with (``0.5bdp``: 0.5); None if there is none."""
    match = _NUMBER.match(str(value).strip())
    return float(match.group()) if match else None


@dataclass(frozen=True)
class Point:
    """One run of a figure's experiment: the swept values as written, and its measures in SI units.

    ``directory`` is that of the run, below the study's.
    """

    experiment: str
    parameters: Mapping[str, str]
    repetition: int
    measures: Mapping[str, float | None]
    directory: str = ""

    def meets(self, where: Where) -> bool:
        """Whether the point's parameters are those asked for; a parameter that was not swept meets nothing."""
        return all(self._meets(name, wanted) for name, wanted in where.items())

    def _meets(self, name: str, wanted: Condition) -> bool:
        value = self.parameters.get(name)
        if value is None or isinstance(wanted, str):
            return value == wanted
        found = number(value)
        return found is not None and wanted[0] <= found <= wanted[1]


@dataclass(frozen=True)
class Pick:
    """A measure of the points that meet ``where``."""

    measure: str
    where: Where = field(default_factory=dict)


@dataclass(frozen=True)
class Within:
    """The measure is in [low, high]: its mean over all picked points; with ``each`` its mean at every setting, with
    ``some`` that at one setting or more.

    With ``must_exist`` points that were run and do not have what is measured, such as a period, differ.
    """

    pick: Pick
    low: float
    high: float
    each: bool = False
    must_exist: bool = False
    some: bool = False


@dataclass(frozen=True)
class Compare:
    """The quotient of the means of two picks is in [low, high]."""

    left: Pick
    right: Pick
    low: float
    high: float


@dataclass(frozen=True)
class Farthest:
    """``left`` is above ``right``, and by more at the greatest value of a swept parameter than at any other."""

    left: Pick
    right: Pick
    over: str


@dataclass(frozen=True)
class Trend:
    """Along a swept parameter the measure rises (or falls) by ``least`` or more in all, without a step the other way of
    more than ``slack`` of the whole change."""

    pick: Pick
    over: str
    rising: bool
    least: float
    slack: float = 0.25


@dataclass(frozen=True)
class Crossing:
    """The parameter at which the measure crosses ``level``, by linear interpolation, is in [low, high]."""

    pick: Pick
    over: str
    level: float
    low: float
    high: float


@dataclass(frozen=True)
class Dip:
    """The measure has its least value inside the range of ``over``, ``least`` or more below the greater end; and for
    each value of ``by`` at another place, moving one way."""

    pick: Pick
    over: str
    by: str
    least: float


@dataclass(frozen=True)
class Model:
    """At every setting the measure is within ``tolerance`` of a formula's value, which the point holds as a measure."""

    pick: Pick
    expected: str
    tolerance: float


@dataclass(frozen=True)
class Spread:
    """Over the values of ``across``, all else equal, the measure's means differ by at most ``most``."""

    pick: Pick
    across: str
    most: float


Check = Within | Compare | Farthest | Trend | Crossing | Dip | Model | Spread


@dataclass(frozen=True)
class Statement:
    """One thing that a publication says, in our words, and the check that it comes down to.

    Where ours differs, the measures named by ``evidence`` are shown, and what `explain` makes of ``explained_by``.
    """

    id: str
    says: str
    expected: str
    check: Check
    unit: Unit = ""
    evidence: tuple[str, ...] = ()
    explained_by: Literal["", "window", "loss", "model"] = ""


@dataclass(frozen=True)
class Plot:
    """A figure in the form of the paper's.

    ``kind``: "time" draws ``panels`` over time for the run that meets ``where``; "lines" draws measures over the swept
    parameter ``x``, a line for each value of ``by`` and each measure; "grid" a heat map of the first measure over ``x``
    and ``by``; "box" distributions of a socket's state; "ecdf" distributions of completion times; "quartiles" the
    throughput of the groups that ``panels`` names over ``x``.
    """

    kind: Literal["time", "lines", "grid", "box", "ecdf", "quartiles"]
    title: str
    panels: tuple[str, ...]
    x: str = ""
    by: str = ""
    where: Where = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class StudyFigure:
    """One figure (or table) of a publication.

    Attributes:
        id: as the publication numbers it, or a short name.
        experiment: name of the experiment file, without suffix; figures may share one.
        title: conditions in a line.
        window: part of the time in which all flows run that is measured, as fractions.
        life_of: group in whose lifetime the window lies, for groups that do not all run together.
    """

    id: str
    experiment: str
    title: str
    statements: tuple[Statement, ...] = ()
    plots: tuple[Plot, ...] = ()
    window: tuple[float, float] = (0.25, 1.0)
    life_of: str = ""


@dataclass(frozen=True)
class Control:
    """Quick points with one thing changed, to see whether a difference goes away with it.

    Attributes:
        id: its name, in the study's ``controls.yaml`` and as the ``experiment`` of its points.
        experiment: the experiment whose quick points are changed.
        change: what is changed, in words.
        statements: ids of that experiment's statements that are judged again.
    """

    id: str
    experiment: str
    change: str
    statements: tuple[str, ...]

    @property
    def through_tbf(self) -> bool:
        """Whether `benchmarks/through_tbf.py` runs it, and not the study's own runner."""
        return self.id.startswith(THROUGH_TBF)


THROUGH_TBF = "through-tbf"


def through_tbf(experiment: str, *statements: str) -> Control:
    """The control that replaces the switch's queue by the kernel's."""
    return Control(f"{THROUGH_TBF}-{experiment}", experiment, "the same flows through the kernel's tc tbf", statements)


@dataclass(frozen=True)
class Study:
    """A publication and its figures."""

    name: str
    citation: str
    conditions: str
    differences: str
    figures: tuple[StudyFigure, ...]
    controls: tuple[Control, ...] = ()

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of the experiment files, each once, in the order of the figures."""
        return tuple(dict.fromkeys(figure.experiment for figure in self.figures))

    def figure_of(self, experiment: str) -> StudyFigure:
        """The first figure that an experiment or control is for: its window is that of the measures."""
        of = next((control.experiment for control in self.controls if control.id == experiment), experiment)
        return next(figure for figure in self.figures if figure.experiment == of)


@dataclass(frozen=True)
class Results:
    """Measured points of one variant of a study, and what was not run and why (experiment or point: reason)."""

    study: str
    variant: Variant
    points: tuple[Point, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
