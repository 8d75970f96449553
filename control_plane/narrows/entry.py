# SPDX-License-Identifier: Apache-2.0
"""The script ``narrows``: a stop signal before the command line can handle one ends it without a traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType

# As `errors.EXIT_INTERRUPTED`, which is not imported yet.
_INTERRUPTED = 130


def main() -> None:
    """Import the command line, which takes some tenths of a second, and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from narrows.cli import main

    main()


def _end(_number: int, _frame: FrameType | None) -> None:
    # Nothing was made yet, so nothing has to be removed.
    os._exit(_INTERRUPTED)
