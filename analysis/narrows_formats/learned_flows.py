# SPDX-License-Identifier: Apache-2.0
"""telemetry/learned_flows.parquet: which flow has which index, as the switch announced when each began (its digests).

Unlike the keys in reports these are complete whatever the sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from narrows_formats.columns import telemetry_columns, with_metadata
from narrows_formats.digest import NewFlow

SCHEMA = pa.schema(
    [
        ("bottleneck", pa.uint8()),
        ("flow", pa.uint16()),
        ("signature", pa.uint32()),
        ("ip_version", pa.uint8()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("protocol", pa.uint8()),
        ("src_port", pa.uint16()),
        ("dst_port", pa.uint16()),
    ]
)


def write(flows: Sequence[NewFlow], path: Path) -> None:
    """Write the records of the program's digest, in the order in which they came."""
    schema = with_metadata(SCHEMA, telemetry_columns("flow_keys"))
    pq.write_table(pa.Table.from_pylist([asdict(flow) for flow in flows], schema=schema), path)
