# SPDX-License-Identifier: Apache-2.0
"""Learned congestion controls: the environment that trains them, a small network, and the links that judge it.

Whatever library trained it, NumPy is enough to use it. docs/tutorials/train-a-controller.md explains it.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium import spaces
from narrows.api import TcpInfo
from narrows.controllers import Decision, base
from narrows.gym import CongestionControl, Learned, Links
from narrows.gym.signals import MOST_CWND, Action, Vector
from narrows_formats.units import parse_rate, parse_time

TRAINED_ON = Links(rate_bps=(5e6, 50e6), rtt_s=(0.01, 0.1), buffer_bdp=(0.5, 4.0))
# Chosen before anything was trained: some within these ranges, and three beyond them, with a higher rate, a longer
# path, a deeper buffer.
HELD_OUT = [
    {"rate": f"{rate}Mbit", "rtt": f"{rtt}ms", "buffer": f"{buffer}bdp"}
    for rate, rtt, buffer in (
        *product((8, 20, 45), (25, 70), (1, 3)),
        (100, 30, 2),
        (20, 150, 2),
        (20, 40, 8),
    )
]


# Of a full-size frame, the part that is payload.
PAYLOAD = 1448 / 1514
# What a queue as long as the path costs, of a link that is full; and the most that counts: no step outweighs all.
QUEUE_COST, MOST_QUEUE = 0.25, 4.0


class Octave(Action):
    """The window is multiplied by a power of two, from 1/2 to 2."""

    def __init__(self) -> None:
        """One number: with 1 the window is twice as large, with -1 half."""
        self.space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def apply(self, action: Vector, info: TcpInfo) -> Decision:
        """What is set."""
        return Decision(cwnd=int(np.clip(round(info.cwnd * 2.0 ** float(action[0])), base.LEAST_SEGMENTS, MOST_CWND)))


class Rewarded(gymnasium.Wrapper[Vector, Vector, Vector, Vector]):
    """Rewards what the link carries of what it could, less the queue and the loss.

    Unlike the policy, the reward knows the link: the most that an agent itself has seen depends on what it did.
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


SIGNALS: dict[str, Any] = {"observation": "orca", "action": Octave}


def environment(episode_s: float) -> Rewarded:
    """What a policy is trained in."""
    return Rewarded(CongestionControl(links=TRAINED_ON, episode_s=episode_s, **SIGNALS))


class Policy:
    """A network: layers of weights and biases, a rectifier after each but the last, whose output tanh bounds."""

    def __init__(self, layers: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        """Take (weights, biases) of each layer, of shapes (outputs, inputs) and (outputs,)."""
        self.layers = layers

    def __call__(self, observation: Vector) -> Vector:
        """The action, shape (1,), from -1 to 1."""
        found = observation
        for number, (weights, biases) in enumerate(self.layers):
            found = weights @ (found if number == 0 else np.maximum(found, 0)) + biases
        return np.tanh(found).astype(np.float32)

    def save(self, file: Path) -> None:
        """Write it to a file of NumPy's, .npz."""
        np.savez(file, *(array for layer in self.layers for array in layer))

    @classmethod
    def load(cls, file: Path) -> Self:
        """A policy that was saved."""
        with np.load(file) as stored:
            arrays = list(stored.values())
        return cls(list(zip(arrays[::2], arrays[1::2], strict=True)))

    def controller(self) -> Learned:
        """One sender's controller."""
        return Learned(self, **SIGNALS)
