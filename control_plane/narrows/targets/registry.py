# SPDX-License-Identifier: Apache-2.0
"""Targets by the name that ``--target`` takes."""

from __future__ import annotations

from collections.abc import Callable

from narrows.errors import InputError
from narrows.targets.base import Target
from narrows.targets.soft import SoftTarget

# A target is made for one run, with the seed of its random numbers.
TARGETS: dict[str, Callable[[int], Target]] = {"soft": SoftTarget}


def target_factory(name: str) -> Callable[[int], Target]:
    """What makes targets of a name.

    Raises:
        InputError: there is no such target.
    """
    if name not in TARGETS:
        raise InputError(f"--target {name}: no such target; allowed: {', '.join(TARGETS)}")
    return TARGETS[name]
