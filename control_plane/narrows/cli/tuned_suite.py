# SPDX-License-Identifier: Apache-2.0
"""A suite that is run with each variant of a congestion control as a sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.cli.machine_readable import print_json
from narrows.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from narrows_analysis.suite_ranking import Placed
    from narrows_formats.suite_matrix import Cell, Matrix
    from rich.console import Console

    from narrows.batch.cluster import Cluster


class TunedSuite:
    """A suite whose senders are variants."""

    def __init__(
        self, name: str, cases: Sequence[str], like: str, quick: bool, ccas: Sequence[str], repeat: int | None
    ) -> None:
        """Read it, as `narrows suite run` does.

        Args:
            name: of a suite, or its directory's path.
            cases: only these; all if there are none.
            like: the congestion control whose cases apply to the variants, too; empty for none.
            quick: without the sweeps of settings.
            ccas: names of the variants.
            repeat: runs of every point; as the files say if None.

        Raises:
            InputError: it is wrong, or has no such case, or none that applies.
        """
        from narrows_formats.suggestion import suggestion

        from narrows.suites import suite

        self._suite = suite.load(name).only(cases)
        self._like, self._quick, self._ccas, self._repeat = like, quick, ccas, repeat
        known = dict.fromkeys(cca for case in self._suite.cases for cca in case.text.ccas)
        if like and like not in known:
            allowed = suggestion(like, known) if known else "; allowed: without it, all cases apply"
            raise InputError(f"--like {like}: no case of suite {self._suite.name} names it{allowed}")
        if not any(case.applies_to(cca, like) for case in self._suite.cases for cca in ccas):
            raise InputError(
                f"tune {name}: no case is about {ccas[0]}; allowed: --like, with one of those that they are about: "
                f"{', '.join(known)}"
            )

    def directory(self, out: Path | None) -> Path:
        """The directory of the results: ``out``, or a new one."""
        from narrows.run.results import default_directory

        return out or default_directory(self._suite.name)

    def measure(
        self, kernel: str, directory: Path, console: Console, jobs: int | None, workers: Cluster | None
    ) -> bool:
        """Make the runs that are not complete, with a kernel that has the variants; False if it was interrupted.

        Raises:
            InputError, RunError, Interrupted: as `narrows.suites.running.SuiteRun.run`.
        """
        from narrows.cli.suite import measure
        from narrows.suites import running

        senders = running.senders(self._ccas, [kernel], self._like)
        runner = running.SuiteRun(self._suite, senders, directory, self._quick, self._repeat)
        measure(runner, directory, console, jobs, workers)
        return not runner.interrupted

    def report(self, directory: Path, labels: dict[str, str], console: Console, as_json: bool) -> bool:
        """Print the ranking, and what was not passed; whether all variants have a place."""
        from narrows_analysis.suite_ranking import suite_ranking
        from narrows_formats import suite_matrix

        matrix = suite_matrix.read(directory)
        placed = suite_ranking(matrix)
        names = _labels(matrix, labels)
        if as_json:
            print_json([_as_json(one, *names[one.standing.sender]) for one in placed])
        _show(placed, names, self._suite.name, directory, console)
        return all(one.place is not None for one in placed)


def _labels(matrix: Matrix, labels: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The label and the congestion control of each sender."""
    return {sender["name"]: (labels[sender["cca"]], sender["cca"]) for sender in matrix["senders"]}


def _show(
    placed: Sequence[Placed], names: dict[str, tuple[str, str]], suite: str, directory: Path, console: Console
) -> None:
    from narrows_analysis.report.units import with_interval
    from narrows_formats import files
    from rich.table import Table

    from narrows.cli.table import NOT_KNOWN

    table = Table(title=f"{suite}: cases passed, with 95 % intervals", title_justify="left")
    for title in ("place", "variant", "cca", "passed", "passed (%)", "not passed", "not run"):
        table.add_column(title, justify="right" if title.startswith("passed") else "left", overflow="fold")
    for one in placed:
        standing, (label, cca) = one.standing, names[one.standing.sender]
        share = standing.interval and with_interval(*(100 * end for end in (standing.share or 0.0, *standing.interval)))
        table.add_row(
            NOT_KNOWN if one.place is None else str(one.place), label, cca,
            f"{standing.passed} of {len(standing.judged)}", share or NOT_KNOWN,
            ", ".join(f"{cell['case']} ({cell['outcome']})" for cell in standing.not_passed),
            ", ".join(cell["case"] for cell in standing.not_run),
        )  # fmt: skip
    console.print(table)
    for one in placed:
        for cell in (*one.standing.not_passed, *one.standing.not_run):
            why = f"{cell['case']}, {names[cell['sender']][0]}: {cell['outcome']}: {cell['reason']}"
            console.print(why, soft_wrap=True, highlight=False, markup=False)
    console.print(f"page: {directory / files.REPORT}", soft_wrap=True, highlight=False)


def _as_json(one: Placed, label: str, cca: str) -> dict[str, object]:
    standing = one.standing

    def told(cells: Sequence[Cell]) -> list[dict[str, str]]:
        return [{key: cell[key] for key in ("case", "outcome", "reason")} for cell in cells]

    return {
        "variant": label,
        "cca": cca,
        "place": one.place,
        "passed": standing.passed,
        "judged": len(standing.judged),
        "share": standing.share,
        "interval": standing.interval,
        "not_passed": told(standing.not_passed),
        "not_run": told(standing.not_run),
    }
