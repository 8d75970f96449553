# SPDX-License-Identifier: Apache-2.0
"""Stands in for a process on a machine: arguments are ``PARENT ssh ... remote.sh PROGRAM``.

SIGINT and SIGTERM go to the program by name over the connection's standard input; output and exit code come back. When
this process dies, the connection's input ends, and with it the program.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType

from narrows.hosts.process import end_with, piped

FORWARDED = {signal.SIGINT: b"INT\n", signal.SIGTERM: b"TERM\n"}


def main(parent: str, *command: str) -> int:
    """Run ``command`` to its end and return its exit code."""
    # Our parent may be killed: the program must end with it, wherever it runs.
    end_with(int(parent))
    # A session of its own: a Ctrl-C on the terminal reaches the program only through us.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    there = piped(process.stdin)

    def forward(number: int, _: FrameType | None) -> None:
        try:
            there.write(FORWARDED[signal.Signals(number)])
            there.flush()
        except OSError:
            process.terminate()

    for number in FORWARDED:
        signal.signal(number, forward)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
