# SPDX-License-Identifier: Apache-2.0
"""How many runs a machine can hold at once, in real time, without one disturbing another."""

from __future__ import annotations

import os

# The switch, the collector, the senders and the receiver of a run can each keep a processor busy.
CPUS_A_RUN = 4


def most_at_once(cpus: int, load: float) -> int:
    """How many runs the machine can hold: one for every four processors that nothing else uses, one at least.

    Args:
        cpus: processors that may be used.
        load: mean number of runnable processes before the study.
    """
    return max(1, int((cpus - load) // CPUS_A_RUN))


def runs_at_once() -> int:
    """`most_at_once` of this machine, now."""
    return most_at_once(len(os.sched_getaffinity(0)), os.getloadavg()[0])
