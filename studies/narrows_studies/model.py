# SPDX-License-Identifier: Apache-2.0
"""The parts of a study: figures, the statements that the publication makes about them, and measured points.

A statement is data: which measure of which points, and which values agree with the publication. `evaluate` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from narrows_studies.checks import Check, Where

# Links that take the place of the switch: see benchmarks/cross_validation.py.
Link = Literal["tbf", "tbf_chain", "mahimahi"]
LINKS: dict[Link, str] = {
    "tbf": "the kernel's tc tbf",
    "tbf_chain": "two of the kernel's tc tbf in a chain",
    "mahimahi": "Mahimahi's mm-link",
}
Explanation = Literal["", "window", "loss", "model"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of a publication, and the check to which it is reduced; `says` makes one.

    Attributes:
        id: a short name.
        says: the statement, in our words.
        source: the figure, table, section or slide.
        agrees_if: the check in words.
        check: met if our results agree.
        evidence: measures that are shown if our results differ.
        explained_by: what `explain` breaks down if our results differ.
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
        """The statement with what is shown, and broken down, if our results differ."""
        return replace(self, evidence=measures, explained_by=explained_by)


@dataclass(frozen=True)
class Said:
    """A statement of a publication that does not have a check yet."""

    source: str
    id: str
    says: str

    def agrees_if(self, rule: str, check: Check, changed: str = "") -> Statement:
        """The statement with its check, which ``rule`` has in words."""
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
    """A figure in the same form as the paper's.

    ``kind``: "time" draws ``panels`` over time for the run that meets ``where``; "lines" draws measures over the swept
    parameter ``x``, with a line for each value of ``by`` and each measure; "grid" a heat map of the first measure over
    ``x`` and ``by``; "box" distributions of a socket's state; "ecdf" distributions of completion times; "quartiles" the
    throughput of the groups in ``panels`` over ``x``.
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
    """Measures over the swept parameter ``x``, with a line for each value of ``by``."""
    return Plot(kind="lines", title=title, panels=measures, x=x, by=by, where=where or {})


@dataclass(frozen=True)
class StudyFigure:
    """One figure (or table) of a publication.

    Attributes:
        id: the publication's number, or a short name.
        experiment: name of the experiment file, without suffix; figures may share one.
        title: conditions in a line.
        window: which part of the time in which all flows run is measured, as fractions.
        life_of: the window is a part of this group's lifetime, for groups that do not all run together.
        beside: other experiments whose points the statements use too; their picks then name an experiment.
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
        """The figure with the publication's statements about it."""
        return replace(self, statements=statements)

    def plotted(self, *plots: Plot) -> StudyFigure:
        """The figure with its plots."""
        return replace(self, plots=plots)

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of all experiments that the figure's statements use."""
        return (self.experiment, *self.beside)


# A row of a study's table: ``figure(...).states(...).plotted(...)``.
figure = StudyFigure


ClaimKind = Literal["judged", "not tested", "untestable"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a publication, in our words, and what became of it.

    Attributes:
        place: section, paragraph, figure.
        says: the claim.
        kind: "judged" by rules; "not tested", though an experiment could; "untestable" on an emulated bottleneck, or
            with the values that the publication gives.
        rules: the statements that judge it, as ``FIGURE/STATEMENT``.
        why: the reason that it is not judged.
        takes: what would test it.
    """

    place: str
    says: str
    kind: ClaimKind
    rules: tuple[str, ...] = ()
    why: str = ""
    takes: str = ""


def judged(place: str, says: str, *rules: str) -> Claim:
    """A claim that statements judge, each given as ``FIGURE/STATEMENT``."""
    return Claim(place=place, says=says, kind="judged", rules=rules)


def not_tested(place: str, says: str, why: str, takes: str) -> Claim:
    """A claim that an experiment could test, but none does; ``takes`` is what would."""
    return Claim(place=place, says=says, kind="not tested", why=why, takes=takes)


def untestable(place: str, says: str, why: str) -> Claim:
    """A claim that experiments here cannot test: an explanation, a motive, or a word without a scale."""
    return Claim(place=place, says=says, kind="untestable", why=why)


@dataclass(frozen=True, kw_only=True)
class Control:
    """Points with one thing changed, to see whether a difference disappears.

    Attributes:
        id: its name, in the study's ``controls.yaml`` and as the ``experiment`` of its points.
        experiment: the experiment whose points are changed.
        change: what is changed, in words.
        statements: ids of that experiment's statements that are judged again.
        of: variant whose points are changed.
        algorithms: replacements for the study's algorithms, by their names, from some kernel.
        link: replaces the switch, in `benchmarks/cross_validation.py` and not in the study's own runner.
    """

    id: str
    experiment: str
    change: str
    statements: tuple[str, ...]
    of: Literal["quick", "full"] = "quick"
    algorithms: Mapping[str, str] = field(default_factory=dict)
    link: Link | None = None


def control(id: str, experiment: str, change: str, *statements: str) -> Control:
    """Quick points of an experiment with one thing changed, with which statements are judged again."""
    return Control(id=id, experiment=experiment, change=change, statements=statements)


def before_5_1(experiment: str, *statements: str) -> Control:
    """The control with BBR as in the kernels of most publications, but nothing else of an old kernel."""
    change = (
        "with a BBRv1 that does not widen its window for acknowledgements that come in bursts, as those before "
        "Linux 5.1 (the kernel's other code unchanged)"
    )
    algorithms = {"bbr": "bbr_before_5.1"}
    name = f"{experiment}-before-5.1"
    return Control(id=name, experiment=experiment, change=change, statements=statements, algorithms=algorithms)


def cards(experiment: str, *statements: str) -> Control:
    """The control with cards that collect arriving frames, and kernels that join them, as on most machines."""
    change = "with cards that deliver what has arrived every 50 us, and a receiver's kernel that joins it (GRO)"
    return Control(id=f"{experiment}-cards", experiment=experiment, change=change, statements=statements)


def through(link: Link, experiment: str, *statements: str, of: Literal["quick", "full"] = "quick") -> Control:
    """The control that replaces the switch with another link."""
    name = f"through-{link}-{experiment}" + ("" if of == "quick" else f"-{of}")
    change = f"the same flows through {LINKS[link]}"
    return Control(id=name, experiment=experiment, change=change, statements=statements, of=of, link=link)


@dataclass(frozen=True)
class Study:
    """A publication and its figures.

    Attributes:
        claims: every claim of the publication, in the order of its text.
        account: what our list of claims is based on, what it therefore lacks, and which rules are no longer judged.
        shown: the figure whose first plot is on the study's first page; by default the first one that has a plot.
    """

    name: str
    citation: str
    conditions: str
    differences: str
    figures: tuple[StudyFigure, ...]
    controls: tuple[Control, ...] = ()
    claims: tuple[Claim, ...] = ()
    account: str = ""
    shown: str = ""

    @property
    def overview(self) -> StudyFigure | None:
        """The figure whose first plot is on the study's first page; None if no figure has a plot."""
        return next((one for one in self.figures if one.plots and self.shown in ("", one.id)), None)

    @property
    def rules(self) -> dict[str, Statement]:
        """Every statement, as ``FIGURE/STATEMENT``, in the order of the figures."""
        return {f"{figure.id}/{one.id}": one for figure in self.figures for one in figure.statements}

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of the experiment files, each once, in the order of the figures."""
        return tuple(dict.fromkeys(figure.experiment for figure in self.figures))

    def figure_of(self, experiment: str) -> StudyFigure:
        """The first figure of an experiment or control, whose window is used for the measures."""
        of = next((control.experiment for control in self.controls if control.id == experiment), experiment)
        return next(figure for figure in self.figures if figure.experiment == of)
