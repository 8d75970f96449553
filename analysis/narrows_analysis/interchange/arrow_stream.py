# SPDX-License-Identifier: Apache-2.0
"""Every report as an Arrow IPC stream, into a file or to a program that listens."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import IO

import pyarrow as pa

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.whole import whole
from narrows_analysis.run_data import RunData

CONNECT_S = 10.0


def write_arrow(run: RunData, out: Path) -> int:
    """Write the stream into a file; give the number of reports.

    Raises:
        AnalysisError: ``out`` exists, or the telemetry is damaged.
    """
    with whole(out) as making, making.open("wb") as sink:
        return _stream(run, sink)


def send_arrow(run: RunData, host: str, port: int) -> int:
    """Send the stream over TCP to the listener there; give the number of reports.

    Raises:
        AnalysisError: nothing listens there, the receiver ends before the stream does, or the telemetry is damaged.
    """
    try:
        with socket.create_connection((host, port), CONNECT_S) as connection:
            connection.settimeout(None)
            with connection.makefile("wb") as sink:
                return _stream(run, sink)
    except OSError as error:
        raise AnalysisError(f"{host}:{port}: {error.strerror or error}") from None


def _stream(run: RunData, sink: IO[bytes]) -> int:
    """Record batches in the order received; each column has its unit as metadata."""
    reports = 0
    writer: pa.RecordBatchStreamWriter | None = None
    for frame in run.report_batches():
        batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
        units = [field.with_metadata({"unit": frame.attrs["units"][field.name]}) for field in batch.schema]
        schema = pa.schema(units, metadata={"run": run.path.name})
        writer = writer or pa.ipc.new_stream(sink, schema)
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        reports += len(frame)
    if writer is not None:
        writer.close()
    return reports
