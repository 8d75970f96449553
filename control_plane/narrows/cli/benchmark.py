# SPDX-License-Identifier: Apache-2.0
"""``narrows benchmark``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.run.benchmark import Findings

MICROSECOND_NS = 1000
# The load average of the last minute on a machine that nothing else uses.
BUSY = 0.5


def benchmark(
    seconds: Annotated[
        float, typer.Option(min=0.5, max=60.0, help="Length of a trial; RFC 2544 has 60, and takes two hours then.")
    ] = 2.0,
    size: Annotated[
        list[int] | None,
        typer.Option(
            min=64,
            max=1518,
            help="Frame size in bytes, FCS included; may be given several times.",
            show_default="those of RFC 2544",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The results as JSON, in base units.")] = False,
) -> None:
    """Measure how fast this machine's softswitch forwards.

    Loss-free rate by frame size (RFC 2544), latencies there, and the processors that rates need, with a report of every
    frame, between two network namespaces. Five minutes; nothing else should run meanwhile.
    """
    import asyncio
    import os

    from narrows.cli.machine_readable import print_json
    from narrows.hosts import machine
    from narrows.run.benchmark import FRAME_BYTES
    from narrows.terminal import Terminal

    console = Terminal(stderr=as_json)
    load = os.getloadavg()[0]
    if load > BUSY:
        words = f"note: other work keeps {load:.1f} processors busy, and affects the results"
        console.print(words, style="yellow", highlight=False)
    if lacks := _missing():
        raise InputError("\n".join(lacks))
    found = asyncio.run(_measure(seconds, tuple(size or FRAME_BYTES), console))
    if as_json:
        print_json({"machine": machine.describe(), "load_before": load, "trial_s": seconds, **found.as_json()})
    else:
        _show(found, console, machine.describe())


def _missing() -> list[str]:
    from narrows_formats.programs import COLLECTOR, find_binary, missing_binary

    from narrows.hosts import machine
    from narrows.targets.soft.softswitch import missing_parts

    collector = [] if find_binary(COLLECTOR) else [missing_binary(COLLECTOR)]
    return [*machine.missing_permissions(), *machine.missing_tools(), *missing_parts(), *collector]


async def _measure(seconds: float, sizes: tuple[int, ...], console: Console) -> Findings:
    import tempfile
    from pathlib import Path

    from narrows.run.benchmark import measure
    from narrows.run.benchmark_bench import soft_bench

    with tempfile.TemporaryDirectory(prefix="narrows-benchmark-") as directory:
        async with soft_bench(Path(directory)) as bench:
            return await measure(bench, lambda words: console.print(words, highlight=False), seconds, sizes)


def _show(found: Findings, console: Console, machine: Mapping[str, object]) -> None:
    from rich.table import Table

    table = Table(title=f"{machine['cpus']} x {machine['cpu']}, Linux {machine['kernel']}", title_justify="left")
    percents = list(next((one.latency_ns for one in found.throughput if one.latency_ns), {}))
    for name in ("frame\nB", "without a loss\nframes/s", "\nGbit/s", *(f"{name}\nus" for name in percents)):
        table.add_column(name, justify="right")
    for one in found.throughput:
        least = ">= " if one.limited_by_sender else ""
        times = [f"{one.latency_ns[name] / MICROSECOND_NS:.1f}" if one.latency_ns else "-" for name in percents]
        table.add_row(str(one.frame_bytes), f"{least}{one.frames_per_s:,.0f}", f"{one.bps / 1e9:.3f}", *times)
    console.print(table)
    for cost in found.costs:
        rate = f"{cost.bps / 1e9:g} Gbit/s of full-size frames"
        needs = "not without a loss" if cost.processors is None else f"{cost.processors:.2f} processors"
        console.print(f"{rate}: {needs}", highlight=False)
