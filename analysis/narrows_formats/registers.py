# SPDX-License-Identifier: Apache-2.0
"""telemetry/registers.parquet: watched cells of registers of a user's P4 program, over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from narrows_formats.columns import REGISTERS, with_metadata

SCHEMA = pa.schema([("time_s", pa.float64()), ("register", pa.string()), ("value", pa.uint64())])


def write(rows: Sequence[tuple[float, str, int]], path: Path) -> None:
    """Write readings: time in s from the experiment's start, cell, value of up to 64 bits."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=with_metadata(SCHEMA, REGISTERS)), path)
