# SPDX-License-Identifier: Apache-2.0
"""Runs of a study that would decide its undecided rules, those first that decide most for the processor's time.

    .venv/bin/python scripts/study_queue.py claypool2019 --variant full

Each line has the repetitions of each setting, the processor hours that they take in addition to the lines before, and
the command that runs them, which continues where it was interrupted. After it there is another queue, from more runs.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from narrows.errors import EXIT_OK
from narrows_analysis.study_results import read_results
from narrows_studies.names import OFFERS
from narrows_studies.page import findings, results_path
from narrows_studies.power import costs, queue
from narrows_studies.results import figure_points
from narrows_studies.running.catalogue import find_study

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "studies"
HOUR_S = 3600


def main(arguments: list[str]) -> int:
    """Print the queue of each study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", default=list(OFFERS), help="which studies (default: all)")
    parser.add_argument("--variant", choices=("quick", "full"), default="quick")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the pages (default: docs/studies)")
    options = parser.parse_args(arguments)
    for name in options.study:
        study = find_study(name)
        results = read_results(results_path(study, options.results), options.variant)
        if results is None:
            continue
        undecided = {
            f"{figure.id}/{found.statement.id}": (found, figure_points(results, figure))
            for figure, found in findings(study, results)
            if found.verdict == "undecided"
        }
        steps = queue(undecided, costs(results.points))
        print(f"{name}, {options.variant}: {len(steps)} of {len(undecided)} undecided rules would be decided")
        for step in steps:
            figure = step.statement.partition("/")[0]
            quick = " --quick" if options.variant == "quick" else ""
            command = f"narrows study {name}{quick} --figure {shlex.quote(figure)} --repeat {step.repetitions}"
            print(f"  {step.statement}: n = {step.repetitions}, {step.cost_s / HOUR_S:.3g} h: {command}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
