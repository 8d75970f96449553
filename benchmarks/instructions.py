# SPDX-License-Identifier: Apache-2.0
"""Instructions of a packet through the pipeline and its queues, and of a report through the collector.

What else the machine does does not change them; another compiler does.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import host
import pipeline
import pipeline_aqms
from narrows.errors import RunError
from narrows.hosts.links import run as call
from narrows.paths import binary
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from results import DIRECTORY, Outcome, Table, with_programs

TITLE = "Instructions of a packet and of a report"
# Starts cost the same but for some hundred thousand instructions (hash tables differ): the rest is the packets'.
FEW, MANY = 4_000, 104_000
SHAPES = (pipeline.BASE, (64, 1_000, 1514), (1, 60_000, 1514))
COLLECTED = re.compile(r"Collected : (\d+)")
COUNT = "instructions_per_packet"
BASE = pipeline.name_of(pipeline.BASE)
STORED, SUMMED = "a report, into Parquet", "a report, into every table"
# What a case is made of, given a directory and how many packets.
Case = Callable[[Path, int], list[str]]


@with_programs(TITLE, "valgrind")
def run(_runs: int) -> Outcome:
    """Count each case once: two counts of a case have differed by up to 0.7 %."""
    counted = {name: per_packet(case) for name, case in CASES.items()}
    before, source = recorded()
    rows: list[tuple[str, ...]] = [
        (name, f"{count:,.0f}", f"{count / counted[BASE]:.3f}", f"{before[name]:,.0f}" if name in before else "")
        for name, count in counted.items()
    ]
    table = Table(
        (
            "Bottlenecks, flows, frame; or the first row with; or",
            "Instructions",
            "Over the first row",
            "Recorded before",
        ),
        rows,
    )
    return Outcome(
        TITLE,
        f"`narrows-softswitch replay` of {MANY:,} packets less that of {FEW:,}, with a report for every packet into "
        "another capture; `narrows-collector convert` and `aggregate` of as many reports. As callgrind counts all "
        "instructions of the process outside the kernel. Compilers differ: compare builds by one of them. 'Recorded "
        f"before' is from {source['name']}.",
        [table],
        {COUNT: counted, "compiler": compiler()},
        ["narrows-softswitch replay --config CONFIG --out OUT", "narrows-collector convert CAPTURE --out OUT"],
    )


def per_packet(case: Case) -> float:
    """Instructions that one more packet costs."""
    with host.large_pages() as (directory, _memory):
        return (_instructions(case(directory, MANY)) - _instructions(case(directory, FEW))) / (MANY - FEW)


def recorded() -> tuple[dict[str, float], dict[str, Any]]:
    """What the latest results of this benchmark say, with their name and their compiler."""
    latest = max(DIRECTORY.glob("*-instructions.json"), default=None)
    if latest is None:
        return {}, {"name": "nothing: these are the first results", "compiler": None}
    document: dict[str, Any] = json.loads(latest.read_text())
    found = document["benchmarks"]["instructions"]
    return found[COUNT], {"name": latest.name, "compiler": found.get("compiler")}


def compiler() -> str:
    """The compiler of what is counted."""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _replayed(change: Callable[[Path], Path], shape: pipeline.Shape, directory: Path, packets: int) -> list[str]:
    place = directory / str(packets)
    place.mkdir()
    config = change(pipeline.prepare(place, shape, packets))
    return [str(binary(SOFTSWITCH)), "replay", "--config", str(config), "--out", str(place / "out")]


def _collected(command: str, directory: Path, packets: int) -> list[str]:
    capture, collector = directory / f"{packets}.pcap", str(binary(COLLECTOR))
    call([collector, "generate", "--reports", str(packets), str(capture)])
    return [collector, command, str(capture), "--out", str(directory / f"{command}-{packets}")]


def _same(config: Path) -> Path:
    return config


CASES: dict[str, Case] = {
    **{pipeline.name_of(shape): partial(_replayed, _same, shape) for shape in SHAPES},
    "another rate every millisecond": partial(_replayed, pipeline.scheduled, pipeline.BASE),
    **{
        kind: partial(_replayed, partial(pipeline_aqms.managed, kind=kind), pipeline.BASE)
        for kind in pipeline_aqms.KINDS
    },
    STORED: partial(_collected, "convert"),
    SUMMED: partial(_collected, "aggregate"),
}


def _instructions(command: list[str]) -> int:
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    counted = subprocess.run(counting, capture_output=True, text=True)
    found = COLLECTED.search(counted.stderr)
    if counted.returncode or not found:
        raise RunError(f"{' '.join(command)}: {counted.stderr.strip()[-300:]}")
    return int(found[1])
