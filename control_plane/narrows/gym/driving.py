# SPDX-License-Identifier: Apache-2.0
"""What environments of one agent and of several have in common: an episode's setting, and its steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from narrows.api import InputError, Interval, experiment
from narrows.gym.episode import Episode
from narrows.gym.links import Links
from narrows.gym.signals import (
    ACTIONS,
    OBSERVATIONS,
    REWARDS,
    Action,
    Observation,
    Reward,
    Vector,
    checked,
    chosen,
)


@dataclass(frozen=True)
class Setting:
    """Options of an environment.

    Attributes:
        links: from which each episode's link is drawn.
        episode_s: how long it is, in seconds of the run.
        step: seconds of a step; None: one smoothed RTT of the fastest sender.
        observation: ``aurora``, ``orca``, or a callable that makes an `Observation`.
        reward: ``aurora``, ``orca``, or a callable that makes a function of an `Interval`.
        action: ``rate``, ``window``, or a callable that makes an `Action`.
        rivals: further flows, as an experiment's ``flows`` has them.
        halve_on_loss: whether the kernel halves the window when a packet is lost, until the agent sets it again.
        sees_queue: whether ``info`` has ``queue_bytes``, which no sender knows.
        kernel: of virtual time.
        results: directory that takes results which are kept, ``episode-0`` and so on.
    """

    links: Links = field(default_factory=Links)
    episode_s: float = 10.0
    step: float | None = None
    observation: str | Callable[[], Observation] = "aurora"
    reward: str | Callable[[], Reward] = "aurora"
    action: str | Callable[[], Action] = "rate"
    rivals: Sequence[Mapping[str, object]] = ()
    halve_on_loss: bool = False
    sees_queue: bool = False
    kernel: str | None = None
    results: str | Path = "results"

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            InputError: one is not valid.
        """
        for name in ("episode_s", "step"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{name} {value}: allowed: seconds above 0")
        for make in (self.make_observation, self.make_reward, self.make_action):
            make()

    def make_observation(self) -> Observation:
        """One sender's observation."""
        return chosen("observation", self.observation, OBSERVATIONS)

    def make_reward(self) -> Reward:
        """One sender's reward."""
        return chosen("reward", self.reward, REWARDS)

    def make_action(self) -> Action:
        """One sender's action."""
        return chosen("action", self.action, ACTIONS)

    def begin(
        self, random: np.random.Generator, agents: Sequence[str], options: Mapping[str, Any], keeps: bool
    ) -> Driver:
        """Begin an episode on a link drawn, or on that of ``options``."""
        if unknown := set(options) - {"bottleneck"}:
            raise InputError(f"reset: options {', '.join(sorted(unknown))}: allowed: bottleneck")
        link = options.get("bottleneck") or self.links.draw(random)
        # The run ends after the last step: an agent's flow may be connected late.
        cca, duration = "external_halve" if self.halve_on_loss else "external", f"{math.ceil(self.episode_s) + 60}s"
        source = {
            "name": "episode",
            "seed": int(random.integers(1 << 31)),
            "bottleneck": link,
            "flows": [{"name": name, "cca": cca, "duration": duration} for name in agents] + list(self.rivals),
        }
        experiment(source)
        return Driver(self, agents, Episode(source, agents, self.kernel, self._place() if keeps else None), link)

    def _place(self) -> Path:
        root = Path(self.results)
        root.mkdir(parents=True, exist_ok=True)
        number = 0
        while (root / f"episode-{number}").exists():
            number += 1
        return root / f"episode-{number}"


class Driver:
    """One episode, step by step."""

    def __init__(self, setting: Setting, agents: Sequence[str], episode: Episode, link: Mapping[str, object]) -> None:
        """Take an episode that has begun."""
        self.episode = episode
        self._setting, self._link = setting, link
        self._agents = tuple(agents)
        self._observations = {agent: setting.make_observation() for agent in agents}
        self._rewards = {agent: setting.make_reward() for agent in agents}
        self._actions = {agent: setting.make_action() for agent in agents}
        self._ends_s = episode.time_s + setting.episode_s
        self._last: dict[str, Interval] = {}

    def observe(self, agent: str) -> Vector:
        """What an agent sees now."""
        return self._observations[agent].vector()

    def act(self, actions: Mapping[str, Vector]) -> None:
        """Set what agents decided.

        Raises:
            InputError: an action is not one of its space; nothing is set then.
        """
        for agent, action in actions.items():
            checked(agent, action, self._actions[agent].space)
        for agent, action in actions.items():
            decided = self._actions[agent].apply(action, self.episode.state(agent))
            self.episode.set(agent, decided.cwnd, decided.pacing_rate_bps)

    def step(self) -> tuple[dict[str, float], bool]:
        """Let a step of time pass; the agents' rewards, and whether the episode is over."""
        rtts_s = [self.episode.state(agent).rtt_s or self.episode.base_rtt_s for agent in self._agents]
        self._last = self.episode.step(self._setting.step or min(rtts_s))
        for agent, step in self._last.items():
            self._observations[agent].add(step)
        rewards = {
            agent: float(self._rewards[agent](self._last[agent])) if agent in self._last else 0.0
            for agent in self._agents
        }
        return rewards, self.episode.over or not self._last or self.episode.time_s >= self._ends_s

    def info(self) -> dict[str, Any]:
        """What is known of the last step besides what an agent sees."""
        known: dict[str, Any] = {"link": dict(self._link), "time_s": self.episode.time_s}
        for agent, step in self._last.items():
            known[agent] = {
                "throughput_bps": step.throughput_bps, "rtt_s": step.rtt_s, "loss_ratio": step.loss_ratio,
                "cwnd": step.now.cwnd, "pacing_rate_bps": step.now.pacing_rate_bps,
            }  # fmt: skip
        if self._setting.sees_queue:
            known["queue_bytes"] = self.episode.queue_bytes()
        return known
