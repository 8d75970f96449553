# SPDX-License-Identifier: Apache-2.0
"""BBR's RTT probes, seen in the state of its sockets: for 0.2 s the window is four packets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from narrows_analysis.run_data import RunData

PROBE_WINDOW_BYTES = 4 * 1448
APART_S = 1.0  # readings of one probe are less apart than this, two probes of a flow more
TOGETHER_S = 1.0  # probes of two flows that begin within this coincide
DRAIN_S = 0.6  # a probe holds for 0.2 s and a round trip; by then the queue has been as low as it gets
DRAINED_BDP = 0.1


def read_sockets(run: RunData) -> pd.DataFrame | None:
    """The sockets' state over time with the flows' groups; None if it was not sampled."""
    if run.sockets.empty:
        return None
    groups = [flow.group for flow in run.run.flows]
    return run.sockets.assign(group=[groups[int(flow)] for flow in run.sockets["flow"]])


def probe_times(sockets: pd.DataFrame) -> list[list[float]]:
    """When each BBR flow's RTT probes start (s); a small window in its first second is not a probe."""
    probes = []
    for _, mine in sockets[sockets["bbr_bandwidth_bps"] > 0].groupby("flow"):
        time = mine["time_s"].to_numpy(dtype=np.float64)
        small = mine["cwnd_bytes"].to_numpy(dtype=np.float64) <= PROBE_WINDOW_BYTES
        times = time[small & (time > time[0] + 1)]
        starts = np.concatenate(([True], np.diff(times) > APART_S)) if len(times) else np.zeros(0, np.bool_)
        probes.append([float(start) for start in times[starts]])
    return probes


def probe_gap_s(probes: Sequence[Sequence[float]]) -> float | None:
    """Median time between two probes of a flow; None if no flow probed twice."""
    gaps = [after - before for own in probes for before, after in pairwise(own)]
    return float(np.median(gaps)) if gaps else None


def probe_synchrony(probes: Sequence[Sequence[float]]) -> float | None:
    """Fraction of all probes that all other flows share within a second; None without probes or other flows."""
    if len(probes) < 2 or not any(probes):
        return None
    together = [
        all(any(abs(time - other) <= TOGETHER_S for other in theirs) for theirs in probes)
        for own in probes
        for time in own
    ]
    return float(np.mean(together))


def probes_not_draining(
    probes: Sequence[Sequence[float]], queue: pd.DataFrame, bdp: float, window_s: tuple[float, float]
) -> float | None:
    """Fraction of the probes within a time that leave 0.1 BDP or more in the queue; None without probes.

    Args:
        probes: starts (s) of each flow's probes.
        queue: least depth over time: columns ``time_s`` and ``depth_min_bytes``.
        bdp: in bytes.
        window_s: begin and end of the time.
    """
    begin, end = window_s
    least = [
        float(queue.loc[(queue["time_s"] >= time) & (queue["time_s"] < time + DRAIN_S), "depth_min_bytes"].min()) / bdp
        for own in probes
        for time in own
        if begin <= time < end - DRAIN_S
    ]
    return float(np.mean(np.array(least) > DRAINED_BDP)) if least else None


def probe_measures(
    sockets: pd.DataFrame, queue: pd.DataFrame, bdp: float, window_s: tuple[float, float]
) -> dict[str, float | None]:
    """The measures of RTT probes; arguments as for `probe_times` and `probes_not_draining`."""
    probes = probe_times(sockets)
    return {
        "probe_gap_s": probe_gap_s(probes),
        "probes_not_draining": probes_not_draining(probes, queue, bdp, window_s),
        "probe_synchrony": probe_synchrony([[time for time in own if time >= window_s[0]] for own in probes]),
    }
