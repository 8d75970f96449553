# SPDX-License-Identifier: Apache-2.0
"""Time series in any interval from report frames; the same functions take a pandas or a Dask frame.

Only sums, counts, minima and maxima are formed per partition, so a Dask scheduler can spread the work; what needs the
order of time is done on the small result, which is always a pandas frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import dask.dataframe as dd

    Frame = pd.DataFrame | dd.DataFrame

FLOW_INTERVAL_UNITS = {
    "flow": "", "time_s": "s", "packets": "packets", "throughput_bps": "bit/s (L2)",
    "payload_bps": "bit/s (payload, retransmissions included)", "queue_delay_mean_s": "s", "queue_delay_max_s": "s",
    "drops": "packets",
}  # fmt: skip


def _in_memory(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else frame.compute()


def _with_interval(reports: Any, interval_s: float, bottleneck: int) -> Any:
    if not interval_s > 0:
        raise ValueError(f"an interval of {interval_s} s is not positive")
    mine = reports[reports["bottleneck"] == bottleneck]
    # A nanosecond of slack: times are decimal fractions of a second, and a packet on the edge belongs to what follows.
    interval = np.floor((mine["time_s"] + 1e-9) / interval_s)
    return mine.assign(interval=interval.astype("int64"))


def flow_intervals(reports: Frame, interval_s: float, bottleneck: int = 0) -> pd.DataFrame:
    """A row for each flow and interval with packets, sorted by flow and time; FLOW_INTERVAL_UNITS has the columns.

    With every packet reported, sums are exact. `drops` are those between the last packet of the flow in the interval
    before and the last one in this: the growth of arrivals minus departures, from counters that start at zero.

    Args:
        reports: frame of RunData.reports() or dask_reports().
        interval_s: any positive interval in seconds.
        bottleneck: index of the bottleneck.
    """
    rows = _with_interval(reports, interval_s, bottleneck)
    rows = rows.assign(dropped=(rows["arrivals"] - rows["departures"]) % (1 << 32))
    grouped = rows.groupby(["flow", "flow_index", "interval"])
    columns = {
        "packets": ("packet_bytes", "count"), "bytes": ("packet_bytes", "sum"), "payload": ("payload_bytes", "sum"),
        "delay": ("queue_delay_s", "mean"), "delay_max": ("queue_delay_s", "max"), "dropped": ("dropped", "last"),
    }  # fmt: skip
    result = _in_memory(grouped.agg(**columns)).sort_index().reset_index()
    before = result.groupby("flow_index")["dropped"].shift(fill_value=0)
    result["drops"] = (result["dropped"] - before) % (1 << 32)
    # Traffic outside the experiment is many flow indexes under one number.
    merged = result.assign(weighted=result["delay"] * result["packets"]).groupby(["flow", "interval"])
    sums = merged[["packets", "bytes", "payload", "weighted", "drops"]].sum()
    frame = pd.DataFrame(
        {
            "packets": sums["packets"],
            "throughput_bps": sums["bytes"] * 8 / interval_s,
            "payload_bps": sums["payload"] * 8 / interval_s,
            "queue_delay_mean_s": sums["weighted"] / sums["packets"],
            "queue_delay_max_s": merged["delay_max"].max(),
            "drops": sums["drops"],
        }
    ).reset_index()
    frame.insert(1, "time_s", frame.pop("interval") * interval_s)
    frame.attrs = {"units": FLOW_INTERVAL_UNITS, "source": "telemetry/reports-*.parquet"}
    return frame
