# SPDX-License-Identifier: Apache-2.0
"""Run a point of each study's committed results again, and see that every measure comes out as it is there, to the bit.

    scripts/regenerate.py [STUDY ...] [--results DIR]

The path of the checkout does not matter. The point is the one that took the least of a processor among those with
provenance whose kernel, known by the digest of its configuration, is built here (`narrows kernel build`). Takes no
root. Exit codes: 0 all are the same, 1 one is not, or a study has no point that could be run again here, 2 no such
study.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, InputError
from narrows.targets.registry import target_factory
from narrows.virtual.kernels import config_digest, find
from narrows_analysis.study_results import MeasuredPoint, read_results, read_variants, setting, write_results
from narrows_studies.model import Study
from narrows_studies.names import OFFERS
from narrows_studies.page import VARIANTS, results_path
from narrows_studies.running.catalogue import StudyPoint, find_study, study_points
from narrows_studies.running.run import StudyRun
from narrows_studies.running.senders import Senders, guests
from rich.console import Console

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "studies"
SHOWN = 12  # digits of a digest that messages have
TOOK = "cpu_s"  # what is not the run's, but the machine's


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", default=list(OFFERS), help="which studies (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the pages (default: docs/studies)")
    options = parser.parse_args(arguments)
    try:
        studies = [find_study(name) for name in options.study]
        senders = guests([])
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    code = EXIT_OK
    for study in studies:
        said = _differences(study, options.results, senders)
        print(f"{study.name}: {said or 'the same to the bit'}")
        code = EXIT_FAILED if said else code
    return code


def _differences(study: Study, place: Path, senders: Sequence[Senders]) -> str:
    """What of a study's cheapest point is not as it was; empty if nothing is."""
    digests = {config_digest(find(one.name)): one for one in senders}
    found: list[tuple[float, MeasuredPoint, StudyPoint]] = []
    kernels: set[str] = set()
    for variant in VARIANTS:
        known = {
            (setting(one.experiment, one.parameters), one.point.repetition, one.point.experiment.seed): one
            for one in study_points(study, quick=variant == "quick")
        }
        results = read_results(results_path(study, place), variant)
        for point in results.points if results else ():
            now = known.get((point.setting, point.repetition, point.provenance.get("seed")))
            made_with = point.provenance.get("kernel_config_sha256", "")
            if now is not None and made_with:
                kernels.add(f"Linux {point.provenance['kernel']} with configuration {made_with[:SHOWN]}")
            if now is not None and made_with in digests:
                found.append((point.measures.get(TOOK) or float("inf"), point, now))
    if not found:
        here = ", ".join(f"{one.name} {digest[:SHOWN]}" for digest, one in digests.items())
        return f"its points are of {', '.join(sorted(kernels)) or 'no known kernel'}; built here are {here}"
    _, then, wanted = min(found, key=lambda one: one[0])
    return compare(then, again(study, wanted, digests[then.provenance["kernel_config_sha256"]]))


def again(study: Study, wanted: StudyPoint, sender: Senders) -> MeasuredPoint:
    """A study's point, run and measured in a directory that is then removed, as results hold it."""
    with tempfile.TemporaryDirectory(prefix="narrows-regenerate-") as name:
        out = Path(name) / "out"
        target = target_factory("soft", None, None, out, True)
        results = StudyRun(study, "quick", out, "soft", target, Console(stderr=True), [sender]).run([wanted])
        # As they are written: with six digits.
        write_results(out / "rounded.parquet", results)
        (rounded,) = read_variants(out / "rounded.parquet")
        return rounded.points[0]


def compare(then: MeasuredPoint, now: MeasuredPoint) -> str:
    """Which measures of two runs are not the same; empty if all are."""
    names = sorted((then.measures.keys() | now.measures.keys()) - {TOOK})
    wrong = [
        f"{name} {then.measures.get(name)} is now {now.measures.get(name)}"
        for name in names
        if then.measures.get(name) != now.measures.get(name)
    ]
    where = f"{then.experiment} at {dict(then.parameters)}, repetition {then.repetition}"
    return f"{where}: {len(wrong)} of {len(names)} measures differ: {'; '.join(wrong[:5])}" if wrong else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
