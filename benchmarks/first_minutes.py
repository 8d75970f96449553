# SPDX-License-Identifier: Apache-2.0
"""The first minutes of a user: a fresh clone with an empty target and virtual environment, measured step by step.

    sudo .venv/bin/python benchmarks/first_minutes.py [--quick] [--test] [--where DIR] [--out STEM]

It clones what is committed here, runs `make demo` and says where the time went; then how long commands are silent, and
(not with --quick) what `cargo test` builds that was built before. With --test, `make test` as well. The machine keeps
what it has of Debian's packages: scripts/fresh-machine.sh starts without. No part of `make bench`: it takes minutes and
needs the package registries.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import host
import results

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 10
CONDITIONS = (
    "A fresh clone, with an empty target and without a virtual environment; crates, Python packages and the Debian "
    "packages that the machine lacked come from their registries. The time to a command's first line is the median of "
    "{repeats}."
)


@dataclass(frozen=True)
class Figure:
    """A line of the table; ``goal`` in the same unit, None for parts of another figure."""

    name: str
    value: float
    goal: float | None = None
    unit: str = "s"

    @property
    def missed(self) -> bool:
        """Whether it is above its goal."""
        return self.goal is not None and self.value > self.goal

    def row(self) -> tuple[str, ...]:
        """For the table."""
        goal = "" if self.goal is None else f"{self.goal:g}{', missed' if self.missed else ''}"
        return self.name, f"{self.value:.2f}" if self.unit else f"{self.value:g}", self.unit, goal


def main() -> int:
    """Measure, write and print the table, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without what cargo test builds")
    parser.add_argument("--test", action="store_true", help="also `make test` after the demo")
    parser.add_argument("--where", type=Path, help="directory for the clone (default: a temporary one)")
    parser.add_argument("--out", type=Path, help="results go to STEM.json and STEM.md", metavar="STEM")
    options = parser.parse_args()
    machine = host.description()
    with tempfile.TemporaryDirectory(dir=options.where) as directory:
        clone = Path(directory) / "narrows"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        found = [*demo(clone), *silences(clone), *(() if options.quick else built_again(clone))]
        if options.test:
            start = time.monotonic()
            run(["make", "test"], clone)
            found.append(Figure("make test, after the demo", time.monotonic() - start, 900))
    table = results.Table(("Figure", "Value", "Unit", "Goal"), [figure.row() for figure in found])
    outcome = results.Outcome(
        "The first minutes",
        CONDITIONS.format(repeats=REPEATS),
        [table],
        {"figures": [vars(figure) for figure in found]},
        ["make demo", "narrows --help", "narrows run experiments/demo.yaml"],
    )
    written = results.write(
        {"first-minutes": outcome}, machine, sys.argv, options.out, kind="first-minutes", note="One measurement."
    )
    print(table.markdown())
    print(*written, sep="\n")
    return int(any(figure.missed for figure in found))


def demo(clone: Path) -> Iterator[Figure]:
    """`make demo` from nothing, and its parts."""
    said = list(timed(["make", "demo"], clone))
    ends = said[-1][0]

    def first(pattern: str) -> float:
        return next((at for at, line in said if re.search(pattern, line)), ends)

    cargo, ready, run_starts = first("setup: Rust programs"), first("setup: ready"), first("demo: making the testbed")
    analysis = first("demo: analysing")
    yield Figure("make demo, from nothing", ends, 180)
    yield Figure("- before the compiler", cargo)
    yield Figure("- compiler, and packages beside it", ready - cargo)
    yield Figure("- from there to the first line of the run", run_starts - ready)
    yield Figure("- the run: testbed, 20 s of traffic, removal", analysis - run_starts)
    yield Figure("- analysis and report", ends - analysis)


def silences(clone: Path) -> Iterator[Figure]:
    """How long commands take to their first line; medians."""
    narrows = str(clone / ".venv" / "bin" / "narrows")
    yield Figure("narrows --help, first line", median_first_line([narrows, "--help"], clone), 0.3)
    yield Figure("narrows --version, first line", median_first_line([narrows, "--version"], clone))
    experiment = clone / "experiments" / "demo.yaml"
    yield Figure("narrows run, first line", median_first_line([narrows, "run", str(experiment)], clone), 0.7)


def median_first_line(command: Sequence[str], clone: Path) -> float:
    """Seconds from the start of a command to its first line, which ends it."""
    times = []
    for _ in range(REPEATS):
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_environment()
        )
        assert process.stdout is not None
        process.stdout.readline()
        times.append(time.monotonic() - start)
        process.terminate()
        process.stdout.read()
        process.wait()
    return statistics.median(times)


def built_again(clone: Path) -> Iterator[Figure]:
    """Libraries that `cargo test` compiles although the release build has compiled them in the same version."""
    command = ["cargo", "test", "--workspace", "--release", "--locked", "--no-run"]
    built = {path.name.rpartition("-")[0] for path in (clone / "target" / "release" / ".fingerprint").iterdir()}
    said = subprocess.run(
        command, cwd=clone, check=True, capture_output=True, text=True, env=clean_environment()
    ).stderr
    again = [
        name for name in re.findall(r"Compiling (\S+) v", said) if name in built and not name.startswith("narrows")
    ]
    if again:
        print(f"built twice: {', '.join(again)}", file=sys.stderr)
    yield Figure("libraries that cargo test builds again", len(again), 0, "")


def timed(command: Sequence[str], clone: Path) -> Iterator[tuple[float, str]]:
    """Lines of a command with the seconds since its start."""
    start = time.monotonic()
    with subprocess.Popen(
        command, cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment()
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            yield time.monotonic() - start, line
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    yield time.monotonic() - start, ""


def run(command: Sequence[str], clone: Path) -> None:
    """A command whose lines are not looked at."""
    for _ in timed(command, clone):
        pass


def clean_environment() -> dict[str, str]:
    """Ours without what names this checkout's programs, or keeps Python from remembering what it has compiled."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NARROWS_", "CARGO_TARGET", "VIRTUAL_", "PYTHON"))
    }


if __name__ == "__main__":
    if shutil.which("cargo") is None:
        sys.exit("cargo is not on PATH")
    sys.exit(main())
