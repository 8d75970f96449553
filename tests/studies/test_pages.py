# SPDX-License-Identifier: Apache-2.0
"""The committed pages are what the code makes of the committed results; nobody has typed in a verdict."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from narrows.studies.catalogue import study_points
from narrows_analysis import AnalysisError
from narrows_analysis.studies.catalogue import STUDIES
from narrows_analysis.studies.model import LINKS, Control, Point, Results, Study, Variant
from narrows_analysis.studies.page import (
    VARIANTS,
    control_findings,
    findings,
    publish,
    render,
    results_path,
    verdict_counts,
)
from narrows_analysis.studies.results import read_results, write_results

DOCS = Path(__file__).parents[2] / "docs" / "studies"
CLAYPOOL = STUDIES["claypool2019"]


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_committed_page_is_the_code_s(study: Study) -> None:
    assert (DOCS / f"{study.name}.md").read_text(encoding="utf-8") == render(study, DOCS)


def test_the_readme_counts_the_verdicts() -> None:
    said = [verdict_counts(study, read_results(results_path(study, "quick", DOCS))) for study in STUDIES.values()]
    words = ("agree", "differ", "undecided", "not run")
    agree, differ, undecided, not_run = (
        sum(int(number) for one in said for number in re.findall(rf"(\d+) {word}", one)) for word in words
    )
    readme = " ".join((DOCS.parents[1] / "README.md").read_text(encoding="utf-8").split())
    assert f"of {agree + differ + undecided + not_run} statements {agree} agree, {differ} differ, " in readme
    assert f"{differ} differ, {undecided} are undecided and {not_run} were not run" in readme


def test_what_differs_is_told_through_other_links_as_well() -> None:
    counted = {link: Counter[str]() for link in LINKS}
    for study, link in itertools.product(STUDIES.values(), LINKS):
        controls = control_findings(study, read_results(results_path(study, link, DOCS)))
        for variant in VARIANTS:
            if not (path := results_path(study, variant, DOCS)).exists():
                continue
            for _, found in findings(study, read_results(path)):
                if found.verdict == "differs":
                    # Not all of a full variant's points go through other links: quick ones that say the same will do.
                    mine = {control.of: one.verdict for control, one in controls if one.statement == found.statement}
                    verdict = mine.get("full", mine.get("quick")) if variant == "full" else mine.get("quick")
                    assert verdict not in (None, "not run here"), f"{study.name}, {variant}: {found.statement.says}"
                    counted[link].update([str(verdict)] if variant == "quick" else [])
    readme = " ".join((DOCS.parents[1] / "README.md").read_text(encoding="utf-8").split())
    tbf, mahimahi = counted["tbf"], counted["mahimahi"]
    assert (
        f"Of the {tbf.total()} that differ {tbf['differs']} differ without our switch as well, through `tc tbf`"
        in readme
    )
    assert f"through Mahimahi's link {mahimahi['differs']} of the {mahimahi.total()} differ" in readme


def results(loss: float) -> Results:
    """Three runs that are all alike."""
    parameters = {"bottleneck.rate": "80Mbit", "bottleneck.buffer": "0.5bdp", "flows.bbr.count": "4"}
    measures = {"loss_ratio": loss, "lossy_windows": 1.0, "utilization": 0.98765}
    points = tuple(Point("loss", parameters, number, measures) for number in (1, 2, 3))
    machine = {"target": "soft", "kernel": "6.1", "cpus": 2}
    return Results("claypool2019", "quick", points, {"loss/0001": "failed: no reason"}, machine)


def test_results_can_be_read_back(tmp_path: Path) -> None:
    write_results(results(0.123456789), tmp_path / "results.json")
    found = read_results(tmp_path / "results.json")
    assert found.points[0].measures["loss_ratio"] == 0.123457
    assert found.skipped == {"loss/0001": "failed: no reason"}
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(AnalysisError, match="is not a study's results"):
        read_results(tmp_path / "results.json")


@pytest.mark.parametrize(("loss", "verdict"), [(0.11, "agrees"), (0.02, "differs")])
def test_the_page_has_the_verdict_of_the_results(tmp_path: Path, loss: float, verdict: str) -> None:
    page = publish(CLAYPOOL, results(loss), tmp_path / "no-runs", tmp_path).read_text()
    line = next(line for line in page.splitlines() if "| loss is 11 % at 0.5 BDP" in line)
    setting = "buffer 0.5bdp, rate 80Mbit, count 4"
    assert line.startswith("| figure 7 |")
    assert line.endswith(f"| {setting}: {loss * 100:g} % (+-0 %, n=3) | {verdict} (n=3) |")
    assert "| not run here |" in page
    assert "1 point: failed: no reason" in page
    assert "The full variant was not run" in page
    assert ("| Setting | `utilization` |" in page) == (verdict == "differs")
    assert ("| buffer 0.5bdp, rate 80Mbit, count 4 | 0.988 (+-0, n=3) |" in page) == (verdict == "differs")
    # What cannot be run is on the page, with the reason; and so is what changed in a rule.
    assert "| figures 11 and 12 | what BBR_Shallow" in page
    assert "- **Rule changed after data were seen**, *they take turns with a period of about 20 s*: Any period" in page
    assert '| figure 6 | above 10 % on average. "BBR can misestimate' in page
    assert results_path(CLAYPOOL, "quick", tmp_path).exists()
    # Drawn from the results; what is drawn from runs is left out without them.
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["claypool2019-7-1-quick.png"]
    assert "figures/claypool2019-7-1-quick.png" in page


def test_the_page_says_how_much_of_it_was_run(tmp_path: Path) -> None:
    published = {"points": 1000, "traffic_s": 360_000.0, "left_s": 1_080_000.0}
    quick = replace(results(0.1), machine={**results(0.1).machine, "clock": "virtual", "published": published})
    page = publish(CLAYPOOL, quick, tmp_path, tmp_path).read_text()
    assert "ran on target `soft` in virtual time: 3 runs" in page
    assert "**Extent.** Of 1,000 published runs (100 h of traffic) 0 are here." in page
    assert "The rest takes about 300 h on one processor of that machine, 5 h on 64." in page
    # What is left is what the full variant says, if it was run.
    full: Variant = "full"
    rest = replace(quick, variant=full, machine={**quick.machine, "published": {**published, "left_s": 10_800.0}})
    page = publish(CLAYPOOL, rest, tmp_path, tmp_path).read_text()
    assert "(100 h of traffic) 3 are here. The rest takes about 3 h on one processor of that machine, 3 min on" in page
    nothing = replace(rest, machine={**quick.machine, "published": {**published, "left_s": 0.0}})
    assert "The rest" not in publish(CLAYPOOL, nothing, tmp_path, tmp_path).read_text()


def test_claims_and_figures_for_a_paper(tmp_path: Path) -> None:
    publish(CLAYPOOL, results(0.02), tmp_path, tmp_path, ("csv", "tex", "svg", "pdf"))
    table = pd.read_csv(tmp_path / "claypool2019.quick.claims.csv")
    row = table[table["published"] == "loss is 11 % at 0.5 BDP"].iloc[0]
    assert (row["source"], row["verdict"], row["n"]) == ("figure 7", "differs", 3)
    assert table.iloc[-1]["verdict"] == "not run here"
    assert len(table) == sum(len(figure.statements) for figure in CLAYPOOL.figures) + len(CLAYPOOL.left_out)
    assert r"\toprule" in (tmp_path / "claypool2019.quick.claims.tex").read_text()
    suffixes = {path.suffix for path in (tmp_path / "figures").glob("claypool2019-7-1-quick.*")}
    assert suffixes == {".png", ".svg", ".pdf"}


def test_verdicts_are_counted() -> None:
    # The two figures that cannot be run count as one thing said that was not run.
    assert verdict_counts(CLAYPOOL, results(0.11)) == "3 agree, 0 differ, 0 undecided, 21 not run here"
    assert verdict_counts(CLAYPOOL, results(0.02)) == "1 agree, 2 differ, 0 undecided, 21 not run here"
    single = replace(results(0.11), points=results(0.11).points[:1])
    assert verdict_counts(CLAYPOOL, single) == (
        "0 agree, 0 differ, 3 undecided (3 with means that agree), 21 not run here"
    )


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_committed_results_are_of_experiments_that_there_are(study: Study) -> None:
    """A point of settings that no longer exist is judged by nobody's rule."""
    for variant, quick in (("quick", True), ("full", False)):
        path = results_path(study, variant, DOCS)
        if path.exists():
            known = {(one.experiment, tuple(sorted(one.parameters.items()))) for one in study_points(study, quick)}
            found = {(one.experiment, tuple(sorted(one.parameters.items()))) for one in read_results(path).points}
            assert found <= known, variant


LONGER = replace(
    CLAYPOOL, controls=(Control(id="longer", experiment="loss", change="for 300 s", statements=("half-bdp",)),)
)


@pytest.mark.parametrize(
    ("quick", "longer", "note"),
    [
        (0.02, 0.11, "- **Control**, for 300 s: {}: agrees (n=3). The difference goes away."),
        (0.02, 0.03, "- **Control**, for 300 s: {}: differs (n=3). The difference stays."),
        # A control that agrees where the quick run does is told, and one that does not.
        (0.11, 0.11, "- **Control** of *loss is 11 % at 0.5 BDP*, for 300 s: {}: agrees (n=3)."),
        (0.11, 0.03, "- **Control** of *loss is 11 % at 0.5 BDP*, for 300 s: {}: differs (n=3). Here it differs."),
        (0.02, None, "- **Control**, for 300 s: not run here."),
    ],
)
def test_a_control_says_whether_a_difference_goes_away(
    tmp_path: Path, quick: float, longer: float | None, note: str
) -> None:
    variant: Variant = "controls"
    points = tuple(replace(point, experiment="longer") for point in results(longer or 0.0).points)
    control = replace(results(0.0), variant=variant, points=points if longer is not None else ())
    publish(LONGER, control, tmp_path, tmp_path)
    page = publish(LONGER, results(quick), tmp_path, tmp_path).read_text()
    value = f"buffer 0.5bdp, rate 80Mbit, count 4: {(longer or 0) * 100:g} % (+-0 %, n=3)"
    assert [line for line in page.splitlines() if line.startswith("- **Control**")] == [note.format(value)]
    # What a control gives is no verdict of the study.
    assert verdict_counts(LONGER, results(quick)) == verdict_counts(CLAYPOOL, results(quick))
