# SPDX-License-Identifier: Apache-2.0
"""Instructions of a packet through the pipeline and its queues: what other work on the machine does not change."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import host
import pipeline
import pipeline_laws
from narrows.errors import RunError
from narrows.paths import binary
from narrows_formats.programs import SOFTSWITCH
from results import DIRECTORY, Outcome, Table, with_programs

TITLE = "Instructions of a packet"
# Starts cost the same but for some hundred thousand instructions (hash tables differ): the rest is the packets'.
FEW, MANY = 4_000, 104_000
SHAPES = (pipeline.BASE, (64, 1_000, 1514), (1, 60_000, 1514))
COLLECTED = re.compile(r"Collected : (\d+)")
COUNT = "instructions_per_packet"


@with_programs(TITLE, "valgrind")
def run(_runs: int) -> Outcome:
    """Count each case once: two counts of a case have differed by up to 0.7 %."""
    with host.large_pages() as (directory, _memory):
        few, many = (_configs(directory, packets) for packets in (FEW, MANY))
        counted = {case: _per_packet(few[case], many[case]) for case in few}
    base, before, recorded = pipeline.name_of(pipeline.BASE), *_recorded()
    rows: list[tuple[str, ...]] = [
        (
            case,
            f"{count:,.0f}",
            f"{count / counted[base]:.3f}",
            f"{before[case]:,.0f}" if case in before else "",
        )
        for case, count in counted.items()
    ]
    table = Table(
        ("Bottlenecks, flows, frame; or the first row with", "Instructions", "Over the first row", "Recorded before"),
        rows,
    )
    return Outcome(
        TITLE,
        f"`narrows-softswitch replay` of {MANY:,} packets less that of {FEW:,}, with a report for every packet into "
        "another capture, as callgrind counts all instructions of the process outside the kernel. Compilers differ: "
        f"compare builds by one of them. 'Recorded before' is from {recorded}.",
        [table],
        {COUNT: counted},
        [" ".join(_command(Path("CONFIG"), Path("OUT"), SOFTSWITCH))],
    )


def _configs(directory: Path, packets: int) -> dict[str, Path]:
    """The configuration of each case, for so many packets."""
    place = directory / str(packets)
    place.mkdir()
    configs = {pipeline.name_of(shape): pipeline.prepare(place, shape, packets) for shape in SHAPES}
    base = configs[pipeline.name_of(pipeline.BASE)]
    configs["another rate every millisecond"] = pipeline.scheduled(base)
    return configs | {kind: pipeline_laws.managed(base, kind) for kind in pipeline_laws.KINDS}


def _command(config: Path, out: Path, program: str) -> list[str]:
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    return [*counting, program, "replay", "--config", str(config), "--out", str(out)]


def _per_packet(few: Path, many: Path) -> float:
    return (_collected(many) - _collected(few)) / (MANY - FEW)


def _collected(config: Path) -> int:
    command = _command(config, config.parent / "out", str(binary(SOFTSWITCH)))
    counted = subprocess.run(command, capture_output=True, text=True)
    found = COLLECTED.search(counted.stderr)
    if counted.returncode or not found:
        raise RunError(f"{' '.join(command)}: {counted.stderr.strip()[-300:]}")
    return int(found[1])


def _recorded() -> tuple[dict[str, float], str]:
    """What the latest results of this benchmark say, and their name."""
    latest = max(DIRECTORY.glob("*-instructions.json"), default=None)
    if latest is None:
        return {}, "nothing: these are the first results"
    document: dict[str, Any] = json.loads(latest.read_text())
    return document["benchmarks"]["instructions"][COUNT], latest.name
