# SPDX-License-Identifier: Apache-2.0
"""What a second of virtual time costs, and whether the run measured what it was to."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import yaml
from measuring import Contestant, alternate, spent
from narrows.errors import InputError, RunError
from narrows.virtual import kernels
from narrows.virtual.kernels import Kernel
from results import Benchmark, Outcome, Table

TITLE = "Cost of virtual time"
RTT = "10ms"
LAST_LINES = 5


@dataclass(frozen=True)
class Load:
    """A bottleneck of 1 BDP and the flows through it: as many of BBR as of CUBIC. ``must`` is the most that is allowed
    of wall time over virtual time, ``joins`` that hosts' NICs join the segments of 20 us."""

    name: str
    rate: str
    rtt: str
    mtu: int
    flows: int
    seconds: int
    must: float = math.inf
    joins: bool = False

    def experiment(self) -> dict[str, Any]:
        """The experiment file."""
        groups = [{"cca": cca, "count": self.flows // 2, "duration": f"{self.seconds}s"} for cca in ("bbr", "cubic")]
        bottleneck = {"rate": self.rate, "buffer": "1bdp", "rtt": self.rtt}
        experiment = {"name": "virtual", "bottleneck": bottleneck, "mtu": self.mtu, "flows": groups}
        return {**experiment, "hosts": {"rx_usecs": 20, "offloads": ["lro"]}} if self.joins else experiment


LOADS = (
    # Next to no traffic: what is left is boot, imports, testbed, switch, and the end.
    Load("Fixed: boot to first packet, and end", "1Mbit", "40ms", 1500, 2, 1, 2),
    Load("100 Mbit/s, 2 flows (the demo)", "100Mbit", "40ms", 1500, 2, 20, 0.7),
    Load("1 Gbit/s, 2 flows", "1Gbit", RTT, 1500, 2, 5, 4),
    Load("10 Gbit/s, 2 flows", "10Gbit", RTT, 1500, 2, 2, 9),
    Load("10 Gbit/s, 2 flows, 9000 B", "10Gbit", RTT, 9000, 2, 2, 9),
    Load("100 Gbit/s, 4 flows", "100Gbit", "2ms", 1500, 4, 1, 60),
    Load("100 Gbit/s, 4 flows, 9000 B", "100Gbit", "2ms", 9000, 4, 1, 15),
    Load("10 Gbit/s, 2 flows, LRO", "10Gbit", RTT, 1500, 2, 2, 9, joins=True),
    Load("100 Gbit/s, 4 flows, LRO", "100Gbit", "2ms", 1500, 4, 1, 60, joins=True),
    Load("100 Gbit/s, 4 flows, 9000 B, LRO", "100Gbit", "2ms", 9000, 4, 1, 15, joins=True),
)


def in_guests(title: str) -> Callable[[Callable[[int, Kernel], Outcome]], Benchmark]:
    """Gives a benchmark the default kernel, and says that it was not run where that is not there."""

    def found(benchmark: Callable[[int, Kernel], Outcome]) -> Benchmark:
        @wraps(benchmark)
        def run(runs: int) -> Outcome:
            try:
                kernel = kernels.find(kernels.DEFAULT)
            except InputError as error:
                return Outcome(title, "Not run.", [], {}, [], [str(error)])
            return benchmark(runs, kernel)

        return run

    return found


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load in a guest on one core; what it took, and how full the link was."""
    contestants: dict[str, Contestant] = {load.name: partial(measure, load) for load in LOADS}
    series = alternate(contestants, runs)
    columns = ("Load", "Wall / virtual time", "Must", "Processor s / virtual s", "us / packet", "Utilization", "Lost")
    table = Table(columns)
    for load in LOADS:
        figures = ("wall_ratio", "cpu_ratio", "us_a_packet", "utilization", "reports_lost")
        wall, cpu, packet, used, lost = series.texts(load.name, figures)
        table.rows.append((load.name, wall, f"{load.must:g}", cpu, packet, used, lost))
    conditions = (
        "`narrows run --virtual`, a buffer of 1 BDP, a report on every packet, the guest on one core. Wall time is "
        "that of the guest, from its boot to its end; processor time is that of the whole command, with analysis and "
        "report; both over the seconds in which traffic flowed. A packet is one that left the bottleneck. The first "
        "line is a second of 1 Mbit/s: seconds that every run takes. LRO: `hosts: {rx_usecs: 20, offloads: [lro]}`."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), ["narrows run FILE --virtual"])


def measure(load: Load, *options: str) -> dict[str, float]:
    """One run, with these options as well.

    Raises:
        RunError: it failed.
    """
    with spent() as command, made(load.experiment(), "--virtual", *options) as out:
        record = json.loads((out / "run.json").read_text())
        summary = json.loads((out / "summary.json").read_text())
    packets = sum(flow["departures"] for flow in summary["flows"])
    wall_s = record["virtual_time"]["wall_s"]
    return {
        "wall_ratio": wall_s / load.seconds,
        "cpu_ratio": command["processor_s"] / load.seconds,
        "us_a_packet": wall_s / packets * 1e6,
        "packets": packets,
        "utilization": summary["bottleneck"]["utilization"],
        "drops_percent": 100 * summary["bottleneck"]["loss_ratio"],
        "reports_lost": summary["telemetry"]["lost"],
    }


@contextmanager
def made(experiment: dict[str, Any], *options: str) -> Iterator[Path]:
    """`narrows run` with these options; its results are there until the context ends.

    Raises:
        RunError: it failed.
    """
    with tempfile.TemporaryDirectory() as directory:
        file, out = Path(directory) / "experiment.yaml", Path(directory) / "out"
        file.write_text(yaml.safe_dump(experiment), encoding="utf-8")
        program = Path(sys.executable).with_name("narrows")
        _call([str(program), "run", str(file), "--out", str(out), *options])
        yield out


def _call(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines()[-LAST_LINES:]
        raise RunError(f"'{' '.join(command)}' failed: " + "\n".join(lines))
