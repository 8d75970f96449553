# SPDX-License-Identifier: Apache-2.0
"""The tables of a run as CSV, with unit and meaning of every column in a table of its own: for R, MATLAB and sheets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from narrows_formats.columns import (
    DISTRIBUTIONS,
    DROPS,
    FLOWS,
    LABEL,
    QUEUE,
    QUEUES,
    REGISTERS,
    REPORTS,
    SOCKETS,
    Column,
    telemetry_columns,
)
from narrows_formats.decimals import DECIMAL
from narrows_formats.flow_rows import BRIEF, flow_rows

from narrows_analysis.interchange.whole import whole
from narrows_analysis.run_data import RunData

COLUMNS = "columns.csv"
SUMMARY = (
    Column("flow", "", f"{LABEL}; (other): traffic that is not the experiment's"),
    Column("CCA", "", "congestion control of the flow"),
    *(
        Column(f"{column.name} {column.unit}".rstrip(), column.unit or "packets", "as on the page and in summary.json")
        for column in BRIEF
    ),
)
WATCHED = "what this field of a user's P4 program had when the packet left egress"
# What each table's columns are: some have the name of another table's and mean something else.
DESCRIBED = {
    "summary": SUMMARY,
    "flows": FLOWS,
    "queue": QUEUE,
    "queues": QUEUES,
    "distributions": DISTRIBUTIONS,
    "sockets": (*SOCKETS, Column("name", "", LABEL)),
    "flow_keys": telemetry_columns("flow_keys"),
    "drops": DROPS,
    "registers": REGISTERS,
    "reports": REPORTS,
}


def write_csv(run: RunData, out: Path) -> list[str]:
    """Write the run's table of flows, its time series, its flow keys, every report, every drop if these are
    recorded, and registers that are watched; give the files' names.

    Numbers have 15 significant digits, as `decimals` says; what is null is empty.

    Raises:
        AnalysisError: ``out`` exists, or the run is not analysed or damaged.
    """
    frames = {
        "summary": _summary(run),
        "flows": run.flows,
        "queue": run.queue,
        **({"queues": run.queues} if len(run.queues) else {}),
        "distributions": run.distributions,
        "sockets": run.sockets,
        "flow_keys": run.flow_keys,
        **({"drops": run.drops()} if run.drops_recorded else {}),
        **({"registers": run.registers} if run.watches_registers else {}),
    }
    described = [
        (f"{name}.csv", column.name, column.unit, column.meaning)
        for name, columns in DESCRIBED.items()
        for column in columns
    ]
    described += [("reports.csv", name, "", WATCHED) for name in run.watched_fields]
    with whole(out) as making:
        making.mkdir()
        for name, frame in frames.items():
            frame.to_csv(making / f"{name}.csv", index=False, float_format=DECIMAL)
        for number, batch in enumerate(run.report_batches()):
            batch.to_csv(making / "reports.csv", index=False, mode="a", header=number == 0, float_format=DECIMAL)
        columns = pd.DataFrame(described, columns=["table", "column", "unit", "meaning"])
        columns.to_csv(making / COLUMNS, index=False)
    return [*(f"{name}.csv" for name in frames), "reports.csv", COLUMNS]


def _summary(run: RunData) -> pd.DataFrame:
    """`run.table` before it is rounded."""
    rows = [
        [row.name, row.cca, *(column.exact(value) for column, value in zip(BRIEF, row.values, strict=True))]
        for row in flow_rows(run.summary, BRIEF)
    ]
    return pd.DataFrame(rows, columns=[column.name for column in SUMMARY])
