# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest that is only to say what its kernel is and whether its clock jumps.

Started by `narrows.python.in_guest`; tells ``about`` when it is up and ``slept_s`` after a sleep. What is about
it too are ``random`` numbers, which are the same at every boot if the seed is all that they come from, and how far time
goes on when a process reads the clock, and when a system call fails.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from narrows.hosts.machine import kernel_ccas
from narrows.virtual.init import Channel, power_off, prepare, seed_random_numbers

LAUNCHES = Path("/dev/narrows_launch")
NOWHERE = Path("/nowhere")
SLEEP_S = 10.0
SEED = 1


def main() -> None:
    """The life of the guest."""
    try:
        seed_random_numbers(SEED)
        prepare()
        channel = Channel()
        # A kernel tells versions only of those of its parts that state one.
        versions = {
            path.parent.name.removeprefix("tcp_"): path.read_text().strip()
            for path in Path("/sys/module").glob("tcp_*/version")
        }
        read = time.monotonic_ns()
        step_ns = time.monotonic_ns() - read
        before_failure = time.monotonic_ns()
        NOWHERE.exists()
        about = {
            "clock_step_ns": step_ns,
            "failed_call_ns": time.monotonic_ns() - before_failure - step_ns,
            "release": os.uname().release,
            "ccas": kernel_ccas(),
            "versions": versions,
            "launches": LAUNCHES.exists(),
        }
        channel.tell(about=about, random=os.urandom(16).hex())
        before = time.monotonic()
        time.sleep(SLEEP_S)
        channel.tell(slept_s=time.monotonic() - before)
    finally:
        power_off()


if __name__ == "__main__":
    main()
