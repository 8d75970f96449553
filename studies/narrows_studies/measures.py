# SPDX-License-Identifier: Apache-2.0
"""The measures of a run that studies compare, in SI units, as ratios or in BDP; None where a run has no such number.

The names of a flow group's measures end in ``.GROUP``. docs/studies/README.md lists all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
from narrows_analysis.metrics.completion import ideal_completion_time, slowdown
from narrows_analysis.metrics.fairness import convergence_time, jain_index, throughput_difference
from narrows_analysis.metrics.queue import oscillation
from narrows_analysis.metrics.throughput import goodput_limit, utilization
from narrows_analysis.run_data import RunData

from narrows_studies.bbr import bbr_state, loss_by_estimate
from narrows_studies.cycles import convergences, fillings
from narrows_studies.probes import probe_measures, read_sockets
from narrows_studies.ware import expect

FloatArray = npt.NDArray[np.float64]
Measures = dict[str, float | None]

TURN_S = 2.0  # much longer than BBR's cycle of eight RTTs, much shorter than the time between its RTT probes
WINDOW_S = 0.5  # in which loss and throughput are measured
MAX_ARRIVING = 8  # most flows of a run whose fairness is measured by their number
SHORTEST_S = 1.0  # between two arrivals or departures; a share over less says little
SMALL_BYTES, LARGE_BYTES = 100_000, 1_000_000  # size classes of workloads
SHORT_BYTES = 300_000  # size classes of a publication that calls flows below this size short
EVEN = 0.1  # part of the fair share within which two flows have 45 to 55 % each


def measure_run(run: RunData, window: tuple[float, float] = (0.25, 1.0), life_of: str = "") -> Measures:
    """All measures of a run.

    Args:
        run: an analysed run.
        window: which part of the time in which all flows run (or the group ``life_of`` does) is measured.
        life_of: name of a flow group, or empty.
    """
    begin, end = measured_time(run, window, life_of)
    # A period takes all the cycles there are: the search ends when the flows no longer all run.
    last = measured_time(run, (window[0], 1.0), life_of)[1]
    longest = run.flows[(run.flows["time_s"] >= begin) & (run.flows["time_s"] < last) & (run.flows["flow"] >= 0)]
    flows = longest[longest["time_s"] < end]
    queue = run.queue[(run.queue["time_s"] >= begin) & (run.queue["time_s"] < end)]
    measures: Measures = {"window_begin_s": begin, "window_end_s": end}
    measures |= _bottleneck(run, flows, queue, end - begin)
    measures |= _fairness(run, _competing(run, flows))
    lives = {
        number: (flow["start_s"], flow["end_s"])
        for number, flow in enumerate(run.summary["flows"])
        if not flow["probe"] and flow["start_s"] is not None and flow["end_s"] is not None
    }
    measures |= fairness_by_number(run.flows, lives)
    for group in dict.fromkeys(flow.group for flow in run.run.flows):
        measures |= {f"{name}.{group}": value for name, value in _group(run, flows, group, end - begin).items()}
    measures |= turns(longest)
    measures["common_s"] = _common_time(run)
    measures["even_split_s"] = _even_split(run)
    measures["convergences"] = convergences(_competing(run, longest))
    measures["fillings"] = fillings(queue, run.run.bottleneck.full_buffer_bytes or np.nan)
    measures |= _sockets(run, flows, queue, begin, end)
    measures |= _completion(run)
    measures |= _model(run)
    return finite(measures)


def _competing(run: RunData, flows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the flows that compete: probes only measure."""
    return flows[flows["flow"].isin(run.competing)]


def finite(measures: Measures) -> Measures:
    """The same measures, with None for NaN."""
    return {name: None if value is None or not np.isfinite(value) else float(value) for name, value in measures.items()}


def measured_time(run: RunData, window: tuple[float, float], life_of: str) -> tuple[float, float]:
    """Start and end of the measured time, in seconds from the experiment's start."""
    if life_of:
        mine = [flow for flow in run.summary["flows"] if flow["group"] == life_of]
        low = min((flow["start_s"] for flow in mine if flow["start_s"] is not None), default=0.0)
        high = max((flow["end_s"] for flow in mine if flow["end_s"] is not None), default=0.0)
    else:
        ends = float(run.flows["time_s"].max()) if len(run.flows) else 0.0
        low, high = run.summary["fairness"]["window_s"] or (0.0, ends)
    return low + (high - low) * window[0], low + (high - low) * window[1]


def _common_time(run: RunData) -> float | None:
    """When all flows run, in seconds; None if they never do."""
    window = run.summary["fairness"]["window_s"]
    return window[1] - window[0] if window else None


def _even_split(run: RunData) -> float | None:
    """Seconds until all flows are within a tenth of their fair share for 5 s, from when all of them run."""
    window = run.summary["fairness"]["window_s"]
    if window is None or run.summary["fairness"]["jain_index"] is None:
        return None
    part = run.flows[(run.flows["time_s"] >= window[0]) & (run.flows["time_s"] < window[1])]
    part = _competing(run, part)
    rates = part.pivot_table(index="flow", columns="time_s", values="goodput_bps").fillna(0.0)
    return convergence_time(rates.to_numpy(dtype=np.float64), float(part["interval_s"].median()), EVEN)


def _bottleneck(run: RunData, flows: pd.DataFrame, queue: pd.DataFrame, length_s: float) -> Measures:
    link = run.run.bottleneck
    bdp, buffer = link.bdp_bytes or np.nan, link.full_buffer_bytes or np.nan
    depth = queue["depth_mean_bytes"].to_numpy(dtype=np.float64)
    known = depth[np.isfinite(depth)]
    mean = float(np.nanmean(queue["delay_mean_s"])) if len(known) else np.nan
    arrivals, drops = float(flows["arrivals"].sum()), float(flows["drops"].sum())
    windows = _loss_windows(flows)
    smooth = _smooth(queue, depth)
    found = oscillation(smooth, WINDOW_S) if len(smooth) else None
    carried, rate = float((queue["throughput_bps"] * queue["interval_s"]).sum()), _rate(run)
    return {
        "loss_ratio": drops / arrivals if arrivals else np.nan,
        "loss_max": float(windows.max()) if len(windows) else np.nan,
        "lossy_windows": float((windows > 0).mean()) if len(windows) else np.nan,
        "utilization": utilization(carried / 8, rate, length_s) if rate > 0 and length_s > 0 else np.nan,
        "queue_bdp": float(known.mean()) / bdp if len(known) else np.nan,
        "queue_p95_bdp": float(np.percentile(known, 95)) / bdp if len(known) else np.nan,
        "queue_max_bdp": float(queue["depth_max_bytes"].max()) / bdp if len(known) else np.nan,
        "queue_max_fill": float(queue["depth_max_bytes"].max()) / buffer if len(known) else np.nan,
        "buffer_bdp": buffer / bdp,
        "queue_fill": float(known.mean()) / buffer if len(known) else np.nan,
        "standing_queue_bdp": run.summary["bottleneck"]["standing_queue_bdp"],
        "window_rtts": length_s / (link.rtt_s + mean) if link.rtt_s else np.nan,
        "rtt_ratio": (link.rtt_s + mean) / link.rtt_s if link.rtt_s else np.nan,
        "oscillation_period_s": found.period_s if found else None,
        "oscillation_correlation": found.correlation if found else None,
    }


def _rate(run: RunData) -> float:
    """Rate of the link in L2 bit/s, which every run of a study has; NaN for others, whose ratios are left out."""
    return run.run.bottleneck.rate_bps or np.nan


def _loss_windows(flows: pd.DataFrame) -> FloatArray:
    """Loss ratio in each window of 0.5 s in which anything arrived."""
    sums = flows.groupby((flows["time_s"] / WINDOW_S).astype(int))[["arrivals", "drops"]].sum()
    sums = sums[sums["arrivals"] > 0]
    return np.asarray(sums["drops"] / sums["arrivals"], dtype=np.float64)


def _smooth(queue: pd.DataFrame, depth: FloatArray) -> FloatArray:
    """Mean depth of each window of 0.5 s."""
    if not len(queue):
        return np.zeros(0)
    window = ((queue["time_s"] - queue["time_s"].iloc[0]) / WINDOW_S).astype(int).to_numpy()
    return np.asarray(pd.Series(depth).groupby(window).mean(), dtype=np.float64)


def _fairness(run: RunData, flows: pd.DataFrame) -> Measures:
    trusted = run.summary["fairness"]["jain_index"] is not None
    found = fairness(flows)
    return {
        **(found if trusted else dict.fromkeys(found)),
        "convergence_s": run.summary["fairness"]["convergence_s"],
    }


def fairness(flows: pd.DataFrame) -> Measures:
    """Jain's index over the measured time and over its halves, and how far two flows are apart.

    Args:
        flows: a row for each flow and interval, with ``time_s``, ``flow`` and ``goodput_bps``.
    """
    known = _mean_rates(flows)
    middle = float(flows["time_s"].min() + flows["time_s"].max()) / 2
    return {
        "jain": jain(flows),
        "jain_first_half": jain(flows[flows["time_s"] < middle]),
        "jain_second_half": jain(flows[flows["time_s"] >= middle]),
        "throughput_difference": throughput_difference(float(known[0]), float(known[1])) if len(known) == 2 else None,
    }


def fairness_by_number(flows: pd.DataFrame, lives: Mapping[int, tuple[float, float]]) -> Measures:
    """Jain's index while n flows run, as they arrive and leave: mean over all times between two such events.

    Args:
        flows: a row for each flow and interval, with ``time_s``, ``flow`` and ``goodput_bps``.
        lives: begin and end (s) of each flow.
    """
    events = sorted({time for life in lives.values() for time in life})
    if not 1 < len(lives) <= MAX_ARRIVING:
        return {}
    found: dict[int, list[float]] = {}
    for begin, end in pairwise(events):
        running = [number for number, (start, stop) in lives.items() if start <= begin and stop >= end]
        part = flows[(flows["time_s"] >= begin) & (flows["time_s"] < end)]
        index = jain(part[part["flow"].isin(running)]) if end - begin >= SHORTEST_S else None
        if index is not None:
            found.setdefault(len(running), []).append(index)
    return {f"jain_of_{number}": float(np.mean(indices)) for number, indices in found.items()}


def _mean_rates(flows: pd.DataFrame) -> FloatArray:
    """Mean goodput of each flow that had any interval."""
    return flows.groupby("flow")["goodput_bps"].mean().dropna().sort_index().to_numpy(dtype=np.float64)


def jain(flows: pd.DataFrame) -> float | None:
    """Jain's index of the flows' mean goodputs (columns ``flow``, ``goodput_bps``); None for one flow."""
    rates = _mean_rates(flows)
    return jain_index(rates) if len(rates) > 1 else None


def _group(run: RunData, flows: pd.DataFrame, group: str, length_s: float) -> Measures:
    mine = flows[flows["group"] == group]
    limit = goodput_limit(_rate(run), run.run.bottleneck.mtu_frame_bytes)
    total = float((flows["goodput_bps"] * flows["interval_s"]).sum())
    own = float((mine["goodput_bps"] * mine["interval_s"]).sum())
    arrivals, data = float(mine["arrivals"].sum()), float(mine["data_packets"].sum())
    fair = limit / max(1, len(run.run.flows))
    middle = float(flows["time_s"].min() + flows["time_s"].max()) / 2
    first = mine[mine["time_s"] < middle]
    early = float((first["goodput_bps"] * first["interval_s"]).sum())
    return {
        "share": _quotient(own, total),
        "goodput_fraction": _quotient(own, limit * length_s),
        "goodput_first_half": _quotient(early, limit * length_s / 2),
        "goodput_second_half": _quotient(own - early, limit * length_s / 2),
        "loss_ratio": _quotient(mine["drops"].sum(), arrivals),
        "retransmit_ratio": _quotient(mine["retransmitted_packets"].sum(), data),
        **goodput_spread(mine, fair),
    }


def goodput_spread(flows: pd.DataFrame, fair_bps: float) -> Measures:
    """Mean, quartiles and interquartile range of a flow's goodput in windows of 0.5 s, in fair shares.

    Args:
        flows: of one group, a row for each flow and interval, with ``time_s``, ``flow`` and ``goodput_bps``.
        fair_bps: a flow's fair share of what the link can carry as goodput.
    """
    window = (flows["time_s"] / WINDOW_S).astype(int)
    means = flows.groupby(["flow", window])["goodput_bps"].mean() / fair_bps
    low, high = (float(means.quantile(part)) for part in (0.25, 0.75))
    return {"rate_mean": float(means.mean()), "rate_p25": low, "rate_p75": high, "rate_iqr": high - low}


def turns(flows: pd.DataFrame) -> Measures:
    """How two groups take turns: period and autocorrelation of the first one's share over windows of 2 s.

    Args:
        flows: a row for each flow and interval, with ``time_s``, ``group`` and ``goodput_bps``.
    """
    groups = list(dict.fromkeys(flows["group"]))
    if len(groups) != 2 or not len(flows):
        return {}
    window = ((flows["time_s"] - flows["time_s"].min()) / TURN_S).astype(int)
    sums = flows.groupby([window, "group"])["goodput_bps"].sum().unstack()
    share = (sums[groups[0]] / sums.sum(axis=1)).to_numpy(dtype=np.float64)
    found = oscillation(share, TURN_S)
    return {
        "turn_period_s": found.period_s if found else None,
        "turn_correlation": found.correlation if found else 0.0,
    }


def _quotient(part: float, whole: float) -> float:
    return float(part) / whole if whole else np.nan


def _sockets(run: RunData, flows: pd.DataFrame, queue: pd.DataFrame, begin: float, end: float) -> Measures:
    """Congestion window, pacing rate and RTT probes, from the senders' sockets."""
    sockets = read_sockets(run)
    if sockets is None:
        return {}
    measures: Measures = {}
    bdp = run.run.bottleneck.bdp_bytes or np.nan
    inside = sockets[(sockets["time_s"] >= begin) & (sockets["time_s"] < end)]
    for group, mine in inside.groupby("group"):
        measures[f"cwnd_bdp.{group}"] = float(mine["cwnd_bytes"].mean()) / bdp
        measures[f"pacing_fraction.{group}"] = float(mine["pacing_rate_bps"].mean()) / _rate(run)
        measures[f"pacing_median.{group}"] = float(mine["pacing_rate_bps"].median()) / _rate(run)
        measures[f"socket_rtt_s.{group}"] = float(mine["rtt_s"].mean())
    measures |= bbr_state(inside, run.run.bottleneck)
    measures |= loss_by_estimate(inside, flows, run.run.bottleneck.rtt_s)
    return measures | probe_measures(sockets, queue, bdp, (begin, end))


def _completion(run: RunData) -> Measures:
    link = run.run.bottleneck
    rows: list[tuple[str, int, float, float]] = []
    for flow, spec in zip(run.summary["flows"], run.run.flows, strict=True):
        if spec.size_bytes is not None and flow["fct_s"] is not None:
            ideal = ideal_completion_time(spec.size_bytes, _rate(run), spec.rtt_s or 0.0, link.mtu_frame_bytes)
            rows.append((flow["group"], spec.size_bytes, flow["fct_s"], ideal))
    return completion_measures(rows)


def completion_measures(flows: Sequence[tuple[str, int, float, float]]) -> Measures:
    """Completion times of finite flows by group, their spread, and slowdown by size class.

    Args:
        flows: group, size (bytes), completion time (s) and ideal completion time (s) of each flow that has ended.
    """
    measures: Measures = {}
    frame = pd.DataFrame(flows, columns=["group", "size", "fct_s", "ideal_s"])
    frame["slowdown"] = [slowdown(*times) for times in zip(frame["fct_s"], frame["ideal_s"], strict=True)]
    for group, mine in frame.groupby("group"):
        times = mine["fct_s"]
        measures |= {
            f"fct_s.{group}": float(times.mean()),
            f"fct_p95_s.{group}": float(times.quantile(0.95)),
            f"fct_sd_s.{group}": float(times.std(ddof=0)),
            f"fct_cv.{group}": float(times.std(ddof=0) / times.mean()),
            f"completions.{group}": float(len(times)),
        }
        for name, part in (
            ("small", mine[mine["size"] < SMALL_BYTES]),
            ("medium", mine[(mine["size"] >= SMALL_BYTES) & (mine["size"] < LARGE_BYTES)]),
            ("large", mine[mine["size"] >= LARGE_BYTES]),
            ("short", mine[mine["size"] < SHORT_BYTES]),
            ("long", mine[mine["size"] >= SHORT_BYTES]),
        ):
            if len(part):
                measures[f"slowdown_{name}.{group}"] = float(part["slowdown"].mean())
    return measures


def _model(run: RunData) -> Measures:
    link = run.run.bottleneck
    if not link.full_buffer_bytes or not link.rtt_s:
        return {}
    ccas = [flow.cca for flow in run.run.flows]
    return modelled(ccas, _rate(run), link.rtt_s, link.full_buffer_bytes, link.mtu_frame_bytes)


def modelled(
    ccas: Sequence[str | None], rate_bps: float, rtt_s: float, buffer_bytes: float, frame_bytes: int
) -> Measures:
    """What the model of Ware et al. predicts for BBR beside loss-based flows; empty unless there are both."""
    bbr = sum(cca is not None and cca.startswith("bbr") for cca in ccas)
    if not 0 < bbr < len(ccas):
        return {}
    expected = expect(bbr, rate_bps, rtt_s, buffer_bytes, frame_bytes)
    return {"model_share": expected.share, "model_min_rtt_s": expected.least_rtt_s}
