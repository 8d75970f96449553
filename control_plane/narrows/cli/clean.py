# SPDX-License-Identifier: Apache-2.0
"""``narrows clean``."""

from __future__ import annotations

import os

from narrows.errors import InputError, RunError
from narrows.plain_text import say


def clean() -> None:
    """Remove what killed runs left; live ones are not touched, wherever they run.

    Processes, namespaces, links, unfinished results. What cannot be removed keeps nothing else from being removed.
    """
    from narrows.hosts.clean import clean_dead_runs
    from narrows.hosts.state import STATE_ROOT, all_runs, dead_runs
    from narrows.virtual.kernels import runs

    # What virtual time leaves is the user's own; namespaces are root's.
    roots = [runs(), STATE_ROOT] if os.geteuid() == 0 else [runs()]
    removed: list[str] = []
    left: list[str] = []
    for root in roots:
        gone, stays = clean_dead_runs(root)
        removed += gone
        left += stays
    for line in removed:
        say(f"removed {line}")
    if STATE_ROOT not in roots and dead_runs():
        raise InputError("removing network namespaces needs root; fix: run with sudo")
    if not removed and not left:
        say("nothing to remove")
    for state in (state for root in roots for state in all_runs(root) if state.alive):
        say(f"skipped: run {state.run_id} is still running (pid {state.owner_pid})")
    if left:
        raise RunError("\n".join(left))
