# SPDX-License-Identifier: Apache-2.0
"""Trains a congestion control by soft actor-critic (Haarnoja et al., ICML 2018) of Stable-Baselines3, on processors alone.

Needs narrows[gym] and stable-baselines3. docs/tutorials/train-a-controller.md explains it.
"""

from __future__ import annotations

import argparse
import time
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import gymnasium
import torch
from narrows.gym import CongestionControl
from narrows.gym.signals import Vector
from narrows_formats.units import parse_rate, parse_time
from policy import SIGNALS, TRAINED_ON, Policy
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

# Of a full-size frame, the part that is payload.
PAYLOAD = 1448 / 1514
# What a queue as long as the path costs, of a link that is full; and the most that counts, so that no step outweighs all.
QUEUE_COST, MOST_QUEUE = 0.25, 4.0
HIDDEN = [32, 32]


class Rewarded(gymnasium.Wrapper[Vector, Vector, Vector, Vector]):
    """Rewards what the link carries of what it could, less the queue and the loss.

    Unlike the policy the reward knows the link: what an agent itself has seen as the most or the least depends on what it did.
    """

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """A step with this reward."""
        observation, _, terminated, truncated, info = self.env.step(action)
        sender = info.get("agent")
        if sender is None or sender["rtt_s"] is None:
            return observation, 0.0, terminated, truncated, info
        used = sender["throughput_bps"] / (PAYLOAD * parse_rate(info["link"]["rate"]))
        queue = min(sender["rtt_s"] / (parse_time(info["link"]["rtt"]) / 1e9) - 1, MOST_QUEUE)
        return observation, used - QUEUE_COST * queue - sender["loss_ratio"], terminated, truncated, info


class Minutes(BaseCallback):
    """Ends the training after a time, and says how it goes."""

    def __init__(self, minutes: float) -> None:
        """Take how long it may last."""
        super().__init__()
        self._ends_s = time.monotonic() + 60 * minutes
        self._shown = 0

    def _on_step(self) -> bool:
        if self.model.ep_info_buffer and self.num_timesteps >= self._shown + 500:
            self._shown = self.num_timesteps
            last = list(self.model.ep_info_buffer)[-10:]
            reward = sum(one["r"] for one in last) / sum(one["l"] for one in last)
            print(
                f"{self.num_timesteps} steps: reward of a step {reward:.3f}, in the last {len(last)} episodes",
                flush=True,
            )
        return time.monotonic() < self._ends_s


def environment(episode_s: float) -> Monitor[Vector, Vector]:
    """One environment, whose episodes Stable-Baselines3 counts."""
    return Monitor(Rewarded(CongestionControl(links=TRAINED_ON, episode_s=episode_s, **SIGNALS)))


def main() -> None:
    """Train, and save the policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="that it takes at most")
    parser.add_argument("--steps", type=int, default=30_000, help="of all environments, at most")
    parser.add_argument("--environments", type=int, default=len(sched_getaffinity(0)), help="side by side")
    parser.add_argument("--episode", type=float, default=8.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("policy.npz"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    makers = [lambda: environment(arguments.episode)] * arguments.environments
    environments = DummyVecEnv(makers) if len(makers) == 1 else SubprocVecEnv(makers, "spawn")
    try:
        model = SAC(
            "MlpPolicy", environments, seed=arguments.seed, device="cpu", policy_kwargs={"net_arch": HIDDEN},
            # A decision shows within some round trips.
            gamma=0.9, learning_rate=1e-3, learning_starts=300, gradient_steps=2 * len(makers),
        )  # fmt: skip
        model.learn(arguments.steps, callback=Minutes(arguments.minutes))
    finally:
        environments.close()
    # Without noise its action is tanh of what the last layer gives.
    actor = model.policy.actor
    layers = [one for one in actor.latent_pi if isinstance(one, torch.nn.Linear)] + [actor.mu]
    Policy([(one.weight.detach().numpy(), one.bias.detach().numpy()) for one in layers]).save(arguments.out)
    print(f"{model.num_timesteps} steps: {arguments.out}")


if __name__ == "__main__":
    main()
