# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks of this checkout and another one in turn, to see what a change costs. Both must be set up."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import host
import results
from measuring import Contestant, Series, alternate
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, RunError
from narrows.paths import REPOSITORY

THIS, OTHER = "this", "other"
SEPARATOR = ": "
RUNS = 5


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmarks of both checkouts in turn; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, metavar="OTHER", help="the other checkout")
    parser.add_argument("names", nargs="+", metavar="NAME", help="benchmarks that both have")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each checkout (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="results, without suffix")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"--runs is {options.runs}; at least 1")
    if not _python(options.other).exists():
        parser.error(f"{options.other} is not set up: it has no {_python(Path())}")
    if not host.is_fit():
        return EXIT_BAD_INPUT
    machine = {**host.description(), "other revision": host.revision(options.other)}
    # Its path means nothing elsewhere; its commit is recorded.
    given = [*options.names, "--runs", str(options.runs), "--out", str(options.out)]
    command = ["benchmarks/checkouts.py", "OTHER", *given]
    try:
        outcomes = {name: _in_turn(name, options.other.resolve(), options.runs) for name in options.names}
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(*results.write(outcomes, machine, command, options.out), sep="\n")
    return EXIT_OK


def _in_turn(name: str, other: Path, runs: int) -> results.Outcome:
    """One benchmark, one run of it by each checkout a round."""
    contestants: dict[str, Contestant] = {
        THIS: partial(_figures, REPOSITORY, name), OTHER: partial(_figures, other, name)
    }  # fmt: skip
    series = alternate(contestants, runs)
    return results.Outcome(
        f"Two checkouts: {name}",
        f"`benchmarks/run.py {name} --runs 1` of both checkouts in turn. Ratios are this checkout's figure over the "
        "other's, round by round. Cases and figures that only one of them has are left out.",
        [results.Table(("Case", "Figure", "This", "Other", "This over other"), list(_rows(series)))],
        series.as_json(),
        [],
    )


def _rows(series: Series) -> Iterator[tuple[str, ...]]:
    for figure in series.runs[THIS][0]:
        if all(figure in each for runs in series.runs.values() for each in runs):
            spreads = (series.spread(who, figure).text() for who in (THIS, OTHER))
            zero = any(each[figure] == 0 for each in series.runs[OTHER])
            yield (*figure.rsplit(SEPARATOR, 1), *spreads, "" if zero else series.ratio(THIS, OTHER, figure).text())


def _figures(checkout: Path, name: str) -> dict[str, float]:
    """Every figure of every case of one run, as ``case: figure``.

    Raises:
        RunError: the benchmark failed, or was not run.
    """
    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as directory:
        out = Path(directory, "one")
        program = [str(_python(checkout)), str(checkout / "benchmarks" / "run.py")]
        command = [*program, name, "--runs", "1", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RunError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        found = json.loads(out.with_suffix(".json").read_text())["benchmarks"][name]
    figures = dict(_flat(found))
    if not figures:
        raise RunError(f"{name}, {checkout}: {'; '.join(found['skipped']) or 'has no runs'}")
    return figures


def _flat(found: dict[str, Any], of: str = "") -> Iterator[tuple[str, float]]:
    """Figures of a benchmark's cases, or of the cases of its parts, as of each rate."""
    for case, (figures,) in found.get("runs", {}).items():
        for figure, value in figures.items():
            if isinstance(value, int | float) and math.isfinite(value):
                yield f"{of}{case}{SEPARATOR}{figure}", float(value)
    for part, inside in found.items():
        if isinstance(inside, dict) and "runs" in inside:
            yield from _flat(inside, f"{of}{part}, ")


def _python(checkout: Path) -> Path:
    return checkout / ".venv" / "bin" / "python"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
