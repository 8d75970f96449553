# SPDX-License-Identifier: Apache-2.0
"""``narrows clean``."""

from __future__ import annotations

import os

from narrows.errors import InputError


def clean() -> None:
    """Remove what killed runs left: processes, namespaces, links, unfinished results. Live runs are not touched."""
    from narrows.hosts.state import all_runs, clean_dead_runs

    if os.geteuid() != 0:
        raise InputError("removing network namespaces needs root; fix: run with sudo")
    removed = clean_dead_runs()
    for line in removed:
        print(f"removed {line}")
    if not removed:
        print("nothing to remove")
    for state in all_runs():
        print(f"left alone: run {state.run_id} of process {state.owner_pid}, which is alive")
