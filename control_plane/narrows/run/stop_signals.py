# SPDX-License-Identifier: Apache-2.0
"""The signals that end a run, taken by whoever measures at the moment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals_call(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have the running event loop call ``stop`` for each of these signals; afterwards they do what they did before."""
    loop = asyncio.get_running_loop()
    # Under nohup SIGHUP is ignored, and stays so.
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    heeded = [number for number in STOP_SIGNALS if number != signal.SIGHUP or before[number] != signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
