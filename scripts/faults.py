# SPDX-License-Identifier: Apache-2.0
"""Which tests show what a fault does, at which stage of a run and with which clock, as their marks say."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
STAGES = ("set-up", "traffic", "end", "any moment", "afterwards")
CLOCKS = {"real": "real time", "virtual": "virtual time"}
MARK = "pytest.mark.fault"


@dataclass(frozen=True)
class Shown:
    """A test, with its file below tests/, and the fault, stage and clock of which it shows something."""

    test: str
    fault: str
    stage: str
    clock: str


def shown() -> Iterator[Shown]:
    """What the marks of all tests say.

    Raises:
        ValueError: a mark names another stage or clock than there are.
    """
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            test = f"{path.relative_to(TESTS)}::{node.name}"
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
                    fault, stage, *clocks = map(ast.literal_eval, mark.args)
                    if stage not in STAGES or not clocks or not CLOCKS.keys() >= set(clocks):
                        allowed = f"{', '.join(STAGES)}; {', '.join(CLOCKS)}"
                        raise ValueError(f"{test}: {ast.unparse(mark)}; allowed: {allowed}")
                    yield from (Shown(test, fault, stage, clock) for clock in clocks)


def matrix() -> Iterator[tuple[str, ...]]:
    """A row for each fault and stage: both, and the tests with each clock."""
    tests: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in shown():
        tests[one.fault, one.stage, one.clock].append(f"`{one.test}`")
    places = {(fault, stage) for fault, stage, _ in tests}
    for fault, stage in sorted(places, key=lambda place: (place[0].lower().lstrip("`"), STAGES.index(place[1]))):
        yield fault, stage, *(", ".join(tests[fault, stage, clock]) for clock in CLOCKS)
