# SPDX-License-Identifier: Apache-2.0
"""The highest rate without a loss and latencies there (RFC 2544), by frame size: Narrows and what else forwards."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.experiment.plan import Host
from narrows.hosts.base import Testbed
from narrows.hosts.links import call_inside
from narrows.paths import binary
from narrows.run import probes
from narrows.run.benchmark import FRAME_BYTES, Trial, throughput
from narrows.run.benchmark_bench import FLAT_OUT, FLOWS, FRAMES, frame, pcap
from narrows.targets.bmv2 import simple_switch
from narrows_formats.programs import COLLECTOR as PROGRAM
from network import COLLECTOR, RECEIVER, SENDER, Network, address, mac
from results import Outcome, Table
from switches import bmv2, bridge, bridge_with_tbf, compile_c, naive_forwarder, softswitch, testpmd, testpmd_command

SECONDS = 1.0
SETTLE_S, POLL_S = 0.5, 0.02
NARROWS, BMV2 = "Narrows", "BMv2"
NAIVE, TESTPMD = "naive C forwarder", "DPDK testpmd"
Switch = Callable[[Network], AbstractContextManager[None]]


def run(runs: int) -> Outcome:
    """Every frame size through each contestant in turn."""
    skipped = ["VPP: not tried, Debian has no package of it"]
    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as directory:
        switches: dict[str, Switch] = {
            NARROWS: softswitch,
            "kernel bridge": bridge,
            "bridge with tc tbf": bridge_with_tbf,
        }
        if shutil.which("cc"):
            program = compile_c(Path(__file__).parent / "naive_forwarder.c", Path(directory))
            switches[NAIVE] = functools.partial(naive_forwarder, program=program)
        else:
            skipped.append(f"{NAIVE}: no C compiler 'cc' on PATH")
        if shutil.which(testpmd_command()[0]):
            switches[TESTPMD] = testpmd
        else:
            skipped.append(f"{TESTPMD}: no dpdk-testpmd on PATH (Debian: dpdk-dev, librte-net-af-packet23)")
        if (lacks := simple_switch.missing()) is None:
            switches[BMV2] = bmv2
        else:
            skipped.append(f"{BMV2}: {lacks}")
        reporting = {NARROWS, BMV2}
        contestants: dict[str, Contestant] = {
            name: functools.partial(_all_sizes, name, switch, name in reporting) for name, switch in switches.items()
        }
        series = alternate(contestants, runs)
    header = ("Forwarder", "Without a loss, frames/s", "p50, us", "p99, us", "p99.9, us")
    tables = []
    for size in FRAME_BYTES:
        table = Table(header, caption=f"{size} bytes, FCS included")
        for name in switches:
            figures = [f"{size} B {figure}" for figure in ("frames_per_s", "p50_ns", "p99_ns", "p99.9_ns")]
            scales = dict.fromkeys(figures[1:], 1e-3)
            table.rows.append((name, *series.texts(name, figures, scales)))
        tables.append(table)
    conditions = (
        f"UDP of {FLOWS} flows from one network namespace to another, trials of {SECONDS:g} s (RFC 2544 has 60), rates "
        "by halving between one that was held and one that was not. Narrows and BMv2 run the same program and send a "
        "report of each frame, which the collector's interface counts; where one is missing the rate was not held. No "
        "queue has a rate limit but that of tbf, 100 Gbit/s. Latency is from the sender's interface to the receiver's, "
        "timed by the kernel, of a frame each millisecond among the others, at that rate. Sender, receiver and "
        f"forwarder share all processors of the machine; {TESTPMD} polls with one of them, and copies by AF_PACKET."
    )
    commands = ["switch$   " + " ".join(testpmd_command())] if TESTPMD in switches else []
    return Outcome(
        "Rate without a loss", conditions, tables, {"seconds": SECONDS, **series.as_json()}, commands, skipped
    )


def _all_sizes(name: str, switch: Switch, reports: bool) -> dict[str, float]:
    with Network() as network, switch(network):
        return asyncio.run(_measured(name, Bench(network, reports)))


async def _measured(name: str, bench: Bench) -> dict[str, float]:
    figures: dict[str, float] = {}
    for size in FRAME_BYTES:
        found = await throughput(bench, size, SECONDS)
        if not found.latency_ns:
            raise RunError(f"{name} loses frames of {size} bytes at any rate")
        figures[f"{size} B frames_per_s"] = found.frames_per_s
        figures.update({f"{size} B {percent}_ns": float(time_ns) for percent, time_ns in found.latency_ns.items()})
    return figures


class _Hosts:
    """As much of a testbed as probes need."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def interface(self, host: str) -> str:
        return "eth0"

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        return call_inside(self._network.namespace(host), lambda: socket.socket(family, kind, protocol))


class Bench:
    """See `narrows.run.benchmark.Bench`; the processors that a trial takes are not measured."""

    def __init__(self, network: Network, reports: bool) -> None:
        """Between the hosts of a network; ``reports``: a frame is whole when its report has arrived, too."""
        self._network = network
        self._reports = reports
        self._sender, self._receiver = (
            Host(name, port, mac(port), address(port), 24, 4) for port, name in ((1, SENDER), (2, RECEIVER))
        )

    async def trial(self, frame_bytes: int, frames_per_s: float, seconds: float) -> Trial:
        """See `Bench.trial`."""
        before, reported = self._network.received(RECEIVER), self._network.received(COLLECTOR)
        sent, took = await asyncio.to_thread(self._send, frame_bytes, frames_per_s, seconds)
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not self._is_there(before + sent, reported + sent):
            await asyncio.sleep(POLL_S)
        arrived = self._network.received(RECEIVER) - before
        reports = self._network.received(COLLECTOR) - reported if self._reports else arrived
        return Trial(sent, sent / took, arrived, reports, processors=math.nan)

    def _is_there(self, frames: int, reports: int) -> bool:
        all_reports = not self._reports or self._network.received(COLLECTOR) >= reports
        return all_reports and self._network.received(RECEIVER) >= frames

    async def latencies_ns(self, frame_bytes: int, frames_per_s: float, seconds: float) -> list[int]:
        """See `Bench.latencies_ns`."""
        probe = frame(self._sender, self._receiver, frame_bytes, probes.PORT)
        with probes.Probes(cast(Testbed, _Hosts(self._network)), SENDER, RECEIVER) as sockets:
            load = asyncio.create_task(asyncio.to_thread(self._send, frame_bytes, frames_per_s, seconds))
            await asyncio.to_thread(sockets.send, probe, seconds * 0.8)
            await load
            return sockets.times_ns()

    def _send(self, frame_bytes: int, frames_per_s: float, seconds: float) -> tuple[int, float]:
        capture = self._network.directory / f"{frame_bytes}.pcap"
        if not capture.exists():
            frames = [frame(self._sender, self._receiver, frame_bytes, 10_000 + n) for n in range(FLOWS)]
            capture.write_bytes(pcap(frames, FRAMES))
        rate = FLAT_OUT if frames_per_s > FLAT_OUT else max(1, round(frames_per_s))
        words = [str(binary(PROGRAM)), "replay", str(capture), "--interface", "eth0"]
        words += ["--rate", str(rate), "--seconds", str(seconds)]
        command = self._network.inside(SENDER, *words)
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RunError(f"sending frames ended with exit code {ended.returncode}: {ended.stderr.strip()}")
        result = json.loads(ended.stdout)
        return int(result["frames"]), float(result["seconds"])
