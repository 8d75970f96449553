# SPDX-License-Identifier: Apache-2.0
"""What the same work costs as a whole command: Linux's TCP in a guest of Narrows, and ns-3's model of TCP.

ns-3 is built from source as its manual says for speed: ``-DCMAKE_BUILD_TYPE=release -DNS3_ASSERT=OFF -DNS3_LOG=OFF
-DNS3_NATIVE_OPTIMIZATIONS=ON``, installed with a prefix of its own, which NS3_PREFIX names here. Its wheel
(`pip install ns3`) has assertions and logs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Contestant, alternate, spent
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.hosts.links import run as call
from narrows.virtual.kernels import Kernel
from narrows_formats.link_names import ONLY_LINK
from results import Outcome, Table
from virtual import in_guests, made

TITLE = "Virtual time and ns-3"
SOURCE = Path(__file__).with_name("ns3_dumbbell.cc")
PREFIX = "NS3_PREFIX"
LIBRARIES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control", "stats", "bridge")
MODELS = {"cubic": "TcpCubic", "bbr": "TcpBbr"}
FLOWS, MTU = 2, 1500
# Utilizations may be so far apart for the work to be called the same.
SAME = 0.03


@dataclass(frozen=True)
class Load:
    """Two flows of a CCA through a bottleneck with a buffer of 1 BDP."""

    rate: str
    rtt: str
    seconds: int
    cca: str

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.rate}/s, {self.rtt}, {self.seconds} s, {self.cca}"

    def experiment(self) -> dict[str, Any]:
        """The experiment file."""
        return {
            "name": "ns3",
            "bottleneck": {"rate": self.rate, "buffer": "1bdp", "rtt": self.rtt},
            "mtu": MTU,
            "flows": [{"cca": self.cca, "count": FLOWS, "duration": f"{self.seconds}s"}],
        }


LOADS = tuple(
    Load(rate, rtt, seconds, cca)
    for rate, rtt, seconds in (("100Mbit", "40ms", 10), ("1Gbit", "10ms", 5))
    for cca in MODELS
)
# ns-3 takes minutes for each.
FAST = tuple(Load("10Gbit", "10ms", 2, cca) for cca in MODELS)


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load in a guest and in ns-3 in turn, at 100 Mbit/s and 1 Gbit/s."""
    return _compared(LOADS, runs)


@in_guests(TITLE)
def run_fast(runs: int, _: Kernel) -> Outcome:
    """The same at 10 Gbit/s."""
    return _compared(FAST, runs)


def _compared(loads: Sequence[Load], runs: int) -> Outcome:
    if PREFIX not in os.environ:
        return Outcome(TITLE, "Not run.", [], {}, [], [f"ns-3: {PREFIX} names no installed release build"])
    if shutil.which("c++") is None:
        return Outcome(TITLE, "Not run.", [], {}, [], ["ns-3: no C++ compiler 'c++' on PATH"])
    prefix = Path(os.environ[PREFIX])
    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as directory:
        program, version = _compile(prefix, Path(directory))
        contestants: dict[str, Contestant] = {}
        for load in loads:
            contestants[f"Narrows, {load.name}"] = partial(_in_a_guest, load)
            contestants[f"ns-3, {load.name}"] = partial(_simulate, program, load)
        series = alternate(contestants, runs)
    table = Table(("Load", "Who", "Processor, s", "Wall, s", "Processor over Narrows'", "Utilization", "Same work"))
    for load in loads:
        ours, theirs = (f"{who}, {load.name}" for who in ("Narrows", "ns-3"))
        used = [series.spread(name, "utilization").median for name in (ours, theirs)]
        same = "yes" if abs(used[0] - used[1]) <= SAME else "no"
        for who, name in (("Narrows", ours), ("ns-3", theirs)):
            processor, wall, utilization = series.texts(name, ("processor_s", "wall_s", "utilization"))
            ratio = "" if name == ours else series.ratio(theirs, ours, "processor_s").text()
            table.rows.append((load.name, who, processor, wall, ratio, utilization, "" if name == ours else same))
    conditions = (
        f"{FLOWS} flows of one CCA, a buffer of 1 BDP, whole commands. Narrows: `narrows run --virtual`, Linux's TCP "
        f"in a guest, a report on every packet, analysis and report.html. ns-3 {version}: release build from source "
        "for this processor, assertions and logs off; its own model of TCP with Linux's least RTO (200 ms), segments "
        "of 1,448 bytes, buffers of sockets of four times path and queue, senders on links of four times the rate; it "
        "stores nothing. The work is called the same where utilizations are within "
        f"{SAME:.0%} of the link's rate."
    )
    commands = ["narrows run FILE --virtual", "ns3_dumbbell RATE_BPS RTT_NS MTU CCA FLOWS SECONDS BUFFER_BYTES"]
    return Outcome(TITLE, conditions, [table], {**series.as_json(), "ns3": version}, commands)


def _in_a_guest(load: Load) -> dict[str, float]:
    with spent() as figures, made(load.experiment(), "--virtual") as out:
        summary = json.loads((out / "summary.json").read_text())
    packets = sum(flow["departures"] for flow in summary["flows"])
    return {**figures, "packets": packets, "utilization": summary["bottleneck"]["utilization"]}


def _compile(prefix: Path, directory: Path) -> tuple[Path, str]:
    """The scenario as a program, and ns-3's version.

    Raises:
        RunError: there is no ns-3, or the compiler refuses.
    """
    built = sorted((prefix / "lib").glob("libns3*.so"))
    found = {name: path for name in LIBRARIES for path in built if re.search(rf"-{name}(-optimized)?\.so", path.name)}
    if missing := [name for name in LIBRARIES if name not in found]:
        raise RunError(f"ns-3: no release build of '{missing[0]}' in {prefix / 'lib'}")
    version = re.match(r"libns([\d.]+)-", found["core"].name)
    program = directory / SOURCE.stem
    named = [f"-l:{path.name}" for path in found.values()]
    places = [f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}"]
    call(["c++", "-O3", "-std=c++23", *places, str(SOURCE), *named, "-o", str(program)])
    return program, version[1] if version else "of unknown version"


def _simulate(program: Path, load: Load) -> dict[str, float]:
    experiment = Experiment.model_validate(load.experiment())
    link = make_plan(experiment).bottleneck
    rtt = experiment.all_links[ONLY_LINK].rtt
    words = [link.rate_bps, rtt, MTU, MODELS[load.cca], FLOWS, load.seconds, link.limit_bytes]
    with spent() as figures:
        result = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True)
    if result.returncode != 0:
        raise RunError(f"ns-3: {result.stderr.strip() or f'exit code {result.returncode}'}")
    found = json.loads(result.stdout)
    return {**figures, **{name: found[name] for name in ("packets", "utilization", "drops")}}
