# SPDX-License-Identifier: Apache-2.0
"""What a study is made of: figures, the statements that the publication makes about them, and measured points.

A statement is data: which measure of which points, and which values agree with the publication. `evaluate` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from narrows_studies.checks import Check, Where

# Links that take the place of the switch: see benchmarks/cross_validation.py.
Link = Literal["tbf", "mahimahi"]
LINKS: dict[Link, str] = {"tbf": "the kernel's tc tbf", "mahimahi": "Mahimahi's mm-link"}
Explanation = Literal["", "window", "loss", "model"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One thing that a publication says, and the check that it comes down to; `says` makes one.

    Attributes:
        id: a short name.
        says: what is said, in our words.
        source: figure, table, section or slide that says it.
        agrees_if: the check in words.
        check: when ours agrees.
        evidence: measures that are shown where ours differs.
        explained_by: what `explain` takes apart where ours differs.
        changed: how the rule changed after data were seen, and why.
    """

    id: str
    says: str
    source: str
    agrees_if: str
    check: Check
    evidence: tuple[str, ...] = ()
    explained_by: Explanation = ""
    changed: str = ""

    def with_evidence(self, *measures: str, explained_by: Explanation = "") -> Statement:
        """The statement with what is shown, and taken apart, where ours differs."""
        return replace(self, evidence=measures, explained_by=explained_by)


@dataclass(frozen=True)
class Said:
    """What a publication says, before it has a check."""

    source: str
    id: str
    says: str

    def agrees_if(self, rule: str, check: Check, changed: str = "") -> Statement:
        """The statement that ours agrees with if ``check``, in words ``rule``, holds."""
        return Statement(
            id=self.id,
            says=self.says,
            source=self.source,
            agrees_if=rule,
            check=check,
            changed=changed,
        )


# A row of a study's table: ``says(...).agrees_if(...).with_evidence(...)``.
says = Said


@dataclass(frozen=True, kw_only=True)
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


def over_time(title: str, *panels: str, where: Where | None = None, group: str = "") -> Plot:
    """Panels over time, for the run that meets ``where``."""
    return Plot(kind="time", title=title, panels=panels, where=where or {}, group=group)


def lines(title: str, *measures: str, x: str, by: str, where: Where | None = None) -> Plot:
    """Measures over the swept parameter ``x``, a line for each value of ``by``."""
    return Plot(kind="lines", title=title, panels=measures, x=x, by=by, where=where or {})


@dataclass(frozen=True)
class StudyFigure:
    """One figure (or table) of a publication.

    Attributes:
        id: as the publication numbers it, or a short name.
        experiment: name of the experiment file, without suffix; figures may share one.
        title: conditions in a line.
        window: part of the time in which all flows run that is measured, as fractions.
        life_of: group in whose lifetime the window lies, for groups that do not all run together.
        beside: other experiments whose points the statements look at too; their picks then name an experiment.
    """

    id: str
    experiment: str
    title: str
    _: KW_ONLY
    statements: tuple[Statement, ...] = ()
    plots: tuple[Plot, ...] = ()
    window: tuple[float, float] = (0.25, 1.0)
    life_of: str = ""
    beside: tuple[str, ...] = ()

    def states(self, *statements: Statement) -> StudyFigure:
        """The figure with what the publication says of it."""
        return replace(self, statements=statements)

    def plotted(self, *plots: Plot) -> StudyFigure:
        """The figure with its plots."""
        return replace(self, plots=plots)

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of all experiments that the figure's statements look at."""
        return (self.experiment, *self.beside)


# A row of a study's table: ``figure(...).states(...).plotted(...)``.
figure = StudyFigure


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Something that the publication says, in our words, and that has no rule of its own, and why.

    ``kind``: "not tested", an experiment could; "untestable", none on an emulated bottleneck, or none with a value that
    the publication gives; "judged above", it says in other words what rules are for already.
    """

    source: str
    says: str
    reason: str
    kind: Literal["not tested", "untestable", "judged above"] = "not tested"


def not_tested(source: str, says: str, reason: str) -> LeftOut:
    """A claim that an experiment could test, and none does."""
    return LeftOut(source=source, says=says, reason=reason)


def untestable(source: str, says: str, reason: str) -> LeftOut:
    """A claim that no experiment here could test."""
    return LeftOut(source=source, says=says, reason=reason, kind="untestable")


def judged_above(source: str, says: str, rows: str) -> LeftOut:
    """A claim, of an abstract for example, that comes down to rows that have rules."""
    return LeftOut(source=source, says=says, reason=rows, kind="judged above")


@dataclass(frozen=True, kw_only=True)
class Control:
    """Points with one thing changed, to see whether a difference goes away with it.

    Attributes:
        id: its name, in the study's ``controls.yaml`` and as the ``experiment`` of its points.
        experiment: the experiment whose points are changed.
        change: what is changed, in words.
        statements: ids of that experiment's statements that are judged again.
        of: variant whose points are changed.
        algorithms: what takes the place of the study's algorithms, by their names; of some kernel.
        link: what takes the place of the switch, by `benchmarks/cross_validation.py` and not by the study's own runner.
    """

    id: str
    experiment: str
    change: str
    statements: tuple[str, ...]
    of: Literal["quick", "full"] = "quick"
    algorithms: Mapping[str, str] = field(default_factory=dict)
    link: Link | None = None


def control(id: str, experiment: str, change: str, *statements: str) -> Control:
    """Quick points of an experiment with one thing changed, by which statements are judged again."""
    return Control(id=id, experiment=experiment, change=change, statements=statements)


def before_5_1(experiment: str, *statements: str) -> Control:
    """The control with BBR as it was when most publications measured it, and nothing else of an old kernel."""
    change = (
        "with a BBRv1 that does not widen its window for acknowledgements that come in bursts, as those before "
        "Linux 5.1 (the kernel's other code unchanged)"
    )
    algorithms = {"bbr": "bbr_before_5.1"}
    name = f"{experiment}-before-5.1"
    return Control(id=name, experiment=experiment, change=change, statements=statements, algorithms=algorithms)


def cards(experiment: str, *statements: str) -> Control:
    """The control with hosts' cards that gather what arrives, and kernels that join it, as most machines do."""
    change = "with cards that deliver what has arrived every 50 us, and a receiver's kernel that joins it (GRO)"
    return Control(id=f"{experiment}-cards", experiment=experiment, change=change, statements=statements)


def through(link: Link, experiment: str, *statements: str, of: Literal["quick", "full"] = "quick") -> Control:
    """The control that replaces the switch by another link."""
    name = f"through-{link}-{experiment}" + ("" if of == "quick" else f"-{of}")
    change = f"the same flows through {LINKS[link]}"
    return Control(id=name, experiment=experiment, change=change, statements=statements, of=of, link=link)


@dataclass(frozen=True)
class Study:
    """A publication and its figures.

    Attributes:
        claims: how many claims a reader of all of it counted; None if there is no such count.
        account: what our list of claims rests on, and what it therefore lacks.
    """

    name: str
    citation: str
    conditions: str
    differences: str
    figures: tuple[StudyFigure, ...]
    controls: tuple[Control, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    claims: int | None = None
    account: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of the experiment files, each once, in the order of the figures."""
        return tuple(dict.fromkeys(figure.experiment for figure in self.figures))

    def figure_of(self, experiment: str) -> StudyFigure:
        """The first figure that an experiment or control is for: its window is that of the measures."""
        of = next((control.experiment for control in self.controls if control.id == experiment), experiment)
        return next(figure for figure in self.figures if figure.experiment == of)
