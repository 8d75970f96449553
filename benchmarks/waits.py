# SPDX-License-Identifier: Apache-2.0
"""How long users wait: whole commands in virtual time, a sweep, a step from Python, an import; by checkout, in turn.

    .venv/bin/python benchmarks/waits.py [--against CHECKOUT] [--only REGEX] [--runs N] [--out STEM]

CHECKOUT is another clone that is set up, such as one of the commit before: each row is then measured in both, one after
the other, and compared round by round. It needs the kernel `default` for virtual time. No part of `make bench`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import host
import results
import yaml
from measuring import Contestant, Series, alternate, spent

ROOT = Path(__file__).resolve().parents[1]
STEPS = 200
POINTS = 12
STEPPING = f"""
import sys, time
from narrows import api
experiment = {{
    "name": "steps", "bottleneck": {{"rate": "100Mbit", "buffer": "1bdp", "rtt": "40ms"}},
    "flows": [{{"name": "one", "cca": "cubic", "duration": "{STEPS // 100 + 2}s"}}],
}}
with api.testbed(experiment, virtual=True, out=sys.argv[1]) as session:
    start = time.monotonic()
    for _ in range({STEPS}):
        session.step("10ms")
    print((time.monotonic() - start) / {STEPS})
"""


@dataclass(frozen=True)
class Wait:
    """A row: what is waited for, and how a checkout is measured at it."""

    name: str
    measure: Callable[[Path], dict[str, float]]


def run(command: list[str], place: str) -> str:
    """What a command printed.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def environment() -> dict[str, str]:
    """Ours, without what names this checkout's programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NARROWS_")}


def command(experiment: dict[str, Any], options: tuple[str, ...], checkout: Path) -> dict[str, float]:
    """`narrows run --virtual` as it is typed."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "experiment.yaml").write_text(yaml.safe_dump(experiment))
        program = str(checkout / ".venv/bin/narrows")
        with spent() as figures:
            run([program, "run", "experiment.yaml", "--virtual", "--out", "out", *options], place)
        return figures


def python(program: str, checkout: Path) -> dict[str, float]:
    """A Python program; what it prints, if it does, is the wall time."""
    with tempfile.TemporaryDirectory() as place:
        with spent() as figures:
            said = run([str(checkout / ".venv/bin/python"), "-c", program, "out"], place)
        return figures | ({"wall_s": float(said)} if said else {})


def link(rate: str, rtt: str, seconds: int, *ccas: str) -> dict[str, Any]:
    """Flows of these CCAs through a link with a buffer of 1 BDP."""
    return {
        "name": "waits",
        "bottleneck": {"rate": rate, "buffer": "1bdp", "rtt": rtt},
        "flows": [{"cca": cca, "duration": f"{seconds}s"} for cca in ccas],
    }


def sweep() -> dict[str, Any]:
    """Short runs, one for each buffer."""
    buffers = [f"{count}packets" for count in range(20, 20 + 5 * POINTS, 5)]
    return {**link("10Mbit", "20ms", 2, "cubic"), "sweep": {"bottleneck.buffer": buffers}}


WAITS = (
    Wait("4 s of 10 Mbit/s, one CUBIC flow", partial(command, link("10Mbit", "40ms", 4, "cubic"), ())),
    Wait(f"sweep of {POINTS} points of 2 s, --jobs 1", partial(command, sweep(), ("--jobs", "1"))),
    Wait(f"sweep of {POINTS} points of 2 s, --jobs 2", partial(command, sweep(), ("--jobs", "2"))),
    Wait(f"one of {STEPS} steps of 10 ms from Python", partial(python, STEPPING)),
    Wait("10 s of 100 Mbit/s, 40 ms, 2 CUBIC", partial(command, link("100Mbit", "40ms", 10, "cubic", "cubic"), ())),
    Wait("5 s of 1 Gbit/s, 10 ms, BBR and CUBIC", partial(command, link("1Gbit", "10ms", 5, "bbr", "cubic"), ())),
    Wait("2 s of 10 Gbit/s, 10 ms, BBR and CUBIC", partial(command, link("10Gbit", "10ms", 2, "bbr", "cubic"), ())),
    Wait(
        "1 s of 100 Gbit/s, 2 ms, 2 BBR and 2 CUBIC",
        partial(command, link("100Gbit", "2ms", 1, "bbr", "bbr", "cubic", "cubic"), ()),
    ),
    Wait("from narrows_analysis import load", partial(python, "from narrows_analysis import load")),
)


def main() -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout that is set up")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows whose name matches")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="results go to STEM.json and STEM.md", metavar="STEM")
    options = parser.parse_args()
    checkouts = [ROOT] if options.against is None else [options.against.resolve(), ROOT]
    if lacking := [one for one in checkouts if not (one / ".venv/bin/narrows").exists()]:
        parser.error(f"{lacking[0]} has no .venv/bin/narrows; set it up first (scripts/setup.sh)")
    machine = host.description()
    found: dict[str, Series] = {}
    for wait in (one for one in WAITS if re.search(options.only, one.name)):
        print(wait.name, file=sys.stderr, flush=True)
        contestants: dict[str, Contestant] = {name(one): partial(wait.measure, one) for one in checkouts}
        found[wait.name] = alternate(contestants, options.runs)
    table = tabled(found, [name(one) for one in checkouts])
    outcome = results.Outcome(
        "What users wait for",
        "Whole commands in virtual time, with start, guest, analysis and report. Processor seconds are of the command "
        "and all that it started; of a step from Python, those of the whole program with its start.",
        [table],
        {name: series.as_json() for name, series in found.items()},
        ["narrows run experiment.yaml --virtual --out out"],
    )
    written = results.write({"waits": outcome}, machine, sys.argv, options.out, kind="waits")
    print(table.markdown())
    print(*written, sep="\n")
    return 0


def name(checkout: Path) -> str:
    """The commit that a checkout has."""
    return host.revision(checkout) or str(checkout)


def tabled(found: dict[str, Series], checkouts: list[str]) -> results.Table:
    """Wall and processor seconds of each row by checkout; with two, the second over the first, round by round."""
    two = len(checkouts) > 1
    figures = {"wall_s": "Wall, s", "processor_s": "Processor, s"}
    header = [f"{name}, {one}" for name in figures.values() for one in checkouts]
    ratios = [f"Ratio of {name.partition(',')[0].lower()}" for name in figures.values()] if two else []
    table = results.Table(("Wait", *header, *ratios))
    for name, series in found.items():
        cells = [series.spread(one, figure).text() for figure in figures for one in checkouts]
        cells += [series.ratio(checkouts[1], checkouts[0], figure).text() for figure in figures] if two else []
        table.rows.append((name, *cells))
    return table


if __name__ == "__main__":
    sys.exit(main())
