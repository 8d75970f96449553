# SPDX-License-Identifier: Apache-2.0
"""Packets a second of users' P4 programs: on the softswitch and on BMv2, which get the same entries and frames."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from finsy.proto import p4r
from loss_free import Bench
from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.run.benchmark import FCS_BYTES, throughput
from narrows.run.benchmark_bench import UNUSED
from narrows.switch.own_entries import read_entries, read_p4info
from narrows.targets.bmv2 import simple_switch
from network import Network, mac
from results import Outcome, Table
from switches import bmv2_with, softswitch_with

PROGRAMS = Path(__file__).parents[1] / "experiments" / "own-program" / "compiled"
SECONDS = 1.0
FRAME_BYTES = 64
SOFTSWITCH, BMV2 = "softswitch", "BMv2"
RATE, COST = "frames_per_s", "processor_us"
# The control whose table `routes` has the way of the frames, and what else there is to enter: by table, its key, and
# the action of packets that leave by port 2.
ENTERED: dict[str, tuple[str, dict[str, tuple[str, str, dict[str, int]]]]] = {
    "interval_aqm": (
        "AqmIngress",
        {
            "AqmEgress.managed_ports": (
                "standard.egress_port",
                "AqmEgress.manage",
                {"target_us": 5000, "interval_us": 50_000},
            )
        },
    ),
    "heavy_hitter": (
        "HitterIngress",
        {
            "HitterIngress.watched_ports": (
                "standard.egress_spec",
                "HitterIngress.detect",
                {"threshold_bytes": 1_000_000_000, "interval_log_us": 16},
            )
        },
    ),
    "link_monitor": ("MonitorIngress", {}),
    "port_classes": ("ClassIngress", {}),
    "queue_inspection": ("InspectionIngress", {}),
}
Switch = Callable[[Network, tuple[Path, Path], Sequence[p4r.Update]], AbstractContextManager[int]]


def run(runs: int) -> Outcome:
    """Every program on each switch in turn."""
    switches: dict[str, Switch] = {SOFTSWITCH: softswitch_with}
    if (lacks := simple_switch.missing()) is None:
        switches[BMV2] = bmv2_with
    contestants: dict[str, Contestant] = {
        f"{program} on {name}": functools.partial(_held, program, switch)
        for program in ENTERED
        for name, switch in switches.items()
    }
    series = alternate(contestants, runs)
    tables = []
    for figure, what in ((RATE, "Frames a second without a loss"), (COST, "Processor time of a frame there, us")):
        table = Table(("Program", *switches, "ratio"), caption=what)
        for program in ENTERED:
            figures = [series.texts(f"{program} on {name}", [figure])[0] for name in switches]
            both = f"{program} on {SOFTSWITCH}", f"{program} on {BMV2}"
            ratio = series.ratio(*both, figure).text() if BMV2 in switches else "-"
            table.rows.append((f"`{program}`", *figures, ratio))
        tables.append(table)
    conditions = (
        f"The programs of experiments/own-program. UDP in frames of {FRAME_BYTES} B (FCS included) from one network "
        f"namespace to another, the highest rate without a loss (RFC 2544), in trials of {SECONDS:g} s, by halving "
        "between one that was held and one that was not. No queue has a rate, nothing is reported. Sender, receiver "
        "and switch share all processors of the machine; the time is that of the switch's process."
    )
    skipped = [] if lacks is None else [f"{BMV2}: {lacks}"]
    return Outcome("Users' programs", conditions, tables, {"seconds": SECONDS, **series.as_json()}, [], skipped)


def _held(program: str, switch: Switch) -> dict[str, float]:
    files = PROGRAMS / f"{program}.json", PROGRAMS / f"{program}.p4info.txtpb"
    with Network() as network, switch(network, files, _updates(program, files[1], network.directory)) as pid:
        bench = Bench(network, reports=False)
        found = asyncio.run(throughput(bench, FRAME_BYTES, SECONDS))
        if not found.latency_ns:
            raise RunError(f"{program} loses frames at any rate")
        before_s = _processor_s(pid)
        trial = asyncio.run(bench.trial(FRAME_BYTES - FCS_BYTES, found.frames_per_s, SECONDS))
        return {RATE: found.frames_per_s, COST: (_processor_s(pid) - before_s) / trial.sent * 1e6}


def _processor_s(pid: int) -> float:
    """What a process has used, of the processors, in seconds (proc_pid_stat(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _updates(program: str, p4info: Path, directory: Path) -> list[p4r.Update]:
    """Its entries, in the form of the P4 tutorials."""
    control, others = ENTERED[program]
    entries = [
        {
            "table": f"{control}.routes",
            "match": {"hdr.ipv4.dst": [str(UNUSED), 32]},
            "action_name": f"{control}.forward",
            "action_params": {"next_hop": mac(2), "port": 2},
        }
    ]
    entries += [
        {"table": table, "match": {key: 2}, "action_name": action, "action_params": given}
        for table, (key, action, given) in others.items()
    ]
    file = directory / "entries.json"
    file.write_text(json.dumps({"table_entries": entries}))
    return list(read_entries(file, read_p4info(p4info)).updates)
