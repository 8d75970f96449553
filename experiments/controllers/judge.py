# SPDX-License-Identifier: Apache-2.0
"""Compares a saved policy with the kernel's CUBIC on links that it has not seen, in virtual time.

Each is alone on its link. Prints Markdown: goodput, and the mean delay of the queue, as the switch measured it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from narrows import api
from narrows_analysis import RunData
from policy import HELD_OUT, Policy
from steer import steered


def measured(run: RunData) -> tuple[float, float]:
    """Goodput in Mbit/s, and mean queue delay in ms."""
    (group,) = run.summary["groups"]
    delay_s = run.summary["bottleneck"]["queue_delay_s"]["mean"]
    return group["goodput_bps"] / 1e6, 1e3 * delay_s


def main() -> None:
    """Print a row for each link, and the ratios over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=Path, help="what train.py or train_sb3.py saved")
    parser.add_argument("--duration", type=int, default=20, help="seconds")
    arguments = parser.parse_args()
    policy = Policy.load(arguments.policy)
    print("| link | CUBIC: Mbit/s, queue ms | policy: Mbit/s, queue ms |")
    print("|---|---|---|")
    ratios = []
    for link in HELD_OUT:
        experiment = {"name": "judge", "bottleneck": link}
        flow = {"name": "agent", "duration": f"{arguments.duration}s"}
        with tempfile.TemporaryDirectory(prefix="narrows-judge-") as place:
            out = Path(place)
            cubic = api.run({**experiment, "flows": [{**flow, "cca": "cubic"}]}, virtual=True, out=out / "cubic")
            learned = steered(policy, {**experiment, "flows": [{**flow, "cca": "external"}]}, True, out / "policy")
            values = np.array([measured(cubic), measured(learned)])
        ratios.append(values[1] / values[0])
        (kernels, own), name = values.tolist(), ", ".join(link.values())
        print(f"| {name} | {kernels[0]:.2f}, {kernels[1]:.1f} | {own[0]:.2f}, {own[1]:.1f} |", flush=True)
    mean, least, most = np.mean(ratios, axis=0), np.min(ratios, axis=0), np.max(ratios, axis=0)
    for number, what in enumerate(("goodput", "queue delay")):
        print(
            f"{what} of the policy by CUBIC's: mean {mean[number]:.2f}, from {least[number]:.2f} to {most[number]:.2f}"
        )


if __name__ == "__main__":
    main()
