# SPDX-License-Identifier: Apache-2.0
"""The reports of a run while they come in, read from a file that grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from narrows.run.driver import Reports

if TYPE_CHECKING:
    import pyarrow as pa

# Of the reports' timestamps; a softswitch's are nanoseconds.
TIMESTAMP_BITS = 48


class LiveReports:
    """What has been read of them."""

    def __init__(self, links: Mapping[int, str]) -> None:
        """``links`` are names by index."""
        self._links = links
        self._flows: dict[tuple[int, int], str] = {}
        self._read = 0
        self._schema: pa.Schema | None = None

    def take(self, answer: Reports) -> pa.Table:
        """The reports that have come since the last call"""
        import pyarrow as pa

        self._flows |= {(link, flow): name for link, flow, name in answer.owners}
        with open(answer.file, "rb") as file:  # noqa: PTH123
            file.seek(self._read)
            data = file.read(answer.bytes - self._read)
        self._read += len(data)
        if self._schema is not None:
            # A stream begins with its schema.
            data = self._schema.serialize().to_pybytes() + data
        with pa.ipc.open_stream(data) as stream:
            self._schema = stream.schema
            return self._named(stream.read_all(), answer.start_ns)

    def _named(self, table: pa.Table, start_ns: int) -> pa.Table:
        """The same, each with its time since the experiment's start and the names of its link and its flow in front."""
        import numpy as np
        import pyarrow as pa

        half = 1 << (TIMESTAMP_BITS - 1)
        times = table["timestamp"].to_numpy().astype(np.int64)
        links, flows = (table[name].to_pylist() for name in ("bottleneck", "flow"))
        front = {
            "time_ns": pa.array((times - start_ns + half) % (2 * half) - half),
            "link": pa.array([self._links[link] for link in links], pa.string()),
            "flow_name": pa.array([self._flows.get(key) for key in zip(links, flows, strict=True)], pa.string()),
        }
        for place, (name, values) in enumerate(front.items()):
            unit = {"unit": "ns"} if name == "time_ns" else {}
            table = table.add_column(place, pa.field(name, values.type, metadata=unit), values)
        return table
