# SPDX-License-Identifier: Apache-2.0
"""Keeps matrices of suites in docs/matrices, in compact form; the site has a page that is made from them.

Usage: .venv/bin/python scripts/matrices.py RESULTS ...; each is a directory of `narrows suite run`, whose senders are
added, or replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from narrows_formats import files, suite_matrix
from narrows_formats.suite_matrix import Matrix

REPOSITORY = Path(__file__).resolve().parents[1]
KEPT = REPOSITORY / "docs" / "matrices"
HEAD = """# Matrices of the suites

`narrows suite show SUITE` says what a case tests, [suites.md](suites.md) what outcomes mean. A sender is a congestion
control, or a program, and its kernel, with the version of Linux below; n/o is not observable, a dash not applicable.
"""
SHORT = {one: f"**{one}**" for one in suite_matrix.OUTCOMES} | {
    "pass": "pass",
    "not observable": "n/o",
    "not applicable": "-",
}
# Between an expectation and what was measured in a reason.
MEASURED = ": (?:measured|it is) "
# Outcomes that need no reason on the page; matrix.json has all.
SILENT = ("pass", "not applicable", "not observable")


def compact(matrix: Matrix) -> Matrix:
    """A matrix without what its suite says, and without the single expectations."""
    cases = [{**case, "tests": [], "urls": [], "says": "", "rule": "", "changed": ""} for case in matrix["cases"]]
    cells = [{**cell, "directory": "", "checks": []} for cell in matrix["cells"]]
    return suite_matrix.check({**matrix, "cases": cases, "cells": cells})


def joined(kept: Matrix, new: Matrix) -> Matrix:
    """Both matrices; of a sender that both have, the new one's cells, as far as they have been run."""
    names = {sender["name"] for sender in new["senders"]}
    cells = {(one["case"], one["sender"]): one for one in kept["cells"]}
    for one in new["cells"]:
        where = one["case"], one["sender"]
        if one["outcome"] != "not run" or where not in cells:
            cells[where] = one
    return {
        **new,
        "senders": [*(one for one in kept["senders"] if one["name"] not in names), *new["senders"]],
        "cells": list(cells.values()),
    }


def add(results: Path) -> None:
    """Keep a matrix.

    Raises:
        SystemExit: it is of other cases, or another variant, than the one that is kept.
    """
    new = compact(suite_matrix.read(results))
    directory = KEPT / new["suite"]
    if (directory / files.MATRIX).exists():
        kept = suite_matrix.read(directory)
        if (kept["cases"], kept["variant"]) != (new["cases"], new["variant"]):
            raise SystemExit(f"{results}: has other cases than {directory}, or another variant; allowed: the same ones")
        new = joined(kept, new)
    directory.mkdir(parents=True, exist_ok=True)
    suite_matrix.write(directory, new)


def page() -> str:
    """The page of all matrices that are kept."""
    return HEAD + "".join(text for path in sorted(KEPT.glob(f"*/{files.MATRIX}")) for text in section(path.parent))


def section(directory: Path) -> Iterator[str]:
    """A suite's part of the page: its senders, a row a case, and why a cell is not passed."""
    matrix = suite_matrix.read(directory)
    found = {(cell["case"], cell["sender"]): cell for cell in matrix["cells"]}
    counts = sorted({cell["n"] for cell in matrix["cells"] if cell["n"]})
    yield f"\n## {matrix['suite']}\n{matrix['title'][0].upper()}{matrix['title'][1:]}; {matrix['variant']}, "
    yield f"{' or '.join(map(str, counts))} {'run' if counts == [1] else 'runs'} of a case: "
    yield f"{suite_matrix.in_words(matrix)}.\n\n"
    heads = [f"{one['name']}<br>{one['release']}" for one in matrix["senders"]]
    yield f"| case | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}\n"
    for case in matrix["cases"]:
        cells = [found[case["name"], sender["name"]] for sender in matrix["senders"]]
        yield f"| `{case['name']}` | {' | '.join(SHORT[cell['outcome']] for cell in cells)} |\n"
    for number, reason in enumerate(reasons(matrix)):
        yield f"{'' if number else chr(10)}{reason}\n"


def reasons(matrix: Matrix) -> Iterator[str]:
    """A line for each expectation of a case that is not met, or not surely: its values, and whose they are."""
    for case in matrix["cases"]:
        found: dict[str, dict[str, list[str]]] = {}
        for cell in matrix["cells"]:
            if cell["case"] == case["name"] and cell["outcome"] not in SILENT:
                expectation, *values = re.split(MEASURED, cell["reason"], maxsplit=1)
                found.setdefault(expectation, {}).setdefault("".join(values), []).append(cell["sender"])
        for expectation, senders in found.items():
            said = "; ".join(f"{value} ({', '.join(names)})".lstrip() for value, names in senders.items())
            # Expectations have brackets and bars, which Markdown would read.
            yield f"- `{case['name']}`: `{expectation}`: {said}"


if __name__ == "__main__":
    for results in sys.argv[1:]:
        add(Path(results))
