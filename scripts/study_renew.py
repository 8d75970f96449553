# SPDX-License-Identifier: Apache-2.0
"""Put points of a study that were run again into its published results, and make its page again.

    .venv/bin/python scripts/study_renew.py hurtig2018 --variant quick results/studies/hurtig2018-quick/results.parquet

All points of an experiment are replaced, or none. Those that had the former default of the senders' jitter stay, as a
control that the page shows with the new values. Exit codes: 0 done, 2 the results do not fit, and nothing was changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from narrows.errors import EXIT_BAD_INPUT, EXIT_OK, InputError
from narrows_analysis.errors import AnalysisError
from narrows_analysis.study_results import FORMER_JITTER, put_results, read_results
from narrows_studies.page import results_path, write_kept_page
from narrows_studies.renewal import renew
from narrows_studies.running.catalogue import find_study

KEPT = Path(__file__).resolve().parents[1] / "docs" / "studies"


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="which study")
    parser.add_argument("results", type=Path, help="results.parquet of the runs")
    parser.add_argument("--variant", choices=list(FORMER_JITTER), default="quick")
    parser.add_argument("--kept", type=Path, default=KEPT, help="directory of the pages (default: docs/studies)")
    options = parser.parse_args(arguments)
    try:
        study = find_study(options.study)
        path = results_path(study, options.kept)
        kept, new = (read_results(place, options.variant) for place in (path, options.results))
        for place, found in ((path, kept), (options.results, new)):
            if found is None:
                raise InputError(f"{place}: has no results; allowed: of {study.name}, {options.variant}")
        former = read_results(path, FORMER_JITTER[options.variant])
        made = renew(kept, new, former) if kept and new else ()
    except (InputError, AnalysisError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    for one in made:
        put_results(path, one)
    print(write_kept_page(study, options.kept))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
