# SPDX-License-Identifier: Apache-2.0
"""A study's controls through other links: the same flows in a kernel in virtual time, with netem for their delays, and
for the bottleneck the kernel's tc tbf or Mahimahi's mm-link.

What still differs from a publication then is not due to the switch. It may be due to what both have: the hosts, their
kernel and namespaces, netem, and how sockets are read. NICs that gather frames (``hosts.rx_usecs``) are the switch's
and are not here; controls of the study vary them.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import host
import numpy as np
import pandas as pd
from narrows import __version__
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError, NarrowsError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import ETHERNET_HEADER_BYTES, Flow, Plan
from narrows.experiment.planning import make_plan
from narrows.paths import commit
from narrows.virtual.kernels import config_digest, configuration, find
from narrows_analysis.metrics.completion import ideal_completion_time
from narrows_analysis.metrics.fairness import convergence_time
from narrows_analysis.metrics.throughput import goodput_limit
from narrows_analysis.study_results import MeasuredPoint, Results, put_results, read_results, setting
from narrows_formats.link_names import ONLY_LINK
from narrows_formats.units import NANOSECONDS, bdp_bytes
from narrows_studies.checks import meets, picks
from narrows_studies.cycles import convergences, fillings
from narrows_studies.measures import (
    EVEN,
    WINDOW_S,
    Measures,
    completion_measures,
    fairness,
    fairness_by_number,
    finite,
    goodput_spread,
    modelled,
    turns,
)
from narrows_studies.model import LINKS, Control, Link, Study
from narrows_studies.page import results_path, write_kept_page
from narrows_studies.probes import probe_measures
from narrows_studies.results import merged
from narrows_studies.running.catalogue import StudyPoint, find_study, study_points
from narrows_studies.running.senders import Senders, guests
from passage import Passage, send_through

INTERVAL_S = 0.1  # in which sockets are read


def main(arguments: list[str]) -> int:
    """Run the points of a study's controls through a link; returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks/cross_validation.py", description=__doc__)
    parser.add_argument("study", help="a study that has such controls")
    parser.add_argument("--link", choices=LINKS, default="tbf", help="the bottleneck (default: %(default)s)")
    parser.add_argument("--experiment", help="only this experiment's (default: all)")
    parser.add_argument("--of", choices=("quick", "full"), help="only this variant's points (default: of both)")
    parser.add_argument("--statement", help="only the points of this statement (default: of all)")
    parser.add_argument("--kernel", action="append", default=[], help="of hosts and link (default: all that are built)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once (default: %(default)s)")
    parser.add_argument("--publish", type=Path, required=True, help="directory of the page and its results")
    options = parser.parse_args(arguments)
    try:
        study = find_study(options.study)
        controls = _controls(study, options.link, options.experiment, options.of)
        wanted = [(control, point) for control in controls for point in _wanted(study, control, options.statement)]
        if not wanted:
            raise InputError(f"{study.name}: no control through {options.link} is of a statement {options.statement}")
        senders = _senders(options.kernel, options.link)
        fitting = [_fitting(point, senders) for _, point in wanted]
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    record = Record(study, options.link, senders, options.publish)
    code = EXIT_OK
    try:
        asyncio.run(_measure(study, options.link, wanted, fitting, options.jobs, record.take))
    except NarrowsError as error:
        print(f"error: {error}", file=sys.stderr)
        code = EXIT_FAILED
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    if record.points:
        print(f"page: {write_kept_page(study, options.publish)}")
    return code


def _senders(names: Sequence[str], link: Link) -> list[Senders]:
    module = importlib.import_module(link)
    needed = module.NEEDS
    found = [one for one in guests(names) if needed in configuration(find(one.name))]
    if not found:
        raise InputError(
            f"no kernel has {needed} for {link}; fix: narrows kernel build, which replaces the default one"
        )
    for program in module.PROGRAMS:
        if shutil.which(program) is None:
            raise InputError(f"{program} is not there; fix: install {LINKS[link]}, as its own README says")
    return found


def _controls(study: Study, link: Link, experiment: str | None, of: str | None) -> list[Control]:
    controls = [control for control in study.controls if control.link == link and of in (None, control.of)]
    found = [control for control in controls if experiment in (None, control.experiment)]
    if not found:
        have = ", ".join(control.experiment for control in controls) or "none"
        raise InputError(f"{study.name}: has no control through {link} of {experiment or 'anything'}; it has: {have}")
    return found


def _wanted(study: Study, control: Control, only: str | None) -> list[StudyPoint]:
    """The points of the experiment that the control's statements look at, or one of them."""
    statements = [
        statement
        for figure in study.figures
        if figure.experiment == control.experiment
        for statement in figure.statements
        if statement.id in control.statements and only in (None, statement.id)
    ]
    conditions = [pick.where for statement in statements for pick in picks(statement.check)]
    return [
        point
        for point in study_points(study, quick=control.of == "quick")
        if point.experiment == control.experiment
        and any(meets(MeasuredPoint(control.id, point.parameters, 1, {}), where) for where in conditions)
    ]


def _fitting(point: StudyPoint, senders: Sequence[Senders]) -> Senders:
    """The first kernel that has the algorithms of a point."""
    for one in senders:
        if not one.algorithms.missing(point.point.experiment):
            return one
    raise InputError(f"{point.directory}: no kernel has all of its algorithms; fix: narrows kernel build")


async def _measure(
    study: Study,
    link: Link,
    wanted: Sequence[tuple[Control, StudyPoint]],
    senders: Sequence[Senders],
    at_once: int,
    take: Callable[[MeasuredPoint], None],
) -> None:
    """Hand each point over as soon as it is measured, so many side by side as there are cores and memory for.

    Raises:
        NarrowsError: one failed; those under way are ended.
    """
    plans = [make_plan(point.point.experiment) for _, point in wanted]
    places = asyncio.Semaphore(senders[0].environment.at_once(plans, at_once))

    async def one(control: Control, point: StudyPoint, kernel: Senders) -> None:
        async with places:
            take(await _point(study, link, control, point, kernel))

    try:
        async with asyncio.TaskGroup() as group:
            for (control, point), kernel in zip(wanted, senders, strict=True):
                group.create_task(one(control, point, kernel))
    except* NarrowsError as failed:
        raise failed.exceptions[0] from None


async def _point(study: Study, link: Link, control: Control, point: StudyPoint, senders: Senders) -> MeasuredPoint:
    experiment = senders.algorithms.in_kernel_names(point.point.experiment)
    plan = make_plan(experiment)
    passage = await send_through(link, experiment, plan, find(senders.name))
    figure = study.figure_of(control.experiment)
    measures = measure(passage, experiment, plan, _window(passage, plan, figure.window, figure.life_of))
    shown = ", ".join(f"{name} {value:.3g}" for name, value in measures.items() if value is not None)
    print(f"{point.directory}: {shown}", file=sys.stderr, flush=True)
    made = {
        "seed": experiment.seed,
        "version": __version__,
        "commit": commit(),
        "kernel": senders.release,
        "kernel_config_sha256": config_digest(find(senders.name)),
        "rtt_s": experiment.all_links[ONLY_LINK].rtt / NANOSECONDS,
    }
    return MeasuredPoint(control.id, point.parameters, point.point.repetition, measures, provenance=made)


def _window(passage: Passage, plan: Plan, part: tuple[float, float], life_of: str) -> tuple[float, float]:
    """Begin and end, in seconds, of a part of the time in which all flows run, or one group does."""
    if life_of:
        mine = [one for one in passage.connections if one.flow.group == life_of and one.ended_s is not None]
        low, high = min(one.started_s for one in mine), max(one.ended_s or 0.0 for one in mine)
    else:
        low = max(flow.start_ns for flow in plan.flows) / NANOSECONDS
        high = min(_end_s(flow, passage) for flow in plan.flows)
    return low + (high - low) * part[0], low + (high - low) * part[1]


def _end_s(flow: Flow, passage: Passage) -> float:
    """When a flow that lasts for a time was to end, and when the last connection of another one did."""
    if flow.duration_ns is not None:
        return (flow.start_ns + flow.duration_ns) / NANOSECONDS
    return max(one.ended_s or 0.0 for one in passage.connections if one.flow.name == flow.name)


def measure(passage: Passage, experiment: Experiment, plan: Plan, window: tuple[float, float]) -> Measures:
    """The measures of a study (docs/studies/README.md) that sockets and link can tell, in a time (s)."""
    rtt_ns, link = experiment.all_links[ONLY_LINK].rtt, plan.bottleneck
    bdp, frame = float(bdp_bytes(link.rate_bps, rtt_ns)), experiment.mtu + ETHERNET_HEADER_BYTES
    measures = _of_queue(passage.queue, link.rate_bps, link.limit_bytes, bdp, window)
    measures |= _of_flows(passage, goodput_limit(link.rate_bps, frame), window)
    measures |= _of_completions(passage, link.rate_bps, frame)
    depth = passage.queue.rename(columns={"depth_bytes": "depth_min_bytes"})
    measures |= probe_measures(passage.sockets, depth, bdp, window)
    ccas = [connection.flow.cca for connection in passage.connections]
    return finite(measures | modelled(ccas, link.rate_bps, rtt_ns / NANOSECONDS, link.limit_bytes, frame))


def _of_queue(
    queue: pd.DataFrame, rate_bps: float, limit_bytes: int, bdp: float, window: tuple[float, float]
) -> Measures:
    """Utilization, loss and depth, from readings of the link's queue."""
    begin, end = window
    inside = queue[(queue["time_s"] >= begin) & (queue["time_s"] < end)]
    depth = inside["depth_bytes"]
    # What was counted in each half second, from the readings before and after its ends.
    edges = np.arange(begin, end, WINDOW_S)
    drops, packets = (np.diff(np.interp(edges, queue["time_s"], queue[name])) for name in ("drops", "packets"))
    losses = drops[drops + packets > 0] / (drops + packets)[drops + packets > 0]
    differences = {name: float(inside[name].iloc[-1] - inside[name].iloc[0]) for name in inside.columns}
    dropped, sent = differences["drops"], differences["packets"]
    return {
        "utilization": differences["bytes"] * 8 / (rate_bps * differences["time_s"]),
        "loss_ratio": dropped / (dropped + sent),
        "loss_max": float(losses.max()) if len(losses) else None,
        "queue_bdp": float(depth.mean()) / bdp,
        "queue_p95_bdp": float(depth.quantile(0.95)) / bdp,
        "queue_max_fill": float(depth.max()) / limit_bytes,
        "fillings": fillings(inside.rename(columns={"depth_bytes": "depth_max_bytes"}), limit_bytes),
        # At the link's rate a BDP waits for the base RTT.
        "rtt_ratio": 1 + float(depth.mean()) / bdp,
    }


def readings(passage: Passage) -> pd.DataFrame:
    """The sockets' counters over time, from each connection's start, and to the end of what is known to have ended.

    A connection is read a while after its start, and not at its end: without these two a train of short ones would lose
    much of its bytes, or all.
    """
    counters = ["time_s", "flow", "acked_bytes", "data_packets", "retransmits"]
    last = passage.sockets.groupby("flow")[["data_packets", "retransmits"]].last()
    sent = dict(zip(last.index, last.itertuples(index=False, name=None), strict=True))
    read = [passage.sockets[counters]]
    for number, one in enumerate(passage.connections):
        edges = [(one.started_s, number, 0, 0, 0)]
        if one.size_bytes is not None and one.ended_s is not None:
            edges.append((one.ended_s, number, one.size_bytes, *sent.get(number, (0, 0))))
        read.append(pd.DataFrame(edges, columns=counters))
    whole = pd.concat(read).sort_values(["flow", "time_s"], kind="stable")
    return whole.drop_duplicates(["flow", "time_s"], keep="last").reset_index(drop=True)


def _of_flows(passage: Passage, limit_bps: float, window: tuple[float, float]) -> Measures:
    """Shares, fairness, how groups take turns, and retransmissions, from what the sockets say was acknowledged."""
    read = readings(passage)
    sockets = read.assign(
        group=[passage.connections[flow].flow.group for flow in read["flow"]],
        # Of several connections of a flow each begins at 0.
        interval_s=read.groupby("flow")["time_s"].diff(),
        acked=read.groupby("flow")["acked_bytes"].diff(),
    ).dropna(subset=["interval_s"])
    sockets["goodput_bps"] = sockets["acked"] * 8 / sockets["interval_s"]
    flows = sockets[(sockets["time_s"] >= window[0]) & (sockets["time_s"] < window[1])]
    window = window[0], _known_until(passage, window[1])
    limit = limit_bps * (window[1] - window[0])
    lives = {number: (one.started_s, one.ended_s or 0.0) for number, one in enumerate(passage.connections)}
    measures: Measures = {**fairness(flows), **turns(flows), **fairness_by_number(sockets, lives)}
    measures["convergences"] = convergences(flows)
    measures |= _convergence(read, lives.values())
    # At the window's very ends, between readings.
    acked = read.groupby("flow")[["time_s", "acked_bytes"]].apply(lambda one: _acked_bits(one, window))
    total = float(acked.sum())
    for group, mine in flows.groupby("group"):
        own = float(acked[mine["flow"].unique()].sum())
        counters = mine.groupby("flow")[["retransmits", "data_packets"]]
        counts = counters.max() - counters.min()
        sent, again = float(counts["data_packets"].sum()), float(counts["retransmits"].sum())
        measures |= {f"goodput_fraction.{group}": own / limit, f"share.{group}": own / total}
        spread = goodput_spread(mine, limit_bps / len(passage.connections))
        measures |= {f"{name}.{group}": value for name, value in spread.items()}
        measures[f"retransmit_ratio.{group}"] = again / sent if sent else None
    return measures


def _convergence(sockets: pd.DataFrame, lives: Collection[tuple[float, float]]) -> Measures:
    """Time to convergence, and for how long all flows ran together, from what was acknowledged in each interval."""
    begin, end = max(start for start, _ in lives), min(stop for _, stop in lives)
    if end - begin < INTERVAL_S:
        return {}
    edges = np.arange(begin, end, INTERVAL_S)
    by_flow = [one for _, one in sockets.groupby("flow")]
    acked = np.array([np.interp(edges, one["time_s"], one["acked_bytes"]) for one in by_flow])
    rates = np.diff(acked) * 8 / INTERVAL_S
    return {
        "convergence_s": convergence_time(rates, INTERVAL_S),
        "even_split_s": convergence_time(rates, INTERVAL_S, EVEN),
        "common_s": end - begin,
    }


def _known_until(passage: Passage, end_s: float) -> float:
    """The last reading of the flows that last for a time and run to ``end_s``: what is acknowledged later is unknown.

    Readings are a tenth of a second apart, or more on a busy machine.
    """
    last = passage.sockets.groupby("flow")["time_s"].max()
    running = [
        number
        for number, one in enumerate(passage.connections)
        if one.ended_s is None or (one.size_bytes is None and one.ended_s > end_s - INTERVAL_S)
    ]
    return float(min([end_s, *last[last.index.isin(running)]]))


def _acked_bits(readings: pd.DataFrame, window: tuple[float, float]) -> float:
    """What a connection had acknowledged in a time, in bits."""
    begin, end = np.interp(window, readings["time_s"], readings["acked_bytes"])
    return float(end - begin) * 8


def _of_completions(passage: Passage, rate_bps: float, frame_bytes: int) -> Measures:
    """Completion times and slowdowns of finite flows by group, as a switch would see them (`completion_time`).

    A sender begins before its first packet is at the queue, and sees the end after the last one has left it: together
    that is a round trip, which is not counted.
    """
    rows: list[tuple[str, int, float, float]] = []
    for one in passage.connections:
        size, rtt_s = one.size_bytes, one.flow.rtt_ns / NANOSECONDS
        if size is not None and one.ended_s is not None:
            ideal = ideal_completion_time(size, rate_bps, rtt_s, frame_bytes)
            rows.append((one.flow.group, size, one.ended_s - one.started_s - rtt_s, ideal))
    return completion_measures(rows)


class Record:
    """The results of a study's controls through a link, which are written with each point."""

    def __init__(self, study: Study, link: Link, senders: Sequence[Senders], place: Path) -> None:
        """Nothing is written before `take`."""
        self.points: list[MeasuredPoint] = []
        self._study, self._link, self._path = study, link, results_path(study, place)
        self._settings = {
            setting(control.id, point.parameters)
            for control in _controls(study, link, None, None)
            for point in _wanted(study, control, None)
        }
        found = host.description()
        self._machine = {"target": LINKS[link], "clock": "virtual", **{name: found[name] for name in ("cpu", "cpus")}}
        self._machine["kernel"] = ", ".join(dict.fromkeys(one.release for one in senders))

    def take(self, point: MeasuredPoint) -> None:
        """A point was measured. What is there of others stays, if the controls still have them."""
        self.points.append(point)
        again = {(one.setting, one.repetition) for one in self.points}
        # Read anew: another run may have measured other points meanwhile.
        old = read_results(self._path, self._link)
        others = [
            one
            for one in (old.points if old else ())
            if one.setting in self._settings and (one.setting, one.repetition) not in again
        ]
        machine = dict(self._machine)
        if old and others:
            machine["kernel"] = merged(old.machine["kernel"], machine["kernel"])
        self._path.parent.mkdir(parents=True, exist_ok=True)
        put_results(self._path, Results(self._study.name, self._link, (*others, *self.points), {}, machine))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
