# SPDX-License-Identifier: Apache-2.0
"""Results of a sweep: its tidy table, heat maps over any two swept fields, and its report.html."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pandas as pd
from narrows_formats import beneath, files, storage
from narrows_formats.decimals import DECIMAL
from narrows_formats.sweep_record import SweepRecord, check
from narrows_formats.swept_values import labels
from narrows_formats.validation import dotted
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.confidence import Estimate, estimate
from narrows_analysis.records.json_files import read_json
from narrows_analysis.records.mixture import mixture
from narrows_analysis.records.run_directory import read_run
from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, Table, table
from narrows_analysis.report.charts import Chart, as_dicts
from narrows_analysis.report.content import conditions
from narrows_analysis.report.page import inline_json, render, scripts
from narrows_analysis.sweep_lines import in_order, line_charts, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANIFEST, TABLE, INTERVALS = files.SWEEP, files.SWEEP_TABLE, files.INTERVALS
# From this shade on, in percent of the way from report.css's --heat-low to --heat-high, white is easier to read than
# black; the contrast is 4.5 or more on both sides (WCAG 2.2, 1.4.3).
HOT = 71
# Begins the columns of a link where there are several.
LINKS = "links."
# The status of a run that went as written.
COMPLETE = "complete"


@dataclass(frozen=True)
class Quantity:
    """A column of the sweep's table that can be mapped; `per_group` if each flow group has its own value.

    ``least`` and ``greatest`` are what it can be, in SI units, and `less_is_better` what it is ranked by.
    """

    column: str
    title: str
    unit: str
    scale: float
    per_group: bool = False
    caption: str = ""
    least: float = 0.0
    greatest: float = math.inf
    less_is_better: bool = False

    def text(self, found: Estimate) -> str:
        """A mean in the unit, its interval, and how many repetitions do not have the quantity."""
        mean, ends = found.mean / self.scale, found.interval
        low, high = (end / self.scale for end in ends or (math.nan, math.nan))
        text = units.significant(mean) if ends is None else units.with_interval(mean, low, high)
        return text + (f" ({found.missing} without)" if found.missing else "")


DROPPED = Quantity("bottleneck_loss_ratio", "Packets dropped", "%", 0.01, greatest=1, less_is_better=True)
# Told only where loss emulation took packets: it is the same as DROPPED elsewhere.
LOST = Quantity(
    "bottleneck_total_loss_ratio", "Packets lost", "%", 0.01, caption="Dropped, or taken by loss emulation.",
    greatest=1, less_is_better=True,
)  # fmt: skip
TOGETHER = "While all flows were running; over the whole run if they never all were."
QUANTITIES = (
    Quantity("share", "Share of goodput", "%", 0.01, per_group=True, caption=TOGETHER, greatest=1),
    Quantity("jain_index", "Jain's index", "", 1.0, caption="1 is equal.", greatest=1),
    Quantity("utilization", "Link used", "%", 0.01, greatest=1),
    DROPPED,
    LOST,
    Quantity("queue_delay_mean_s", "Mean queue delay", "ms", 1e-3, less_is_better=True),
    Quantity("queue_delay_p99_s", "Queue delay, 99th percentile", "ms", 1e-3, less_is_better=True),
    Quantity("low_latency_delay_mean_s", "Mean delay, low-latency queue", "ms", 1e-3, less_is_better=True),
    Quantity("low_latency_delay_p99_s", "99th percentile, low-latency queue", "ms", 1e-3, less_is_better=True),
    Quantity("classic_delay_mean_s", "Mean delay, classic queue", "ms", 1e-3, less_is_better=True),
    Quantity("classic_delay_p99_s", "99th percentile, classic queue", "ms", 1e-3, less_is_better=True),
    Quantity("goodput_bps", "Goodput", "Mbit/s", 1e6, per_group=True, caption=TOGETHER),
)
SWEEP_UNITS = {
    "rate_bps": "bit/s (L2)", "buffer_bytes": "bytes", "buffer_packets": "packets", "utilization": "1",
    DROPPED.column: "1", LOST.column: "1",
    "low_latency_delay_mean_s": "s", "low_latency_delay_p99_s": "s", "classic_delay_mean_s": "s",
    "classic_delay_p99_s": "s",
    "queue_bytes_mean": "bytes", "queue_bytes_p50": "bytes", "queue_bytes_p99": "bytes", "queue_bytes_max": "bytes",
    "standing_queue_bytes": "bytes", "inflight_bytes_mean": "bytes",
    "queue_delay_mean_s": "s", "queue_delay_p50_s": "s", "queue_delay_p99_s": "s", "queue_delay_max_s": "s",
    "rtt_min_s": "s", "rtt_mean_s": "s", "fct_mean_s": "s", "convergence_s": "s", "oscillation_period_s": "s",
    "jain_index": "1", "jain_index_steady": "1", "loss_synchronization": "1", "rate_synchronization": "1",
    "goodput_bps": "bit/s (payload)", "share": "1", "share_of_run": "1", "loss_ratio": "1",
    **{f"{of}{count}": "packets" for of in ("", "bottleneck_")
       for count in ("drops", "aqm_drops", "policer_drops", "loss_emulation_drops", "ce_marks")},
    "retransmits": "packets",
}  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """A sweep's table, a row for each flow group of each run, and the swept fields with their values in order."""

    path: Path
    name: str
    fields: dict[str, list[str]]
    frame: pd.DataFrame
    points: int

    @property
    def complete(self) -> pd.DataFrame:
        """The rows of complete runs, which alone are in means and comparisons."""
        return self.frame[self.frame["status"] == COMPLETE]

    @property
    def mixture(self) -> str:
        """Which of its complete runs was made otherwise than the first, and how; empty if none was."""
        return mixture(self.path / str(name) for name in self.complete["directory"].unique())

    def _repr_html_(self) -> str:
        return str(self.frame.to_html(index=False))


def measured(frame: pd.DataFrame) -> list[Quantity]:
    """The quantities of a sweep's table; with several links those of a link for each (`links.NAME.COLUMN`)."""
    found = [quantity for quantity in QUANTITIES if quantity.column in frame.columns]
    known = {quantity.column: quantity for quantity in QUANTITIES}
    for column in map(str, frame.columns):
        name, _, own = column.removeprefix(LINKS).rpartition(".")
        if column.startswith(LINKS) and own in known:
            found.append(replace(known[own], column=column, title=f"{known[own].title}, {name}"))
    return found


def quantities(frame: pd.DataFrame) -> list[Quantity]:
    """Those that are measured, but all losses of a link only where loss emulation took a part of them."""
    told = [(quantity, drops_beside(quantity)) for quantity in measured(frame)]
    return [one for one, drops in told if drops is None or not frame[one.column].equals(frame[drops])]


def drops_beside(quantity: Quantity) -> str | None:
    """The column of a link's drops for one of all of its losses; None for any other."""
    link, is_lost, _ = quantity.column.rpartition(LOST.column)
    return link + DROPPED.column if is_lost else None


def read_record(directory: Path) -> SweepRecord:
    """Read sweep.json.

    Raises:
        AnalysisError: there is none, or it is not a sweep's; the message names the field.
    """
    path = directory / MANIFEST
    try:
        return check(read_json(directory, MANIFEST))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        allowed = "allowed: what 'narrows run' wrote"
        raise AnalysisError(f"{path}: {dotted(first['loc'])}: {first['msg']}; {allowed}") from None


def load_sweep(directory: Path | str) -> Sweep:
    """Read sweep.json and sweep.parquet of a sweep's directory; raise AnalysisError naming what is wrong with them."""
    path = Path(directory)
    record = read_record(path)
    try:
        with beneath.opened(path, TABLE) as file:
            frame = pd.read_parquet(file)
    except FileNotFoundError:
        raise AnalysisError(f"{path / TABLE}: no such file; no run of the sweep has a summary yet") from None
    except (ValueError, OSError) as error:
        raise AnalysisError(f"{path / TABLE}: not readable as Parquet: {error}") from None
    fields = {str(field): in_order(list(map(str, labels(values)))) for field, values in record["sweep"].items()}
    missing = [name for name in (*fields, "group", "directory", "status") if name not in frame.columns]
    if missing:
        raise AnalysisError(f"{path / TABLE}: no column {', '.join(missing)}")
    for name, values in fields.items():
        if len(set(values)) < len(values):
            raise AnalysisError(f"{path / MANIFEST}: sweep.{name}: names a value twice; allowed: different ones")
        if frame[name].isna().any():
            raise AnalysisError(f"{path / TABLE}: {name}: a row has no value; allowed: one of the sweep's in each row")
        # In their order: 0.5bdp comes before 16bdp.
        known = [*values, *(value for value in frame[name].unique() if value not in values)]
        frame[name] = pd.Categorical(frame[name], known, ordered=numbers(known) is not None)
    frame.attrs = {"units": SWEEP_UNITS, "source": TABLE}
    return Sweep(path, record["name"], fields, frame, record["points"])


def pivot(sweep: Sweep, column: str, rows: str, columns: str | None, fixed: dict[str, str]) -> pd.DataFrame:
    """Mean of `column` over complete repetitions, for each value of `rows` (down) and `columns` (across), in order.

    `fixed` picks the other fields and, for columns that each group has its own of, the group. Points without a result
    are NaN. With `columns` None the frame has one column.
    """
    if column not in sweep.frame.columns:
        raise AnalysisError(f"{sweep.path / TABLE}: no column {column}")
    frame = sweep.complete
    for name, value in fixed.items():
        frame = frame[frame[name] == value]
    across = frame[columns] if columns else pd.Series("", index=frame.index)
    table = frame.groupby([frame[rows], across])[column].mean().unstack()
    wanted = sweep.fields[columns] if columns else [""]
    return table.reindex(index=sweep.fields[rows], columns=wanted).astype(float)


def estimate_at(sweep: Sweep, quantity: Quantity, fixed: dict[str, str]) -> Estimate | None:
    """Mean of `quantity` over the repetitions that `fixed` picks, with its 95 % confidence interval.

    Repetitions that do not have it, or are not complete, are counted as missing; None if none has it.
    """
    frame = sweep.frame
    for name, value in fixed.items():
        frame = frame[frame[name] == value]
    # A run's own quantities are in the row of each of its groups.
    values = frame.drop_duplicates(["directory", "group"] if "group" in fixed else ["directory"])
    complete = values[quantity.column].where(values["status"] == COMPLETE)
    numbers = pd.to_numeric(complete, errors="coerce").to_numpy(dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    found = estimate(known.tolist(), missing=len(numbers) - len(known))
    return None if found is None else replace(found, possible=(quantity.least, quantity.greatest))


def intervals(sweep: Sweep) -> pd.DataFrame:
    """Mean, 95 % confidence interval and number of repetitions of each quantity at each setting, in SI units.

    A row for each setting, quantity and, where each flow group has its own value, group: ``mean``, ``low``, ``high``
    (NaN with one repetition), ``n``, and ``missing``, repetitions that do not have the quantity or are not complete.
    """
    rows = []
    groups = list(dict.fromkeys(sweep.frame["group"]))
    for values in itertools.product(*sweep.fields.values()):
        setting = dict(zip(sweep.fields, values, strict=True))
        for quantity in quantities(sweep.frame):
            for group in groups if quantity.per_group else [""]:
                found = estimate_at(sweep, quantity, setting | ({"group": group} if group else {}))
                if found is not None:
                    low, high = found.interval or (np.nan, np.nan)
                    measured = {"mean": found.mean, "low": low, "high": high}
                    counts = {"n": found.count, "missing": found.missing}
                    rows.append({**setting, "group": group, "quantity": quantity.column, **measured, **counts})
    return pd.DataFrame(rows)


def heat_map(
    sweep: Sweep, column: str, rows: str, columns: str | None = None, fixed: dict[str, str] | None = None
) -> Figure:
    """A matplotlib heat map of pivot(): values written into the cells; sequential, colour-blind-safe colours."""
    from matplotlib.figure import Figure  # Slow to import, and only figures need it.

    table = pivot(sweep, column, rows, columns, fixed or {})
    known = next((one for one in quantities(sweep.frame) if one.column == column), Quantity(column, column, "", 1.0))
    figure = Figure(figsize=(1.8 + 0.8 * table.shape[1], 1.2 + 0.42 * table.shape[0]), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    values = table.to_numpy() / known.scale
    image = axes.imshow(values, aspect="auto", cmap="cividis")
    axes.set_xticks(range(table.shape[1]), list(table.columns))
    axes.set_yticks(range(table.shape[0]), list(table.index))
    axes.set_xlabel(columns or "")
    axes.set_ylabel(rows)
    low, high = (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else (0.0, 0.0)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "black" if high > low and (value - low) / (high - low) > 0.55 else "white"
            axes.annotate(units.significant(value, 3), (j, i), ha="center", va="center", color=ink, fontsize=8)
    unit = f" ({known.unit})" if known.unit else ""
    figure.colorbar(image, ax=axes, label=known.title + unit)
    return figure


@dataclass(frozen=True)
class HeatCell:
    """A cell of a heat map: its shade in percent, None without a value, and the page of its run."""

    text: str
    raw: float | str
    heat: int | None
    link: str


@dataclass(frozen=True)
class HeatRow:
    """A row of a heat map: the value of the field that goes down, and its cells."""

    name: str
    cells: Sequence[HeatCell]


@dataclass(frozen=True)
class HeatMap:
    """A quantity over the field ``down`` and, if there are two, the field ``across`` with the values ``columns``."""

    title: str
    caption: str
    down: str
    across: str | None
    columns: Sequence[str]
    rows: Sequence[HeatRow]


def _map_section(sweep: Sweep, quantity: Quantity, group: str | None) -> list[HeatMap]:
    """The page's heat maps of a quantity: over the first two swept fields, one for each combination of the others."""
    names = list(sweep.fields)
    down, across, others = names[0], names[1] if len(names) > 1 else None, names[2:]
    maps: list[tuple[dict[str, str], pd.DataFrame]] = []
    for values in itertools.product(*(sweep.fields[name] for name in others)):
        fixed = dict(zip(others, values, strict=True))
        picked = fixed | ({"group": group} if group is not None else {})
        table = pivot(sweep, quantity.column, down, across, picked)
        if group is not None:
            table = _where_it_ran(sweep, table, picked)
        maps.append((fixed, table))
    maps = [(fixed, table) for fixed, table in maps if table.size]
    known = np.concatenate([np.empty(0), *(table.to_numpy().ravel() for _, table in maps)])
    known = known[np.isfinite(known)]
    if not len(known):
        return []
    # From zero, so that a shade is as much darker as a value is larger; all of them are quantities that have a zero.
    most = float(known.max())
    return [_page_map(sweep, quantity, group, fixed, table, most) for fixed, table in maps]


def _where_it_ran(sweep: Sweep, table: pd.DataFrame, picked: dict[str, str]) -> pd.DataFrame:
    """A group's table without the settings at which there is no such group: a sweep over its CCA may rename it."""
    ran = sweep.frame
    for name, value in picked.items():
        ran = ran[ran[name] == value]
    rows = table.index.isin(ran[table.index.name])
    columns = table.columns.isin(ran[table.columns.name]) if table.columns.name else slice(None)
    return table.loc[rows, columns]


def _page_map(
    sweep: Sweep,
    quantity: Quantity,
    group: str | None,
    fixed: dict[str, str],
    table: pd.DataFrame,
    most: float,
) -> HeatMap:
    names = list(sweep.fields)
    across = names[1] if len(names) > 1 else None
    rows = []
    for row, values in zip(table.index, table.to_numpy(), strict=True):
        line = []
        for column, value in zip(table.columns, values, strict=True):
            point = fixed | {names[0]: str(row)} | ({across: str(column)} if across else {})
            position = value / most if most > 0 else 0.0
            picked = point | ({"group": group} if group is not None else {})
            line.append(
                HeatCell(
                    text=quantity.text(found) if (found := estimate_at(sweep, quantity, picked)) else units.MISSING,
                    raw=value if np.isfinite(value) else "",
                    heat=round(float(position) * 100) if np.isfinite(value) else None,
                    link=_link(sweep, point),
                )
            )
        rows.append(HeatRow(row, line))
    title = quantity.title + (f", {group}" if group is not None else "")
    condition = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    return HeatMap(
        title=title + (f" ({quantity.unit})" if quantity.unit else ""),
        caption=" ".join(part for part in (quantity.caption, condition and f"With {condition}.") if part),
        down=names[0],
        across=across,
        columns=list(table.columns),
        rows=rows,
    )


def _link(sweep: Sweep, point: dict[str, str]) -> str:
    """Relative address of a point's own page (of its first repetition), where there is one."""
    frame = sweep.frame
    for name, value in point.items():
        frame = frame[frame[name] == value]
    return _page(sweep, str(frame["directory"].iloc[0])) if len(frame) else ""


def _page(sweep: Sweep, directory: str) -> str:
    """Relative address of the page of a run, where there is one."""
    there = _is_inside(directory) and (sweep.path / directory / files.REPORT).exists()
    return f"./{quote(directory)}/{files.REPORT}" if there else ""


def _is_inside(directory: str) -> bool:
    """Whether it is below the sweep's, whatever it is called: "javascript:" would be a program."""
    return directory not in ("", ".", "..") and "/" not in directory


def _header(sweep: Sweep) -> str:
    """What was swept, how many runs there are, and what they were all made with, in one line."""
    directories = [str(name) for name in sweep.frame["directory"].unique()]
    runs = f"{units.count(len(directories))} runs"
    return " · ".join(filter(None, (_swept(sweep), runs, *_common(sweep, directories))))


def _common(sweep: Sweep, directories: Sequence[str]) -> list[str]:
    """The conditions that all runs have, as pages of runs have them; of runs that cannot be read nothing is known."""
    known: list[list[str]] = []
    for directory in filter(_is_inside, directories):
        try:
            known.append(conditions(read_run(sweep.path / directory)))
        except AnalysisError:
            continue
    return [one for one in known[0] if all(one in others for others in known)] if known else []


def mixed_windows(sweep: Sweep) -> str:
    """Which runs have shares and goodputs of the whole run, where others have those of the time in which all flows were
    running; empty where all have the same."""
    if not {"share", "share_of_run", "jain_index"} <= set(sweep.frame.columns):
        return ""
    complete = sweep.frame[sweep.frame["status"] == COMPLETE]
    same = (complete["share"] == complete["share_of_run"]) & complete["jain_index"].isna()
    of_run = same.groupby(complete["directory"]).all()
    if of_run.all() or not of_run.any():
        return ""
    more = f" and {units.count(int(of_run.sum()) - 1)} more" if of_run.sum() > 1 else ""
    return (
        f"{of_run.idxmax()}{more}: the flows were never all running, so that shares and goodputs are of the whole run; "
        "those of other runs are not, and means may be of both"
    )


def _sweep_warnings(sweep: Sweep) -> list[dict[str, str]]:
    runs = sweep.frame.drop_duplicates("directory")
    found = []
    bad = runs[runs["status"] != COMPLETE]
    for directory, status in zip(bad["directory"], bad["status"], strict=True):
        found.append(
            {"severity": "error", "message": f"{directory}: the run is {status}; no mean includes its results."}
        )
    if sweep.points > len(runs):
        message = f"{sweep.points - len(runs)} of {sweep.points} runs have no results."
        found.append({"severity": "error", "message": message})
    if sweep.mixture:
        found.append({"severity": "warning", "message": f"{sweep.mixture}."})
    if windows := mixed_windows(sweep):
        found.append({"severity": "warning", "message": f"{windows}."})
    if "reports_lost" in runs.columns and (runs["reports_lost"] > 0).any():
        count = int((runs["reports_lost"] > 0).sum())
        found.append(
            {"severity": "warning", "message": f"{units.count(count)} runs miss telemetry reports; see their pages."}
        )
    return found


def _swept(sweep: Sweep) -> str:
    return " × ".join(f"{name} ({len(values)})" for name, values in sweep.fields.items())  # noqa: RUF001


def _mean_table(sweep: Sweep) -> Table:
    """What repetitions of one experiment have in common."""
    rows = []
    groups = list(dict.fromkeys(sweep.frame["group"]))
    for quantity in quantities(sweep.frame):
        for group in groups if quantity.per_group else [""]:
            if (found := estimate_at(sweep, quantity, {"group": group} if group else {})) is not None:
                title = quantity.title + (f" ({quantity.unit})" if quantity.unit else "")
                rows.append([
                    Cell(title, title, text_column=True), Cell(group, group, text_column=True),
                    Cell(quantity.text(found), found.mean), Cell(units.count(found.count), found.count),
                ])  # fmt: skip
    note = "Means over repetitions, and half the width of their 95 % confidence intervals (Student's t)."
    return table(
        "means", "Means", ["Quantity", "Group", "Mean", "Repe-\ntitions"], rows, note, texts={"Quantity", "Group"}
    )


def _result_table(sweep: Sweep) -> Table:
    columns = [*sweep.fields, "repetition", "group", "goodput_bps", "share", "share_of_run", "loss_ratio", "jain_index",
             "utilization", "queue_delay_mean_s"]  # fmt: skip
    shown = [name for name in columns if name in sweep.frame]  # Older tables have no share of the run.
    formats: dict[str, Callable[[float | None], str]] = {
        "goodput_bps": units.rate, "share": units.percent, "share_of_run": units.percent,
        "loss_ratio": units.percent, "jain_index": units.index,
        "utilization": units.percent, "queue_delay_mean_s": units.duration,
    }  # fmt: skip
    titles = {
        "goodput_bps": "Goodput", "share": "Share", "share_of_run": "Share\nof run", "loss_ratio": "Dropped",
        "jain_index": "Jain's\nindex", "utilization": "Link\nused", "queue_delay_mean_s": "Queue delay\nmean",
        "group": "Group", "repetition": "Repe-\ntition",
    }  # fmt: skip
    texts = {*sweep.fields, "group"}
    rows = []
    for _, row in _sorted(sweep).iterrows():
        line = []
        for name in shown:
            value = row[name]
            missing = value is None or (isinstance(value, float) and np.isnan(value))
            shown_as = units.MISSING if missing else formats[name](value) if name in formats else str(value)
            link = _page(sweep, str(row["directory"])) if name == "repetition" else ""
            line.append(Cell(shown_as, "" if missing else value, text_column=name in texts, link=link))
        rows.append(line)
    names = [titles.get(name, name) for name in shown]
    note = "A repetition leads to the page of its run."
    return table("runs", "All results", names, rows, note, texts={titles.get(name, name) for name in texts})


def _sorted(sweep: Sweep) -> pd.DataFrame:
    """The sweep's table in the order of its fields' values, then of repetitions; groups stay as they are."""
    places = {name: {value: place for place, value in enumerate(values)} for name, values in sweep.fields.items()}
    return sweep.frame.sort_values(
        [*sweep.fields, "repetition"],
        key=lambda column: column.map(places[column.name]) if column.name in places else column,
        kind="stable",
    )


def line_charts_of(sweep: Sweep) -> list[list[Chart]]:
    """The page's charts, in rows of two."""
    groups = list(dict.fromkeys(sweep.frame["group"]))
    charts = []
    for place, quantity in enumerate(quantities(sweep.frame)):
        titles = (quantity.title, quantity.unit, quantity.caption)
        own = groups if quantity.per_group and len(groups) > 1 else []
        estimates = partial(estimate_at, sweep, quantity)
        charts += line_charts(f"line-{place}", titles, quantity.scale, sweep.fields, own, estimates)
    return [charts[place : place + 2] for place in range(0, len(charts), 2)]


def write_sweep_report(directory: Path | str) -> Path:
    """Write intervals.csv and report.html, one page that needs no network, from sweep.json and sweep.parquet.

    Lines run over the first swept field of three or more numbers. Heat maps span the first two swept fields; further
    fields give a map for each of their combinations. Cells lead to the pages of the runs. Of repetitions of one
    experiment there is a table of means instead. Raises AnalysisError if the sweep's files are missing or broken.
    """
    sweep = load_sweep(directory)
    groups = list(dict.fromkeys(sweep.frame["group"]))
    maps: list[HeatMap] = []
    for quantity in quantities(sweep.frame) if sweep.fields else ():
        if quantity.per_group and len(groups) > 1:
            for group in groups:
                maps += _map_section(sweep, quantity, group)
        else:
            maps += _map_section(sweep, quantity, None)
    lines = line_charts_of(sweep)
    page = render(
        "sweep.html.j2",
        title=sweep.name,
        setting=_header(sweep),
        warnings=_sweep_warnings(sweep),
        lines=lines,
        intervals=INTERVALS,
        table=TABLE,
        maps=maps,
        hot=HOT,
        tables=[*([] if sweep.fields else [_mean_table(sweep)]), _result_table(sweep)],
        charts=inline_json(as_dicts([chart for row in lines for chart in row])),
        js=scripts(),
    )
    intervals(sweep).to_csv(sweep.path / INTERVALS, index=False, float_format=DECIMAL)
    path = sweep.path / files.REPORT
    storage.write_text(path, page)
    return path
