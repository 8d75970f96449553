# SPDX-License-Identifier: Apache-2.0
"""Renders report.html from what analyze_run wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files as package_files
from pathlib import Path

import jinja2
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from narrows_formats import beneath, files, storage
from narrows_formats.decimals import as_decimals

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.charts import Chart, as_dicts
from narrows_analysis.report.content import dynamics, parameters, provenance, setting, tables, tiles, verdict
from narrows_analysis.report.events import add_marks
from narrows_analysis.report.figures import COMPETITION, DISTRIBUTIONS, QUEUE, SENDERS, RunFigures, rows_of
from narrows_analysis.report.links import ROWS, link_figures, path_figures
from narrows_analysis.report.responses import response_chart
from narrows_analysis.report.shares import shares
from narrows_analysis.report.video import video_charts
from narrows_analysis.run_data import RunData

_DIGEST_LIMIT_BYTES = 1 << 30


def _text(folder: str, name: str) -> str:
    return (package_files("narrows_analysis") / folder / name).read_text(encoding="utf-8")


def inline_json(value: object) -> Markup:
    """JSON that cannot end the script element it is in."""
    return Markup(json.dumps(as_decimals(value), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def render(template: str, **values: object) -> str:
    """Render a page template with the style sheet inlined."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=as_decimals,
    )
    css = Markup(_text("static", "report.css"))
    return environment.get_template(template).render(css=css, version=package_version(), **values)


def scripts() -> Markup:
    """The page's scripts, in order."""
    return Markup(_text("static", "charts.js") + _text("static", "page.js"))


def package_version() -> str:
    """Version of Narrows that is running."""
    try:
        return version("narrows")
    except PackageNotFoundError:
        return "unknown"


def _figures(data: RunData) -> list[tuple[str, ROWS]]:
    build, alone = RunFigures(data), len(data.summary["links"]) == 1
    delay = build.delay() if alone else None
    users: list[tuple[str, ROWS]] = [
        ("Video over time", [[chart] for chart in video_charts(data.run, data.labels, build.x_range, delay)]),
        ("Responses over time", [[response_chart(data.run, data.labels, data.colors)]]),
    ]
    senders = ("Senders", rows_of(build, SENDERS))
    if not alone:
        return [*users, ("Paths", path_figures(data)), *link_figures(data), senders]
    of_link = (("Competition", COMPETITION), ("Queue", QUEUE), ("Distributions", DISTRIBUTIONS))
    return [*users, *((title, rows_of(build, rows)) for title, rows in of_link), senders]


def _file_rows(run: Run) -> list[dict[str, str]]:
    names = [files.RUN, files.EXPERIMENT, files.SUMMARY, files.FLOWS, files.QUEUE, files.QUEUES, files.DISTRIBUTIONS]
    paths = [run.path / name for name in names] + sorted((run.path / files.TELEMETRY).glob("*"))
    paths += sorted((run.path / files.HOSTS).glob("*.*"))
    rows = []
    for path in paths:
        if not path.is_file():
            continue
        length, count = path.stat().st_size, ""
        if path.suffix == ".parquet":
            try:
                count = units.count(pq.read_metadata(path).num_rows)
            except (pa.ArrowInvalid, OSError):
                count = "unreadable"
        digest = "not computed (large)"
        if length <= _DIGEST_LIMIT_BYTES:
            try:
                with beneath.opened(run.path, str(path.relative_to(run.path))) as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()[:16] + "…"
            except (OSError, ValueError):
                digest = "unreadable"
        rows.append(
            {"name": str(path.relative_to(run.path)), "rows": count, "bytes": units.count(length), "digest": digest}
        )
    return rows


def _experiment(run: Run) -> str:
    # By descriptors: its owner may have put a link in its place since the run was read, and the page is the owner's.
    try:
        return beneath.read(run.path, files.EXPERIMENT).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{run.path / files.EXPERIMENT}: {getattr(error, 'strerror', None) or error}") from None


@dataclass(frozen=True)
class Section:
    """Figures below one heading, those of a row side by side."""

    title: str
    rows: Sequence[Sequence[Chart]]


def write_report(run_dir: Run | Path | str) -> Path:
    """Write report.html, one page that needs no network, from the files that analyze_run wrote; return its path.

    Raises:
        AnalysisError: the directory is not a run, or has not been analysed by this version of the analysis.
    """
    data = RunData(run_dir)
    run, summary = data.run, data.summary
    sections: list[Section] = []
    charts: list[Chart] = []
    if summary["telemetry"]["reports"]:
        for title, rows in _figures(data):
            kept = [[chart for chart in row if chart is not None] for row in rows]
            kept = [row for row in kept if row]
            if kept:
                sections.append(Section(title, kept))
                charts += [chart for row in kept for chart in row]
    add_marks(charts, run.events)
    page = render(
        "report.html.j2",
        title=str(run.raw.get("name") or run.path.resolve().name),
        setting=setting(run),
        warnings=summary["warnings"],
        verdict=verdict(run, summary),
        tiles=tiles(run, summary),
        tables=tables(data),
        shares=shares(data),
        sections=sections,
        dynamics=dynamics(summary) if sections else [],
        parameters=parameters(run, summary),
        experiment=_experiment(run),
        run_json=json.dumps(run.raw, indent=2, ensure_ascii=False),
        provenance=provenance(run, summary),
        files=_file_rows(run),
        charts=inline_json(as_dicts(charts)),
        summary=inline_json(summary),
        js=scripts(),
    )
    path = run.path / files.REPORT
    storage.write_text(path, page)
    return path
