# SPDX-License-Identifier: Apache-2.0
"""A learned policy as a controller, which drives a sender without an environment: in virtual and in real time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from narrows.api import Interval
from narrows.controllers import Decision
from narrows.gym.signals import ACTIONS, OBSERVATIONS, Action, Observation, Vector, checked, chosen


class Learned:
    """Decides at each step as an agent of `CongestionControl` with the same observation, action and step does."""

    def __init__(
        self,
        policy: Callable[[Vector], Vector],
        observation: str | Callable[[], Observation] = "aurora",
        action: str | Callable[[], Action] = "rate",
    ) -> None:
        """Take what was learned.

        Args:
            policy: gives the action for an observation; both are vectors with the shapes of their spaces.
            observation: what it was trained with (`narrows.gym.driving.Setting`).
            action: likewise.

        Raises:
            InputError: there is no such observation or action.
        """
        self._policy = policy
        self._observation = chosen("observation", observation, OBSERVATIONS)
        self._action = chosen("action", action, ACTIONS)

    def on_step(self, _now_s: float, ack: Interval, /) -> Decision | None:
        """What the policy decides for what was observed until now.

        Raises:
            InputError: its action is not in its space.
        """
        action = np.asarray(self._policy(self._observation.add(ack)))
        return self._action.apply(checked("the policy", action, self._action.space), ack.now)
