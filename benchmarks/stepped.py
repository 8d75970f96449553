# SPDX-License-Identifier: Apache-2.0
"""How far a stepped Reno is from the kernel's: window, loss and throughput by rate and by step, in virtual time.

Usage: .venv/bin/python benchmarks/stepped.py [STEPS_RTT...]; prints Markdown. A kernel's CCA reacts to each
acknowledgement, `narrows.controllers.Aimd` once a step. docs/controllers.md says what theory lets one expect.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from narrows import api
from narrows.controllers import Aimd, drive

MSS, FRAME = 1448, 1514


@dataclass(frozen=True)
class Link:
    """A link: its rate, its RTT without queue, which the queue holds as well, and for how long it is measured."""

    rate_bps: int
    rtt_ms: int
    duration_s: int

    @property
    def segments(self) -> float:
        """What path and queue hold."""
        return 2 * self.rate_bps * self.rtt_ms / 1000 / 8 / FRAME


LINKS = (Link(10_000_000, 40, 60), Link(100_000_000, 20, 40), Link(1_000_000_000, 5, 15))


@dataclass(frozen=True)
class Found:
    """Mean window in segments, share of packets dropped, and use of the link, after slow start."""

    window: float
    loss: float
    used: float


def measured(path: Link, step_rtts: float | None, place: Path) -> Found:
    """One flow: the kernel's Reno, or `Aimd` with a step of so many RTTs without queue; 0: each smoothed RTT."""
    experiment = {
        "name": "stepped",
        "bottleneck": {"rate": f"{path.rate_bps}bit", "buffer": "1bdp", "rtt": f"{path.rtt_ms}ms"},
        "hosts": {"jitter": "0s"},
        "flows": [
            {"name": "one", "cca": "reno" if step_rtts is None else "external", "duration": f"{path.duration_s}s"}
        ],
    }
    if step_rtts is None:
        run = api.run(experiment, virtual=True, out=place)
    else:
        with api.testbed(experiment, virtual=True, out=place) as bed:
            drive(bed, {"one-1": Aimd()}, step_rtts * path.rtt_ms / 1000 if step_rtts else None)
        run = bed.result
    began_s = path.duration_s / 4
    sockets, queue = run.sockets, run.queue
    steady, later = sockets[sockets["time_s"] > began_s], queue[queue["time_s"] > began_s]
    dropped, passed = later["drops"].sum(), later["departures"].sum()
    used = (later["throughput_bps"] * later["interval_s"]).sum() / later["interval_s"].sum() / path.rate_bps
    return Found(float(steady["cwnd_bytes"].mean() / MSS), float(dropped / (dropped + passed)), float(used))


def main() -> None:
    """Print a table: the paths with a step each RTT, and the first one with each of the steps."""
    steps = [float(word) for word in sys.argv[1:]] or [0.5, 1.0, 2.0, 4.0]
    print("| path | step | mean window, segments (0.75 (C + B)) | dropped, 1e-6 | link used, % |")
    print("|---|---|---|---|---|")
    cases = [(path, step) for path in LINKS for step in (None, 0.0)] + [(LINKS[0], step) for step in steps]
    for path, step in cases:
        with tempfile.TemporaryDirectory(prefix="narrows-stepped-") as place:
            found = measured(path, step, Path(place) / "run")
        name = "kernel's Reno" if step is None else "smoothed RTT" if not step else f"{step:g} RTT"
        window = f"{found.window:.1f} ({0.75 * path.segments:.1f})"
        rates = f"{path.rate_bps // 10**6} Mbit/s, {path.rtt_ms} ms"
        print(f"| {rates} | {name} | {window} | {found.loss * 1e6:.1f} | {100 * found.used:.2f} |", flush=True)


if __name__ == "__main__":
    main()
