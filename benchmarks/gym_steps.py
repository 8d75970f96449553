# SPDX-License-Identifier: Apache-2.0
"""Steps of an environment for each second of processor time: 10 ms steps, 100 Mbit/s, one flow, all of its processes.

Usage: .venv/bin/python benchmarks/gym_steps.py [STEPS]; prints a line of Markdown. A guest, and what drives it, use one
processor: on an idle machine that is steps per second of one environment, and processors run as many side by side.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from narrows.gym import CongestionControl, Links

LINKS = Links(rate_bps=(100e6, 100e6), rtt_s=(0.02, 0.02), buffer_bdp=(1.0, 1.0))
STEP_S, WARM_UP, FULL_BPS = 0.01, 50, 80e6
TICKS = os.sysconf("SC_CLK_TCK")


def processor_s() -> tuple[float, int]:
    """Processor time of this process and its descendants in seconds, and the memory of all in bytes (PSS)."""
    fields = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields[int(path.name)] = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    ours = {os.getpid()}
    while more := {pid for pid, one in fields.items() if int(one[1]) in ours} - ours:
        ours |= more
    memory = 0
    for pid in ours:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            memory += 1024 * next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return sum(int(fields[pid][11]) + int(fields[pid][12]) for pid in ours if pid in fields) / TICKS, memory


def main() -> None:
    """Measure, once the link is almost full."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    environment = CongestionControl(links=LINKS, step=STEP_S, episode_s=(steps + 2 * WARM_UP) * STEP_S)
    environment.reset(seed=1)
    carried_bps = 0.0
    for _ in range(WARM_UP):
        action = np.full(1, 0.2 if carried_bps < FULL_BPS else 0.0, np.float32)
        carried_bps = environment.step(action)[4]["agent"]["throughput_bps"]
    action = np.zeros(1, np.float32)
    began_s, _ = processor_s()
    for _ in range(steps):
        environment.step(action)
    ended_s, memory = processor_s()
    info = environment.step(action)[4]
    environment.close()
    rate = info["agent"]["throughput_bps"] / 1e6
    per_s = steps / (ended_s - began_s)
    print(f"| {steps} steps of {1000 * STEP_S:g} ms, {rate:.1f} Mbit/s | {per_s:.1f} steps/s | {memory >> 20} MiB |")


if __name__ == "__main__":
    main()
