# SPDX-License-Identifier: Apache-2.0
"""``narrows calibrate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from narrows_formats.units import parse_rate

from narrows.cli.options import quantity
from narrows.errors import InputError
from narrows.targets.registry import DEFAULT_IN_A_LAB, IN_A_LAB, check_options, lab_target

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.switch.calibration import Findings

# A sender in Python fills the first with frames of 256 B.
RATES_BPS = (20_000_000, 100_000_000)


def calibrate(
    inventory: Annotated[Path | None, typer.Option(help="The testbed (YAML).", show_default=False)] = None,
    target: Annotated[
        str,
        typer.Option(
            help=f"Switch to measure: {', '.join(IN_A_LAB)}; the software switch, in a lab or here, for information."
        ),
    ] = DEFAULT_IN_A_LAB,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            help="Another rate to measure at, near the port's, as a queue exceeds its limit by more the faster it is. "
            "The first sender must send half as much again.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure a testbed's switch once: rate, depth, latency.

    Sends UDP from the first sender to the receiver for half a minute. A Tofino's result is written beside the
    inventory, as NAME.calibration.yaml, and every later run uses it; the software switch needs no correction.
    """
    import asyncio

    if target not in IN_A_LAB:
        raise InputError(f"--target {target}: cannot be calibrated; allowed: {', '.join(IN_A_LAB)}")
    check_options(target, None, inventory)
    rates = (*RATES_BPS, *(quantity("--rate", one, parse_rate) for one in rate or ()))

    from narrows.terminal import Terminal

    console = Terminal()
    found = asyncio.run(_measure(target, inventory, rates, console))
    _show(found, console)
    path = None if inventory is None else lab_target(target).keep_calibration(inventory, found)
    if path is not None:
        console.print(f"written: {path}", highlight=False, markup=False, soft_wrap=True)


async def _measure(target: str, inventory: Path | None, rates: Sequence[int], console: Console) -> Findings:
    import tempfile

    from narrows.run.calibration import measure
    from narrows.run.calibration_bench import host_bench
    from narrows.targets.registry import target_factory

    with tempfile.TemporaryDirectory(prefix="narrows-calibration-") as directory:
        make = target_factory(target, inventory=inventory, results=Path("calibration"))
        return await measure(
            lambda rate_bps: host_bench(make, rate_bps, Path(directory)),
            rates,
            lambda words: console.print(f"calibrate: {words}", highlight=False),
        )


def _show(found: Findings, console: Console) -> None:
    lines = [
        f"the shaper counts {found.shaper_bytes} B a packet beside the frame",
        *(
            f"rate {one.measured_bps / 1e6:.3f} Mbit/s, set to {one.set_bps / 1e6:.3f} "
            f"({one.measured_bps / one.set_bps - 1:+.3%})"
            for one in found.rates
        ),
        f"depth {found.limit} {found.depth_unit}, exceeded by {found.overshoot}",
        f"an empty queue takes {found.latency_ns} ns",
        *([] if found.rate_step_ns is None else [f"a new rate takes up to {found.rate_step_ns / 1e6:.3f} ms"]),
        f"drop counters that move with tail drops: {', '.join(found.moved) or 'none'}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
