# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of Narrows against its peers, side by side. ``run.py --help`` lists them; README.md explains them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import accuracy
import analyzer
import aqm
import collecting
import delay
import delay_line
import emulators
import forwarding
import host
import instructions
import l4s
import loss_free
import own_programs
import pipeline
import results
import virtual
import virtual_accuracy
import virtual_bmv2
import virtual_growth
import virtual_links
import virtual_ns3
import virtual_real
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, NarrowsError

BENCHMARKS: dict[str, Callable[[int], results.Outcome]] = {
    "forwarding": forwarding.run,
    "loss-free": loss_free.run,
    "own-programs": own_programs.run,
    "accuracy": accuracy.run,
    "delay": delay.run,
    "delay-line": delay_line.run,
    "pipeline": pipeline.run,
    "instructions": instructions.run,
    "analyzer": analyzer.run,
    "collecting": collecting.run,
    "emulators": emulators.run,
    **aqm.BENCHMARKS,
    "l4s": l4s.run,
    "virtual": virtual.run,
    "virtual-accuracy": virtual_accuracy.run,
    "virtual-bmv2": virtual_bmv2.run,
    "virtual-growth": virtual_growth.run,
    "virtual-links": virtual_links.run,
    "virtual-ns3": virtual_ns3.run,
    "virtual-ns3-10g": virtual_ns3.run_fast,
    "virtual-real": virtual_real.run,
}
RUNS = 5


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, all without names; returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each contestant (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="results without suffix (default: benchmarks/results/DATE-MACHINE)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    if options.runs < 1:
        parser.error(f"--runs is {options.runs}; at least 1")
    if not host.is_fit():
        return EXIT_BAD_INPUT
    machine = host.description()
    outcomes = {}
    for name in options.names or BENCHMARKS:
        print(f"{name}:", file=sys.stderr, flush=True)
        try:
            outcomes[name] = BENCHMARKS[name](options.runs)
        except NarrowsError as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return EXIT_FAILED
    command = ["benchmarks/run.py", *arguments]
    written = results.write(outcomes, machine, command, options.out)
    print(written[1].read_text())
    print(f"written: {written[0]} and {written[1].name}", file=sys.stderr)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
