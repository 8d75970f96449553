# SPDX-License-Identifier: Apache-2.0
"""telemetry/watched.parquet: what chosen fields of a user's P4 program had of each packet that was reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.files import TELEMETRY, WATCHED

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run

_PACKET = ("bottleneck", "sequence")
_NOT_FIELDS = ("timestamp", *_PACKET)
# Above the key of any packet: bottlenecks are below 64.
_BEHIND_ALL = np.uint64(2**64 - 1)


class WatchedFields:
    """The values of a run's watched fields by packet, in memory: 8 bytes for each of them and for each packet."""

    def __init__(self, run: Run, within: pd.DataFrame | None = None) -> None:
        """Read the table; a run in which no field was watched has none.

        Args:
            run: whose directory has it.
            within: reports, if values of others are not needed: what is read is between the first and the last of each
                bottleneck.

        Raises:
            AnalysisError: the table is damaged.
        """
        path = run.path / TELEMETRY / WATCHED
        self._values: dict[str, npt.NDArray[np.uint64]] = {}
        self._keys: npt.NDArray[np.uint64] = np.array([], dtype=np.uint64)
        if not path.exists():
            return
        try:
            table = _read(path, within)
            keys = _keys(*(table.column(name).to_numpy() for name in _PACKET))
            order = np.argsort(keys, kind="stable")
            self._keys = np.append(keys[order], _BEHIND_ALL)
            for name in table.column_names:
                if name not in _NOT_FIELDS:
                    self._values[name] = np.append(table.column(name).to_numpy()[order], np.uint64(0))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise AnalysisError(f"{path}: not a table of watched fields: {error}") from None

    @property
    def packets(self) -> int:
        """Packets whose values were read."""
        return max(0, len(self._keys) - 1)

    @property
    def names(self) -> list[str]:
        """Fields, as the experiment names them."""
        return list(self._values)

    def join(self, reports: pd.DataFrame) -> pd.DataFrame:
        """The reports with a column for each field; null where a report has no values, as they were lost."""
        if not self._values:
            return reports
        keys = _keys(*(reports[name].to_numpy() for name in _PACKET))
        at = np.searchsorted(self._keys, keys)
        lost = self._keys[at] != keys
        columns = {name: pd.arrays.IntegerArray(values[at], lost.copy()) for name, values in self._values.items()}
        return reports.assign(**columns)


def _read(path: Path, within: pd.DataFrame | None) -> pa.Table:
    """The table, or of what is in it the rows that reports may be of."""
    if within is None:
        return pq.read_table(path)
    if within.empty:
        return pq.read_schema(path).empty_table()
    ranges = within.groupby("bottleneck")["sequence"].agg(["min", "max"])
    return pq.read_table(
        path,
        filters=[
            [("bottleneck", "=", bottleneck), ("sequence", ">=", first), ("sequence", "<=", last)]
            for bottleneck, first, last in ranges.itertuples()
        ],
    )


def _keys(bottlenecks: npt.NDArray[np.integer], sequences: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    return bottlenecks.astype(np.uint64) << np.uint64(32) | sequences.astype(np.uint64)
