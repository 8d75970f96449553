# SPDX-License-Identifier: Apache-2.0
"""How long guests took here in which users' programs ran: what those compute is not known before a run."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path

from narrows_formats.storage import write_text

from narrows.experiment.plan import Plan
from narrows.paths import user_cache
from narrows.virtual.kernels import Kernel


def remember(plan: Plan, kernel: Kernel, wall_s: float) -> None:
    """Write down what the guest of a plan took, in seconds of this machine; of several, the last one counts."""
    place = _place(plan, kernel)
    # A run is none the worse for it.
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, f"{wall_s:.3f}\n")


def remembered(plan: Plan, kernel: Kernel) -> float | None:
    """What the guest of such a plan, with whatever seed, took last, in seconds; None if there was none."""
    try:
        return float(_place(plan, kernel).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _place(plan: Plan, kernel: Kernel) -> Path:
    alike = f"{kernel.name} {replace(plan, seed=0)!r}"
    return user_cache() / "durations" / hashlib.sha256(alike.encode()).hexdigest()
