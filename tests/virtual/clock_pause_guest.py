# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest that waits for the outside while no time passes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from narrows.virtual import init
from narrows.virtual.clock_pause import ClockPause


def charged_s() -> float:
    """How much time the scheduler has charged to the one process that this one has started."""
    texts = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    (child,) = (fields for text in texts if (fields := text.rpartition(")")[2].split())[1] == str(os.getpid()))
    return (int(child[11]) + int(child[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Tell how much time passed in a pause that lasts until the outside says something."""
    init.prepare()
    channel, pause = init.Channel(), ClockPause()
    pause.begin()
    began_ns = time.monotonic_ns()
    channel.tell(waits=True)
    channel.read()
    passed_ns = time.monotonic_ns() - began_ns
    pause.end()
    # The process has left the processor.
    time.sleep(0.001)
    channel.tell(passed_ns=passed_ns, charged_s=charged_s())
    init.power_off()


if __name__ == "__main__":
    main()
