# SPDX-License-Identifier: Apache-2.0
"""The link of Narrows with a queue management in it, read off its reports as `bridged` reads the kernel's queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from managed import COLUMNS, READING_S
from narrows_analysis import LoadedRun
from passage import QUEUE

# Of DualPI2 the number of the low-latency queue in reports.
LOW_LATENCY = 1
# What each kind of Linux holds without a limit of its own (tc): `buffer` of the same link here. RED needs one.
LIMITS = {
    "pfifo": "1000packets", "codel": "1000packets", "pie": "1000packets", "red": "8bdp", "fq_codel": "10240packets",
    "dualpi2": "10000packets",
}  # fmt: skip


def readings(results: Path, until_s: float) -> pd.DataFrame:
    """The queue of a run's only link, every `READING_S`, as `managed.link` gives it; `probability` is not reported.

    Args:
        results: the run's directory.
        until_s: end of the readings.
    """
    run = LoadedRun(results)
    return of_reports(run.reports(), run.queue, until_s)


def of_reports(reports: pd.DataFrame, table: pd.DataFrame, until_s: float) -> pd.DataFrame:
    """`readings`, of a run's reports and its table of the queue over time."""
    at = np.arange(READING_S, until_s, READING_S)
    by_departure = reports.sort_values("time_s", kind="stable")
    left_s = by_departure["time_s"].to_numpy()
    sent = _so_far(left_s, by_departure["packet_bytes"].to_numpy(), at)
    low = by_departure["queue"] == LOW_LATENCY
    # Rows of the table end an interval after their time.
    ended_s = (table["time_s"] + table["interval_s"]).to_numpy()
    columns = (
        at,
        _depth(reports, at),
        sent,
        _so_far(left_s, np.ones(len(left_s), dtype=np.int64), at),
        _so_far(ended_s, table["drops"].to_numpy(), at),
        _so_far(ended_s, table["ce_marks"].to_numpy(), at),
        _age_of_head(by_departure[~low], at),
        _age_of_head(by_departure[low], at),
    )
    return pd.DataFrame(dict(zip((*QUEUE, *COLUMNS), columns, strict=False)))


def _depth(reports: pd.DataFrame, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Bytes that wait, those that will be dropped at departure included: as the packet before found or left them."""
    times = np.concatenate((reports["arrival_s"], reports["time_s"]))
    found = reports["enqueue_depth_bytes"] + reports["packet_bytes"]
    depths = np.concatenate((found, reports["dequeue_depth_bytes"]))
    # What departs at the instant of an arrival departs before it.
    departure = np.repeat((1, 0), len(reports))
    order = np.lexsort((departure, times))
    known = np.concatenate(([0.0], depths[order]))
    depth: npt.NDArray[np.float64] = known[np.searchsorted(times[order], at, side="right")]
    return depth


def _so_far(times: npt.NDArray[np.float64], values: npt.NDArray[np.int64], at: npt.NDArray[np.float64]) -> pd.Series:
    """Sum of the values up to each time."""
    sums = np.concatenate(([0], np.cumsum(values)))
    return pd.Series(sums[np.searchsorted(times, at, side="right")])


def _age_of_head(packets: pd.DataFrame, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How long the oldest packet of a queue, whose packets are in the order of departure, has waited; 0 in none."""
    arrivals = np.append(packets["arrival_s"].to_numpy(), np.inf)
    age: npt.NDArray[np.float64] = at - arrivals[np.searchsorted(packets["time_s"].to_numpy(), at, side="right")]
    return np.maximum(age, 0)
