# SPDX-License-Identifier: Apache-2.0
"""A study's pages, computed from its results: one with every published claim, our values and the verdicts, and one for
each figure with its plots, measurements and controls.

A repository keeps the results, the first page and one plot (`keep`); all the rest is made from these (`publish`).
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pandas as pd
from narrows_analysis.export import FIGURES as FIGURE_FORMATS
from narrows_analysis.export import TABLES, save_table
from narrows_analysis.study_results import FORMER_JITTER, MeasuredPoint, Results, Variant, put_results, read_results

from narrows_studies.checks import holds, meets, picks
from narrows_studies.evaluate import Finding, Verdict, evaluate_all, evidence, moved, verdict_text
from narrows_studies.explain import explain
from narrows_studies.model import LINKS, ClaimKind, Control, Statement, Study, StudyFigure
from narrows_studies.plots import FROM_RUNS, draw_all, draw_overview, image_name, slug
from narrows_studies.power import excluded, repetitions_needed
from narrows_studies.results import figure_points, points_of

VARIANTS: tuple[Variant, ...] = ("full", "quick")
CONTROLS: tuple[Variant, ...] = ("controls", *LINKS)
RESULTS, FIGURES = "results", "figures"
EXPERIMENTS = "../../studies/narrows_studies/papers/experiments"  # from the page of a study in docs/studies
MICROSECOND = 1000  # in nanoseconds
SHOWN = 12  # digits of a commit or digest that a page shows
FOLDED = 120  # longest list of values, in characters, that is not folded
MADE = "<!-- Made by `narrows study --publish`; changes made by hand are lost. -->"
LINK_CAVEAT = (
    "**Controls through other links** replace the switch and nothing else: hosts, kernel, netem and the way sockets "
    "are read stay the same. A difference that remains is not due to the switch, but may be due to any of these.",
    "",
)

Judged = Sequence[tuple[Results, list[tuple[StudyFigure, Finding]]]]
# Of points that have been run again since, by the variant that has the new ones.
Former = Mapping[Variant, tuple[Results, list[tuple[StudyFigure, Finding]]]]
Controlled = Sequence[tuple[Results, list[tuple[Control, Finding]]]]


def findings(study: Study, results: Results) -> list[tuple[StudyFigure, Finding]]:
    """Every statement of a study with its verdict, judged together, in the order of the figures."""
    judged = [
        (figure, statement, figure_points(results, figure))
        for figure in study.figures
        for statement in figure.statements
    ]
    found = evaluate_all([(statement, points) for _, statement, points in judged])
    return [
        (figure, replace(one, covered=_covered(one, results, points)))
        for one, (figure, _, points) in zip(found, judged, strict=True)
    ]


def _covered(found: Finding, results: Results, points: Sequence[MeasuredPoint]) -> str:
    """The values of a swept parameter that were run for the statement; "" if all of the variant's were."""
    lacking: dict[str, list[str]] = {}
    for pick in picks(found.statement.check) if found.verdict != "not run here" else ():
        mine = [point for point in points if meets(point, pick.where)]
        for experiment in dict.fromkeys(point.experiment for point in mine):
            sweep: Mapping[str, Sequence[object]] = results.experiments.get(experiment, {}).get("sweep", {})
            for name, values in sweep.items():
                wanted = [str(value) for value in values if holds(pick.where.get(name), str(value))]
                run = {point.parameters[name] for point in mine if point.experiment == experiment}
                if not set(wanted) <= run:
                    lacking[name] = [value for value in wanted if value in run]
    return "; ".join(f"{name} {', '.join(run)} only" for name, run in lacking.items())


def control_findings(study: Study, results: Results) -> list[tuple[Control, Finding]]:
    """The statements that each control of these results was made for, judged by its points, and together."""
    judged = [
        (control, statement, points_of(results, control.id))
        for control in study.controls
        for figure in study.figures
        if figure.experiment == control.experiment and (control.link or "controls") == results.variant
        for statement in figure.statements
        if statement.id in control.statements
    ]
    found = evaluate_all([(statement, points) for _, statement, points in judged])
    return [(control, one) for one, (control, _, _) in zip(found, judged, strict=True)]


def verdict_counts(study: Study, results: Results) -> str:
    """``12 agree, 3 differ, 5 undecided (4 with means that agree), 1 not comparable, 4 not run here``."""
    found = [finding for _, finding in findings(study, results)]
    counts = Counter(finding.verdict for finding in found)
    leaning = sum(finding.verdict == "undecided" and finding.leaning is True for finding in found)
    undecided = f"{counts['undecided']} undecided" + (f" ({leaning} with means that agree)" if leaning else "")
    return (
        f"{counts['agrees']} agree, {counts['differs']} differ, {undecided}, "
        f"{counts['not comparable']} not comparable, {counts['not run here']} not run here"
    )


KINDS, VERDICTS_SHOWN = get_args(ClaimKind), get_args(Verdict)


def outcome(studies: Iterable[Study], place: Path) -> list[str]:
    """The lines of a table of all studies: what became of their claims, and of their rules in both variants."""
    lines = [
        f"| Study | Claims: {', '.join(KINDS)} | Rules | {' | '.join(VERDICTS_SHOWN)} |",
        "|---|---|---|" + "---|" * len(VERDICTS_SHOWN),
    ]
    for study in studies:
        kinds = Counter(one.kind for one in study.claims)
        _, judged = _judged(study, place)
        counts = {results.variant: Counter(found.verdict for _, found in of) for results, of in judged}
        cells = [
            " / ".join(str(counts[variant][verdict]) if variant in counts else "-" for variant in VARIANTS)
            for verdict in VERDICTS_SHOWN
        ]
        claimed = f"{len(study.claims)}: {', '.join(str(kinds[kind]) for kind in KINDS)}"
        lines.append(f"| {study.name} | {claimed} | {len(study.rules)} | {' | '.join(cells)} |")
    return lines


def claims(study: Study, results: Results) -> pd.DataFrame:
    """A row for every rule, with our value and the verdict, and one for every claim without a rule."""
    rows = [
        {
            "rule": f"{figure.id}/{found.statement.id}",
            "source": found.statement.source,
            "published": found.statement.says,
            "agrees_if": found.statement.agrees_if,
            "ours": found.ours,
            "verdict": found.verdict,
            "n": found.count,
            "p": found.p_value,
            "means_agree": found.leaning,
        }
        for figure, found in findings(study, results)
    ]
    left = [
        {"source": one.place, "published": one.says, "ours": one.why, "verdict": one.kind, "n": 0}
        for one in study.claims
        if one.kind != "judged"
    ]
    return pd.DataFrame([*rows, *left])


def publish(study: Study, results: Results, runs: Path, place: Path, formats: Sequence[str] = ()) -> Path:
    """Write all pages of a study, with figures and results, into a directory; returns the first page.

    Args:
        study: the study.
        results: of one variant; the other variants', if they are in the directory already, stay on the pages.
        runs: directory of the runs, for figures over time.
        place: where the pages go; ``results/`` and ``figures/`` are made in it.
        formats: of `narrows_analysis.export`, in which figures, and the table of claims, are written besides.

    Raises:
        AnalysisError: the results in the directory are something else.
    """
    _put(study, results, place)
    draw_all(study, results, runs, place / FIGURES, [one for one in formats if one in FIGURE_FORMATS and one != "png"])
    for one in formats:
        if one in TABLES:
            save_table(claims(study, results), place / f"{study.name}.{results.variant}.claims", one)
    pages = render(study, place)
    for name, text in pages.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return place / next(iter(pages))


def keep(study: Study, results: Results, runs: Path, place: Path) -> Path:
    """Write what a repository keeps of a study: results, the first page and its plot; returns the page. See `publish`.

    Raises:
        AnalysisError: the results in the directory are something else.
    """
    _put(study, results, place)
    draw_overview(study, results, runs, place / FIGURES)
    return write_kept_page(study, place)


def _put(study: Study, results: Results, place: Path) -> None:
    (place / RESULTS).mkdir(parents=True, exist_ok=True)
    put_results(results_path(study, place), results)


def write_kept_page(study: Study, place: Path) -> Path:
    """Write the first page into a directory, from the results and the plot in it."""
    page = place / f"{study.name}.md"
    page.write_text(kept_page(study, place), encoding="utf-8")
    return page


def results_path(study: Study, place: Path) -> Path:
    """Where the results of all variants are."""
    return place / RESULTS / f"{study.name}.parquet"


def title(study: Study) -> str:
    """The publication's title."""
    quoted = re.search(r'"([^"]+)"', study.citation)
    return quoted[1] if quoted else study.name


def render(study: Study, place: Path) -> dict[str, str]:
    """Every page as Markdown, by its path, from the results and figures in a directory.

    The first has the verdicts; each other one is of a figure, in a directory of the study's name.
    """
    results, judged = _judged(study, place)
    controlled = [(one, control_findings(study, one)) for one in _read(study, CONTROLS, place)]
    figures = {}
    for figure in study.figures:
        if lines := _figure(study, figure, judged, controlled, place):
            head = [f"# {_heading(figure)}", "", MADE, "", f"Of [{title(study)}](../{study.name}.md).", ""]
            caveat = LINK_CAVEAT if _has_links(study, figure, results) else ()
            figures[f"{study.name}/{slug(figure.id)}.md"] = (figure, [*head, *caveat, *lines])
    listed = ["Plots, measurements where ours differs, and controls:", ""]
    listed += [f"- [{_heading(figure)}]({name})" for name, (figure, _) in figures.items()]
    pages = {f"{study.name}.md": _first_page(study, place, results, judged, listed if figures else [])}
    return pages | {name: _text(text) for name, (_, text) in figures.items()}


def kept_page(study: Study, place: Path) -> str:
    """The first page where those of figures are not: in a repository."""
    results, judged = _judged(study, place)
    made = (
        "The site that `make docs` builds has a page for each figure: plots, measurements where ours differs, controls."
    )
    return _first_page(study, place, results, judged, [made])


def _read(study: Study, variants: Sequence[Variant], place: Path) -> list[Results]:
    return [one for variant in variants if (one := read_results(results_path(study, place), variant)) is not None]


def _judged(study: Study, place: Path) -> tuple[list[Results], Judged]:
    results = _read(study, VARIANTS, place)
    return results, [(one, findings(study, one)) for one in results]


def _former(study: Study, place: Path) -> Former:
    read = {variant: read_results(results_path(study, place), FORMER_JITTER[variant]) for variant in VARIANTS}
    return {variant: (one, findings(study, one)) for variant, one in read.items() if one is not None}


def _first_page(study: Study, place: Path, results: Sequence[Results], judged: Judged, figures: Sequence[str]) -> str:
    lines = [
        f"# {title(study)}",
        "",
        MADE,
        "",
        f"{study.citation}.",
        "",
        f"**Published conditions.** {study.conditions}",
        "",
        f"**Ours.** {study.differences} Experiments: [experiments/{study.name}]({EXPERIMENTS}/{study.name}). "
        f"Run: `narrows study {study.name}`, or `narrows study {study.name} --quick`.",
        "",
        *_summary(study, judged),
        *_machines(results),
        *_jitter(study, judged, former := _former(study, place)),
        *_rules(study, judged, former),
        *_differences(study, judged, former, place),
        *_claims(study, judged),
    ]
    if figures:
        overview = study.overview
        images = _images(study, overview, 0, results[:1], place, FIGURES) if overview else []
        lines += ["## Figures", "", *images, *figures, ""]
    return _text([*lines, *_skipped(results)])


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _images(
    study: Study, figure: StudyFigure, position: int, results: Sequence[Results], place: Path, folder: str
) -> list[str]:
    """A plot of each variant that has it; how to have it, if it is drawn from runs and these are not here."""
    plot, lines = figure.plots[position], list[str]()
    for one in results:
        image = image_name(study, figure, position, one.variant)
        if (place / FIGURES / image).exists():
            lines += [f"![{plot.title} ({one.variant})]({folder}/{image})", ""]
    if results and not lines and plot.kind in FROM_RUNS:
        lines = [f"*{plot.title}* is drawn from runs: `narrows study {study.name} --figure {figure.id}`.", ""]
    return lines


def _heading(figure: StudyFigure) -> str:
    return f"{'Figure ' if figure.id[0].isdigit() else ''}{figure.id}: {figure.title}"


def _machines(results: Sequence[Results]) -> list[str]:
    if not results:
        return ["Not run here yet.", ""]
    texts = [
        f"The {one.variant} variant ran on target `{one.machine['target']}`{_clock(one)}: {len(one.points)} runs, "
        f"kernel {one.machine['kernel']}, {one.machine['cpus']} processors{_provenance(one)}."
        for one in results
    ]
    missing = [
        f"The {variant} variant was not run." for variant in VARIANTS if variant not in {r.variant for r in results}
    ]
    return [" ".join([*texts, *missing]), "", *_extent(results)]


def _provenance(results: Results) -> str:
    """What the reproducible runs were made of, and how many older ones cannot be reproduced."""
    known = [point.provenance for point in results.points if point.provenance]
    if not known:
        return "; none has provenance, so none can be reproduced bit for bit"
    commits, configurations = (
        ", ".join(sorted({str(one[name])[:SHOWN] for one in known if name in one}))
        for name in ("commit", "kernel_config_sha256")
    )
    older = len(results.points) - len(known)
    text = f"; provenance: commit {commits or 'unknown'}, kernel configuration {configurations or 'unknown'}"
    # One number, where it is the same for all senders.
    said = [one["hosts"]["jitter_ns"] for one in known if one.get("hosts", {}).get("jitter_ns")]
    jitters = [most for one in said for most in (one.values() if isinstance(one, Mapping) else [one])]
    if jitters:
        text += f", senders' jitter {min(jitters) / MICROSECOND:.3g} to {max(jitters) / MICROSECOND:.3g} us"
    return text + (f"; {older} older runs have none and cannot be reproduced bit for bit" if older else "")


def _clock(results: Results) -> str:
    return {"virtual": " in virtual time", "real": " in real time"}.get(results.machine.get("clock", "real"), "")


def _extent(results: Sequence[Results]) -> list[str]:
    """How many of the published runs are here, and how long the rest would take."""
    # The full variant, which is the first, knows best what is left.
    sizes = [one.machine["published"] for one in results if one.machine.get("published")]
    if not sizes:
        return []
    here = sum(len(one.points) for one in results if one.variant == "full")
    published = sizes[0]
    text = (
        f"**Extent.** Of {published['points']:,.0f} published runs ({published['traffic_s'] / 3600:,.0f} h of traffic) "
        f"{here} are here."
    )
    if left_h := published.get("left_s", 0) / 3600:
        one, many = _duration(left_h), _duration(left_h / 64)
        text += f" The rest would take about {one} on one processor of that machine, {many} on 64."
    return [text, ""]


def _duration(hours: float) -> str:
    return f"{hours:,.0f} h" if round(hours) else f"{60 * hours:.0f} min"


def claim_counts(study: Study) -> str:
    """``32 claims: 25 judged by 26 rules, 2 not tested, 5 untestable``."""
    counts = Counter(one.kind for one in study.claims)
    return (
        f"{len(study.claims)} claims: {counts['judged']} judged by {len(study.rules)} rules, "
        f"{counts['not tested']} not tested, {counts['untestable']} untestable"
    )


def _summary(study: Study, judged: Judged) -> list[str]:
    """What can be quoted of a page: what was judged, how often it was run, and what became of it."""
    verdicts = [
        f"Of the rules, in the {one.variant} variant ({len(one.points)} runs): {verdict_counts(study, one)}."
        for one, _ in judged
    ]
    return ["## Summary", "", f"> {claim_counts(study)}. {' '.join(verdicts)}".rstrip(), ""]


def _jitter(study: Study, judged: Judged, former: Former) -> list[str]:
    """Which experiments have points of both defaults of the senders' jitter, and what adds those that are missing."""
    lines = []
    for variant, (results, found) in former.items():
        names = ", ".join(dict.fromkeys(point.experiment for point in results.points))
        counts = Counter(one.verdict for _, one in found if one.verdict != "not run here")
        verdicts = ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS_SHOWN if counts[verdict])
        plain = sum(not point.provenance for point in results.points)
        lines.append(
            f"**Senders' jitter.** Of the {variant} variant {names} were run again with its present default. The "
            f"{len(results.points)} points that were there stay as a control: *former jitter* below is what they say, "
            f"judged together ({verdicts})."
            + (f" {plain} of them have none of the other [variations](README.md#verdicts) either." if plain else "")
        )
    for results, _ in judged:
        both = {point.experiment for point in former[results.variant][0].points} if results.variant in former else ()
        if once := [name for name in dict.fromkeys(point.experiment for point in results.points) if name not in both]:
            quick = " --quick" if results.variant == "quick" else ""
            lines.append(
                f"**One jitter only.** Of the {results.variant} variant all points of {', '.join(once)} are of one "
                f"default of the senders' jitter. `narrows study {study.name}{quick} --out DIR`, then "
                f"`scripts/study_renew.py {study.name} --variant {results.variant} DIR/results.parquet`, put those of "
                "the present one in their place, and keep these as a control."
            )
    return [line for text in lines for line in (text, "")]


def _rules(study: Study, judged: Judged, former: Former) -> list[str]:
    """The table of rules, with our values and verdicts."""
    head = "| Rule | Of | Published | Agrees if |" + "".join(f" Ours, {one.variant} |" for one, _ in judged)
    lines = ["## Rules and our results", "", head, "|---|---|---|---|" + "---|" * len(judged)]
    for place, (name, statement) in enumerate(study.rules.items()):
        row = f"| {name} | {statement.source} | {statement.says} | {statement.agrees_if} |"
        lines.append(
            row + "".join(f" {_ours(*found[place], one)}{_formerly(place, one, former)} |" for one, found in judged)
        )
    changed = [
        f"- **Rule changed after data were seen**, {name}, *{one.says}*: {one.changed}"
        for name, one in study.rules.items()
        if one.changed
    ]
    return [*lines, "", *changed, *([""] if changed else [])]


def _differences(study: Study, judged: Judged, former: Former, place: Path) -> list[str]:
    """A paragraph for each rule that differs: our values, and what each control says of it."""
    controlled = [pair for one in _read(study, CONTROLS, place) for pair in control_findings(study, one)]
    lines = []
    for results, found in judged:
        for (name, statement), (at, (_, one)) in zip(study.rules.items(), enumerate(found), strict=True):
            if one.verdict != "differs":
                continue
            controls = [
                (control.change, again)
                for control, again in controlled
                if again.statement is statement and control.of == results.variant and again.verdict != "not run here"
            ]
            if results.variant in former and (then := former[results.variant][1][at][1]).verdict != "not run here":
                controls.append(("with the former jitter", then))
            said = "; ".join(f"{change}: {verdict_text(again)}" for change, again in controls)
            lines.append(
                f"- **{name}**, {results.variant}, *{statement.says}*. Ours: {one.ours}. "
                f"{f'Controls: {said}. ' if said else ''}{_conclusion(results, controls)}"
            )
    return ["## What differs", "", *lines, ""] if lines else []


def _conclusion(results: Results, controls: Sequence[tuple[str, Finding]]) -> str:
    """What the controls of a difference say together."""
    verdicts = {again.verdict for _, again in controls}
    if {"agrees", "differs"} <= verdicts:
        return "It goes away with one change, and stays with another."
    if "agrees" in verdicts:
        return "It goes away with what a control changes."
    if "differs" in verdicts:
        return "It stays with every control that is decided."
    if verdicts:
        return "Controls are too few runs to say whether it stays."
    return f"No control of the {results.variant} variant has been run: its cause is not known."


def _claims(study: Study, judged: Judged) -> list[str]:
    """The table of every claim of the text, and what became of it."""
    verdicts = {name: [found[place][1].verdict for _, found in judged] for place, name in enumerate(study.rules)}
    lines = [
        "## Every claim of the text",
        "",
        study.account,
        "",
        "| | Place | Claim | Judged by |",
        "|---|---|---|---|",
    ]
    for number, one in enumerate(study.claims, 1):
        rules = "; ".join(f"{name}: {', '.join(verdicts[name]) or 'not run'}" for name in one.rules)
        takes = f". It takes {one.takes}" if one.takes else ""
        lines.append(f"| {number} | {one.place} | {one.says} | {rules or f'**{one.kind}**: {one.why}{takes}'} |")
    variants = " and ".join(one.variant for one, _ in judged)
    return [*lines, "", *([f"Verdicts are those of the {variants} variant, in this order.", ""] if judged else [])]


def _figure(study: Study, figure: StudyFigure, judged: Judged, controlled: Controlled, place: Path) -> list[str]:
    """What a figure has beside its verdicts; nothing if it was not run."""
    lines = []
    for statement in figure.statements:
        for one, everything in judged:
            found = next(found for of, found in everything if of is figure and found.statement is statement)
            if found.differs:
                lines += _notes(found, one, figure_points(one, figure))
            lines += _controlled(study, figure, found, one, controlled)
    for position in range(len(figure.plots)):
        lines += _images(study, figure, position, [one for one, _ in judged], place, f"../{FIGURES}")
    return lines


def _notes(found: Finding, results: Results, points: Sequence[MeasuredPoint]) -> list[str]:
    """The measurements at a difference, and what they say about its cause; folded."""
    statement = found.statement
    word = "differs" if found.verdict == "differs" else "seems to differ"
    head = f"Where ours {word} ({results.variant}): <em>{html.escape(statement.says)}</em>. Measured there"
    # Markdown inside: GitHub takes it behind an empty line, the site where it is said.
    lines = ['<details markdown="1">', f"<summary>{head}</summary>", ""]
    measured = evidence(statement, points)
    if measured:
        lines += [
            "| Setting | " + " | ".join(f"`{name}`" for name in statement.evidence) + " |",
            "|---|" + "---|" * len(statement.evidence),
            *(f"| {setting or 'all'} | {' | '.join(values)} |" for setting, values in measured),
            "",
        ]
    sentences = explain(statement, points, results.machine.get("bbr_ack_aggregation"))
    lines += [f"- {sentence}" for sentence in sentences] + ([""] if sentences else [])
    return [*lines, "</details>", ""]


def _controls(study: Study, figure: StudyFigure, statement: Statement, variant: Variant) -> list[Control]:
    """The controls of a statement, and of its figure's experiment, in a variant."""
    return [
        one
        for one in study.controls
        if one.experiment == figure.experiment and statement.id in one.statements and one.of == variant
    ]


def _has_links(study: Study, figure: StudyFigure, results: Sequence[Results]) -> bool:
    """Whether a control on the figure's page replaces the switch by another link."""
    return any(
        control.link is not None
        for statement in figure.statements
        for one in results
        for control in _controls(study, figure, statement, one.variant)
    )


def _controlled(
    study: Study, figure: StudyFigure, finding: Finding, results: Results, controlled: Controlled
) -> list[str]:
    """The result of each control of a statement, and whether its change removes a difference or causes one."""
    mine = _controls(study, figure, finding.statement, results.variant)
    found = {
        control.id: (judged, points_of(of, control.id))
        for of, everything in controlled
        for control, judged in everything
        if judged.statement is finding.statement
    }
    if not mine:
        # A control of the other variant will do.
        of_any = any(_controls(study, figure, finding.statement, variant) for variant in VARIANTS)
        nothing = finding.differs and not of_any
        return ["No control tests the cause of this difference yet.", ""] if nothing else []
    of = "" if finding.differs else f" of *{finding.statement.says}*"
    ours = figure_points(results, figure)
    return [*(f"- **Control**{of}, {one.change}: {_control(finding, ours, found.get(one.id))}" for one in mine), ""]


def _control(
    finding: Finding, ours: Sequence[MeasuredPoint], control: tuple[Finding, Sequence[MeasuredPoint]] | None
) -> str:
    if control is None or control[0].verdict == "not run here":
        return "not run here."
    found, theirs = control
    ends = {
        (True, "agrees"): " The difference goes away.",
        (True, "differs"): " The difference stays.",
        (False, "differs"): " Here it differs.",
    }
    text = f"{found.ours}: {verdict_text(found)}.{ends.get((finding.differs, found.verdict), '')}"
    if finding.differs and found.verdict == "differs" and (apart := moved(finding.statement, ours, theirs)):
        # Both are on the same side of a bound; that does not make them equal.
        text += f" It is a different one: {apart}."
    return text


def _ours(figure: StudyFigure, found: Finding, results: Results) -> str:
    """The verdict and the values, as a cell; details are folded."""
    points = figure_points(results, figure)
    needed = repetitions_needed(found, points)
    verdict = verdict_text(found, needed).replace(found.verdict, f"**{found.verdict}**", 1)
    # The number of repetitions is given once, unless a value has another.
    said = found.ours.replace(f", n={found.count})", ")").replace("|", "\\|")
    first, *more = said.split("; ")
    more += [effect] if (effect := excluded(found, points)) else []
    if len("; ".join([first, *more])) > FOLDED and more:
        said = f"<details><summary>{first}</summary>{'; '.join(more)}</details>"
    else:
        said = "; ".join([first, *more])
    return f"{verdict}: {said}"


def _formerly(place: int, results: Results, former: Former) -> str:
    """What the points say that those of a cell replace; folded, and nothing if there are none."""
    if results.variant not in former:
        return ""
    _, found = former[results.variant]
    if found[place][1].verdict == "not run here":
        return ""
    _, one = found[place]
    said = one.ours.replace(f", n={one.count})", ")").replace("|", "\\|")
    return f"<details><summary>former jitter: {verdict_text(one)}</summary>{said}</details>"


def _skipped(results: Sequence[Results]) -> list[str]:
    lines = []
    for one in results:
        reasons = Counter(one.skipped.values())
        lines += [f"- {one.variant}: {count} point{'s' if count > 1 else ''}: {why}" for why, count in reasons.items()]
    return ["## Left out", "", *lines] if lines else []
