# SPDX-License-Identifier: Apache-2.0
"""The tables of a run as CSV, with unit and meaning of every column in a table of its own: for R, MATLAB and sheets."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pandas as pd
from narrows_formats.columns import TABLES, telemetry_columns

from narrows_analysis.interchange.whole import whole
from narrows_analysis.run_data import REPORT_UNITS, RunData

COLUMNS = "columns.csv"


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
    meanings = {column.name: column.meaning for column in chain(*TABLES.values(), telemetry_columns("reports"))}
    described = [
        (f"{name}.csv", column, frame.attrs.get("units", {}).get(column, ""), meanings.get(column, ""))
        for name, frame in frames.items()
        for column in frame.columns
    ]
    described += [("reports.csv", name, unit, meanings.get(name, "")) for name, unit in REPORT_UNITS.items()]
    with whole(out) as making:
        making.mkdir()
        for name, frame in frames.items():
            frame.to_csv(making / f"{name}.csv", index=False)
        for number, batch in enumerate(run.report_batches()):
            batch.to_csv(making / "reports.csv", index=False, mode="a", header=number == 0)
        columns = pd.DataFrame(described, columns=["table", "column", "unit", "meaning"])
        columns.to_csv(making / COLUMNS, index=False)
    return [*(f"{name}.csv" for name in frames), "reports.csv", COLUMNS]
