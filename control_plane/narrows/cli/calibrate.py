# SPDX-License-Identifier: Apache-2.0
"""``narrows calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.errors import InputError
from narrows.targets.registry import TOFINO, check_options

if TYPE_CHECKING:
    from narrows_tofino.testbed.calibration import Calibration
    from rich.console import Console

    from narrows.run.calibration import Findings
    from narrows.targets.base import Target

SOFT = "soft"
# A sender in Python fills the first with frames of 256 B.
RATES_BPS = (20_000_000, 100_000_000)


def calibrate(
    inventory: Annotated[Path | None, typer.Option(help="The testbed (YAML).", show_default=False)] = None,
    target: Annotated[
        str, typer.Option(help=f"{TOFINO}, or {SOFT}: the software switch, in a lab or here, for information.")
    ] = TOFINO,
) -> None:
    """Measure a testbed's switch once: rate, depth, latency.

    Sends UDP from the first sender to the receiver for half a minute. A Tofino's result is written beside the
    inventory, as NAME.calibration.yaml, and every later run uses it; the software switch needs no correction.
    """
    import asyncio

    if target not in (TOFINO, SOFT):
        raise InputError(f"--target {target}: cannot be calibrated; allowed: {TOFINO}, {SOFT}")
    check_options(target, None, inventory)
    from rich.console import Console

    console = Console()
    found, calibration = asyncio.run(_measure(target, inventory, console))
    _show(found, console, "cells" if calibration is not None else "B")
    if calibration is not None and inventory is not None:
        from narrows_tofino.testbed.calibration import calibration_path

        path = calibration_path(inventory)
        calibration.write(path)
        console.print(f"written: {path}", highlight=False, markup=False, soft_wrap=True)


async def _measure(target: str, inventory: Path | None, console: Console) -> tuple[Findings, Calibration | None]:
    import tempfile
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager
    from datetime import UTC, datetime

    from narrows.run.calibration import Bench, measure
    from narrows.run.calibration_bench import host_bench
    from narrows.targets.registry import target_factory

    device: tuple[str, int] | None = None
    with tempfile.TemporaryDirectory(prefix="narrows-calibration-") as directory:
        make = target_factory(target, inventory=inventory, results=Path("calibration"))

        @asynccontextmanager
        async def bench(rate_bps: int) -> AsyncIterator[Bench]:
            nonlocal device
            async with host_bench(make, rate_bps, Path(directory)) as (one, switch):
                device = device or await _device(switch)
                yield one

        found = await measure(bench, RATES_BPS, lambda words: console.print(f"calibrate: {words}", highlight=False))
    if target != TOFINO or inventory is None or device is None:
        return found, None
    from narrows_tofino.testbed.calibration import Calibration, RateStep
    from narrows_tofino.testbed.inventory import load_inventory

    switch = load_inventory(inventory).switch
    steps = tuple(RateStep(set_bps=round(one.set_bps), measured_bps=round(one.measured_bps)) for one in found.rates)
    return found, Calibration(
        date=datetime.now(UTC).date().isoformat(),
        chip=switch.chip,
        sku=device[0],
        pipes=device[1],
        driver=switch.sde,
        shaper_bytes=found.shaper_bytes,
        overshoot_cells=found.overshoot,
        latency_ns=found.latency_ns,
        tail_drop_counters=found.moved,
        rate_step_ns=found.rate_step_ns,
        rates=steps,
    )


async def _device(target: Target) -> tuple[str, int] | None:
    from narrows_tofino.target import TofinoTarget

    return await target.device() if isinstance(target, TofinoTarget) else None


def _show(found: Findings, console: Console, unit: str) -> None:
    lines = [
        f"the shaper counts {found.shaper_bytes} B a packet beside the frame",
        *(
            f"rate {one.measured_bps / 1e6:.3f} Mbit/s, set to {one.set_bps / 1e6:.3f} "
            f"({one.measured_bps / one.set_bps - 1:+.3%})"
            for one in found.rates
        ),
        f"depth {found.limit} {unit}, exceeded by {found.overshoot}",
        f"an empty queue takes {found.latency_ns} ns",
        *([] if found.rate_step_ns is None else [f"a new rate takes up to {found.rate_step_ns / 1e6:.3f} ms"]),
        f"drop counters that move with tail drops: {', '.join(found.moved) or 'none'}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
