# SPDX-License-Identifier: Apache-2.0
"""The policy of tests/needs.py: what is missing is a failure unless no package has it, and is counted by reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import needs
import pytest

HERE = Path(__file__).resolve().parent
# Every case of the policy, as tests that pytest runs on a machine with neither BMv2 nor, by its PATH, iperf3.
CASES = {
    "command": "@pytest.mark.needs('iperf3')\ndef test_it(): pass",
    "absent": "@pytest.mark.needs('bmv2')\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): pass",
    "absent_first": """
@pytest.fixture(scope="module")
def it(): raise RuntimeError("made before the machine was looked at")
@pytest.mark.needs("bmv2")
def test_it(it): pass""",
    "skip": "def test_it(): pytest.skip('not today')",
    "mark": "@pytest.mark.skip(reason='not today')\ndef test_it(): pass",
    "condition": "@pytest.mark.skipif(True, reason='not today')\ndef test_it(): pass",
    "fixture": "@pytest.fixture\ndef it(): pytest.skip('not today')\ndef test_it(it): pass",
    "module": "pytest.importorskip('no_such_module')\ndef test_it(): pass",
    "expected": "@pytest.mark.xfail\ndef test_it(): assert False",
    "unknown": "@pytest.mark.needs('hammer')\ndef test_it(): pass",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says about the cases: a line of outcome each, the reasons, and the summary."""
    directory = tmp_path_factory.mktemp("policy")
    for name, tests in CASES.items():
        (directory / f"test_{name}.py").write_text(f"import pytest\n\n{tests}\n")
    command = [sys.executable, "-m", "pytest", "-p", "needs", "-p", "no:cacheprovider", "-c", os.devnull, "-rA"]
    nowhere = str(directory / "nowhere")
    variables = {**os.environ, "PYTHONPATH": str(HERE), "PATH": nowhere, "NARROWS_BMV2": nowhere}
    options = [f"--rootdir={directory}", "--continue-on-collection-errors", str(directory)]
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, env=variables, cwd=directory, timeout=60
    ).stdout


def line(said: str, name: str) -> str:
    """The summary's line about a case."""
    found = re.findall(rf"^(?:PASSED|FAILED|ERROR|XFAIL) (?:.*/)?test_{name}\.py.*$", said, re.MULTILINE)
    return str(found[0]) if found else ""


@pytest.mark.long
def test_a_missing_packaged_command_is_a_failure(said: str) -> None:
    assert "iperf3 is not installed; fix: scripts/setup.sh test (Debian's package iperf3)" in said
    assert re.match("FAILED|ERROR", line(said, "command"))


def test_a_missing_binary_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_binary", lambda _name: None)
    with pytest.raises(pytest.fail.Exception, match=r"narrows-collector is not built; fix: 'make setup'"):
        needs.require("narrows-collector")


def test_what_no_package_has_is_left_out_and_counted_by_reason(said: str) -> None:
    """Before any of its fixtures is made."""
    assert re.search(r"=+ left out for want of =+\n4 tests: \$NARROWS_BMV2 is .*: no executable.*\n=", said), said
    assert "4 skipped" in said


@pytest.mark.parametrize("name", ["skip", "mark", "condition", "fixture"])
def test_a_skip_of_another_kind_is_a_failure(said: str, name: str) -> None:
    assert re.match("FAILED|ERROR", line(said, name)), said
    assert said.count("skipped, and not for want of anything in tests/needs.py: not today") >= 4


def test_a_module_that_is_skipped_is_a_failure(said: str) -> None:
    assert line(said, "module").startswith("ERROR") and "test_module.py is skipped as a whole" in said


def test_an_expected_failure_is_none(said: str) -> None:
    assert line(said, "expected").startswith("XFAIL")


def test_an_unknown_need_is_a_failure(said: str) -> None:
    assert "'hammer' is unknown to tests/needs.py and scripts/packages.txt" in said
    assert re.match("FAILED|ERROR", line(said, "unknown"))


def test_what_may_be_absent_is_what_no_package_has() -> None:
    """Whoever adds to this says why neither Debian nor a language's registry has it.

    Debian's Prometheus is a service that starts by itself, which a set-up of tests should not bring. R and Octave are
    hundreds of megabytes for an example of the documentation each, and clang is for congestion controls in BPF, which
    also need a kernel that takes them.
    """
    assert set(needs.ABSENCES) == {
        "root", "bmv2", "bpf", "guest-kernel", "repeatable-kernel", "seeded-kernel", "bridge-kernel", "mahimahi",
        "mm-link", "default-kernel", "programs-kernel", "python-for-all", "sde", "tofino-model", "stress", "tutorials",
        "no-netem", "prometheus", "telegraf", "Rscript", "octave", "changed-kernel", "kernel-objects",
        "external-kernel", "counted-instructions", "bmv2-cli", "bbr3-objects", "police-kernel",
    }  # fmt: skip
    assert not set(needs.ABSENCES) & set(needs.debian_packages())
