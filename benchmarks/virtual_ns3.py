# SPDX-License-Identifier: Apache-2.0
"""What a second of virtual time costs in a guest, with Linux's TCP, and in ns-3, with its model of TCP."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.hosts.links import run as call
from narrows.virtual.kernels import Kernel
from narrows_formats.link_names import ONLY_LINK
from results import Outcome, Table
from virtual import RTT, Load, in_guests, measure

TITLE = "Virtual time and ns-3"
SOURCE = Path(__file__).with_name("ns3_dumbbell.cc")
PACKAGE = "ns3"
LIBRARIES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
# Not more: a second of 10 Gbit/s with 10 ms takes ns-3 more than three minutes.
LOADS = (
    Load("100 Mbit/s, 2 flows, 10 s", "100Mbit", "40ms", 1500, 2, 10),
    Load("1 Gbit/s, 2 flows, 2 s", "1Gbit", RTT, 1500, 2, 2),
)


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load in a guest and in ns-3 in turn."""
    package = _package()
    if package is None:
        return Outcome(TITLE, "Not run.", [], {}, [], ["ns-3: not installed; pip install ns3"])
    if shutil.which("c++") is None:
        return Outcome(TITLE, "Not run.", [], {}, [], ["ns-3: no C++ compiler 'c++' on PATH"])
    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as directory:
        program = _compile(package, Path(directory))
        contestants: dict[str, Contestant] = {}
        for load in LOADS:
            contestants[f"Narrows, {load.name}"] = partial(measure, load)
            contestants[f"ns-3, {load.name}"] = partial(_simulate, program, load)
        series = alternate(contestants, runs)
    table = Table(("Load", "Who", "Wall / virtual time", "Narrows is faster by", "us / packet", "Utilization"))
    for load in LOADS:
        ours = f"Narrows, {load.name}"
        for who in ("Narrows", "ns-3"):
            name = f"{who}, {load.name}"
            wall, packet, used = series.texts(name, ("wall_ratio", "us_a_packet", "utilization"))
            # Of costs the peer's comes first.
            table.rows.append((load.name, who, wall, series.ratio(name, ours, "wall_ratio").text(), packet, used))
    conditions = (
        "One BBR and one CUBIC flow, a buffer of 1 BDP, one core. Narrows is a guest with Linux's TCP, from boot to "
        "end, and a report on every packet. ns-3 has TCP of its own, models of what Linux does, senders on links of "
        "four times the rate, and reports nothing; its time is that of Simulator::Run. It is what `pip install ns3` "
        "gives, which has its assertions on, and a C++ program (-O2) on it."
    )
    commands = ["narrows run FILE --virtual", "ns3_dumbbell RATE_BPS RTT_NS MTU FLOWS SECONDS BUFFER_BYTES"]
    return Outcome(TITLE, conditions, [table], series.as_json(), commands)


def _package() -> Path | None:
    """Where pip has put ns-3; None if it has not."""
    found = importlib.util.find_spec(PACKAGE)
    places: Sequence[str] = () if found is None else found.submodule_search_locations or ()
    return next((Path(place) for place in places if (Path(place) / "include").is_dir()), None)


def _compile(package: Path, directory: Path) -> Path:
    """The scenario as a program.

    Raises:
        RunError: the compiler refuses.
    """
    program, libraries = directory / SOURCE.stem, package / "lib64"
    named = [f"-l:{path.name}" for name in LIBRARIES for path in libraries.glob(f"libns3.*-{name}.so")]
    options = ["-O2", "-std=c++20", f"-I{package / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    call(["c++", *options, str(SOURCE), *named, "-o", str(program)])
    return program


def _simulate(program: Path, load: Load) -> dict[str, float]:
    experiment = Experiment.model_validate(load.experiment())
    link = make_plan(experiment).bottleneck
    words = [link.rate_bps, experiment.all_links[ONLY_LINK].rtt, load.mtu, load.flows, load.seconds, link.limit_bytes]
    result = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True)
    if result.returncode != 0:
        raise RunError(f"ns-3: {result.stderr.strip() or f'exit code {result.returncode}'}")
    found = json.loads(result.stdout)
    return {
        "wall_ratio": found["wall_s"] / load.seconds,
        "us_a_packet": found["wall_s"] / found["packets"] * 1e6,
        "packets": found["packets"],
        "utilization": found["utilization"],
        "drops": found["drops"],
    }
