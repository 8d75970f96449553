# SPDX-License-Identifier: Apache-2.0
"""Suites: what comes with the package, wrong ones, what a cell's verdicts come to, and the matrix in its forms."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from narrows.cli import app
from narrows.errors import InputError
from narrows.experiment.planning import make_plan
from narrows.run.verdicts import Verdict
from narrows.suites import suite
from narrows.suites.programs import read_program
from narrows.suites.running import Sender, SuiteRun, decided, junit
from narrows.targets.soft.target import SoftTarget
from narrows_analysis import suite_page
from narrows_analysis.metrics.confidence import wilson
from narrows_analysis.suite_ranking import suite_ranking
from narrows_formats import suite_matrix
from narrows_formats.suite_matrix import Cell, Matrix, Outcome
from typer.testing import CliRunner

pytestmark = pytest.mark.parallel_safe

TEXT: dict[str, Any] = {
    "title": "mine",
    "ccas": ["reno"],
    "documents": {"rfc": {"title": "RFC 1", "url": "https://x.org/#{section}", "sections": {"2": "Two"}}},
    "cases": {"one": {"tests": ["rfc#2"], "says": "It does.", "rule": "So it follows."}},
}
EXPERIMENT: dict[str, Any] = {
    "name": "one",
    "bottleneck": {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"},
    "flows": [{"name": "tested", "cca": "cubic", "duration": "1s"}],
    "expect": ["bottleneck.utilization > 90%"],
}


def made(place: Path, text: dict[str, Any], experiment: dict[str, Any] = EXPERIMENT) -> str:
    place.mkdir(parents=True, exist_ok=True)
    (place / "suite.yaml").write_text(yaml.safe_dump(text))
    (place / "one.yaml").write_text(yaml.safe_dump(experiment))
    return str(place)


@pytest.mark.parametrize("name", suite.built_in())
def test_a_suite_that_comes_with_the_package(name: str) -> None:
    """Every case is right with every congestion control, and on the softswitch, and tests sections that there are."""
    found = suite.load(name)
    for case in found.cases:
        for cca in case.text.ccas or found.text.ccas:
            series = case.series(cca)
            assert series.experiment.expect
            groups = [group for group in series.experiment.flows if (group.name or "").partition("-")[0] == "tested"]
            assert {group.cca for group in groups} == {cca}
            assert SoftTarget().unsupported(make_plan(series.points[0].experiment)) == []
        assert case.urls
        assert not any("{" in url for url in case.urls)


def test_the_draft_has_twenty_two_cases() -> None:
    """Each section is tested by one case, in the order of the text."""
    found = suite.load("bbr-draft")
    tested = [section for case in found.cases for section in case.text.tests]
    assert tested == [f"draft#{section}" for section in found.text.documents["draft"].sections]
    assert len(tested) == 22


def test_every_case_of_the_draft_has_been_seen_to_fail() -> None:
    """By one of its expectations; tests/virtual/test_seen_to_fail.py sees it again."""
    for case in suite.load("bbr-draft").cases:
        assert case.text.failure.partition(": ")[0] in case.series("bbr").experiment.expect, case.name


def test_with_what_a_case_was_seen_to_fail_is_shown(tmp_path: Path) -> None:
    seen = {"passes_with": {"GAIN 3": "GAIN 2"}, "fails_with": {"undo();": ""}, "failure": "x > 1: it is 0"}
    text = {**TEXT, "source": "own.c", "cases": {"one": {**TEXT["cases"]["one"], **seen}}}
    shown = CliRunner().invoke(app, ["suite", "show", made(tmp_path / "mine", text)]).output
    assert shown.endswith(
        "  passes with: GAIN 2 in the place of GAIN 3\n"
        "  fails with: (nothing) in the place of undo();\n"
        "  failure: x > 1: it is 0 (own.c)\n"
    )


def test_the_group_under_test_gets_the_congestion_control(tmp_path: Path) -> None:
    text = {**TEXT, "cases": {"one": {**TEXT["cases"]["one"], "sweep": {"bottleneck.rtt": ["10ms", "20ms"]}}}}
    (case,) = suite.load(made(tmp_path / "mine", text)).cases
    assert [point.experiment.flows[0].cca for point in case.series("bbr", repeat=3).points] == ["bbr"] * 3
    assert len(case.series("bbr", quick=False, repeat=3).points) == 6


def test_each_group_under_test_gets_the_congestion_control(tmp_path: Path) -> None:
    """A group whose name only begins with the same letters is none."""
    names = ("tested", "tested-b", "testedly", "b-tested")
    flows = [{"name": name, "cca": "cubic", "duration": "1s"} for name in names]
    (case,) = suite.load(made(tmp_path / "mine", TEXT, {**EXPERIMENT, "flows": flows})).cases
    flows_run = case.series("bbr").points[0].experiment.flows
    assert [group.cca for group in flows_run] == ["bbr", "bbr", "cubic", "cubic"]


def _changed(*path: str, to: Any) -> dict[str, Any]:
    text = cast(dict[str, Any], json.loads(json.dumps(TEXT)))
    at = text
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return text


@pytest.mark.parametrize(
    ("text", "experiment", "message"),
    [
        (_changed("cases", to={}), EXPERIMENT, "cases: one.yaml is none; allowed: a case for each file"),
        (
            _changed("cases", "two", to=TEXT["cases"]["one"]),
            EXPERIMENT,
            "cases.two: there is no two.yaml; allowed: one",
        ),
        (
            _changed("cases", "one", "tests", to=["rfc#3"]),
            EXPERIMENT,
            "cases.one.tests: refers to 'rfc#3', but rfc has no such section; allowed: 2",
        ),
        (
            _changed("cases", "one", "tests", to=["rfd#2"]),
            EXPERIMENT,
            "cases.one.tests: refers to 'rfd#2', which is no document here; allowed: rfc#SECTION",
        ),
        (_changed("cases", "one", "tests", to=[]), EXPERIMENT, "cases.one.tests"),
        (_changed("cases", "one", "say", to="x"), EXPERIMENT, "cases.one.say"),
        (
            _changed("include", to=["."]),
            EXPERIMENT,
            "include: goes in a circle (mine -> mine); allowed: suites without",
        ),
        (_changed("include", to=["bbr"]), EXPERIMENT, "suite bbr: is not known"),
        (TEXT, {**EXPERIMENT, "expect": []}, "one.yaml: has no expect; allowed: files that expect something"),
        (
            TEXT,
            {**EXPERIMENT, "telemetry": {"sockets": "0"}, "expect": ["senders.tested.rtt_s.min > 0"]},
            "asks for what sockets said, with telemetry.sockets: 0",
        ),
        (
            _changed("cases", "one", "given", to=["flows.other.drops > 0"]),
            EXPERIMENT,
            "one.yaml: given 'flows.other.drops > 0', which has no flow 'other'; allowed: tested-1",
        ),
        (
            TEXT,
            {**EXPERIMENT, "flows": [{"name": "x", "cca": "bbr", "duration": "1s"}]},
            "one.yaml: flows: none is called 'tested', as what is tested; allowed: a group of that name",
        ),
    ],
)
def test_a_wrong_suite_has_one_clear_error(
    tmp_path: Path, text: dict[str, Any], experiment: dict[str, Any], message: str
) -> None:
    place = made(tmp_path / "mine", text, experiment)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        suite.load(place)
    assert error.value.exit_code == 2
    assert len(str(error.value).splitlines()) == 1


def test_two_suites_that_include_each_other_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "a", _changed("include", to=["../b"]))
    made(tmp_path / "b", _changed("include", to=["../a"]))
    with pytest.raises(InputError, match=r"b/suite.yaml: include: goes in a circle \(a -> b -> a\)"):
        suite.load(str(tmp_path / "a"))


def test_cases_of_included_suites_come_first_and_keep_their_names(tmp_path: Path) -> None:
    made(tmp_path / "a", TEXT)
    other = tmp_path / "b"
    place = made(other, _changed("include", to=["../a"]))
    with pytest.raises(InputError, match=r"cases.one: is a case of an included suite, too; allowed: another name"):
        suite.load(place)
    (other / "one.yaml").rename(other / "two.yaml")
    text = {**TEXT, "include": ["../a"], "cases": {"two": TEXT["cases"]["one"]}}
    (other / "suite.yaml").write_text(yaml.safe_dump(text))
    found = suite.load(place)
    assert [case.name for case in found.cases] == ["one", "two"]
    assert [case.name for case in found.only(["two"]).cases] == ["two"]
    with pytest.raises(InputError, match="suite b: has no case 'tow', did you mean 'two'"):
        found.only(["tow"])


def test_included_suites_do_not_hide_each_others_cases(tmp_path: Path) -> None:
    """One that two suites include is there once."""
    for name in ("a", "b"):
        made(tmp_path / name, TEXT)
    for name, others in (("c", ["../a"]), ("d", ["../a", "../c"]), ("e", ["../a", "../b"])):
        (tmp_path / name).mkdir()
        text = {"title": name, "ccas": ["reno"], "include": others}
        (tmp_path / name / "suite.yaml").write_text(yaml.safe_dump(text))
    assert [case.name for case in suite.load(str(tmp_path / "d")).cases] == ["one"]
    with pytest.raises(InputError, match=r"e/suite.yaml: include: has two cases 'one' \(.*a/one.yaml and .*b/one"):
        suite.load(str(tmp_path / "e"))


def test_what_a_case_is_not_about_and_what_a_kernel_does_not_have(tmp_path: Path) -> None:
    """Neither is a run to make; a run that is only still to be made is another outcome."""
    found = suite.load(made(tmp_path / "mine", _changed("cases", "one", "ccas", to=["reno", "vegas"])))
    senders = [
        Sender(cca, "k", "6.1", "", present, cast(Any, None))
        for cca, present in (("reno", True), ("cubic", True), ("vegas", False))
    ]
    cells = SuiteRun(found, senders, tmp_path / "out", quick=True).matrix()["cells"]
    assert [(one["sender"], one["outcome"], one["reason"]) for one in cells] == [
        ("reno@k", "not run", "1 of 1 runs are missing"),
        ("cubic@k", "not applicable", "about reno, vegas"),
        ("vegas@k", "not applicable", "kernel k has no vegas"),
    ]


def test_cases_about_what_a_sender_is_like_apply_to_it_too(tmp_path: Path) -> None:
    found = suite.load(made(tmp_path / "mine", _changed("cases", "one", "ccas", to=["reno"])))
    senders = [Sender(cca, "k", "6.1", "", True, cast(Any, None), "reno") for cca in ("mine_1", "mine_2")]
    runner = SuiteRun(found, senders, tmp_path / "out", quick=True)
    assert [one["outcome"] for one in runner.matrix()["cells"]] == ["not run", "not run"]
    assert not found.cases[0].applies_to("mine_1", "cubic")


def program_file(place: Path, **fields: object) -> Path:
    place.mkdir(exist_ok=True)
    own: dict[str, object] = {"client": ["./fetch", "{server}", "{port}"], "server": ["./serve", "{port}"], **fields}
    (place / "quic.yaml").write_text(yaml.safe_dump({name: one for name, one in own.items() if one is not None}))
    return place / "quic.yaml"


@pytest.mark.parametrize(
    ("more", "expect", "outcome"),
    [
        ({"start": "1s", "rtt": "50ms", "count": 1, "media": {}}, [], None),
        ({"count": 2}, [], ("not applicable", "tested has count, and a program decides itself what it sends")),
        ({"onoff": {"length": "1s", "pause": "1s"}}, [], ("not applicable", "tested has onoff")),
        ({"media": {"ecn": "ect0"}}, [], ("not applicable", "tested has media")),
        ({}, ["senders.tested.cwnd_bytes.max > 1kB"], None),
        ({}, ["flows.tested.responses.time_s.p50 < 1s"], None),
    ],
)
def test_a_program_takes_the_place_of_the_sender(
    tmp_path: Path, more: dict[str, object], expect: list[str], outcome: tuple[str, str] | None
) -> None:
    """When it sends, and over what, the case says; the program's file says the rest, its paths relative to itself."""
    flow = {**EXPERIMENT["flows"][0], **more}
    experiment = {**EXPERIMENT, "flows": [flow, {"cca": "cubic", "duration": "2s"}]}
    experiment["expect"] = [*EXPERIMENT["expect"], *expect]
    text = {**TEXT, "ccas": ["nada" if "media" in more else "reno"]}
    found = suite.load(made(tmp_path / "mine", text, experiment))
    program = read_program(program_file(tmp_path / "programs", env={"A": "b"}))
    sender = Sender("quic", "k", "6.1", "", True, cast(Any, None), program=program)
    (cell,) = SuiteRun(found, [sender], tmp_path / "out", quick=True).matrix()["cells"]
    if outcome is not None:
        assert cell["outcome"] == outcome[0] and outcome[1] in cell["reason"]
        return
    assert (cell["outcome"], cell["sender"]) == ("not run", "quic@k")
    tested, other = make_plan(sender.series(found.cases[0], True, None).experiment).flows
    assert tested.payload.is_program and tested.name == "tested-1" and other.cca == "cubic"
    assert dict(cast(Any, tested.payload).env) == {"A": "b"}
    assert cast(Any, tested.payload).client[0] == str(tmp_path / "programs" / "fetch")
    assert tested.start_ns == (1_000_000_000 if "start" in more else 0) and tested.duration_ns == 1_000_000_000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"client": None}, "has no client|without client"),
        ({"client": 5}, "quic.yaml: client: '5' is of the wrong kind"),
        ({"duration": "5s"}, "duration: is up to the cases; allowed: name, client, server"),
        ({"cliant": ["x"]}, "cliant: unknown field, did you mean 'client'"),
        ({"server": ["./serve"]}, "quic.yaml: has a server without ready"),
    ],
)
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        read_program(program_file(tmp_path, **fields))
    assert "quic.yaml" in str(error.value) and len(str(error.value).splitlines()) == 1


def verdict(kind: str) -> Verdict:
    return Verdict(f"{kind} > 1", {}, (2.0,), None, "" if kind == "pass" else "it is 2", kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected", "outcome"),
    [
        ([], ["pass", "pass"], "pass"),
        ([], ["pass", "fail", "not observable"], "fail"),
        ([], ["undecided", "not observable"], "not observable"),
        ([], ["pass", "undecided"], "undecided"),
        (["pass"], ["pass"], "pass"),
        (["fail"], ["pass"], "undecided"),
        (["undecided"], ["fail"], "undecided"),
        (["not observable"], ["pass"], "not observable"),
    ],
)
def test_what_the_verdicts_of_a_cell_come_to(given: list[str], expected: list[str], outcome: str) -> None:
    found, reason = decided(list(map(verdict, given)), list(map(verdict, expected)))
    assert found == outcome
    assert bool(reason) == (outcome != "pass")


def cell(case: str, sender: str, outcome: Outcome) -> Cell:
    kind: Outcome = "pass" if outcome == "not applicable" else outcome
    one: suite_matrix.Check = {
        "expectation": "a > 1", "precondition": False, "parameters": {}, "values": [2.0], "interval": [1.0, 3.0],
        "outcome": kind, "reason": "" if kind == "pass" else "it is <2>",
    }  # fmt: skip
    reason = "" if outcome == "pass" else "it is <2>"
    checks = [] if outcome in ("not applicable", "not run") else [one]
    return {
        "case": case, "sender": sender, "outcome": outcome, "reason": reason, "n": 3, "directory": "", "checks": checks,
    }  # fmt: skip


def matrix(outcomes: dict[str, list[Outcome]], cases: tuple[str, ...] = ("one", "two")) -> Matrix:
    text = {
        "tests": ["RFC 1, 2: Two"],
        "urls": ["https://x.org/#2"],
        "says": "It <does>.",
        "rule": "So.",
        "changed": "",
    }
    sender = {"cca": "reno", "kernel": "k", "release": "6.1", "version": ""}
    found: Any = {
        "format": suite_matrix.FORMAT,
        "narrows_version": "0",
        "suite": "mine",
        "title": "mine & yours",
        "variant": "quick",
        "cases": [{"name": case, **text} for case in cases],
        "senders": [{"name": name, **sender} for name in outcomes],
        "cells": [
            cell(case, name, one) for name, found in outcomes.items() for case, one in zip(cases, found, strict=True)
        ],
    }
    return cast(Matrix, found)


def test_a_matrix_is_read_as_it_was_written(tmp_path: Path) -> None:
    first = matrix({"reno@k": ["pass", "fail"]})
    suite_matrix.write(tmp_path, first)
    assert suite_matrix.read(tmp_path) == first
    (tmp_path / "matrix.json").write_text((tmp_path / "matrix.json").read_text().replace('"fail"', '"failed"'))
    with pytest.raises(ValueError, match="outcome"):
        suite_matrix.read(tmp_path)


def said_by_compare(directory: Path, first: Matrix, second: Matrix, *options: str) -> str:
    for name, one in (("a", first), ("b", second)):
        (directory / name).mkdir()
        suite_matrix.write(directory / name, one)
    words = ["suite", "compare", str(directory / "a"), str(directory / "b"), *options]
    return CliRunner().invoke(app, words, catch_exceptions=False).output.replace(f"{directory}/", "")


def other_cells() -> tuple[Matrix, Matrix]:
    """Two matrices that have one cell in common, which did not change."""
    first = matrix({"reno@k": ["pass", "fail"], "bbr@k": ["pass", "pass"]})
    return first, matrix({"reno@k": ["pass", "pass"], "cubic@k": ["fail", "pass"]}, ("one", "three"))


def test_cells_that_both_have_are_compared(tmp_path: Path) -> None:
    """Of two matrices with one sender each those two; a cell with another number of runs says so."""
    first = matrix({"bbr@k": ["pass", "fail", "pass"]}, ("one", "two", "three"))
    second = matrix({"bbr@bbr3": ["pass", "undecided"]})
    for one in second["cells"]:
        one["n"] = 1
    assert said_by_compare(tmp_path, first, second).splitlines() == [
        "two, bbr@k -> bbr@bbr3: fail -> undecided (n 3 and 1; it is <2>)",
        "2 cells compared: 1 changed, 1 same; only in a: 1",
    ]


def test_cells_that_one_has_are_counted(tmp_path: Path) -> None:
    assert said_by_compare(tmp_path, *other_cells()) == "1 cells compared: 1 same; only in a: 3; only in b: 3\n"


def test_cells_that_one_has_are_listed_where_they_are_asked_for(tmp_path: Path) -> None:
    assert said_by_compare(tmp_path, *other_cells(), "--all").splitlines() == [
        "one, bbr@k: pass -> not there",
        "one, cubic@k: not there -> fail (it is <2>)",
        "two, reno@k: fail -> not there",
        "two, bbr@k: pass -> not there",
        "three, reno@k: not there -> pass",
        "three, cubic@k: not there -> pass",
        "1 cells compared: 1 same; only in a: 3; only in b: 3",
    ]


def test_programs_are_given_every_cell_that_is_not_the_same(tmp_path: Path) -> None:
    found = json.loads(said_by_compare(tmp_path, *other_cells(), "--json"))
    assert len(found) == 6
    assert found[0] == {
        "case": "one", "sender": "bbr@k", "before": "pass", "after": "not there",
        "n_before": 3, "n_after": 0, "reason": "",
    }  # fmt: skip


def test_the_action_comments_what_changed_and_fails_where_a_cell_got_worse(tmp_path: Path) -> None:
    """The step with a run that is made up: one case fails, and `suite compare` says what is new."""
    narrows = tmp_path / "narrows"
    narrows.write_text(
        '#!/bin/sh\necho "$*" >> words\n'
        f'[ "$2" = run ] || exec {sys.executable} -c "import narrows.cli; narrows.cli.main()" "$@"\n'
        'mkdir -p results; cp ran.json results/matrix.json; printf "mine: 1 pass, 1 fail\\npage: x\\n"; exit "$CODE"\n'
    )
    narrows.chmod(0o755)
    suite_matrix.write(tmp_path, matrix({"reno@k": ["pass", "fail"]}))
    (tmp_path / "matrix.json").rename(tmp_path / "ran.json")
    baselines: dict[str, list[Outcome]] = {
        "worse": ["pass", "pass"], "better": ["undecided", "fail"], "same": ["pass", "fail"],
        "vanished": ["pass", "fail", "pass"],
    }  # fmt: skip
    for name, outcomes in baselines.items():
        (tmp_path / name).mkdir()
        cases = ("one", "two", "three")[: len(outcomes)]
        suite_matrix.write(tmp_path / name, matrix({"reno@k": outcomes}, cases))

    def step(baseline: str, code: int = 1) -> tuple[int, str]:
        settings = {"NARROWS": str(narrows), "SUITE": "mine", "CCAS": "reno cubic", "PROGRAMS": "quic.yaml"}
        settings |= {"KERNELS": "a", "BASELINE": baseline, "RESULTS": "results"}
        action = Path(__file__).parents[2] / ".github" / "actions" / "suite"
        assert yaml.safe_load((action / "action.yml").read_text())["runs"]["steps"][0]["env"].keys() == settings.keys()
        environment = {**os.environ, **settings, "CODE": str(code)}
        ended = subprocess.run([action / "run.sh"], cwd=tmp_path, env=environment, check=False)
        comment = tmp_path / "results" / "comment.md"
        return ended.returncode, comment.read_text() if comment.exists() else ""

    assert step("", code=2) == (2, "")
    code, comment = step("")
    assert code == 1 and comment.startswith("### mine: 1 pass, 1 fail\n\n<details>") and " -> " not in comment
    asked = "suite run mine --quick --quiet --out results --junit results-junit.xml "
    asked += "--cca reno --cca cubic --program quic.yaml --kernel a"
    assert (tmp_path / "words").read_text().splitlines() == [asked] * 2
    code, comment = step("worse")
    assert code == 1 and "two, reno@k: pass -> fail (it is <2>)\n2 cells compared: 1 changed, 1 same\n~~~" in comment
    code, comment = step("better")
    assert code == 0 and "one, reno@k: undecided -> pass\n" in comment
    code, comment = step("same")
    assert code == 0 and "~~~text\n2 cells compared: 2 same\n~~~" in comment
    code, comment = step("vanished")
    assert code == 1 and "three, reno@k: pass -> not there\n2 cells compared: 2 same; only in vanished: 1\n" in comment


def test_junit_has_a_suite_a_cell() -> None:
    """What does not apply is left out, what is not observable is skipped, a run that failed is an error."""
    found = matrix({"a@k": ["pass", "fail"], "b@k": ["not observable", "not applicable"], "c@k": ["not run", "pass"]})
    suites = ET.fromstring(junit(found)).findall("testsuite")
    names = ("name", "tests", "failures", "errors", "skipped")
    assert [tuple(one.get(name) for name in names) for one in suites] == [
        ("mine/one a@k", "1", "0", "0", "0"),
        ("mine/two a@k", "1", "1", "0", "0"),
        ("mine/one b@k", "1", "0", "0", "1"),
        ("mine/one c@k", "1", "0", "1", "0"),
        ("mine/two c@k", "1", "0", "0", "0"),
    ]


def test_senders_are_ranked_by_the_share_of_their_judged_cases_that_is_passed() -> None:
    """Equal shares have one place. What is not observable was not passed; what failed to run has no place."""
    found = suite_ranking(
        matrix({
            "crashed@k": ["pass", "not run"],
            "half@k": ["pass", "fail"],
            "unjudged@k": ["not applicable", "not applicable"],
            "whole@k": ["pass", "pass"],
            "unseen@k": ["not observable", "pass"],
            "one@k": ["pass", "not applicable"],
            "none@k": ["fail", "undecided"],
        })
    )  # fmt: skip
    assert [(one.place, one.standing.sender, one.standing.passed, len(one.standing.judged)) for one in found] == [
        (1, "whole@k", 2, 2),
        (1, "one@k", 1, 1),
        (3, "half@k", 1, 2),
        (3, "unseen@k", 1, 2),
        (5, "none@k", 0, 2),
        (None, "crashed@k", 1, 1),
        (None, "unjudged@k", 0, 0),
    ]
    by_name = {one.standing.sender: one.standing for one in found}
    assert [one["case"] for one in by_name["half@k"].not_passed] == ["two"]
    assert [one["case"] for one in by_name["crashed@k"].not_run] == ["two"]
    assert by_name["unjudged@k"].share is None and by_name["unjudged@k"].interval is None


@pytest.mark.parametrize(("passed", "of"), [(0, 1), (1, 1), (3, 10), (22, 22), (0, 200), (199, 200)])
def test_the_interval_of_a_share_has_what_would_show_it_within_chance(passed: int, of: int) -> None:
    """Its ends p are those of which the share is 1.96 standard deviations of the binomial distribution away."""
    low, high = wilson(passed, of)
    assert 0 <= low <= passed / of <= high <= 1
    for end in {low, high} - {0.0, 1.0}:
        assert abs(passed / of - end) == pytest.approx(1.959964 * (end * (1 - end) / of) ** 0.5, rel=1e-6)
    assert (low == 0) == (passed == 0) and (high == 1) == (passed == of)


def test_a_page_has_every_cell_and_what_each_case_says(tmp_path: Path) -> None:
    found = matrix({"a@k": ["pass", "fail"], "b@k": ["not observable", "not applicable"]})
    (tmp_path / "a@k").mkdir()
    (tmp_path / "a@k" / "report.html").write_text("")
    found["cells"][0]["directory"] = "a@k"
    text = suite_page.write_page(tmp_path, found).read_text()
    assert re.findall(r'<td class="text (\w+)"', text) == ["pass", "other", "fail", "other"]
    assert text.count('<a href="a@k/report.html">pass</a> (n=3)') == 1
    assert text.count("It &lt;does&gt;.") == 2
    assert '<a href="https://x.org/#2">RFC 1, 2: Two</a>' in text


@pytest.mark.parametrize(
    ("outcomes", "value", "color"),
    [
        (["pass", "pass"], "2 of 2", suite_page.COLORS["pass"]),
        (["pass", "fail"], "1 of 2", suite_page.COLORS["fail"]),
        (["pass", "undecided"], "1 of 2", suite_page.OTHER_COLOR),
        (["pass", "not applicable"], "1 of 1", suite_page.COLORS["pass"]),
        (["not run", "not applicable"], "0 of 0", suite_page.OTHER_COLOR),
    ],
)
def test_a_badge_counts_what_was_judged(outcomes: list[Outcome], value: str, color: str) -> None:
    image = ET.fromstring(suite_page.badge(matrix({"a@k": outcomes})))
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert [one.text for one in image.findall("svg:g/svg:text", names)] == ["mine", value]
    assert image.findall("svg:rect", names)[1].get("fill") == color
