# SPDX-License-Identifier: Apache-2.0
"""``narrows runs``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from narrows_formats import beneath, bounded_json, files

from narrows.errors import InputError

# Figures of a link, with what they are multiplied by in the table.
OF_LINKS = {
    "rate_mean_bps": 1e-6,
    "utilization": 100,
    "total_loss_ratio": 100,
    "queue_delay_p99_s": 1e3,
    "jain_index": 1,
}
# What a column has, and its unit.
COLUMNS = (("rate", "Mbit/s"), ("flows", ""), ("utilized", "%"), ("lost", "%"), ("delay p99", "ms"), ("Jain", ""))


def runs(
    directory: Annotated[Path, typer.Argument(help="Where results are.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON, in base units.")] = False,
) -> None:
    """List runs and sweeps with their main results, newest first."""
    from rich.padding import Padding
    from rich.table import Table

    from narrows.cli.machine_readable import UNLIMITED, print_json, results_console

    if not directory.is_dir():
        raise InputError(f"{directory}: is not a directory; allowed: one that has runs in it")
    found = sorted(_listed(directory), key=lambda one: one.started or "", reverse=True)
    if as_json:
        print_json([one.as_json() for one in found])
        return
    console = results_console()
    if not found:
        console.print(f"{directory} has no runs; begin with: narrows run FILE", highlight=False)
        return
    table = Table("started", "run", "status")
    for name, unit in COLUMNS:
        table.add_column(f"{name}\n{unit}".rstrip(), justify="right")
    for one in found:
        table.add_row(one.shown_start, one.shown_name, one.status, *one.figures())
    if any(len(one.links) > 1 for one in found):
        table.caption = "A-B: the lowest and highest value of a run's links; --json has each"
    if console.measure(table, options=console.options.update(width=UNLIMITED)).maximum <= console.width:
        console.print(table, highlight=False)
        return
    # In columns that are too narrow names and dates would be cut.
    for one in found:
        figures = [
            f"{name} {figure} {unit}".rstrip()
            for (name, unit), figure in zip(COLUMNS, one.figures(), strict=True)
            if figure
        ]
        console.print(one.shown_name, highlight=False, style="bold", soft_wrap=True)
        console.print(Padding(", ".join([one.shown_start, one.status, *figures]), (0, 0, 0, 2)), highlight=False)


@dataclass(frozen=True)
class ListedLink:
    """A link's main results; None: not known."""

    name: str | None
    rate_bps: float | None
    utilization: float | None
    loss_ratio: float | None
    rate_mean_bps: float | None
    total_loss_ratio: float | None
    queue_delay_p99_s: float | None
    jain_index: float | None

    @classmethod
    def of(cls, data: object) -> ListedLink:
        """A link of summary.json, of any version; raises TypeError where something else stands in place of a number."""
        link = _object(data)
        # Of a link that varies, its BDP's rate says little. Early versions have neither that nor all losses.
        rate_bps, loss_ratio = _number(link.get("rate_bps")), _number(link.get("loss_ratio"))
        return cls(
            name=_text(link.get("name")),
            rate_bps=rate_bps,
            utilization=_number(link.get("utilization")),
            loss_ratio=loss_ratio,
            rate_mean_bps=_number(link.get("rate_mean_bps")) or rate_bps,
            total_loss_ratio=_number(link.get("total_loss_ratio")) if "total_loss_ratio" in link else loss_ratio,
            queue_delay_p99_s=_number(_object(link.get("queue_delay_s", {})).get("p99")),
            jain_index=_number(_object(link.get("fairness", {})).get("jain_index")),
        )


@dataclass(frozen=True)
class Listed:
    """A run or a sweep; ``flows`` and ``links`` are a run's."""

    name: str
    directory: Path
    sweep: bool
    status: str
    started: str | None = None
    flows: int | None = None
    links: Sequence[ListedLink] = ()

    def as_json(self) -> dict[str, object]:
        """As ``--json`` has it."""
        found = {
            "name": self.name,
            "directory": str(self.directory),
            "sweep": self.sweep,
            "started": self.started,
            "status": self.status,
        }
        if self.sweep:
            return found
        # With several links, none speaks for the whole run.
        alone = self.links[0] if len(self.links) == 1 else None
        of_links = {name: getattr(alone, name, None) for name in (*OF_LINKS, "rate_bps", "loss_ratio")}
        return found | {"flows": self.flows, **of_links, "links": [asdict(link) for link in self.links]}

    def figures(self) -> list[str]:
        """The columns of a run, with the least and the most of its links; those of a sweep are empty."""
        from narrows.cli.table import NOT_KNOWN, scaled

        if self.sweep:
            return [""] * len(COLUMNS)
        figures = []
        for field, factor in OF_LINKS.items():
            values = [value for link in self.links if (value := getattr(link, field)) is not None]
            ends = [scaled(end, factor) for end in (min(values), max(values))] if values else [NOT_KNOWN]
            figures.append("-".join(dict.fromkeys(ends)))
        flows = NOT_KNOWN if self.flows is None else str(self.flows)
        return [figures[0], flows, *figures[1:]]

    @property
    def shown_name(self) -> str:
        """As ``ls -F`` has it: a sweep is a directory of runs."""
        return f"{self.name}{'/' * self.sweep}"

    @property
    def shown_start(self) -> str:
        """To the second, in UTC."""
        return (self.started or "-")[:19].replace("T", " ")


def _listed(directory: Path) -> Iterator[Listed]:
    """Each run or sweep; one that cannot be read says so."""
    for path in sorted(directory.glob("*/")):
        if path.name.startswith("."):
            continue
        try:
            if (found := _read_sweep(path) or _read_run(path)) is not None:
                yield found
        except (LookupError, TypeError, ValueError):
            yield Listed(path.name, path, sweep=False, status="cannot be read")


def _read_sweep(path: Path) -> Listed | None:
    if not (path / files.SWEEP).exists():
        return None
    sweep = _read(path, files.SWEEP)
    done = _list(sweep.get("runs", []))
    first = _read(path, f"{_object(done[0])['directory']}/{files.RUN}") if done else {}
    status = "complete" if len(done) == sweep.get("points") else f"{len(done)} of {sweep.get('points')} runs"
    return Listed(path.name, path, sweep=True, status=status, started=_text(first.get("started")))


def _read_run(path: Path) -> Listed | None:
    if not (path / files.RUN).exists():
        return None
    run, summary = _read(path, files.RUN), _read(path, files.SUMMARY)
    return Listed(
        path.name,
        path,
        sweep=False,
        status=str(run.get("status", "")),
        started=_text(run.get("started")),
        flows=len(_list(summary["flows"])) if "flows" in summary else None,
        links=[ListedLink.of(link) for link in _links(summary)],
    )


def _links(summary: Mapping[str, object]) -> Sequence[object]:
    """The links of a summary; early versions have one, in two parts."""
    if "links" in summary or "bottleneck" not in summary:
        return _list(summary.get("links", []))
    return [{**_object(summary["bottleneck"]), "fairness": summary.get("fairness", {})}]


def _read(directory: Path, name: str) -> Mapping[str, object]:
    """A JSON file below a directory; empty where it is not there, or is not one."""
    try:
        data = bounded_json.parse(beneath.read(directory, name))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    return value


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError("is not a list")
    return value


def _number(value: object) -> float | None:
    if not isinstance(value, int | float | None) or (value is not None and math.isnan(value)):
        raise TypeError("is not a number")
    return value


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError("is not a text")
    return value
