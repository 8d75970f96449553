# SPDX-License-Identifier: Apache-2.0
"""Trains a congestion control by Stable-Baselines3's soft actor-critic (Haarnoja et al., ICML 2018), without a GPU.

Needs narrows[gym] and stable-baselines3. docs/tutorials/train-a-controller.md explains it.
"""

from __future__ import annotations

import argparse
import time
from os import sched_getaffinity
from pathlib import Path

import torch
from policy import Policy, environment
from stable_baselines3 import SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

HIDDEN = [32, 32]


class Progress(BaseCallback):
    """Saves the policy after each episode, says how it goes, and ends the training after a time."""

    def __init__(self, minutes: float, out: Path) -> None:
        """Take how long it may last, and the policy's file."""
        super().__init__()
        self._ends_s, self._out = time.monotonic() + 60 * minutes, out
        self._episodes = 0

    def _on_step(self) -> bool:
        for ended in (info["episode"] for info in self.locals["infos"] if "episode" in info):
            self._episodes += 1
            policy_of(self.model).save(self._out)
            print(
                f"episode {self._episodes}: {self.num_timesteps} steps, reward of a step {ended['r'] / ended['l']:.3f}",
                flush=True,
            )
        return time.monotonic() < self._ends_s


def policy_of(model: BaseAlgorithm) -> Policy:
    """What it does without noise: its actor's network, and tanh of what the last layer gives."""
    actor = model.policy.actor
    layers = [one for one in actor.latent_pi if isinstance(one, torch.nn.Linear)] + [actor.mu]
    return Policy([(one.weight.detach().numpy(), one.bias.detach().numpy()) for one in layers])


def main() -> None:
    """Train, and save the policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="that it takes at most")
    parser.add_argument("--steps", type=int, default=30_000, help="of all environments, at most")
    parser.add_argument("--environments", type=int, default=len(sched_getaffinity(0)), help="side by side")
    parser.add_argument("--episode", type=float, default=15.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("policy.npz"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    makers = [lambda: Monitor(environment(arguments.episode))] * arguments.environments
    environments = DummyVecEnv(makers) if len(makers) == 1 else SubprocVecEnv(makers, "spawn")
    try:
        model = SAC(
            "MlpPolicy", environments, seed=arguments.seed, device="cpu", policy_kwargs={"net_arch": HIDDEN},
            # A decision shows within some round trips.
            gamma=0.9, learning_rate=1e-3, learning_starts=200, gradient_steps=4 * len(makers),
        )  # fmt: skip
        model.learn(arguments.steps, callback=Progress(arguments.minutes, arguments.out))
    finally:
        environments.close()
    policy_of(model).save(arguments.out)
    print(f"{model.num_timesteps} steps: {arguments.out}")


if __name__ == "__main__":
    main()
