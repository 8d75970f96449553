# SPDX-License-Identifier: Apache-2.0
"""Trains a congestion control by the cross-entropy method (Rubinstein 1999), with NumPy alone.

A policy is one layer: a weight for each number that is observed, and one more. Needs narrows[gym].
docs/tutorials/train-a-controller.md explains it.
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
from policy import Policy, environment

Weights = npt.NDArray[np.float64]
# The best part of a generation, which the next one is drawn around, with a spread that does not vanish at once.
ELITE, LEAST_SPREAD = 0.25, 0.05


def policy_of(weights: Weights) -> Policy:
    """The policy with these weights, the last of which stands alone."""
    return Policy([(weights[None, :-1], weights[-1:])])


def score(weights: Weights, seeds: list[int], episode_s: float) -> float:
    """Mean reward of a step, over episodes with these seeds."""
    policy, episode = policy_of(weights), environment(episode_s)
    rewards: list[float] = []
    for seed in seeds:
        observation, _ = episode.reset(seed=seed)
        over = False
        while not over:
            observation, reward, _, over, _ = episode.step(policy(observation))
            rewards.append(float(reward))
    episode.close()
    return float(np.mean(rewards))


def train(arguments: argparse.Namespace) -> Weights:
    """The weights that the last generation's best policies have on average."""
    draw = np.random.default_rng(arguments.seed)
    space = environment(arguments.episode).observation_space
    size = int(np.prod(space.shape or ())) + 1
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


def main() -> None:
    """Train, and save the policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--policies", type=int, default=16, help="of a generation")
    parser.add_argument("--links", type=int, default=4, help="that each policy sees")
    parser.add_argument("--episode", type=float, default=5.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("policy.npz"))
    arguments = parser.parse_args()
    policy_of(train(arguments)).save(arguments.out)


if __name__ == "__main__":
    main()
