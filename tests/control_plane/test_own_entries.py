# SPDX-License-Identifier: Apache-2.0
"""Entries of a user's program that cannot be made: refused with file and line, before anything is made.

The program has a table of each kind of match.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.run.runner import planned
from narrows.targets.soft.target import SoftTarget

PROGRAM = Path(__file__).parents[1] / "softswitch" / "p4" / "compiled" / "conformance"
EXPERIMENT = f"""
name: entries
bottleneck:
  rate: 20Mbit
  rtt: 20ms
  buffer: 60 packets
  program: {{json: {PROGRAM}.json, p4info: {PROGRAM}.p4info.txtpb, entries: ENTRIES, ports: {{a: 1, b: 2}}}}
flows:
  - {{cca: cubic, from: a, to: b, duration: 1s}}
"""
ANSWER = {"action_name": "answer", "action_params": {"port": 2, "tag": 7}}
EXACT = {"table": "exact_table", "match": {"key": 5}, **ANSWER}
TERNARY = {"table": "ternary_table", "match": {"key": [5, 255]}, "priority": 1, **ANSWER}


def refused(directory: Path, name: str, text: str) -> list[str]:
    """What is wrong with entries of this text, with paths from their directory on."""
    file = directory / "entries.yaml"
    file.write_text(EXPERIMENT.replace("ENTRIES", name))
    (directory / name).write_text(text)
    try:
        problems = planned(load(file), SoftTarget(), file.name)[1]
    except InputError as error:
        problems = str(error).splitlines()
    return [problem.replace(f"{directory}/", "").removeprefix("entries.yaml: ") for problem in problems]


def in_json(directory: Path, *entries: dict[str, Any], **others: Any) -> list[str]:
    """The same of entries of tables, in the form of the tutorials: each in a line, the first one in the second."""
    lists = {"table_entries": list(entries)} | others
    lines = [f'"{key}": [\n' + ",\n".join(map(json.dumps, those)) + "]" for key, those in lists.items()]
    return refused(directory, "own.json", "{" + ",".join(lines) + "}")


def test_entries_of_the_form_of_the_tutorials_can_be_right(tmp_path: Path) -> None:
    assert in_json(tmp_path, EXACT, TERNARY) == []


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (EXACT | {"table": [1]}, "table_entries: table '[1]' is not in P4Info; allowed: ProbeIngress.constant_table, "),
        (EXACT | {"action_name": {}}, "table_entries: action '{}' is not in P4Info; allowed: ProbeIngress.answer, "),
        # An int32 of P4Runtime.
        (
            TERNARY | {"priority": 1 << 31},
            "table_entries: ProbeIngress.ternary_table: priority 2147483648; allowed: 1 to 2147483647",
        ),
    ],
)
def test_values_of_other_types_have_their_line(tmp_path: Path, entry: dict[str, Any], says: str) -> None:
    (problem,) = in_json(tmp_path, EXACT, entry)
    assert problem.startswith(f"bottleneck.program.entries: own.json:3: {says}")
