# SPDX-License-Identifier: Apache-2.0
"""Targets by the name that ``--target`` takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from narrows.errors import InputError
from narrows.targets.base import Target
from narrows.targets.bmv2.target import Bmv2Target
from narrows.targets.soft import SoftTarget

# A target is made for one run, with the seed of its random numbers.
TARGETS: dict[str, Callable[[int], Target]] = {"soft": SoftTarget, "bmv2": Bmv2Target}


def target_factory(name: str, bmv2_path: Path | None = None) -> Callable[[int], Target]:
    """What makes targets of a name.

    Args:
        name: one of `TARGETS`.
        bmv2_path: simple_switch_grpc or the directory it is in, for bmv2 only.

    Raises:
        InputError: there is no such target, or it takes no path.
    """
    if name not in TARGETS:
        raise InputError(f"--target {name}: no such target; allowed: {', '.join(TARGETS)}")
    if bmv2_path is None:
        return TARGETS[name]
    if name != "bmv2":
        raise InputError(f"--bmv2-path {bmv2_path}: --target {name} does not run BMv2; allowed: with --target bmv2")
    return functools.partial(Bmv2Target, path=bmv2_path)
