# SPDX-License-Identifier: Apache-2.0
"""Congestion control as an environment of Gymnasium and PettingZoo: the kernel's TCP, exact queues, virtual time.

Importing it registers ``narrows/CongestionControl-v0``. It needs the extra: ``pip install narrows[gym]``.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from narrows.gym.environment import CongestionControl
from narrows.gym.learned import Learned
from narrows.gym.links import Links
from narrows.gym.parallel import ParallelCongestionControl

__all__ = ["NAME", "CongestionControl", "Learned", "Links", "ParallelCongestionControl", "make_vec"]

NAME = "narrows/CongestionControl-v0"

gymnasium.register(NAME, entry_point=CongestionControl, disable_env_checker=True)


def make_vec(count: int, **options: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Several environments at once, each a process with a guest of its own, so that all processors are used.

    Args:
        count: how many.
        options: those of `CongestionControl`.
    """
    return gymnasium.make_vec(NAME, num_envs=count, vectorization_mode="async", **options)
