# SPDX-License-Identifier: Apache-2.0
"""A study's control `through-tbf`: the same flows, with the kernel's tc tbf for a bottleneck instead of the switch's.

The switch only makes the delay, on the way back. What still differs from a publication then is not due to its queue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import host
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, InputError, NarrowsError
from narrows.hosts.links import add_cable, run
from narrows.plan import Flow, Plan, make_plan
from narrows.studies.library import StudyPoint, find_study, study_points
from narrows.v1 import traffic_manager_pb2 as pb
from narrows_analysis.metrics.throughput import goodput_limit
from narrows_analysis.studies.model import THROUGH_TBF, Control, Point, Results, Study
from narrows_analysis.studies.page import render, results_path
from narrows_analysis.studies.results import write_results
from narrows_analysis.studies.ware import expect
from network import RECEIVER, SENDER, Network, address
from switches import PORTS, softswitch

SECOND = 1_000_000_000
BURST_S = 0.004  # with a burst of one frame tbf loses some of its rate: see the benchmark `accuracy`
FIRST_PORT = 5201
SETTLE_S = 1.0


def main(arguments: list[str]) -> int:
    """Run the quick points of a study through tbf; returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks/through_tbf.py", description=__doc__)
    parser.add_argument("study", help="a study that has this control")
    parser.add_argument("--publish", type=Path, required=True, help="directory of the page and its results")
    options = parser.parse_args(arguments)
    if not host.is_fit():
        return EXIT_BAD_INPUT
    try:
        study = find_study(options.study)
        control = next((one for one in study.controls if one.id == THROUGH_TBF), None)
        if control is None:
            raise InputError(f"{study.name}: has no control {THROUGH_TBF}")
        wanted = [point for point in study_points(study, quick=True) if point.experiment == control.experiment]
        points = [_point(study, control, point) for point in wanted]
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except NarrowsError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    found = host.description()
    machine = {"target": "tc tbf", **{name: found[name] for name in ("kernel", "cpu", "cpus")}}
    write_results(Results(study.name, "tbf", tuple(points), {}, machine), results_path(study, "tbf", options.publish))
    page = options.publish / f"{study.name}.md"
    page.write_text(render(study, options.publish), encoding="utf-8")
    print(f"page: {page}")
    return EXIT_OK


def _point(study: Study, control: Control, point: StudyPoint) -> Point:
    experiment = point.point.experiment
    plan = make_plan(experiment)
    window = study.figure_of(control.experiment).window
    measures = through_tbf(plan, experiment.bottleneck.rtt, experiment.mtu + 14, window)
    shown = ", ".join(f"{name} {value:.3g}" for name, value in measures.items())
    print(f"{point.directory}: {shown}", file=sys.stderr, flush=True)
    return Point(control.id, point.parameters, point.point.repetition, measures)


def through_tbf(plan: Plan, rtt_ns: int, frame_bytes: int, window: tuple[float, float]) -> dict[str, float]:
    """Measures of bulk flows, all of the same RTT, that share a tbf.

    Args:
        plan: rate, buffer and flows.
        rtt_ns: base RTT.
        frame_bytes: a full-size frame.
        window: part of the time in which all flows run that is measured.
    """
    starts, ends = zip(*((flow.start_ns, flow.start_ns + (flow.duration_ns or 0)) for flow in plan.flows), strict=True)
    low, high = max(starts) / SECOND, min(ends) / SECOND
    begin, end = (low + (high - low) * part for part in window)
    bottleneck = plan.bottleneck
    with Network() as network, _path(network, bottleneck.rate_bps, bottleneck.limit_bytes, rtt_ns):
        bits, counts = _traffic(network, plan.flows, begin, end)
    limit = goodput_limit(bottleneck.rate_bps, frame_bytes) * (end - begin)
    packets, drops = (after - before for before, after in zip(*counts, strict=True))
    measures = {"loss_ratio": drops / (packets + drops)}
    for group in dict.fromkeys(flow.group for flow in plan.flows):
        own = sum(amount for flow, amount in zip(plan.flows, bits, strict=True) if flow.group == group)
        measures |= {f"goodput_fraction.{group}": own / limit, f"share.{group}": own / sum(bits)}
    ccas = [flow.cca for flow in plan.flows]
    if 0 < (bbr := ccas.count("bbr")) < len(ccas):
        model = expect(bbr, bottleneck.rate_bps, rtt_ns / SECOND, bottleneck.limit_bytes, frame_bytes)
        measures["model_share"] = model.share
    return measures


@contextmanager
def _path(network: Network, rate_bps: int, limit_bytes: int, rtt_ns: int) -> Iterator[None]:
    """The sender, the switch with its delay, a bridge, tbf on the bridge's port to the receiver."""
    switch = network.namespace("switch")
    add_cable(switch, "inner", "outer", 1500)
    run(["ip", "-n", switch, "link", "add", "name", "br0", "type", "bridge"])
    for port in ("outer", PORTS[2]):
        run(["ip", "-n", switch, "link", "set", port, "master", "br0"])
    run(["ip", "-n", switch, "link", "set", "br0", "up"])
    burst = max(1514, round(rate_bps / 8 * BURST_S))
    words = f"tc qdisc add dev {PORTS[2]} root tbf rate {rate_bps}bit burst {burst} limit {limit_bytes}"
    network.call("switch", *words.split())
    for name in (SENDER, RECEIVER):
        network.call(name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
    delay = pb.ConfigureRequest(port=1, queue=0, delay_ns=rtt_ns)
    with softswitch(network, delay, ports={**PORTS, 2: "inner"}):
        yield


def _traffic(
    network: Network, flows: tuple[Flow, ...], begin: float, end: float
) -> tuple[list[float], tuple[tuple[int, int], tuple[int, int]]]:
    """Run the flows; bits that each one's receiver has read from begin to end, and tbf's packets and drops by then."""
    outputs = [network.directory / f"{number}.json" for number in range(len(flows))]
    servers = []
    for number, output in enumerate(outputs):
        with output.open("w") as file:
            words = f"iperf3 --server --one-off --json --port {FIRST_PORT + number}"
            servers.append(network.start(RECEIVER, *words.split(), stdout=file.fileno()))
    time.sleep(SETTLE_S)
    origin = time.monotonic()
    events = sorted([*((flow.start_ns / SECOND, number) for number, flow in enumerate(flows)), (begin, -1), (end, -1)])
    counts = []
    for due, number in events:
        time.sleep(max(0.0, origin + due - time.monotonic()))
        if number < 0:
            counts.append(_counts(network))
            continue
        seconds = (flows[number].duration_ns or 0) // SECOND
        words = f"iperf3 --client {address(2)} --port {FIRST_PORT + number} --congestion {flows[number].cca}"
        network.start(SENDER, *words.split(), "--time", str(seconds))
    last = max(flow.start_ns + (flow.duration_ns or 0) for flow in flows) / SECOND
    for server in servers:
        server.wait(timeout=max(0.0, origin + last - time.monotonic()) + 30)
    bits = [
        received(json.loads(output.read_text()), begin - flow.start_ns / SECOND, end - flow.start_ns / SECOND)
        for flow, output in zip(flows, outputs, strict=True)
    ]
    return bits, (counts[0], counts[1])


def received(result: dict[str, Any], begin: float, end: float) -> float:
    """Bits of an iperf3 server's intervals from begin to end, s since the flow's start; of a part its part."""
    total = 0.0
    for interval in result["intervals"]:
        found = interval["sum"]
        if (length := found["end"] - found["start"]) > 0:
            inside = min(end, found["end"]) - max(begin, found["start"])
            total += found["bytes"] * 8 * max(0.0, inside) / length
    return total


def _counts(network: Network) -> tuple[int, int]:
    """Packets that have left tbf, and those that it has dropped."""
    found = json.loads(network.call("switch", "tc", "-s", "-j", "qdisc", "show", "dev", PORTS[2]))
    root = next(qdisc for qdisc in found if qdisc["kind"] == "tbf")
    return int(root["packets"]), int(root["drops"])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.TimeoutExpired as error:
        sys.exit(f"error: {error}")
