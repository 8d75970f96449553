# SPDX-License-Identifier: Apache-2.0
"""Runs of a study that its rules without a verdict lack, those first that decide most for the processor's time.

    .venv/bin/python scripts/study_queue.py claypool2019 --variant full

First come the undecided rules, with the repetitions of each setting that would decide them, then those that were not
run. Each line has the processor hours in addition to the lines before, and the command, which continues where it was
interrupted. After it there is another queue, from more runs. What no number of repetitions that is tried decides is
named as well.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from narrows.errors import EXIT_OK
from narrows_analysis.study_results import Results, read_results
from narrows_studies.names import OFFERS
from narrows_studies.page import findings, results_path
from narrows_studies.power import costs, queue
from narrows_studies.results import figure_points
from narrows_studies.running.catalogue import find_study, study_points
from narrows_studies.running.remaining import conditions, lacks

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
        nothing = Results(name, options.variant, (), machine={}, experiments={})
        results = read_results(results_path(study, options.results), options.variant) or nothing
        judged = findings(study, results)
        undecided = {
            f"{figure.id}/{found.statement.id}": (found, figure_points(results, figure))
            for figure, found in judged
            if found.verdict == "undecided"
        }
        steps = queue(undecided, costs(results.points))
        command = f"narrows study {name}" + (" --quick" if options.variant == "quick" else "")
        print(f"{name}, {options.variant}: {len(steps)} of {len(undecided)} undecided rules would be decided")
        for step in steps:
            among = undecided[step.statement][1]
            wanted = [one.parameters for one in among if one.setting in step.settings]
            only = conditions(wanted, [one.parameters for one in among])
            print(
                f"  {step.statement}: n = {step.repetitions}, {step.cost_s / HOUR_S:.3g} h: {command}"
                f"{_options(step.statement.partition('/')[0], only)} --repeat {step.repetitions}"
            )
        if open_ := undecided.keys() - {step.statement for step in steps}:
            print(f"  decided by no number that is tried: {', '.join(one for one in undecided if one in open_)}")
        lacking = lacks(judged, study_points(study, options.variant == "quick"), results)
        print(f"{name}, {options.variant}: {len(lacking)} rules were not run")
        for lack in lacking:
            cost = "" if lack.cost_s is None else f", {lack.cost_s / HOUR_S:.3g} h"
            what = f"{lack.runs} runs{cost}: {command}{_options(lack.figure, lack.only)}"
            print(f"  {lack.rule}: {what if lack.has_settings else 'this variant does not have its settings'}")
    return EXIT_OK


def _options(figure: str, only: Sequence[str]) -> str:
    return f" --figure {shlex.quote(figure)}" + "".join(f" --only {shlex.quote(one)}" for one in only)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
