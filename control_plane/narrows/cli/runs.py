# SPDX-License-Identifier: Apache-2.0
"""``narrows runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from narrows_formats import beneath, bounded_json, files

from narrows.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    found = sorted(_listed(directory), key=lambda one: one["started"] or "", reverse=True)
    if as_json:
        print_json(found)
        return
    console = results_console()
    if not found:
        console.print(f"{directory} has no runs; begin with: narrows run FILE", highlight=False)
        return
    table = Table("started", "run", "status")
    for name, unit in COLUMNS:
        table.add_column(f"{name}\n{unit}".rstrip(), justify="right")
    for one in found:
        table.add_row(_started(one), _name(one), one["status"], *_figures(one))
    if any(len(one.get("links", ())) > 1 for one in found):
        table.caption = "A-B: the lowest and highest value of a run's links; --json has each"
    if console.measure(table, options=console.options.update(width=UNLIMITED)).maximum <= console.width:
        console.print(table, highlight=False)
        return
    # In columns that are too narrow names and dates would be cut.
    for one in found:
        figures = [
            f"{name} {figure} {unit}".rstrip()
            for (name, unit), figure in zip(COLUMNS, _figures(one), strict=True)
            if figure
        ]
        console.print(_name(one), highlight=False, style="bold", soft_wrap=True)
        console.print(Padding(", ".join([_started(one), one["status"], *figures]), (0, 0, 0, 2)), highlight=False)


def _listed(directory: Path) -> Iterator[dict[str, Any]]:
    """Each run or sweep as ``--json`` has it; one that cannot be read says so."""
    for path in sorted(directory.glob("*/")):
        if path.name.startswith("."):
            continue
        found: dict[str, Any] = {"name": path.name, "directory": str(path)}
        try:
            if (read := _read_sweep(path) or _read_run(path)) is None:
                continue
            _check(one := found | read)
            yield one
        except (AttributeError, LookupError, TypeError, ValueError):
            nothing = dict.fromkeys((*OF_LINKS, "rate_bps", "loss_ratio", "flows", "started"))
            yield found | {"sweep": False, "status": "cannot be read", "links": []} | nothing


def _check(one: dict[str, Any]) -> None:
    """Raise what a table would of values that are of another kind than they should be."""
    if not isinstance(one["started"], str | None):
        raise TypeError("a time is a text")
    list(_figures(one))


def _read_sweep(path: Path) -> dict[str, Any] | None:
    if not (path / files.SWEEP).exists():
        return None
    sweep = _read(path, files.SWEEP)
    done = sweep.get("runs", [])
    first = _read(path, f"{done[0]['directory']}/{files.RUN}") if done else {}
    status = "complete" if len(done) == sweep.get("points") else f"{len(done)} of {sweep.get('points')} runs"
    return {"sweep": True, "started": first.get("started"), "status": status}


def _read_run(path: Path) -> dict[str, Any] | None:
    if not (path / files.RUN).exists():
        return None
    run, summary = _read(path, files.RUN), _read(path, files.SUMMARY)
    links = [_of_link(link) for link in _links(summary)]
    return {
        "sweep": False,
        "started": run.get("started"),
        "status": str(run.get("status", "")),
        "flows": len(summary["flows"]) if "flows" in summary else None,
        # With several links, none speaks for the whole run.
        **{field: links[0][field] if len(links) == 1 else None for field in (*OF_LINKS, "rate_bps", "loss_ratio")},
        "links": links,
    }


def _links(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The links of a summary; early versions have one, in two parts."""
    if "links" in summary or "bottleneck" not in summary:
        return list(summary.get("links", ()))
    return [summary["bottleneck"] | {"fairness": summary.get("fairness", {})}]


def _of_link(link: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": link.get("name"),
        **{field: link.get(field) for field in ("rate_bps", "utilization", "loss_ratio")},
        # Of a link that varies, its BDP's rate says little. Early versions have neither that nor all losses.
        "rate_mean_bps": link.get("rate_mean_bps") or link.get("rate_bps"),
        "total_loss_ratio": link.get("total_loss_ratio", link.get("loss_ratio")),
        "queue_delay_p99_s": link.get("queue_delay_s", {}).get("p99"),
        "jain_index": link.get("fairness", {}).get("jain_index"),
    }


def _figures(one: dict[str, Any]) -> Iterator[str]:
    """The columns of a run, with the least and the most of its links; those of a sweep are empty."""
    from narrows.cli.table import NOT_KNOWN, scaled

    if one["sweep"]:
        yield from ("" for _ in COLUMNS)
        return
    figures = []
    for field, factor in OF_LINKS.items():
        values = [link[field] for link in one["links"] if link[field] is not None]
        ends = [scaled(end, factor) for end in (min(values), max(values))] if values else [NOT_KNOWN]
        figures.append("-".join(dict.fromkeys(ends)))
    flows = NOT_KNOWN if one["flows"] is None else str(one["flows"])
    yield from (figures[0], flows, *figures[1:])


def _read(directory: Path, name: str) -> dict[str, Any]:
    """A JSON file below a directory; empty where it is not there, or is not one."""
    try:
        data = bounded_json.parse(beneath.read(directory, name))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _name(one: dict[str, Any]) -> str:
    """As ``ls -F`` has it: a sweep is a directory of runs."""
    return f"{one['name']}{'/' * one['sweep']}"


def _started(run: dict[str, Any]) -> str:
    """To the second, in UTC."""
    return str(run.get("started") or "-")[:19].replace("T", " ")
