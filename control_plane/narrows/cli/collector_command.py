# SPDX-License-Identifier: Apache-2.0
"""narrows-collector as a command in the foreground: it speaks to the user itself, its exit code becomes ours."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

KILLED = 128
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def options(**values: object) -> list[str]:
    """``port=5500`` as ``--port 5500``; None and False are left out, True is the bare option."""
    arguments: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return arguments


def run_collector(arguments: Sequence[str], out: Path) -> int:
    """Run it to its end and return its exit code; ``out``, which it makes, belongs to the user afterwards.

    Signals are passed on: the collector then stores what it has received and ends, and only then this returns.

    Raises:
        InputError: narrows-collector is not built, or ``out`` exists already.
    """
    import subprocess

    from narrows_formats.programs import COLLECTOR

    from narrows.paths import binary
    from narrows.run.results import check_free, give_to_user, make_directory

    check_free(out)
    make_directory(out.absolute().parent)
    command = [str(binary(COLLECTOR)), *arguments]
    # In a session of its own, so that Ctrl-C reaches it once, through us.
    process = subprocess.Popen(command, start_new_session=True)
    before = {number: signal.getsignal(number) for number in FORWARDED}
    for number in FORWARDED:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, lambda received, _: process.send_signal(received))
    try:
        code = process.wait()
        # As a shell tells of a signal that ended it.
        return code if code >= 0 else KILLED - code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if out.exists():
            give_to_user(out)
