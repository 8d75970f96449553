# SPDX-License-Identifier: Apache-2.0
"""Keeps matrices of suites in docs/matrices, in compact form, and writes docs/matrices.md from them.

Usage: .venv/bin/python scripts/matrices.py [--check] [RESULTS ...]; each of RESULTS is a directory of `narrows suite
run`, whose senders are added, or replaced. With --check nothing is written, and the exit code is 1 where the page is
not what it would be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from narrows_formats import files, suite_matrix
from narrows_formats.suite_matrix import Cell, Matrix

REPOSITORY = Path(__file__).resolve().parents[1]
KEPT = REPOSITORY / "docs" / "matrices"
PAGE = REPOSITORY / "docs" / "matrices.md"
HEAD = """<!-- Made by scripts/matrices.py from docs/matrices; do not edit. -->
# Matrices of the suites

`narrows suite show SUITE` says what a case tests, [suites.md](suites.md) what outcomes mean, and `narrows suite
compare docs/matrices/SUITE RESULTS` what differs in a run of your own.
"""


def compact(matrix: Matrix) -> Matrix:
    """A matrix without what its suite says, and without the single expectations."""
    cases = [{**case, "tests": [], "urls": [], "says": "", "rule": "", "changed": ""} for case in matrix["cases"]]
    cells = [{**cell, "directory": "", "checks": []} for cell in matrix["cells"]]
    return suite_matrix.check({**matrix, "cases": cases, "cells": cells})


def joined(kept: Matrix, new: Matrix) -> Matrix:
    """Both matrices; of a sender that both have, the new one's cells."""
    names = {sender["name"] for sender in new["senders"]}
    return {
        **new,
        "senders": [*(one for one in kept["senders"] if one["name"] not in names), *new["senders"]],
        "cells": [*(one for one in kept["cells"] if one["sender"] not in names), *new["cells"]],
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
    yield f"\n## {matrix['suite']}\n{matrix['title'][0].upper()}{matrix['title'][1:]}; {matrix['variant']}: "
    yield f"{suite_matrix.in_words(matrix)}.\n\n"
    heads = [f"{one['cca']}, {one['kernel']} (Linux {one['release']})" for one in matrix["senders"]]
    yield f"| case | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}\n"
    for case in matrix["cases"]:
        cells = [found[case["name"], sender["name"]] for sender in matrix["senders"]]
        yield f"| `{case['name']}` | {' | '.join(map(_shown, cells))} |\n"


def _shown(cell: Cell) -> str:
    if cell["outcome"] in ("pass", "not applicable", "not observable"):
        return cell["outcome"]
    # Expectations have brackets and bars, which Markdown would read.
    return f"**{cell['outcome']}**: `{cell['reason'].replace('|', '/')}`"


def main() -> None:
    """Add matrices, and write or check the page."""
    words = sys.argv[1:]
    for results in (word for word in words if word != "--check"):
        add(Path(results))
    if "--check" in words:
        raise SystemExit(0 if PAGE.read_text() == page() else f"{PAGE}: is not what scripts/matrices.py writes")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
