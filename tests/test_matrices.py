# SPDX-License-Identifier: Apache-2.0
"""Matrices of suites that are kept in docs/matrices, and the page that is made of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from narrows.suites import suite
from narrows_formats import suite_matrix
from narrows_formats.suite_matrix import Matrix
from script_modules import load_script

pytestmark = pytest.mark.parallel_safe
ROOT = Path(__file__).resolve().parents[1]


def script() -> ModuleType:
    return load_script(ROOT / "scripts" / "matrices.py")


def matrix(outcomes: dict[str, str], cases: tuple[str, ...] = ("one",)) -> Matrix:
    text = {"tests": ["RFC 1"], "urls": ["https://x.org"], "says": "It does.", "rule": "So.", "changed": ""}
    check = {
        "expectation": "a|b > 1", "precondition": False, "parameters": {}, "values": [2.0], "interval": None,
        "outcome": "fail", "reason": "it is 0",
    }  # fmt: skip
    found: dict[str, Any] = {
        "format": suite_matrix.FORMAT, "narrows_version": "0", "suite": "mine", "title": "BBR alone",
        "variant": "quick",
        "cases": [{"name": case, **text} for case in cases],
        "senders": [
            {"name": name, "cca": name.partition("@")[0], "kernel": "k", "release": "6.1", "version": ""}
            for name in outcomes
        ],
        "cells": [
            {"case": case, "sender": name, "outcome": one, "n": 1, "directory": f"{name}/{case}", "checks": [check],
             "reason": "" if one == "pass" else "a|b > 1: measured 0"}
            for name, one in outcomes.items() for case in cases
        ],
    }  # fmt: skip
    return cast(Matrix, found)


def test_matrices_that_are_kept_have_the_cases_of_their_suites() -> None:
    kept = sorted(path.parent for path in (ROOT / "docs" / "matrices").glob("*/matrix.json"))
    assert kept
    for directory in kept:
        found = suite_matrix.read(directory)
        assert found["suite"] == directory.name
        assert [case["name"] for case in found["cases"]] == [case.name for case in suite.load(directory.name).cases]


def test_the_page_has_each_suite_with_each_case() -> None:
    page = script().page()
    for path in (ROOT / "docs" / "matrices").glob("*/matrix.json"):
        part = page.partition(f"\n## {path.parent.name}\n")[2].partition("\n## ")[0]
        found = suite_matrix.read(path.parent)
        rows = {row[1]: row[2].split(" | ") for row in re.finditer(r"^\| `(.+?)` \| (.*) \|$", part, re.MULTILINE)}
        assert {case["name"] for case in found["cases"]} == set(rows)
        assert {len(cells) for cells in rows.values()} == {len(found["senders"])}


def test_why_bbrv1_fails_a_case_of_the_draft_is_said() -> None:
    text = (ROOT / "docs" / "suites.md").read_text().partition("### Where BBRv1 fails\n")[2].partition("\n\n")[0]
    said = {case for row in text.splitlines() for case in re.findall("`([^`]+)`", row.split("|")[1])}
    cells = suite_matrix.read(ROOT / "docs" / "matrices" / "bbr-draft")["cells"]
    assert said == {cell["case"] for cell in cells if (cell["sender"], cell["outcome"]) == ("bbr@default", "fail")}


def test_results_are_added_by_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script()
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    for outcomes in ({"reno@k": "fail", "bbr@k": "pass"}, {"bbr@k": "fail"}, {"bbr@k": "not run"}):
        suite_matrix.write(tmp_path, matrix(outcomes))
        module.add(tmp_path)
    kept = suite_matrix.read(tmp_path / "kept" / "mine")
    assert [(cell["sender"], cell["outcome"]) for cell in kept["cells"]] == [("reno@k", "fail"), ("bbr@k", "fail")]
    assert not any(cell["checks"] or cell["directory"] for cell in kept["cells"])
    assert "## mine\nBBR alone; quick, 1 run of a case: 2 fail.\n" in module.page()
    assert "| `one` | **fail** | **fail** |\n\n- `one`: `a|b > 1`: 0 (reno@k, bbr@k)\n" in module.page()
    suite_matrix.write(tmp_path, matrix({"bbr@k": "pass"}, ("one", "two")))
    with pytest.raises(SystemExit, match=r"has other cases than .*mine, or another variant; allowed: the same ones"):
        module.add(tmp_path)
    assert suite_matrix.read(tmp_path / "kept" / "mine") == kept
