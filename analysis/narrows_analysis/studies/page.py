# SPDX-License-Identifier: Apache-2.0
"""A study's page: for each figure the published statement, ours, and the verdict; all of it computed from results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from narrows_analysis.studies.evaluate import Finding, evaluate
from narrows_analysis.studies.explain import explain
from narrows_analysis.studies.model import Control, Point, Results, Study, StudyFigure, Variant
from narrows_analysis.studies.plots import draw_all, image_name
from narrows_analysis.studies.results import points_of, read_results, write_results

VARIANTS: tuple[Variant, ...] = ("full", "quick")
CONTROLS: tuple[Variant, ...] = ("controls", "tbf")
RESULTS, FIGURES = "results", "figures"


def findings(study: Study, results: Results) -> list[tuple[StudyFigure, Finding]]:
    """Every statement of a study with its verdict, in the order of the figures."""
    return [
        (figure, evaluate(statement, points_of(results, figure.experiment)))
        for figure in study.figures
        for statement in figure.statements
    ]


def control_findings(study: Study, results: Results) -> list[tuple[Control, Finding]]:
    """The statements that each control of these results was made for, judged by its points."""
    return [
        (control, evaluate(statement, points_of(results, control.id)))
        for control in study.controls
        for figure in study.figures
        if figure.experiment == control.experiment and control.through_tbf == (results.variant == "tbf")
        for statement in figure.statements
        if statement.id in control.statements
    ]


def verdict_counts(study: Study, results: Results) -> str:
    """``12 agree, 3 differ, 4 not run here``."""
    counts = Counter(found.verdict for _, found in findings(study, results))
    return f"{counts['agrees']} agree, {counts['differs']} differ, {counts['not run here']} not run here"


def publish(study: Study, results: Results, runs: Path, place: Path) -> Path:
    """Write the page of a study, with figures and results, into a directory.

    Args:
        study: the study.
        results: of one variant; the other variant's, if they are in the directory already, stay on the page.
        runs: directory of the runs, for figures over time.
        place: where the page goes; ``results/`` and ``figures/`` are made in it.
    """
    (place / RESULTS).mkdir(parents=True, exist_ok=True)
    write_results(results, results_path(study, results.variant, place))
    draw_all(study, results, runs, place / FIGURES)
    page = place / f"{study.name}.md"
    page.write_text(render(study, place), encoding="utf-8")
    return page


def results_path(study: Study, variant: str, place: Path) -> Path:
    """Where the results of a variant are."""
    return place / RESULTS / f"{study.name}.{variant}.json"


def render(study: Study, place: Path) -> str:
    """The page as Markdown, from the results and figures that are in a directory."""
    results, controls = (
        [read_results(path) for variant in variants if (path := results_path(study, variant, place)).exists()]
        for variants in (VARIANTS, CONTROLS)
    )
    lines = [
        f"# {study.name}",
        "",
        "<!-- Made by `narrows study --publish`; changes made by hand are lost. -->",
        "",
        f"{study.citation}.",
        "",
        f"**Published conditions.** {study.conditions}",
        "",
        f"**Ours.** {study.differences} Experiments: [experiments/{study.name}](../../experiments/{study.name}). "
        f"Run: `narrows study {study.name}`, or `narrows study {study.name} --quick`.",
        "",
        *_machines(results),
        *_verdicts(study, results),
    ]
    for figure in study.figures:
        lines += _figure(study, figure, results, controls, place)
    lines += _skipped(results)
    return "\n".join(lines).rstrip() + "\n"


def _machines(results: Sequence[Results]) -> list[str]:
    if not results:
        return ["Not run here yet.", ""]
    texts = [
        f"The {one.variant} variant ran on target `{one.machine['target']}`: {len(one.points)} runs, "
        f"kernel {one.machine['kernel']}, {one.machine['cpus']} processors."
        for one in results
    ]
    missing = [
        f"The {variant} variant was not run." for variant in VARIANTS if variant not in {r.variant for r in results}
    ]
    return [" ".join([*texts, *missing]), ""]


def _verdicts(study: Study, results: Sequence[Results]) -> list[str]:
    if not results:
        return []
    return [f"**Verdicts, {one.variant}.** {verdict_counts(study, one)}." for one in results] + [""]


def _figure(
    study: Study, figure: StudyFigure, results: Sequence[Results], controls: Sequence[Results], place: Path
) -> list[str]:
    lines = [
        f"## Figure {figure.id}: {figure.title}" if figure.id[0].isdigit() else f"## {figure.id}: {figure.title}",
        "",
    ]
    head = "| Published | Agrees if |" + "".join(f" Ours, {one.variant} | Verdict |" for one in results)
    lines += [head, "|---|---|" + "---|---|" * len(results)]
    notes = []
    for statement in figure.statements:
        row = f"| {statement.says} | {statement.expected} |"
        for one in results:
            found = evaluate(statement, points_of(one, figure.experiment))
            row += f" {_cell(found.ours)} | {found.verdict} |"
            if found.verdict == "differs":
                notes += _notes(found, one, points_of(one, figure.experiment))
            if one.variant == "quick":
                notes += _controlled(study, figure, found, controls)
        lines.append(row)
    lines += ["", *notes]
    for number, plot in enumerate(figure.plots):
        for one in results:
            image = image_name(study, figure, number, one.variant)
            if (place / FIGURES / image).exists():
                lines += [f"![{plot.title} ({one.variant})]({FIGURES}/{image})", ""]
    return lines


def _notes(found: Finding, results: Results, points: Sequence[Point]) -> list[str]:
    """What was measured beside a difference, and what it says about where the difference comes from."""
    statement = found.statement
    lines = [f"Where ours differs ({results.variant}): *{statement.says}*. Measured there:", ""]
    if found.evidence:
        lines += [
            "| Setting | " + " | ".join(f"`{name}`" for name in statement.evidence) + " |",
            "|---|" + "---|" * len(statement.evidence),
            *(f"| {setting or 'all'} | {' | '.join(values)} |" for setting, values in found.evidence),
            "",
        ]
    sentences = explain(statement, points, results.machine.get("bbr_ack_aggregation"))
    lines += [f"- {sentence}" for sentence in sentences] + ([""] if sentences else [])
    return lines


def _controlled(study: Study, figure: StudyFigure, quick: Finding, results: Sequence[Results]) -> list[str]:
    """Whether a quick difference goes away with one thing changed, or whether one comes."""
    found = [
        (control, judged)
        for one in results
        for control, judged in control_findings(study, one)
        if control.experiment == figure.experiment and judged.statement == quick.statement
    ]
    ends = {
        ("differs", "agrees"): "The difference goes away.",
        ("differs", "differs"): "The difference stays.",
        ("agrees", "differs"): "Here it differs.",
    }
    of = f" of *{quick.statement.says}*" if quick.verdict == "agrees" else ""
    lines = [
        f"- **Control**{of}, {control.change}: {judged.ours}. {ends[quick.verdict, judged.verdict]}"
        for control, judged in found
        if (quick.verdict, judged.verdict) in ends
    ]
    return [*lines, ""] if lines else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _skipped(results: Sequence[Results]) -> list[str]:
    lines = []
    for one in results:
        reasons = Counter(one.skipped.values())
        lines += [f"- {one.variant}: {count} point{'s' if count > 1 else ''}: {why}" for why, count in reasons.items()]
    return ["## Left out", "", *lines] if lines else []
