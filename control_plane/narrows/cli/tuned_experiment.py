# SPDX-License-Identifier: Apache-2.0
"""An experiment that is run with each variant of a congestion control, as a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.cli.machine_readable import print_json
from narrows.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from narrows_analysis.ranking import Ranked
    from narrows_analysis.sweep import Quantity
    from rich.console import Console

    from narrows.batch.cluster import Cluster
    from narrows.experiment.sweep import Series

WORSE = {True: "yes", False: "not by more than chance", None: ""}


class TunedExperiment:
    """An experiment in which a group's congestion control is each of some."""

    def __init__(
        self, file: Path, settings: Sequence[str], group: str | None, by: Sequence[str], ccas: list[str],
        repeat: int | None, default_repeat: int,
    ) -> None:  # fmt: skip
        """Read it.

        Args:
            file: the experiment.
            settings: overrides of its fields, FIELD=VALUE.
            group: the group's name; the first one if None.
            by: columns of sweep.parquet, of which the first ranks.
            ccas: names of the variants.
            repeat: runs of each; as the file says if None, and ``default_repeat`` where it does not.
            default_repeat: see there.

        Raises:
            InputError: the file is not valid, or there is no such group or column.
        """
        self._quantities = _quantities(by)
        self._series, self._field, self._group = _series(file, settings, group, ccas, repeat, default_repeat)

    def directory(self, out: Path | None) -> Path:
        """The directory of the results: ``out``, or a new one.

        Raises:
            InputError: it holds something other than this sweep.
        """
        from narrows.batch.sweep import refuse_others
        from narrows.run.results import default_directory

        found = out or default_directory(self._series.experiment.name)
        refuse_others(self._series, found)
        return found

    def measure(
        self, kernel: str, directory: Path, console: Console, jobs: int | None, workers: Cluster | None
    ) -> bool:
        """Make the runs that are not complete, with a kernel that has the variants; False if it was interrupted.

        Raises:
            InputError, RunError, Interrupted: as `narrows.batch.sweep.run_series`.
        """
        from narrows.batch.sweep import run_series
        from narrows.cli.options import mode_of
        from narrows.targets.registry import target_factory

        mode = mode_of("soft", True, kernel, jobs)
        make_target = target_factory("soft", results=directory, virtual=True)
        outcomes = run_series(
            self._series, make_target, directory, console, None, mode, jobs, workers, (), False, goes_on=True
        )
        return not any(outcome.interrupted for outcome in outcomes)

    def report(self, directory: Path, labels: dict[str, str], console: Console, as_json: bool) -> bool:
        """Print the ranking; whether all variants have a place.

        Raises:
            InputError: no run is complete.
        """
        ranked = _ranked(directory, self._field, self._quantities, self._group)
        if as_json:
            print_json(_as_json(ranked, self._quantities, labels))
        _show(ranked, self._quantities, labels, directory, console)
        return all(one.found is not None for one in ranked[0])


def _quantities(columns: Sequence[str]) -> list[Quantity]:
    """The quantities of these columns.

    Raises:
        InputError: there is no such column.
    """
    from narrows_analysis.sweep import QUANTITIES

    known = {one.column: one for one in QUANTITIES}
    if unknown := [column for column in columns if column not in known]:
        raise InputError(f"--by {unknown[0]}: allowed: {', '.join(known)}")
    return [known[column] for column in columns]


def _series(
    file: Path, settings: Sequence[str], group: str | None, ccas: list[str], repeat: int | None, default_repeat: int
) -> tuple[Series, str, str]:
    """The experiment as a sweep over a group's congestion control, the name of that field, and that of the group.

    Raises:
        InputError: the file is not valid, or there is no such group.
    """
    from narrows.experiment.loader import read_experiment, validate
    from narrows.experiment.sweep import make_series
    from narrows.field_types import groups_in

    data = read_experiment(file, settings)
    names = [one.name for one in validate(data, str(file)).flows]
    chosen = names[0] if group is None else group
    if chosen not in names:
        raise InputError(f"--group {chosen}: {file} has no such group; allowed: {', '.join(names)}")
    own = groups_in(data)[names.index(chosen)]
    if "cca" not in own:
        raise InputError(f"--group {chosen}: its flows have no congestion control; allowed: a group with cca")
    field = f"flows.{chosen}.cca"
    # It keeps its name, whatever its congestion control.
    own["name"] = chosen
    data["repeat"] = repeat or data.get("repeat", default_repeat)
    swept = data.get("sweep")
    data["sweep"] = {field: ccas, **(swept if isinstance(swept, dict) else {})}
    return make_series(data, str(file)), field, chosen


def _ranked(directory: Path, field: str, quantities: Sequence[Quantity], group: str) -> list[list[Ranked]]:
    """The ranking by the first quantity; by each of the others in the same order.

    Raises:
        InputError: no run is complete.
    """
    from narrows_analysis import AnalysisError
    from narrows_analysis.ranking import ranking
    from narrows_analysis.sweep import load_sweep

    try:
        sweep = load_sweep(directory)
    except AnalysisError as error:
        raise InputError(str(error)) from error
    first, *others = [ranking(sweep, field, one, group) for one in quantities]
    order = [one.value for one in first]
    return [first, *(sorted(one, key=lambda ranked: order.index(ranked.value)) for one in others)]


def _show(
    ranked: Sequence[Sequence[Ranked]], quantities: Sequence[Quantity], labels: dict[str, str], directory: Path,
    console: Console,
) -> None:  # fmt: skip
    from rich.table import Table

    from narrows.cli.table import NOT_KNOWN

    table = Table(title="means and 95 % intervals, the best first", title_justify="left")
    for title in ("variant", "cca"):
        table.add_column(title, overflow="fold")
    for quantity in quantities:
        unit = f" ({quantity.unit})" if quantity.unit else ""
        table.add_column(quantity.title + unit, justify="right", overflow="fold")
    table.add_column("worse than the best", overflow="fold")
    for places in zip(*ranked, strict=True):
        first = places[0]
        pairs = zip(places, quantities, strict=True)
        cells = [NOT_KNOWN if one.found is None else quantity.text(one.found) for one, quantity in pairs]
        table.add_row(labels[first.value], first.value, *cells, WORSE[first.is_worse])
    console.print(table)
    console.print(f"results: {directory}", soft_wrap=True, highlight=False)


def _as_json(
    ranked: Sequence[Sequence[Ranked]], quantities: Sequence[Quantity], labels: dict[str, str]
) -> list[dict[str, object]]:
    return [
        {
            "variant": labels[places[0].value],
            "cca": places[0].value,
            "is_worse": places[0].is_worse,
            **{
                quantity.column: None
                if one.found is None
                else {"mean": one.found.mean, "interval": one.found.interval, "n": one.found.count}
                for one, quantity in zip(places, quantities, strict=True)
            },
        }
        for places in zip(*ranked, strict=True)
    ]
