# SPDX-License-Identifier: Apache-2.0
"""tests/faults.md: every row names tests that are there, and `make stress` runs them."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MATRIX = ROOT / "tests" / "faults.md"
# `test_serve.py::test_a_fault`, `robustness.rs`, `pipeline/tests/{fuzz,robustness}.rs`, `serve.rs: a_test`
TEST = re.compile(r"`([\w./{},-]+\.(?:py|rs))(?:(?:::|: )(\w+))?`(?: \(([^)]*)\))?")


sys.path.insert(0, str(ROOT / "scripts"))


# Its faults gave wrong numbers; their tests are of `make test`.
SILENT = ROOT / "tests" / "silent-faults.md"


def rows(page: Path) -> list[str]:
    """The rows of the page's tables, without their heads."""
    lines = page.read_text().splitlines()
    heads = {number - 1 for number, line in enumerate(lines) if line.startswith(("|---", "| ---"))}
    return [line for number, line in enumerate(lines) if re.match(r"\| [^-]", line) and number not in heads]


def places(name: str) -> list[Path]:
    """The files that a name of the page means: below tests/ or in a crate."""
    names = [name]
    if choice := re.search(r"\{(.*)\}", name):
        names = [name.replace(choice[0], one) for one in choice[1].split(",")]
    found = []
    for one in names:
        matches = [
            path
            for root in ("tests", "softswitch", "analysis")
            for path in (ROOT / root).rglob(Path(one).name)
            if path.as_posix().endswith(f"/{one}") and "target" not in path.relative_to(ROOT).parts
        ]
        assert len(matches) == 1, f"{one}: {matches}"
        found += matches
    return found


def words() -> str:
    """Everything that `make stress` starts."""
    return "\n".join(shlex.join(group.command) for group in importlib.import_module("stress").GROUPS)


def is_run(path: Path, commands: str) -> bool:
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".py":
        return any(str(parent) in shlex.split(commands) for parent in (name, *map(str, Path(name).parents)))
    if path.parent.name == "tests":
        return f"--test {path.stem}" in commands
    return "-p narrows-softswitch --lib" in commands and name.startswith("softswitch/server/src")


def named_tests(row: str) -> list[tuple[str, Path]]:
    """The tests that a row names, each with its file; all of them are there."""
    found = TEST.findall(row)
    assert found, "a row without a test"
    named = []
    for name, test, case in found:
        for path in places(name):
            text = path.read_text()
            assert not test or re.search(rf"(def|fn) {test}\(", text), f"{name} has no test {test}"
            assert not test or test.startswith("test_") or path.suffix == ".rs"
            assert not case or name != "e2e/test_run_faults.py" or f'"{case}"' in text, f"{name} has no case {case}"
            named.append((name, path))
    return named


@pytest.mark.parametrize("row", rows(MATRIX), ids=lambda row: row.split("|")[1].strip())
def test_a_row_names_tests_that_stress_runs(row: str) -> None:
    commands = words()
    for name, path in named_tests(row):
        assert is_run(path, commands), f"{name}: no group of scripts/stress.py runs it"


@pytest.mark.parametrize("row", rows(SILENT), ids=lambda row: row.split("|")[1].strip())
def test_a_silent_fault_names_its_tests(row: str) -> None:
    named_tests(row)


READ_BACK = [line for line in (ROOT / "docs" / "read-back.md").read_text().splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", READ_BACK, ids=lambda row: row.split("|")[1].strip())
def test_a_setting_that_is_read_back_names_its_tests(row: str) -> None:
    named_tests(row)


def test_there_are_rows() -> None:
    assert len(rows(MATRIX)) > 40


SECURITY = (ROOT / "docs" / "security.md").read_text()
NAMED = re.compile(r"`([\w/]+\.py|[a-z_]+)`")


def test_each_line_of_the_threat_model_names_a_test_that_is_there() -> None:
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    rust = [path.read_text() for part in ("softswitch", "analysis", "metrics") for path in (ROOT / part).rglob("*.rs")]
    lines = [line for line in SECURITY.splitlines() if line.startswith("| ") and "| test |" not in line]
    of_tests = [line.split(" | ")[-1] for line in lines if line.count(" | ") == 2]
    assert len(of_tests) > 20
    for cell in of_tests:
        named = NAMED.findall(cell)
        assert named, cell
        for name in named:
            if name.endswith(".py"):
                assert any(path.as_posix().endswith(f"/{name}") for path in texts), name
            else:
                assert any(re.search(rf"(def|fn) {name}\(", text) for text in (*texts.values(), *rust)), name
