# SPDX-License-Identifier: Apache-2.0
"""Compares a saved policy with the kernel's CUBIC on links that it has not seen, in virtual time.

Each is alone on its link, with several seeds. Prints Markdown: goodput, and the mean delay of the queue, as the switch
measured them; means over the seeds, and their standard deviations.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

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


def compared(policy: Policy, link: dict[str, str], duration_s: int, seeds: int) -> np.ndarray[Any, Any]:
    """Goodput and delay on a link, shape (2, seeds, 2): of CUBIC, and of the policy; by seed."""
    values = np.empty((2, seeds, 2))
    flow = {"name": "agent", "duration": f"{duration_s}s"}
    for number in range(seeds):
        experiment = {"name": "judge", "seed": number + 1, "bottleneck": link}
        with tempfile.TemporaryDirectory(prefix="narrows-judge-") as place:
            out = Path(place)
            cubic = api.run({**experiment, "flows": [{**flow, "cca": "cubic"}]}, virtual=True, out=out / "cubic")
            learned = steered(policy, {**experiment, "flows": [{**flow, "cca": "external"}]}, True, out / "policy")
            values[:, number] = measured(cubic), measured(learned)
    return values


def cell(values: np.ndarray[Any, Any]) -> str:
    """Goodput and delay of shape (seeds, 2) as text."""
    goodput, delay = values.mean(axis=0)
    if len(values) == 1:
        return f"{goodput:.2f}, {delay:.1f}"
    goodputs, delays = values.std(axis=0, ddof=1)
    return f"{goodput:.2f} ± {goodputs:.2f}, {delay:.1f} ± {delays:.1f}"


def main() -> None:
    """Print a row for each link, and the ratios over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=Path, help="what train.py or train_sb3.py saved")
    parser.add_argument("--duration", type=int, default=20, help="seconds")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each")
    parser.add_argument("--links", type=int, nargs="*", metavar="N", help="some of the links only, from 0")
    arguments = parser.parse_args()
    policy = Policy.load(arguments.policy)
    print("| link | CUBIC: Mbit/s, queue ms | policy: Mbit/s, queue ms | policy / CUBIC |")
    print("|---|---|---|---|")
    ratios = []
    for link in HELD_OUT if arguments.links is None else [HELD_OUT[number] for number in arguments.links]:
        kernels, own = compared(policy, link, arguments.duration, arguments.seeds)
        ratio = own.mean(axis=0) / kernels.mean(axis=0)
        ratios.append(ratio)
        print(
            f"| {', '.join(link.values())} | {cell(kernels)} | {cell(own)} | {ratio[0]:.2f}, {ratio[1]:.2f} |",
            flush=True,
        )
    mean, least, most = np.mean(ratios, axis=0), np.min(ratios, axis=0), np.max(ratios, axis=0)
    for number, what in enumerate(("goodput", "queue delay")):
        print(
            f"{what} of the policy by CUBIC's: mean {mean[number]:.2f}, from {least[number]:.2f} to {most[number]:.2f}"
        )


if __name__ == "__main__":
    main()
