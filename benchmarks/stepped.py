# SPDX-License-Identifier: Apache-2.0
"""How far a stepped Reno is from the kernel's: window, loss and throughput by rate and by step, in virtual time.

Usage: .venv/bin/python benchmarks/stepped.py [STEP...]; prints Markdown. A kernel's CCA reacts to each acknowledgement,
`narrows.controllers.Aimd` once a step, of so many round trips with a full queue. docs/controllers.md derives what to
expect.
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from narrows import api
from narrows.controllers import Aimd, drive

MSS, FRAME = 1448, 1514
# A burst of Linux: 64 KiB of payload at most, how long it waits at most (tcp_tso_should_defer), and how many segments
# one acknowledgement is for.
MOST_BURST, WAITS_S, ACKNOWLEDGED = 45, 0.001, 2


@dataclass(frozen=True)
class Link:
    """A link: its rate, the sender's, its RTT without queue, which the queue holds too, and how long a run lasts."""

    rate_bps: int
    sender_bps: int
    rtt_ms: int
    duration_s: int

    @property
    def burst(self) -> int:
        """How many segments the kernel sends at once."""
        acknowledgements = math.ceil(self.rate_bps * WAITS_S / 8 / FRAME / ACKNOWLEDGED)
        return min(acknowledgements * ACKNOWLEDGED, MOST_BURST)

    @property
    def segments(self) -> float:
        """What path and queue hold, and what the link serves while a burst arrives."""
        return 2 * self.rate_bps * self.rtt_ms / 1000 / 8 / FRAME + self.served

    @property
    def served(self) -> float:
        """What the link serves while a burst arrives, in segments."""
        return self.burst * self.rate_bps / self.sender_bps


LINKS = (
    Link(10_000_000, 1_000_000_000, 40, 60),
    Link(100_000_000, 1_000_000_000, 20, 40),
    Link(1_000_000_000, 10_000_000_000, 5, 25),
)


@dataclass(frozen=True)
class Values:
    """Mean window in segments, share of packets dropped, and use of the link, after slow start."""

    window: float
    loss: float
    used: float


def predicted(path: Link, step: float | None) -> tuple[Values, Values]:
    """What theory says, from the least to the most, of the kernel's Reno or of a step of so many round trips.

    docs/controllers.md derives it.
    """
    if step is None or step <= 1:
        most, rise, drops = path.segments + 2, 1.0, (1.0, 2.0) if step is None else (2.0, 3 + path.served)
    else:
        # The step in which the window exceeds what fits by 1 to `step`: so many are dropped in each of its round trips.
        most, rise, drops = path.segments + (step + 1) / 2, step, (step * (step + 1) / 2,) * 2
    windows = np.arange(most, most / 2, -rise)
    packets = float(rise * windows.sum())
    idle = path.burst**2 / 2 / packets
    window = float((windows**2).sum() / windows.sum())
    least, largest = (Values(window, dropped / packets, 1 - idle) for dropped in drops)
    return least, largest


def measured(path: Link, step: float | None, place: Path) -> Values:
    """One flow: the kernel's Reno, or `Aimd` with a step of so many RTTs with a full queue; 1: each smoothed RTT."""
    experiment = {
        "name": "stepped",
        "bottleneck": {"rate": f"{path.rate_bps}bit", "buffer": "1bdp", "rtt": f"{path.rtt_ms}ms"},
        "hosts": {"jitter": "0s"},
        "flows": [{"name": "one", "cca": "reno" if step is None else "external", "duration": f"{path.duration_s}s"}],
    }
    if step is None:
        run = api.run(experiment, virtual=True, out=place)
    else:
        with api.testbed(experiment, virtual=True, out=place) as bed:
            drive(bed, {"one-1": Aimd()}, None if step == 1 else step * 2 * path.rtt_ms / 1000)
        run = bed.result
    began_s = path.duration_s / 4
    sockets, queue = run.sockets, run.queue
    steady, later = sockets[sockets["time_s"] > began_s], queue[queue["time_s"] > began_s]
    dropped, passed = later["drops"].sum(), later["departures"].sum()
    used = (later["throughput_bps"] * later["interval_s"]).sum() / later["interval_s"].sum() / path.rate_bps
    return Values(float(steady["cwnd_bytes"].mean() / MSS), float(dropped / (dropped + passed)), float(used))


def main() -> None:
    """Print a table: the paths with a step of one round trip, and the first one with each of the steps."""
    steps = [float(word) for word in sys.argv[1:]] or [0.5, 2.0, 4.0]
    print("Each value: theory, measured.\n")
    print("| path | step, RTTs | mean window | dropped, 1e-6 | link used, % |")
    print("|---|---|---|---|---|")
    cases = [(LINKS[0], step) for step in (None, *sorted([*steps, 1.0]))]
    cases += [(path, step) for path in LINKS[1:] for step in (None, 1.0)]
    for path, step in cases:
        with tempfile.TemporaryDirectory(prefix="narrows-stepped-") as place:
            found, (least, most) = measured(path, step, Path(place) / "run"), predicted(path, step)
        losses = " to ".join(dict.fromkeys(f"{theory.loss * 1e6:.1f}" for theory in (least, most)))
        print(
            f"| {path.rate_bps // 10**6} Mbit/s, {path.rtt_ms} ms | {'kernel' if step is None else f'{step:g}'} "
            f"| {most.window:.1f}, {found.window:.1f} | {losses}, {found.loss * 1e6:.1f} "
            f"| {100 * most.used:.2f}, {100 * found.used:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
