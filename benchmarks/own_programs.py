# SPDX-License-Identifier: Apache-2.0
"""Packets a second of users' P4 programs: on the softswitch and on BMv2, which get the same entries and frames."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from finsy.proto import p4r
from loss_free import Bench
from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.experiment.p4_compiler import COMPILER, compiled
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
TUTORIALS_VARIABLE = "NARROWS_TUTORIALS"
SOFTSWITCH, BMV2 = "softswitch", "BMv2"
RATE, COST = "frames_per_s", "processor_us"


Others = Mapping[str, tuple[str, str, Mapping[str, int]]]


@dataclass(frozen=True)
class Entered:
    """The entries of a program: a route in ``table``, whose action has the address of the next hop and the port.

    ``others`` are those of other tables: by table, its key, and the action of packets that leave by port 2.
    """

    table: str
    key: str
    action: str
    next_hop: str
    others: Others = field(default_factory=dict)


def _routing(control: str, others: Others | None = None) -> Entered:
    return Entered(f"{control}.routes", "hdr.ipv4.dst", f"{control}.forward", "next_hop", others or {})


OURS = {
    "interval_aqm": _routing(
        "AqmIngress",
        {
            "AqmEgress.managed_ports": (
                "standard.egress_port",
                "AqmEgress.manage",
                {"target_us": 5000, "interval_us": 50_000},
            )
        },
    ),
    "heavy_hitter": _routing(
        "HitterIngress",
        {
            "HitterIngress.watched_ports": (
                "standard.egress_spec",
                "HitterIngress.detect",
                {"threshold_bytes": 1_000_000_000, "interval_log_us": 16},
            )
        },
    ),
    "link_monitor": _routing("MonitorIngress"),
    "port_classes": _routing("ClassIngress"),
    "queue_inspection": _routing("InspectionIngress"),
    "threshold_marking": _routing(
        "MarkIngress",
        {"MarkEgress.marking_ports": ("standard.egress_port", "MarkEgress.mark_from", {"packets": 20})},
    ),
}
# Of p4lang/tutorials, those solutions that forward by IPv4; NARROWS_TUTORIALS names a checkout.
TUTORIALS = ("basic", "ecn", "mri", "qos")
THEIRS = Entered("MyIngress.ipv4_lpm", "hdr.ipv4.dstAddr", "MyIngress.ipv4_forward", "dstAddr")
Program = tuple[Path, Path, Entered]
Switch = Callable[[Network, tuple[Path, Path], Sequence[p4r.Update]], AbstractContextManager[int]]


def run(runs: int) -> Outcome:
    """Every program on each switch in turn."""
    programs = {name: (*_files(PROGRAMS, name), entered) for name, entered in OURS.items()}
    lacks = _tutorials_missing()
    for name in TUTORIALS if lacks is None else ():
        source = Path(os.environ[TUTORIALS_VARIABLE]) / "exercises" / name / "solution" / f"{name}.p4"
        programs[f"tutorials: {name}"] = (*compiled(source, "own-programs"), THEIRS)
    return _compared(runs, programs, [] if lacks is None else [f"p4lang/tutorials: {lacks}"])


def _compared(runs: int, programs: Mapping[str, Program], left_out: list[str]) -> Outcome:
    switches: dict[str, Switch] = {SOFTSWITCH: softswitch_with}
    if (lacks := simple_switch.missing()) is None:
        switches[BMV2] = bmv2_with
    contestants: dict[str, Contestant] = {
        f"{program} on {name}": functools.partial(_held, files, switch)
        for program, files in programs.items()
        for name, switch in switches.items()
    }
    series = alternate(contestants, runs)
    tables = []
    for figure, what in ((RATE, "Frames a second without a loss"), (COST, "Processor time of a frame there, us")):
        table = Table(("Program", *switches, "ratio"), caption=what)
        for program in programs:
            figures = [series.texts(f"{program} on {name}", [figure])[0] for name in switches]
            both = f"{program} on {SOFTSWITCH}", f"{program} on {BMV2}"
            ratio = series.ratio(*both, figure).text() if BMV2 in switches else "-"
            table.rows.append((f"`{program}`", *figures, ratio))
        tables.append(table)
    conditions = (
        "The programs of experiments/own-program, and solutions of p4lang/tutorials, compiled by this machine's p4c. "
        f"UDP in frames of {FRAME_BYTES} B (FCS included) from one network "
        f"namespace to another, the highest rate without a loss (RFC 2544), in trials of {SECONDS:g} s, by halving "
        "between one that was held and one that was not. No queue has a rate, nothing is reported. Sender, receiver "
        "and switch share all processors of the machine; the time is that of the switch's process."
    )
    skipped = left_out if lacks is None else [*left_out, f"{BMV2}: {lacks}"]
    return Outcome("Users' programs", conditions, tables, {"seconds": SECONDS, **series.as_json()}, [], skipped)


def _files(place: Path, name: str) -> tuple[Path, Path]:
    return place / f"{name}.json", place / f"{name}.p4info.txtpb"


def _tutorials_missing() -> str | None:
    """What keeps the tutorials from being tried; None if nothing does."""
    if shutil.which(COMPILER) is None:
        return f"no {COMPILER} on PATH"
    return None if TUTORIALS_VARIABLE in os.environ else f"no checkout that {TUTORIALS_VARIABLE} names"


def _held(program: Program, switch: Switch) -> dict[str, float]:
    files = program[:2]
    with Network() as network, switch(network, files, _updates(program, network.directory)) as pid:
        bench = Bench(network, reports=False)
        found = asyncio.run(throughput(bench, FRAME_BYTES, SECONDS))
        if not found.latency_ns:
            raise RunError(f"{files[0].stem} loses frames at any rate")
        before_s = _processor_s(pid)
        trial = asyncio.run(bench.trial(FRAME_BYTES - FCS_BYTES, found.frames_per_s, SECONDS))
        return {RATE: found.frames_per_s, COST: (_processor_s(pid) - before_s) / trial.sent * 1e6}


def _processor_s(pid: int) -> float:
    """What a process has used, of the processors, in seconds (proc_pid_stat(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _updates(program: Program, directory: Path) -> list[p4r.Update]:
    """Its entries, in the form of the P4 tutorials."""
    _, p4info, entered = program
    entries = [
        {
            "table": entered.table,
            "match": {entered.key: [str(UNUSED), 32]},
            "action_name": entered.action,
            "action_params": {entered.next_hop: mac(2), "port": 2},
        }
    ]
    entries += [
        {"table": table, "match": {key: 2}, "action_name": action, "action_params": dict(given)}
        for table, (key, action, given) in entered.others.items()
    ]
    file = directory / "entries.json"
    file.write_text(json.dumps({"table_entries": entries}))
    return list(read_entries(file, read_p4info(p4info)).updates)
