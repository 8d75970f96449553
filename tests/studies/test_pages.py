# SPDX-License-Identifier: Apache-2.0
"""The committed pages are what the code makes of the committed results; no verdict is typed in by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from narrows_analysis import AnalysisError
from narrows_analysis.study_results import MeasuredPoint, Results, Variant, put_results, read_results, read_variants
from narrows_studies.model import LINKS, Control, Link, Study
from narrows_studies.page import (
    claim_counts,
    control_findings,
    findings,
    keep,
    kept_page,
    outcome,
    publish,
    render,
    results_path,
    title,
    verdict_counts,
)
from narrows_studies.running.catalogue import study_points
from own_studies import STUDIES

DOCS = Path(__file__).parents[2] / "docs" / "studies"
CLAYPOOL = STUDIES["claypool2019"]


def committed(study: Study, variant: Variant) -> Results:
    """The results that the repository keeps of a variant."""
    found = read_results(results_path(study, DOCS), variant)
    assert found is not None
    return found


def pages(first: Path) -> str:
    """The text of a study's pages: its verdicts, and what there is of each figure."""
    figures = sorted(first.with_suffix("").glob("*.md"))
    return "".join(page.read_text(encoding="utf-8") for page in (first, *figures))


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_committed_pages_are_the_code_s(study: Study) -> None:
    kept = kept_page(study, DOCS)
    assert (DOCS / f"{study.name}.md").read_text(encoding="utf-8") == kept
    # What the page is of is its title, and it has a plot; on the site every figure that was run is listed on it.
    assert kept.startswith(f"# {title(study)}\n") and f'"{title(study)}"' in study.citation
    assert kept.count("](figures/") == 1
    # What is undecided says what its runs exclude all the same.
    assert kept.count("**undecided** (") == kept.count("excluded: ")
    made = render(study, DOCS)
    first, *figures = made
    assert figures and all(f"]({figure})" in made[first] for figure in figures)
    # A reader of the repository, where they are not, finds no link to them.
    assert f"]({study.name}/" not in kept


def test_the_outcome_of_all_studies_is_a_table() -> None:
    assert "\n".join(outcome(STUDIES.values(), DOCS)) in (DOCS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/studies/README.md"])
def test_the_outcome_of_all_studies_is_a_line(page: str) -> None:
    text = (DOCS.parents[1] / page).read_text(encoding="utf-8")
    found = [finding.verdict for study in STUDIES.values() for _, finding in findings(study, committed(study, "quick"))]
    counts, kinds = Counter(found), Counter(one.kind for name in COUNTED for one in STUDIES[name].claims)
    assert (
        f"Of the {kinds.total()} claims of five publications {kinds['judged']} are judged, and ware2019's, by "
        f"{len(found)} rules: {counts['agrees']} agree in quick runs, {counts['differs']} differ, "
        f"{counts['undecided']} are undecided, {counts['not comparable']} cannot be compared and "
        f"{counts['not run here']} were not run"
    ) in " ".join(text.split())


def test_what_differs_is_shown_through_other_links_as_well() -> None:
    """Of what differs in quick variants the overview says how much of it does so without our switch."""
    counted = {link: Counter[str]() for link in LINKS}
    for study, link in itertools.product(STUDIES.values(), LINKS):
        through = read_results(results_path(study, DOCS), link)
        controls = control_findings(study, through) if through is not None else []
        for _, found in findings(study, committed(study, "quick")):
            if found.verdict == "differs":
                mine = [
                    one.verdict
                    for control, one in controls
                    if control.of == "quick" and one.statement == found.statement
                ]
                counted[link].update(mine or ["not run here"])
    readme = " ".join((DOCS / "README.md").read_text(encoding="utf-8").split())
    tbf, mahimahi = counted["tbf"], counted["mahimahi"]
    assert (
        f"Of the {tbf.total()} that differ {tbf['differs']} differ without our switch as well, through `tc tbf`"
        in readme
    )
    assert f"through Mahimahi's link {mahimahi['differs']}" in readme


def results(loss: float) -> Results:
    """Three runs that are all alike."""
    parameters = {"bottleneck.rate": "80Mbit", "bottleneck.buffer": "0.5bdp", "flows.bbr.count": "4"}
    measures = {"loss_ratio": loss, "lossy_windows": 1.0, "utilization": 0.98765}
    points = tuple(MeasuredPoint("loss", parameters, number, measures) for number in (1, 2, 3))
    machine = {"target": "soft", "kernel": "6.1", "cpus": 2}
    return Results("claypool2019", "quick", points, {"loss/0001": "failed: no reason"}, machine)


def test_results_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    put_results(path, results(0.123456789))
    (found,) = read_variants(path)
    assert found == replace(results(0.123457), points=found.points)
    assert [dict(point.measures) for point in found.points] == [dict(one.measures) for one in results(0.123457).points]
    path.write_text("{}")
    with pytest.raises(AnalysisError, match="is not a study's results"):
        read_variants(path)


def test_results_are_as_they_were_written(tmp_path: Path) -> None:
    """To the order of swept fields; and what a run has no value of is not what was never measured of it."""
    made = {"seed": 5, "rtt_s": 0.099507471, "hosts": {"rate_bps": 1000, "offloads": [], "interrupts": None}}
    points = (
        MeasuredPoint(
            "a", {"x": "1", "y": "2"}, 1, {"jain": None, "share.bbr": 1e-05, "packets": 16777200.0}, "a/1", made
        ),
        MeasuredPoint("b", {"y": "2", "x": "1"}, 2, {"jain": 0.333333}, "b/1"),
        MeasuredPoint("a", {}, 3, {}, "a/2", {"seed": 6}),
    )
    quick = Results(
        "claypool2019", "quick", points, {}, {"cpus": 2, "published": {"left_s": 0.1}}, {"a": {"repeat": 3}}
    )
    full = replace(results(0.5), variant="full")
    path = tmp_path / "results.parquet"
    put_results(path, quick)
    put_results(path, full)
    found = read_results(path, "quick")
    assert found == quick
    assert found is not None and [list(one.parameters) for one in found.points] == [["x", "y"], ["y", "x"], []]
    # Of one variant results are replaced, and the other one's stay.
    put_results(path, replace(quick, points=points[:1]))
    assert {one.variant: len(one.points) for one in read_variants(path)} == {"full": 3, "quick": 1}
    assert read_results(path, "full") == full and read_results(path, "tbf") is None
    with pytest.raises(AnalysisError, match="has results of claypool2019, not of hock2017"):
        put_results(path, replace(quick, study="hock2017"))
    with pytest.raises(ValueError, match="jain is inf"):
        put_results(path, replace(quick, points=(replace(points[0], measures={"jain": math.inf}),)))
    assert read_results(path, "full") == full
    # Others read it as a table.
    frame = pd.read_parquet(path)
    assert list(frame["variant"]) == ["full"] * 3 + ["quick"]
    assert frame["provenance.rtt_s"].iloc[3] == 0.099507471 and frame["x"].iloc[3] == "1"
    assert frame["utilization"].iloc[0] == pytest.approx(0.98765) and math.isnan(frame["jain"].iloc[3])


def test_a_page_says_what_can_be_made_again(tmp_path: Path) -> None:
    hosts = {"jitter_ns": {"3": 6100, "4": 17900}}
    made = {"seed": 5, "commit": "0123456789abcdef", "kernel_config_sha256": "fedcba9876543210", "hosts": hosts}
    none = results(0.11)
    some = replace(none, points=(*none.points[:2], replace(none.points[2], provenance=made)))
    every = replace(none, points=tuple(replace(point, provenance=made) for point in none.points))
    kernel = "kernel configuration fedcba987654"
    known = f"2 processors; provenance: commit 0123456789ab, {kernel}, senders' jitter 6.1 to 17.9 us"
    for found, said in (
        (none, "2 processors; none has provenance, so none can be reproduced bit for bit."),
        (some, f"{known}; 2 older runs have none and cannot be reproduced bit for bit."),
        (every, f"{known}."),
    ):
        assert said in pages(publish(CLAYPOOL, found, tmp_path / "no-runs", tmp_path))


@pytest.mark.parametrize("link", [None, "tbf"])
def test_a_page_warns_of_controls_through_other_links_where_it_has_one(tmp_path: Path, link: Link | None) -> None:
    """And of no others, which are on the switch."""
    (statement, *_) = next(figure for figure in CLAYPOOL.figures if figure.id == "7").statements
    control = Control(id="other", experiment="loss", change="more", statements=(statement.id,), link=link)
    text = pages(publish(replace(CLAYPOOL, controls=(control,)), results(0.02), tmp_path / "no-runs", tmp_path))
    assert text.count("- **Control**") == 1
    assert text.count("**Controls through other links**") == (link is not None)


def test_what_would_make_a_row_long_is_folded(tmp_path: Path) -> None:
    """Behind what it comes to: each of so many settings would be a line or more."""
    found = results(0.11)
    points = tuple(
        replace(point, parameters={**point.parameters, "bottleneck.rate": f"{rate}Mbit"}, measures={"loss_ratio": loss})
        for rate, loss in ((60, 0.08), (80, 0.1), (100, 0.11), (120, 0.14))
        for point in found.points
    )
    page = pages(publish(CLAYPOOL, replace(found, points=points), tmp_path / "no-runs", tmp_path))
    line = next(line for line in page.splitlines() if "| loss is 11 % at 0.5 BDP" in line)
    assert line.endswith(
        "| **differs** (n=3): <details><summary>at 4: 8 % (±0 %) to 14 % (±0 %) at 4 settings, of which 2 meet "
        "it</summary>"
        "not: buffer 0.5bdp, rate 60Mbit, count 4: 8 % (±0 %); buffer 0.5bdp, rate 120Mbit, count 4: 14 % (±0 %)"
        "</details> |"
    )


@pytest.mark.parametrize(("loss", "verdict"), [(0.11, "agrees"), (0.02, "differs")])
def test_the_page_has_the_verdict_of_the_results(tmp_path: Path, loss: float, verdict: str) -> None:
    page = pages(publish(CLAYPOOL, results(loss), tmp_path / "no-runs", tmp_path))
    line = next(line for line in page.splitlines() if "| loss is 11 % at 0.5 BDP" in line)
    setting = "at 4: buffer 0.5bdp, rate 80Mbit, count 4"
    assert line.startswith("| 7/half-bdp | figure 7 and V, answer B |")
    assert line.endswith(f"| **{verdict}** (n=3): {setting}: {loss * 100:g} % (±0 %) |")
    assert "| **not run here**: " in page
    assert "1 point: failed: no reason" in page
    assert "The full variant was not run" in page
    assert ("| Setting | `utilization` |" in page) == (verdict == "differs")
    assert ("| buffer 0.5bdp, rate 80Mbit, count 4 | 98.8 % (±0 %, n=3) |" in page) == (verdict == "differs")
    # What was not tested is on the page, with the reason and what would test it; and so is what changed in a rule.
    assert "| beside BBR_Shallow shares are equal near 3 BDP | **not tested**: the experiment of figure 11 has" in page
    assert "alone. It takes `coexistence` with `flows.bbr.cca: bbr_shallow`" in page
    assert (
        "- **Rule changed after data were seen**, 9/cycle, *they take turns with a period of about 20 s*: Any" in page
    )
    # How much of the text is there, what became of each claim, and that other links take the place of the switch only.
    assert f"> {claim_counts(CLAYPOOL)}. Of the rules, in the quick variant (3 runs): " in page
    assert "| loss is 5.5 % at 1 BDP | 7/one-bdp: not run here |" in page
    assert f"| and about 11 % at 0.5 BDP | 7/half-bdp: {verdict} |" in page
    assert "may be due to any of these." in page
    assert results_path(CLAYPOOL, tmp_path).exists()
    # Drawn from the results; what is drawn from runs is left out without them.
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["claypool2019-7-1-quick.png"]
    assert "(../figures/claypool2019-7-1-quick.png)" in page


def test_a_repository_keeps_the_first_page_and_its_plot(tmp_path: Path) -> None:
    page = keep(CLAYPOOL, results(0.02), tmp_path, tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == [
        "claypool2019.md", "figures/claypool2019-7-1-quick.png", "results/claypool2019.parquet",
    ]  # fmt: skip
    assert "![Loss by buffer (quick)](figures/claypool2019-7-1-quick.png)" in page.read_text()
    # What has to be drawn from runs, which are gone, is named with the command that makes them.
    shown = replace(CLAYPOOL, shown="8")
    assert "is drawn from runs: `narrows study claypool2019 --figure 8`." in kept_page(shown, tmp_path)


def test_the_page_says_how_much_of_it_was_run(tmp_path: Path) -> None:
    published = {"points": 1000, "traffic_s": 360_000.0, "left_s": 1_080_000.0}
    quick = replace(results(0.1), machine={**results(0.1).machine, "clock": "virtual", "published": published})
    page = pages(publish(CLAYPOOL, quick, tmp_path, tmp_path))
    assert "ran on target `soft` in virtual time: 3 runs" in page
    assert "**Extent.** Of 1,000 published runs (100 h of traffic) 0 are here." in page
    assert "The rest would take about 300 h on one processor of that machine, 5 h on 64." in page
    # What is left is what the full variant says, if it was run.
    full: Variant = "full"
    rest = replace(quick, variant=full, machine={**quick.machine, "published": {**published, "left_s": 10_800.0}})
    page = pages(publish(CLAYPOOL, rest, tmp_path, tmp_path))
    assert "3 are here. The rest would take about 3 h on one processor of that machine, 3 min" in page
    nothing = replace(rest, machine={**quick.machine, "published": {**published, "left_s": 0.0}})
    assert "The rest" not in pages(publish(CLAYPOOL, nothing, tmp_path, tmp_path))


def test_claims_and_figures_for_a_paper(tmp_path: Path) -> None:
    publish(CLAYPOOL, results(0.02), tmp_path, tmp_path, ("csv", "tex", "svg", "pdf"))
    table = pd.read_csv(tmp_path / "claypool2019.quick.claims.csv")
    row = table[table["published"] == "loss is 11 % at 0.5 BDP"].iloc[0]
    assert (row["rule"], row["verdict"], row["n"]) == ("7/half-bdp", "differs", 3)
    assert table.iloc[-1]["verdict"] == "untestable"
    assert len(table) == len(CLAYPOOL.rules) + sum(one.kind != "judged" for one in CLAYPOOL.claims)
    assert r"\toprule" in (tmp_path / "claypool2019.quick.claims.tex").read_text()
    suffixes = {path.suffix for path in (tmp_path / "figures").glob("claypool2019-7-1-quick.*")}
    assert suffixes == {".png", ".svg", ".pdf"}


def test_verdicts_are_counted() -> None:
    rest = sum(len(figure.statements) for figure in CLAYPOOL.figures) - 3
    end = f"0 not comparable, {rest} not run here"
    assert verdict_counts(CLAYPOOL, results(0.11)) == f"3 agree, 0 differ, 0 undecided, {end}"
    assert verdict_counts(CLAYPOOL, results(0.02)) == f"1 agree, 2 differ, 0 undecided, {end}"
    single = replace(results(0.11), points=results(0.11).points[:1])
    assert verdict_counts(CLAYPOOL, single) == f"0 agree, 0 differ, 3 undecided (3 with means that agree), {end}"


def test_a_verdict_says_what_of_its_settings_was_run() -> None:
    """Rules "at each rate" were met by one of two."""
    sweep = {"bottleneck.rate": ["40Mbit", "80Mbit"], "bottleneck.buffer": ["0.5bdp", "1bdp"]}
    some = replace(results(0.11), experiments={"loss": {"sweep": sweep}})
    found = {one.statement.id: one for _, one in findings(CLAYPOOL, some)}
    # Of the buffers the statement is about one, and that was run.
    assert found["half-bdp"].covered == "bottleneck.rate 80Mbit only"
    assert found["average"].covered == ""
    assert found["one-bdp"].covered == ""
    both = replace(
        some,
        points=(
            *some.points,
            *(replace(one, parameters={**one.parameters, "bottleneck.rate": "40Mbit"}) for one in some.points),
        ),
    )
    assert {one.statement.id: one.covered for _, one in findings(CLAYPOOL, both)}["half-bdp"] == ""


# Claims in the texts, as a reader counted them before this list was made.
COUNTED = {"claypool2019": 32, "hock2017": 18, "hurtig2018": 36, "miyazawa2018": 10, "zeynali2024": 53}


def test_every_claim_of_five_texts_is_mapped() -> None:
    assert {name: len(STUDIES[name].claims) for name in COUNTED} == COUNTED
    assert sum(COUNTED.values()) == 149


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_claim_has_its_place_and_its_rules_or_a_reason(study: Study) -> None:
    for claim in study.claims:
        assert claim.place and claim.says and '"' not in claim.says
        assert bool(claim.rules) == (claim.kind == "judged"), claim
        assert bool(claim.why) == (claim.kind != "judged"), claim
        assert bool(claim.takes) == (claim.kind == "not tested"), claim
    assert len({claim.says for claim in study.claims}) == len(study.claims)
    # A rule without a claim would be our own, and one that is no longer there judges nothing.
    assert {rule for claim in study.claims for rule in claim.rules} == study.rules.keys()
    assert all(one.source and one.says and '"' not in one.says for one in study.rules.values())
    assert study.account


def test_a_claim_names_rules_that_there_are() -> None:
    """Two statements of one figure with one name would be one rule."""
    for study in STUDIES.values():
        assert len(study.rules) == sum(len(figure.statements) for figure in study.figures)


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_committed_results_are_of_experiments_that_there_are(study: Study) -> None:
    """A point of settings that no longer exist is judged by no rule."""
    variants: tuple[tuple[Variant, bool], ...] = (("quick", True), ("full", False))
    for variant, quick in variants:
        results = read_results(results_path(study, DOCS), variant)
        if results is not None:
            known = {(one.experiment, tuple(sorted(one.parameters.items()))) for one in study_points(study, quick)}
            found = {(one.experiment, tuple(sorted(one.parameters.items()))) for one in results.points}
            assert found <= known, variant


LONGER = replace(
    CLAYPOOL, controls=(Control(id="longer", experiment="loss", change="for 300 s", statements=("half-bdp",)),)
)


@pytest.mark.parametrize(
    ("quick", "longer", "note"),
    [
        (0.02, 0.11, "- **Control**, for 300 s: {}: agrees (n=3). The difference goes away."),
        (0.02, 0.02, "- **Control**, for 300 s: {}: differs (n=3). The difference stays."),
        # On the same side of the bound, and not the same.
        (
            0.02,
            0.03,
            "- **Control**, for 300 s: {}: differs (n=3). The difference stays. It is a different one: buffer 0.5bdp, "
            "rate 80Mbit, count 4: loss_ratio 2 % (±0 %, n=3) against 3 % (±0 %, n=3).",
        ),
        # A control that agrees where the quick run does is named, and one that does not.
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
    page = pages(publish(LONGER, results(quick), tmp_path, tmp_path))
    value = f"at 4: buffer 0.5bdp, rate 80Mbit, count 4: {(longer or 0) * 100:g} % (±0 %, n=3)"
    assert [line for line in page.splitlines() if line.startswith("- **Control**")] == [note.format(value)]
    # What a control gives is not a verdict of the study.
    assert verdict_counts(LONGER, results(quick)) == verdict_counts(CLAYPOOL, results(quick))


@pytest.mark.parametrize(
    ("longer", "said"),
    [
        (0.11, "Controls: for 300 s: agrees (n=3). It goes away with what a control changes."),
        (0.02, "Controls: for 300 s: differs (n=3). It stays with every control that is decided."),
        (None, "No control of the quick variant has been run: its cause is not known."),
    ],
)
def test_what_differs_has_a_paragraph_on_the_first_page(tmp_path: Path, longer: float | None, said: str) -> None:
    variant: Variant = "controls"
    points = tuple(replace(point, experiment="longer") for point in results(longer or 0.0).points)
    (tmp_path / "results").mkdir()
    for one in (replace(results(0.0), variant=variant, points=points if longer is not None else ()), results(0.02)):
        put_results(results_path(LONGER, tmp_path), one)
    (line,) = [line for line in kept_page(LONGER, tmp_path).splitlines() if line.startswith("- **7/half-bdp**, quick,")]
    assert "Ours: at 4: buffer 0.5bdp, rate 80Mbit, count 4: 2 % (±0 %, n=3). " in line and line.endswith(said)
    # What agrees has none.
    put_results(results_path(LONGER, tmp_path), results(0.11))
    assert "**7/half-bdp**, quick" not in kept_page(LONGER, tmp_path)
