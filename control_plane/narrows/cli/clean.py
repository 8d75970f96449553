# SPDX-License-Identifier: Apache-2.0
"""``narrows clean``."""

from __future__ import annotations

import os

from narrows.errors import InputError


def clean() -> None:
    """Remove what killed runs left; live ones are not touched.

    Processes, namespaces, links, unfinished results.
    """
    from narrows.hosts.state import STATE_ROOT, all_runs, clean_dead_runs, dead_runs
    from narrows.virtual.kernels import runs

    # What virtual time leaves is the user's own; namespaces are root's.
    roots = [runs(), STATE_ROOT] if os.geteuid() == 0 else [runs()]
    removed = [line for root in roots for line in clean_dead_runs(root)]
    for line in removed:
        print(f"removed {line}")
    if STATE_ROOT not in roots and dead_runs():
        raise InputError("removing network namespaces needs root; fix: run with sudo")
    if not removed:
        print("nothing to remove")
    for state in (state for root in roots for state in all_runs(root)):
        print(f"skipped: run {state.run_id} is still running (pid {state.owner_pid})")
