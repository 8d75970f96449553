# SPDX-License-Identifier: Apache-2.0
"""What is compared: values of each quantity at each setting, from repetitions, or from intervals within one run.

A single run has no repetitions. Its time in which all flows run is cut into parts of equal length, whose means are the
values (batch means: Law, Kelton, "Simulation Modeling and Analysis"). They tell how steady this run was, not how much
another run would differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from narrows_formats import beneath, files
from narrows_formats.run_record import LinkRecord
from narrows_formats.units import NANOSECONDS

from narrows_analysis.aggregation.tables import interval_at
from narrows_analysis.comparison.settings import settings_of
from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.fairness import jain_index
from narrows_analysis.metrics.throughput import utilization
from narrows_analysis.run_data import RunData
from narrows_analysis.sweep import DROPPED, LOST, MANIFEST, QUANTITIES, Quantity, load_sweep, measured

BATCHES = 20
FEWEST_INTERVALS = 2  # of the time series, in a part
GROUP_DROPPED = Quantity("loss_ratio", "Packets dropped of the group", "%", 0.01, per_group=True)


@dataclass(frozen=True)
class Place:
    """Where a quantity was measured: the swept values as written, and the flow group, or "" for all flows."""

    setting: tuple[tuple[str, str], ...]
    group: str
    quantity: Quantity

    def is_at(self, other: Place, column: str | None) -> bool:
        """Whether it is the quantity of that column where the other one is."""
        return (self.setting, self.group, self.quantity.column) == (other.setting, other.group, column)

    def __str__(self) -> str:
        """The setting and the group in words."""
        parts = [f"{name.rpartition('.')[2]} {value}" for name, value in self.setting]
        return ", ".join([*parts, *([self.group] if self.group else [])]) or "all"


Basis = Literal["repetitions", "intervals within one run"]


@dataclass(frozen=True)
class Side:
    """One of two things that are compared: values at each place; NaN where a repetition does not have the quantity.

    ``settings`` are those of its only run, or, but for the swept ones, of its first; none where no run is there.
    ``mixture`` says which of several runs was made by something else than the first.
    """

    name: str
    basis: Basis
    values: Mapping[Place, Sequence[float]]
    settings: Mapping[str, str] = field(default_factory=dict)
    mixture: str = ""


def read_sides(first: Path, second: Path) -> tuple[Side, Side]:
    """What two directories have to be compared, named by the shortest ends of their paths that differ.

    Raises:
        AnalysisError: as `read_side`.
    """
    ends = [directory.resolve().parts for directory in (first, second)]
    tells = next((length for length in range(1, max(map(len, ends))) if ends[0][-length:] != ends[1][-length:]), 1)
    one, other = (
        replace(read_side(directory), name="/".join(end[-tells:]))
        for directory, end in zip((first, second), ends, strict=True)
    )
    return one, other


def read_side(directory: Path) -> Side:
    """What a directory of a run, of repetitions or of a sweep has to be compared.

    Raises:
        AnalysisError: it is none of these, or not analysed.
    """
    if (directory / MANIFEST).exists():
        return _of_sweep(directory)
    return _of_run(RunData(directory))


def _of_sweep(directory: Path) -> Side:
    sweep = load_sweep(directory)
    values: dict[Place, list[float]] = {}
    complete = sweep.complete
    for quantity in (*measured(complete), GROUP_DROPPED):
        frame = complete if quantity.per_group else complete.drop_duplicates("directory")
        for _, row in frame.iterrows():
            setting = tuple((name, str(row[name])) for name in sweep.fields)
            place = Place(setting, str(row["group"]) if quantity.per_group else "", quantity)
            values.setdefault(place, []).append(_number(row[quantity.column]))
    try:
        places = [beneath.path(sweep.path, str(name)) for name in complete["directory"]]
    except ValueError as error:
        raise AnalysisError(f"{sweep.path / files.SWEEP_TABLE}: directory: {error}") from None
    here = next((place for place in places if (place / files.RUN).exists()), None)
    settings = {} if here is None else settings_of(here, (*sweep.fields, "seed"))
    return Side(sweep.name, "repetitions", values, settings, sweep.mixture)


def _of_run(run: RunData) -> Side:
    if run.run.status != "complete":
        raise AnalysisError(f"{run.path}: the run is {run.run.status}; allowed: a complete one")
    if len(run.links) > 1:
        raise AnalysisError(f"{run.path}: has several links ({', '.join(run.links)}); allowed: runs of one, or sweeps")
    window = _common_time(run)
    two_queues = [run.queues] if len(run.queues) else []
    everything, queue, *queues = _in_parts([run.flows, run.queue, *two_queues], window)
    flows = everything[everything["flow"] >= 0]
    compete = flows[flows["flow"].isin(run.competing)]
    no_probes = everything[everything["flow"].isin([-1, *run.competing])]
    lasted = everything.drop_duplicates("time_s").groupby("part")["interval_s"].sum()
    rates = compete.groupby(["part", "flow"])["goodput_bps"].mean().unstack()
    series: dict[tuple[str, str], pd.Series[float]] = {
        ("utilization", ""): queue.groupby("part")[list(queue)].apply(partial(_used, run.run.bottleneck)),
        ("queue_delay_mean_s", ""): _delay(queue),
        (DROPPED.column, ""): _loss(no_probes),
        (LOST.column, ""): _loss(_with_emulated(no_probes)),
    }
    for both in queues:
        for name, mine in both.groupby("queue"):
            series[f"{str(name).replace(' ', '_')}_delay_mean_s", ""] = _delay(mine)
    if rates.shape[1] > 1:
        series["jain_index", ""] = pd.Series([jain_index(row) for row in rates.fillna(0.0).to_numpy(dtype=np.float64)])
    total = (everything["goodput_bps"] * everything["interval_s"]).groupby(everything["part"]).sum()
    for group, mine in flows.groupby("group"):
        sent = (mine["goodput_bps"] * mine["interval_s"]).groupby(mine["part"]).sum()
        series["goodput_bps", str(group)] = sent / lasted
        if flows["flow"].nunique() > 1:
            series["share", str(group)] = sent / total
        series["loss_ratio", str(group)] = _loss(mine)
    known = {quantity.column: quantity for quantity in (*QUANTITIES, GROUP_DROPPED)}
    values = {Place((), group, known[name]): list(map(_number, line)) for (name, group), line in series.items()}
    return Side(run.path.resolve().name, "intervals within one run", values, settings_of(run.path))


def _number(value: float | None) -> float:
    """A figure; NaN where there is none, as of an interval without packets."""
    return np.nan if value is None else float(value)


def _common_time(run: RunData) -> tuple[float, float]:
    """Begin and end, in seconds, of the time in which all flows that compete run, or of the whole intervals of the only
    one."""
    window = run.summary["fairness"]["window_s"]
    if window is not None:
        return window[0], window[1]
    flows = [run.summary["flows"][position] for position in run.competing] or run.summary["flows"]
    lives = [(flow["start_s"], flow["end_s"]) for flow in flows]
    begin, end = lives[0] if len(lives) == 1 else (None, None)
    width = run.summary["fairness"]["interval_s"]
    if begin is None or end is None or width is None:
        why = "too little of its flow was seen" if len(lives) == 1 else run.summary["fairness"]["reason"]
        raise AnalysisError(f"{run.path}: {why}; nothing can be compared")
    return -interval_at(-begin, width) * width, interval_at(end, width) * width


def _in_parts(series: Sequence[pd.DataFrame], window: tuple[float, float]) -> list[pd.DataFrame]:
    """Rows of a time, with the number of the part that they are in.

    All series have the same parts, each of as many intervals of the longer ones: of parts of different lengths the
    mean would not be that of the run. What is too short for one more interval in each part is left out at the end.
    """
    begin_ns, end_ns = (round(time_s * NANOSECONDS) for time_s in window)
    longest_ns = max(round(float(frame["interval_s"].max()) * NANOSECONDS) for frame in series)
    intervals = (end_ns - begin_ns) // longest_ns
    most = min(BATCHES, intervals // FEWEST_INTERVALS)
    if most < 2:
        raise AnalysisError(f"only {intervals} intervals in which all flows run; a comparison needs 4")
    count = max(range(max(2, most // 2), most + 1), key=lambda parts: (intervals // parts * parts, parts))
    part_ns = intervals // count * longest_ns
    parts = []
    for frame in series:
        # Whole nanoseconds: of floats, (1.3 - 1.1) / 0.2 is less than 1.
        place = ((frame["time_s"] * NANOSECONDS).round().astype("int64") - begin_ns) // part_ns
        parts.append(frame.assign(part=place)[place.between(0, count - 1)])
    return parts


def _used(link: LinkRecord, queue: pd.DataFrame) -> float:
    """What left in a part of what the link offered in it; NaN if that is nothing or not known."""
    sent_bytes = float((queue["throughput_bps"] * queue["interval_s"]).sum()) / 8
    if link.schedule is None:
        return utilization(sent_bytes, link.rate_bps, float(queue["interval_s"].sum())) if link.rate_bps else np.nan
    last = queue.iloc[-1]
    ends = (queue["time_s"].iloc[0], last["time_s"] + last["interval_s"])
    offered = float(link.schedule.bits(*(round(time_s * NANOSECONDS) for time_s in ends)))
    counted = link.schedule.frame_bytes(sent_bytes, float(queue["departures"].sum()))
    return counted * 8 / offered if offered else np.nan


def _delay(queue: pd.DataFrame) -> pd.Series[float]:
    """Mean over the packets that left in each part, as everywhere, whatever intervals they left in."""
    left = queue["departures"].where(queue["delay_mean_s"].notna(), 0)
    waited = (queue["delay_mean_s"].fillna(0.0) * left).groupby(queue["part"]).sum()
    packets = left.groupby(queue["part"]).sum()
    return waited / packets.where(packets > 0)


def _with_emulated(flows: pd.DataFrame) -> pd.DataFrame:
    """The series with packets that loss emulation took among arrivals and drops."""
    both = flows[["arrivals", "drops"]].add(flows["loss_drops"], axis=0)
    return both.assign(part=flows["part"])


def _loss(flows: pd.DataFrame) -> pd.Series[float]:
    sums = flows.groupby("part")[["arrivals", "drops"]].sum()
    return sums["drops"] / sums["arrivals"].where(sums["arrivals"] > 0)
