# SPDX-License-Identifier: Apache-2.0
"""Takes a run down when its owner is killed: its argument is the record, and its standard input ends with the owner."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from narrows.hosts.state import RunState

POLL_S = 0.01


def main(record: Path) -> None:
    """Wait for the owner's end, and remove what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    # What an owner has open ends before it does; the record is gone where it has taken its run down itself.
    while record.exists():
        state = RunState.load(record)
        if not state.alive:
            state.destroy()
            return
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
