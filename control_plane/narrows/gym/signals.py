# SPDX-License-Identifier: Apache-2.0
"""Observations, rewards and actions of published controllers, by name; any function of the same form serves as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from narrows.api import InputError, Interval, TcpInfo
from narrows.controllers import Decision

Vector = npt.NDArray[np.float32]
Reward = Callable[[Interval], float]
Made = TypeVar("Made")
AURORA_HISTORY = 10
# Bounds of what is observed: a ratio beyond them says no more.
MOST = 1e3
ORCA_BETA, ORCA_ZETA = 1.25, 5.0
LEAST_CWND, MOST_CWND = 2, 1 << 20
LEAST_BPS, MOST_BPS = 1e4, 1e12


class Observation(ABC):
    """What an agent sees; ``space`` is its form. A subclass gives the numbers of one step, of ``size``."""

    size: int
    history = 1

    def __init__(self) -> None:
        """Nothing was seen yet: zeros."""
        self.space = spaces.Box(-MOST, MOST, (self.history * self.size,), np.float32)
        self._steps: deque[list[float]] = deque([[0.0] * self.size] * self.history, self.history)

    def add(self, step: Interval) -> Vector:
        """Take what happened in a step; returns the steps of its history, the latest last."""
        self._steps.append(self.numbers(step))
        return self.vector()

    def vector(self) -> Vector:
        """The observation as it is, shape ``space.shape``."""
        return np.clip(np.array(self._steps, np.float32).reshape(-1), -MOST, MOST)

    @abstractmethod
    def numbers(self, step: Interval) -> list[float]:
        """The numbers of one step."""


class AuroraObservation(Observation):
    """Aurora's (Jay et al., ICML 2019, section 4.1): latency gradient, latency ratio and sending ratio of ten steps."""

    size, history = 3, AURORA_HISTORY

    def numbers(self, step: Interval) -> list[float]:
        """The numbers of one step."""
        now, before, least = step.now.rtt_s, step.before.rtt_s, step.now.min_rtt_s
        if now is None or before is None or least is None or not step.duration_s:
            return [0.0, 0.0, 0.0]
        return [(now - before) / step.duration_s, now / least - 1, step.sent / max(step.delivered, 1) - 1]


class OrcaObservation(Observation):
    """Orca's (Abbasloo et al., SIGCOMM 2020, section 4.2), each by the most or least seen: throughput, loss, delay,
    acknowledgements, time since the last step, smoothed RTT, window."""

    size = 7

    def __init__(self) -> None:
        """Nothing was seen yet: zeros."""
        super().__init__()
        self._most_bps, self._most_cwnd = 1.0, 1.0

    def numbers(self, step: Interval) -> list[float]:
        """The numbers of one step."""
        least, now = step.now.min_rtt_s, step.now.rtt_s
        if least is None or now is None:
            return [0.0] * self.size
        self._most_bps = max(self._most_bps, step.throughput_bps)
        self._most_cwnd = max(self._most_cwnd, step.now.cwnd)
        before = step.before.rtt_s or now
        return [
            step.throughput_bps / self._most_bps,
            step.loss_ratio,
            least / ((now + before) / 2),
            step.delivered / max(step.now.cwnd, 1),
            step.duration_s / least,
            least / now,
            step.now.cwnd / self._most_cwnd,
        ]


class AuroraReward:
    """10 throughput - 1000 latency - 2000 loss: packets/s, seconds, ratio (Jay et al., section 4.1)."""

    def __call__(self, step: Interval) -> float:
        """The reward of one step."""
        packets_s = step.delivered / step.duration_s if step.duration_s else 0.0
        return 10 * packets_s - 1000 * (step.rtt_s or 0.0) - 2000 * step.loss_ratio


class OrcaReward:
    """(throughput - zeta loss) / delay, by the most throughput and least delay seen (Abbasloo et al., equation 3).

    Delays up to 1.25 of the least count as the least; loss is the rate that was lost.
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._most_bps = 1.0

    def __call__(self, step: Interval) -> float:
        """The reward of one step, at most 1."""
        least, now = step.now.min_rtt_s, step.rtt_s
        if least is None or now is None:
            return 0.0
        self._most_bps = max(self._most_bps, step.throughput_bps)
        lost_bps = 8 * step.lost * step.now.mss / step.duration_s if step.duration_s else 0.0
        delay = 1.0 if now <= ORCA_BETA * least else now / least
        return (step.throughput_bps - ORCA_ZETA * lost_bps) / self._most_bps / delay


class Action(ABC):
    """What an agent decides; ``space`` is its form. `apply` says what it sets."""

    space: spaces.Box[np.float32]

    @abstractmethod
    def apply(self, action: Vector, info: TcpInfo) -> Decision:
        """What is set."""


class RateAction(Action):
    """Aurora's: the rate changes by a factor (Jay et al., section 4.1); the window is four times what that rate has in
    flight, so that the rate decides."""

    def __init__(self) -> None:
        """One number: with 1 the rate doubles, with -1 it is halved, and 0.025 is Aurora's unit."""
        self.space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._rate_bps: float | None = None

    def apply(self, action: Vector, info: TcpInfo) -> Decision:
        """What is set."""
        rtt_s = info.rtt_s or 1e-3
        rate_bps = self._rate_bps or 8 * info.mss * info.cwnd / rtt_s
        by = float(action[0])
        rate_bps = rate_bps * (1 + by) if by >= 0 else rate_bps / (1 - by)
        self._rate_bps = float(np.clip(rate_bps, LEAST_BPS, MOST_BPS))
        window = int(np.clip(4 * self._rate_bps * rtt_s / (8 * info.mss), LEAST_CWND, MOST_CWND))
        return Decision(window, self._rate_bps)


class WindowAction(Action):
    """Orca's: the window is multiplied by a power of two, from 1/4 to 4 (Abbasloo et al., section 4.2)."""

    def __init__(self) -> None:
        """One number: with 1 the window is four times as large, with -1 a fourth."""
        self.space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def apply(self, action: Vector, info: TcpInfo) -> Decision:
        """What is set."""
        return Decision(int(np.clip(info.cwnd * 4.0 ** float(action[0]), LEAST_CWND, MOST_CWND)), None)


OBSERVATIONS: dict[str, Callable[[], Observation]] = {"aurora": AuroraObservation, "orca": OrcaObservation}
REWARDS: dict[str, Callable[[], Reward]] = {"aurora": AuroraReward, "orca": OrcaReward}
ACTIONS: dict[str, Callable[[], Action]] = {"rate": RateAction, "window": WindowAction}


def checked(whose: str, action: Vector, space: spaces.Box[np.float32]) -> Vector:
    """The same action.

    Raises:
        InputError: it is not in its space; the message says whose it is and what is allowed.
    """
    if action.shape != space.shape:
        raise InputError(f"action of {whose}: has the shape {action.shape}; allowed: {space.shape}")
    if not np.all(np.isfinite(action)) or np.any(action < space.low) or np.any(action > space.high):
        raise InputError(f"action of {whose} {action}: allowed: from {space.low} to {space.high}")
    return action


def chosen(kind: str, name: str | Callable[[], Made], known: Mapping[str, Callable[[], Made]]) -> Made:
    """An observation, a reward or an action: one of those known by name, or what a callable of the user's makes.

    Raises:
        InputError: it is neither.
    """
    if not isinstance(name, str):
        return name()
    if name not in known:
        raise InputError(f"{kind} {name!r}: allowed: {', '.join(known)}, or a callable")
    return known[name]()
