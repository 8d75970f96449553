# SPDX-License-Identifier: Apache-2.0
"""telemetry/drops.parquet: the packets that a link dropped, each with the time of its drop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.files import DROPS, TELEMETRY

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]

# Values of the column `cause`.
LOSS_EMULATION, MANAGEMENT, FULL, POLICER, ACK_FILTER, PROGRAM_INGRESS, PROGRAM_EGRESS = 1, 2, 3, 4, 5, 6, 7
CAUSES = {
    LOSS_EMULATION: "loss emulation", MANAGEMENT: "queue management", FULL: "full queue", POLICER: "policer",
    ACK_FILTER: "ACK filter", PROGRAM_INGRESS: "program (ingress)", PROGRAM_EGRESS: "program (egress)",
}  # fmt: skip
# Those in front of the queue or at departure that its room has no part in: what `aqm_drops` has.
DECIDED = (MANAGEMENT, PROGRAM_INGRESS, PROGRAM_EGRESS)
UNKNOWN = "unknown"
COLUMNS = ("timestamp", "flow", "signature", "cause", "packet_length", "waited", "depth_bytes", "depth_packets")
_BATCH_ROWS = 1 << 18


def drop_batches(run: Run) -> Iterator[dict[str, Int64Array]]:
    """Rows of `run.bottleneck` in order of time, as arrays of shape (rows,) by column; none where nothing was dropped.

    Raises:
        AnalysisError: the table is damaged.
    """
    path = run.path / TELEMETRY / DROPS
    if not path.exists():
        return
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=["bottleneck", *COLUMNS]):
                mine = batch.column("bottleneck").to_numpy() == run.bottleneck.index
                if mine.any():
                    yield {name: batch.column(name).to_numpy()[mine].astype(np.int64) for name in COLUMNS}
    except (pa.ArrowException, OSError, KeyError) as error:
        raise AnalysisError(f"{path}: not a table of drops: {error}") from None
