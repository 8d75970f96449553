# SPDX-License-Identifier: Apache-2.0
"""The tables of a run as CSV, with unit and meaning of every column in a table of its own: for R, MATLAB and sheets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from narrows_formats.columns import LABEL, REPORTS, TABLES, telemetry_columns

from narrows_analysis.interchange.whole import whole
from narrows_analysis.run_data import RunData

COLUMNS = "columns.csv"
FLOW_KEYS = telemetry_columns("flow_keys")


def write_csv(run: RunData, out: Path) -> list[str]:
    """Write the run's table of flows, its time series, its flow keys and every report; give the files' names.

    Numbers have all their digits; what is null is empty.

    Raises:
        AnalysisError: ``out`` exists, or the run is not analysed or damaged.
    """
    frames = {
        "summary": run.table,
        "flows": run.flows,
        "queue": run.queue,
        "distributions": run.distributions,
        "sockets": run.sockets,
        "flow_keys": run.flow_keys,
    }
    described = [
        (f"{name}.csv", column, frame.attrs.get("units", {}).get(column, ""), _meanings(name).get(column, ""))
        for name, frame in frames.items()
        for column in frame.columns
    ]
    described += [("reports.csv", column.name, column.unit, column.meaning) for column in REPORTS]
    with whole(out) as making:
        making.mkdir()
        for name, frame in frames.items():
            frame.to_csv(making / f"{name}.csv", index=False)
        for number, batch in enumerate(run.report_batches()):
            batch.to_csv(making / "reports.csv", index=False, mode="a", header=number == 0)
        columns = pd.DataFrame(described, columns=["table", "column", "unit", "meaning"])
        columns.to_csv(making / COLUMNS, index=False)
    return [*(f"{name}.csv" for name in frames), "reports.csv", COLUMNS]


def _meanings(table: str) -> dict[str, str]:
    """What the columns of one table mean: another may have the same names for other things."""
    described = {
        **{Path(file).stem: columns for file, columns in TABLES.items()},
        "flow_keys": FLOW_KEYS,
        "summary": (),
    }
    return {"name": LABEL, **{column.name: column.meaning for column in described[table]}}
