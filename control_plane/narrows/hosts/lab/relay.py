# SPDX-License-Identifier: Apache-2.0
"""Stands in for a process on a machine: arguments are ``ssh ... remote.sh PROGRAM``.

SIGINT and SIGTERM go to the program by name over the connection's standard input; output and exit code come back. When
this process dies, the connection's input ends, and with it the program.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from types import FrameType

from narrows.errors import EXIT_BAD_INPUT
from narrows.hosts.process import PR_SET_PDEATHSIG

FORWARDED = {signal.SIGINT: b"INT\n", signal.SIGTERM: b"TERM\n"}


def main(command: list[str]) -> int:
    """Run ``command`` to its end and return its exit code."""
    if not command:
        print("relay: no command", file=sys.stderr)
        return EXIT_BAD_INPUT
    # Our parent may be killed: the program must end with it, wherever it runs.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A session of its own: a Ctrl-C on the terminal reaches the program only through us.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def forward(number: int, _: FrameType | None) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(FORWARDED[signal.Signals(number)])
            process.stdin.flush()
        except OSError:
            process.terminate()

    for number in FORWARDED:
        signal.signal(number, forward)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
