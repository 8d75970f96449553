# SPDX-License-Identifier: Apache-2.0
"""Trains a congestion control by the cross-entropy method, and compares it with CUBIC on links that it has not seen.

A policy is linear: a weight for each number of Orca's observation, and one more; its action is tanh of that. Needs
narrows[gym]. docs/tutorials/train-a-controller.md explains it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from os import sched_getaffinity
from pathlib import Path

import numpy as np
import numpy.typing as npt
from narrows import api
from narrows.gym import CongestionControl, Links

Weights = npt.NDArray[np.float64]
LINKS = Links(rate_bps=(5e6, 50e6), rtt_s=(0.01, 0.1), buffer_bdp=(0.5, 4.0))
OPTIONS = {"links": LINKS, "observation": "orca", "action": "window", "reward": "orca"}
# The best part of a generation, which the next one is drawn around, with a spread that does not vanish at once.
ELITE, LEAST_SPREAD = 0.25, 0.05


def played(weights: Weights, seed: int, episode_s: float) -> tuple[float, float, float, dict[str, object]]:
    """Mean reward of an episode, its throughput in bit/s, its mean RTT in seconds, and the link that its seed drew."""
    environment = CongestionControl(episode_s=episode_s, **OPTIONS)  # type: ignore[arg-type]
    observation, info = environment.reset(seed=seed)
    steps: list[tuple[float, float, float]] = []
    over = False
    while not over:
        action = np.tanh(weights[:-1] @ observation + weights[-1])
        observation, reward, _, over, info = environment.step(np.array([action], np.float32))
        if (agent := info.get("agent")) is not None and agent["rtt_s"] is not None:
            steps.append((reward, agent["throughput_bps"], agent["rtt_s"]))
    environment.close()
    reward, throughput_bps, rtt_s = np.mean(steps, axis=0)
    return float(reward), float(throughput_bps), float(rtt_s), info["link"]


def score(weights: Weights, seeds: list[int], episode_s: float) -> float:
    """Mean reward over links."""
    return float(np.mean([played(weights, seed, episode_s)[0] for seed in seeds]))


def train(arguments: argparse.Namespace) -> Weights:
    """The weights that the last generation's best policies have on average."""
    draw = np.random.default_rng(arguments.seed)
    size = CongestionControl(**OPTIONS).observation_space.shape[0] + 1  # type: ignore[arg-type, index]
    mean, spread = np.zeros(size), np.ones(size)
    best = max(1, round(ELITE * arguments.policies))
    with ProcessPoolExecutor(len(sched_getaffinity(0)), get_context("spawn")) as pool:
        for generation in range(arguments.generations):
            policies = draw.normal(mean, spread, (arguments.policies, size))
            # The same links for all: they differ by what they do alone.
            seeds = [int(seed) for seed in draw.integers(1 << 31, size=arguments.links)]
            scores = list(pool.map(partial(score, seeds=seeds, episode_s=arguments.episode), policies))
            elite = policies[np.argsort(scores)[-best:]]
            mean, spread = elite.mean(axis=0), np.maximum(elite.std(axis=0), LEAST_SPREAD)
            print(f"generation {generation + 1}: mean {np.mean(scores):.3f}, best {max(scores):.3f}", flush=True)
    return mean


def judge(weights: Weights, arguments: argparse.Namespace) -> None:
    """Print throughput and RTT of a policy and of CUBIC on links that another seed drew."""
    seeds = np.random.default_rng(arguments.seed).integers(1 << 31, size=arguments.links)
    for seed in map(int, seeds):
        _, throughput_bps, rtt_s, link = played(weights, seed, arguments.episode)
        flows = [{"cca": "cubic", "duration": f"{max(1, round(arguments.episode))}s"}]
        cubic = api.run({"name": "cubic", "seed": seed % (1 << 31), "bottleneck": link, "flows": flows}, virtual=True)
        sockets = cubic.sockets
        acked_bps = 8 * sockets["acked_bytes"].iloc[-1] / sockets["time_s"].iloc[-1]
        print(
            f"{link['rate']} {link['rtt']} {link['buffer']}: "
            f"policy {throughput_bps / 1e6:.2f} Mbit/s, {1e3 * rtt_s:.1f} ms; "
            f"CUBIC {acked_bps / 1e6:.2f} Mbit/s, {1e3 * sockets['rtt_s'].mean():.1f} ms",
            flush=True,
        )


def main() -> None:
    """Train, or judge what was trained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--policies", type=int, default=16, help="of a generation")
    parser.add_argument("--links", type=int, default=4, help="that each policy sees, or that are judged")
    parser.add_argument("--episode", type=float, default=5.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("policy.npy"))
    parser.add_argument("--judge", type=Path, help="a policy to compare with CUBIC, instead of training")
    arguments = parser.parse_args()
    if arguments.judge is not None:
        judge(np.load(arguments.judge), arguments)
    else:
        np.save(arguments.out, train(arguments))


if __name__ == "__main__":
    main()
