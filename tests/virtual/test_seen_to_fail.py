# SPDX-License-Identifier: Apache-2.0
"""Cases of bbr-draft fail where BBRv3 is changed so that it does not do what they test, and pass where it does.

All changed senders are congestion controls of one kernel, made of BBRv3's file as suite.yaml says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from narrows.suites import running, suite
from narrows.targets.registry import target_factory
from narrows.terminal import Terminal
from narrows.virtual import build, kernels, own_cca
from narrows.virtual.adjustments import TCP
from needs import BBR3

KERNEL = "test-seen-to-fail"
CASES = suite.load("bbr-draft").cases
pytestmark = [pytest.mark.long, pytest.mark.needs("bbr3-objects", "narrows-softswitch", "narrows-collector", "ip")]


def changed(text: str, changes: Mapping[str, str]) -> str:
    """A C file with other code in some places, each of which it has once, with any blanks and ends of lines."""
    for code, instead in changes.items():
        sought = r"\s+".join(map(re.escape, code.split()))
        (found,) = re.finditer(sought, text)
        text = text[: found.start()] + instead + text[found.end() :]
    return text


def senders() -> Iterator[tuple[str, dict[str, str]]]:
    """Names of changed senders, and their changes; what cannot be changed for the worse is BBRv3 as it is."""
    for number, case in enumerate(CASES):
        if case.text.passes_with:
            yield f"pass_{number}", case.text.passes_with
        if case.text.fails_with:
            yield f"fail_{number}", {**case.text.passes_with, **case.text.fails_with}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("senders")
    text = (kernels.workshop(BBR3) / build.TREE / TCP / "tcp_bbr.c").read_text()
    files = []
    for name, changes in senders():
        files.append(place / f"{name}.c")
        files[-1].write_text(changed(text, changes).replace('"bbr"', f'"{name}"'))
    own_cca.add(files, BBR3, KERNEL, 2, lambda _text: None)
    yield KERNEL
    kernels.remove(KERNEL)


def outcome(case: suite.Case, cca: str, kernel: str, place: Path) -> tuple[str, str]:
    """What becomes of the case, and the expectation that is not met."""
    some = suite.load("bbr-draft").only([case.name])
    run = running.SuiteRun(some, running.senders([cca], [kernel]), place, quick=True)
    matrix = run.run(target_factory("soft", None, None, place, True), Terminal(quiet=True))
    (cell,) = matrix["cells"]
    return cell["outcome"], cell["reason"].partition(": ")[0]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_case_fails_without_what_it_tests(kernel: str, number: int, tmp_path: Path) -> None:
    case = CASES[number]
    cca = f"fail_{number}" if case.text.fails_with else "bbr"
    assert outcome(case, cca, kernel, tmp_path) == ("fail", case.text.failure.partition(": ")[0])


@pytest.mark.parametrize(
    "number", [number for number, case in enumerate(CASES) if case.text.passes_with], ids=lambda at: CASES[at].name
)
def test_a_case_that_linux_fails_passes_with_what_it_tests(kernel: str, number: int, tmp_path: Path) -> None:
    assert outcome(CASES[number], f"pass_{number}", kernel, tmp_path) == ("pass", "")
