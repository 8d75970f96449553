# SPDX-License-Identifier: Apache-2.0
"""Several senders as a parallel environment of PettingZoo."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from narrows.api import InputError
from narrows.gym.driving import Driver, Setting
from narrows.gym.signals import Vector


class ParallelCongestionControl(ParallelEnv[str, Vector, Vector]):  # type: ignore[misc]
    """Senders that share a link, each with an agent of its own; see `CongestionControl`."""

    metadata = {"name": "narrows_congestion_control_v0", "render_modes": []}  # noqa: RUF012 -- as PettingZoo has it

    def __init__(self, agents: int = 2, **options: Any) -> None:
        """Nothing is run before `reset`.

        Args:
            agents: how many, at least 1.
            options: those of `narrows.gym.driving.Setting`.

        Raises:
            InputError: an option is not valid.
        """
        if agents < 1:
            raise InputError(f"agents {agents}: allowed: 1 or more")
        self._setting = Setting(**options)
        self.possible_agents = [f"agent{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.render_mode = None
        # The same objects each time they are asked for: a space has a seed.
        self._observations = {agent: self._setting.make_observation().space for agent in self.possible_agents}
        self._actions = {agent: self._setting.make_action().space for agent in self.possible_agents}
        self._random = np.random.default_rng()
        self._driver: Driver | None = None

    def observation_space(self, agent: str) -> spaces.Box[np.float32]:
        """The form of an agent's observation."""
        return self._observations[agent]

    def action_space(self, agent: str) -> spaces.Box[np.float32]:
        """The form of an agent's action."""
        return self._actions[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        """End the present episode, and begin one; see `CongestionControl.reset`. PettingZoo ignores other options."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.close()
        known = {name: value for name, value in (options or {}).items() if name == "bottleneck"}
        self._driver = self._setting.begin(self._random, self.possible_agents, known, False)
        self.agents = list(self.possible_agents)
        return self._observed(self._driver), self._known(self._driver)

    def step(
        self, actions: dict[str, Vector]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Set what all agents decided, and let a step of time pass."""
        if self._driver is None:
            raise InputError("step: no episode has begun; allowed: after reset")
        self._driver.act({agent: np.asarray(action) for agent, action in actions.items()})
        rewards, over = self._driver.step()
        found = (
            self._observed(self._driver), rewards, dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over),
            self._known(self._driver),
        )  # fmt: skip
        if over:
            self.agents = []
        return found

    def close(self) -> None:
        """End the present episode."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.episode.close()

    def _observed(self, driver: Driver) -> dict[str, Vector]:
        return {agent: driver.observe(agent) for agent in self.agents}

    def _known(self, driver: Driver) -> dict[str, dict[str, Any]]:
        return {agent: driver.info() for agent in self.agents}
