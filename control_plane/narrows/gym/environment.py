# SPDX-License-Identifier: Apache-2.0
"""One sender as an environment of Gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from narrows.gym.driving import Driver, Setting
from narrows.gym.signals import Vector

AGENT = "agent"


class CongestionControl(gymnasium.Env[Vector, Vector]):
    """A sender of Linux TCP whose window or rate an agent decides at each step.

    An episode is a run in virtual time: no time passes while the agent thinks, and one seed and policy give the
    same packets. Everything but window and pacing rate is the kernel's.
    """

    metadata = {"render_modes": ["report"], "render_fps": 1}  # noqa: RUF012 -- as Gymnasium has it

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        """Nothing is run before `reset`.

        Args:
            render_mode: ``"report"``: an episode's results are kept, and `render` gives its report.html.
            options: those of `narrows.gym.driving.Setting`.

        Raises:
            InputError: an option is not valid.
        """
        self.render_mode = render_mode
        self._setting = Setting(**options)
        self.observation_space = self._setting.make_observation().space
        self.action_space = self._setting.make_action().space
        self._driver: Driver | None = None
        self._page: Path | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """End the present episode, and begin one on a new link; ``info["link"]`` says which.

        Args:
            seed: of the links drawn from here on, and of the run.
            options: ``{"bottleneck": {...}}`` instead of a link drawn.
        """
        super().reset(seed=seed)
        self.close()
        self._driver = self._setting.begin(self.np_random, [AGENT], options or {}, self.render_mode is not None)
        return self._driver.observe(AGENT), self._driver.info()

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Set what the agent decides, and let a step of time pass.

        Raises:
            InputError: the action is not in `action_space`; the message says what is.
        """
        if self._driver is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset")
        self._driver.act({AGENT: np.asarray(action)})
        rewards, over = self._driver.step()
        return self._driver.observe(AGENT), rewards[AGENT], False, over, self._driver.info()

    def render(self) -> Path | None:  # type: ignore[override]
        """The report of the last episode, which ends here if it has not; None without ``render_mode``."""
        if self.render_mode is None:
            return None
        self.close()
        return self._page

    def close(self) -> None:
        """End the present episode; nothing of it is left, but results that are kept."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.episode.close()
            self._page = driver.episode.directory / "report.html" if self.render_mode else None
