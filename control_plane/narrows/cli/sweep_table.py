# SPDX-License-Identifier: Apache-2.0
"""What a sweep prints: a line for each run, and a table of all settings at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats.files import SWEEP_TABLE
from narrows_formats.summary import share_time
from rich.table import Table

from narrows.cli.table import NOT_KNOWN, scaled

if TYPE_CHECKING:
    import pandas as pd
    from narrows_formats.summary import Summary

MAX_ROWS = 40
COLUMNS = (
    "share",
    "utilization",
    "bottleneck_loss_ratio",
    "bottleneck_total_loss_ratio",
    "queue_delay_mean_s",
    "jain_index",
)


def run_line(summary: Summary) -> str:
    """A run's figures in one line: shares of its groups, and what the link was like."""
    shares = [f"{group['name']} {scaled(group['share'], 100, '%')}" for group in summary["groups"]]
    links = [
        f"{'' if len(summary['links']) == 1 else link['name'] + ' '}{scaled(link['utilization'], 100, '%')} utilized, "
        f"{scaled(link['total_loss_ratio'], 100, '%')} lost, {scaled(link['queue_delay_s']['mean'], 1e3, 'ms')} queue"
        for link in summary["links"]
    ]
    when = f" of the goodput, over {share_time(summary)}" if summary.get("share_window_s") else ""
    return "; ".join([", ".join(shares) + when, *links])


def closing_table(directory: Path) -> Table | None:
    """Means over repetitions with their 95 % intervals, a row for each setting; None where no run has a figure."""
    from narrows_analysis.sweep import intervals, load_sweep, mixed_windows, quantities

    if not (directory / SWEEP_TABLE).exists():
        return None
    sweep = load_sweep(directory)
    known = {one.column: one for one in quantities(sweep.frame)}
    found = intervals(sweep)
    if found.empty:
        return None
    table = Table(
        title="means, and 95 % intervals where there are repetitions; shares while all flows were running",
        title_justify="left",
    )
    for name in sweep.fields:
        table.add_column(name, overflow="fold")
    shown = [
        (known[column], group)
        for column in COLUMNS
        if column in known
        for group in dict.fromkeys(found.loc[found["quantity"] == column, "group"])
    ]
    for quantity, group in shown:
        unit = f" ({quantity.unit})" if quantity.unit else ""
        table.add_column(f"{quantity.title}{f', {group}' if group else ''}{unit}", justify="right", overflow="fold")
    settings = found[list(sweep.fields)].drop_duplicates() if sweep.fields else found.iloc[:1][[]]
    for _, setting in settings.head(MAX_ROWS).iterrows():
        mine = found[(found[list(sweep.fields)] == setting).all(axis=1)]
        cells = [_cell(mine[(mine["quantity"] == q.column) & (mine["group"] == group)], q.scale) for q, group in shown]
        table.add_row(*map(str, setting), *cells)
    more = f"{len(settings) - MAX_ROWS} more settings in intervals.csv" if len(settings) > MAX_ROWS else ""
    table.caption = "\n".join(filter(None, (more, sweep.mixture, mixed_windows(sweep)))) or None
    return table


def _cell(rows: pd.DataFrame, scale: float) -> str:
    from narrows_analysis.report.units import with_interval

    if rows.empty:
        return NOT_KNOWN
    row = rows.iloc[0]
    mean, low, high = (row[name] / scale for name in ("mean", "low", "high"))
    return f"{mean:.4g}" if low != low else with_interval(mean, low, high)
