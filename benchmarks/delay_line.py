# SPDX-License-Identifier: Apache-2.0
"""How many packets a second the delay line beside a Tofino holds back without losing one."""

from __future__ import annotations

import asyncio
import struct
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import host
from measuring import alternate
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.base import SharedFiles, Testbed
from narrows.hosts.links import run as call
from narrows.hosts.process import Process, spawn
from narrows_tofino.delay_line import TofinoDelayLine
from replaying import FAR, NEAR, highest_held, inside, replay, veth_link
from results import Outcome, Table

FRAMES = 400_000
RTT_MS = 20
# Bytes of a frame without FCS: an acknowledgement with timestamps, and a full-size segment.
SIZES = {"acknowledgements, 66 B": 66, "segments, 1514 B": 1514}
RATES = (50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000, 500_000, 600_000, 800_000)
# What may still be on its way when the last frame was sent.
DRAIN_S = RTT_MS / 1000 + 0.5


class Machine(SharedFiles):
    """As much of a testbed as the delay line needs: it runs in one namespace."""

    def __init__(self, namespace: str, directory: Path) -> None:
        """``directory`` takes its socket and logs."""
        self._namespace = namespace
        self.state_dir = directory

    async def spawn(
        self, host: str, arguments: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        """See `narrows.hosts.base.Testbed.spawn`."""
        command = inside(self._namespace, *arguments)
        return await spawn(command, Path(arguments[0]).name, stdout=stdout, stderr=stderr)


def run(runs: int) -> Outcome:
    """Frames of both sizes in turn."""
    contestants = {name: partial(_measure, size) for name, size in SIZES.items()}
    series = alternate(contestants, runs)
    table = Table(("Frames", "Held back without a loss, packets/s"))
    for name in contestants:
        table.rows.append((name, series.spread(name, "held_per_s").text(1)))
    rates = ", ".join(f"{rate:,}" for rate in RATES)
    conditions = (
        f"{FRAMES:,} frames for one sender are sent over a veth link into a delay line of {RTT_MS} ms, at {rates} "
        "a second until some do not come back, or the delay line says it lost one; sender and delay line share all "
        "processors. Every frame passes the softswitch twice: into the waiting port and out of it."
    )
    commands = ["narrows-collector replay CAPTURE --interface near0 --rate R"]
    return Outcome("Delay line", conditions, [table], {"frames": FRAMES, **series.as_json()}, commands)


def _measure(size: int) -> dict[str, float]:
    plan = make_plan(
        Experiment.model_validate(
            {
                "name": "delay-line",
                "bottleneck": {"rate": "1Gbit", "buffer": "1MB", "rtt": f"{RTT_MS}ms"},
                "flows": [{"cca": "cubic", "duration": "1s"}],
            }
        )
    )
    with tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=host.scratch()) as name, veth_link("line") as space:
        capture = Path(name) / "capture.pcap"
        capture.write_bytes(_capture(plan.senders[0].mac, size))
        held = highest_held(RATES, lambda rate: asyncio.run(_attempt(space, Path(name), plan, capture, rate)))
    return {"held_per_s": held}


async def _attempt(namespace: str, directory: Path, plan: Plan, capture: Path, rate: int) -> tuple[dict[str, Any], int]:
    line = TofinoDelayLine()
    try:
        await line.start(cast(Testbed, Machine(namespace, directory)), FAR, plan)
        before = _received(namespace)
        sent = await asyncio.to_thread(replay, namespace, capture, rate)
        deadline = time.monotonic() + DRAIN_S
        while _received(namespace) - before < sent["frames"] and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        came_back = _received(namespace) - before
        return sent, 0 if await line.losses() else came_back
    finally:
        await line.stop()


def _received(namespace: str) -> int:
    return int(call(inside(namespace, "cat", f"/sys/class/net/{NEAR}/statistics/rx_packets")))


def _capture(mac: str, size: int) -> bytes:
    """A pcap file of equal frames for one address; no IP, as the delay line only looks at that."""
    frame = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("020000000099") + b"\x88\xb5"
    frame = frame.ljust(size, b"\0")
    header = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return header + (struct.pack("<IIII", 0, 0, size, size) + frame) * FRAMES
