# SPDX-License-Identifier: Apache-2.0
"""Renders report.html from what analyze_run wrote."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from narrows_formats import storage
from narrows_formats.summary import Summary

from narrows_analysis.colors import flow_colors
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.records.sockets import read_sockets
from narrows_analysis.report import units
from narrows_analysis.report.charts import Chart, as_dicts
from narrows_analysis.report.content import dynamics, parameters, provenance, setting, shares, tables, tiles, verdict
from narrows_analysis.report.events import add_marks
from narrows_analysis.report.figures import FLOW_COLUMNS, RunFigures
from narrows_analysis.report.links import ROWS, link_figures, path_figures
from narrows_analysis.report.responses import response_chart
from narrows_analysis.report.video import video_charts
from narrows_analysis.summary.file import read_summary

_DIGEST_LIMIT_BYTES = 1 << 30


def _text(folder: str, name: str) -> str:
    return (package_files("narrows_analysis") / folder / name).read_text(encoding="utf-8")


def inline_json(value: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def render(template: str, **values: object) -> str:
    """Render a page template with the style sheet inlined."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
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


def _figures(run: Run, summary: Summary) -> list[tuple[str, ROWS]]:
    flows = pd.read_parquet(run.path / "flows.parquet", columns=list(FLOW_COLUMNS))
    queue, distributions = (pd.read_parquet(run.path / f"{name}.parquet") for name in ("queue", "distributions"))
    labels, colors = run.flow_names, flow_colors([flow.group for flow in run.flows])
    sockets = read_sockets(run)
    build = RunFigures(run, summary, flows, queue, distributions, sockets, labels, colors)
    senders: ROWS = [[build.rtt()], [build.cwnd()], [build.inflight()], [build.pacing()]]
    alone = len(summary["links"]) == 1
    video: ROWS = [[chart] for chart in video_charts(run, labels, build.x_range, build.delay() if alone else None)]
    responses: ROWS = [[response_chart(run, labels, colors)]]
    if not alone:
        at_links = link_figures(run, summary, flows, queue, distributions, sockets)
        users = [("Video", video), ("Responses", responses)]
        return [*users, ("Paths", path_figures(run, flows)), *at_links, ("Senders", senders)]
    return [
        ("Video", video),
        ("Responses", responses),
        ("Competition", [[build.throughput()], [build.fairness()]]),
        (
            "Queue",
            [
                [build.link_rate()],
                [build.link_delay()],
                [build.depth()],
                [build.delay()],
                [build.drops()],
                [build.marks()],
                [build.loss()],
            ],
        ),
        ("Distributions", [[build.delay_cdf(), build.depth_cdf()]]),
        ("Senders", senders),
    ]


def _file_rows(run: Run) -> list[dict[str, str]]:
    names = ["run.json", "experiment.yaml", "summary.json", "flows.parquet", "queue.parquet", "distributions.parquet"]
    paths = [run.path / name for name in names] + sorted((run.path / "telemetry").glob("*"))
    paths += sorted((run.path / "hosts").glob("*.*"))
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
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()[:16] + "…"
        rows.append(
            {"name": str(path.relative_to(run.path)), "rows": count, "bytes": units.count(length), "digest": digest}
        )
    return rows


def write_report(run_dir: Run | Path | str) -> Path:
    """Write report.html, one page that needs no network, from the files that analyze_run wrote; return its path.

    Raises:
        AnalysisError: the directory is not a run, or has not been analysed by this version of the analysis.
    """
    run = read_run(run_dir)
    summary = read_summary(run.path)
    sections: list[dict[str, Any]] = []
    charts: list[Chart] = []
    if summary["telemetry"]["reports"]:
        for title, rows in _figures(run, summary):
            kept = [[chart for chart in row if chart is not None] for row in rows]
            kept = [row for row in kept if row]
            if kept:
                sections.append({"title": title, "rows": kept})
                charts += [chart for row in kept for chart in row]
    add_marks(charts, run.events)
    experiment = run.path / "experiment.yaml"
    page = render(
        "report.html.j2",
        title=str(run.raw.get("name") or run.path.resolve().name),
        setting=setting(run),
        warnings=summary["warnings"],
        verdict=verdict(run, summary),
        tiles=tiles(run, summary),
        tables=tables(run, summary),
        shares=shares(run, summary),
        sections=sections,
        dynamics=dynamics(summary) if sections else [],
        parameters=parameters(run, summary),
        experiment=experiment.read_text(encoding="utf-8", errors="replace") if experiment.is_file() else "",
        run_json=json.dumps(run.raw, indent=2, ensure_ascii=False),
        provenance=provenance(run, summary),
        files=_file_rows(run),
        charts=inline_json(as_dicts(charts)),
        summary=inline_json(summary),
        js=scripts(),
    )
    path = run.path / "report.html"
    storage.write_text(path, page)
    return path
