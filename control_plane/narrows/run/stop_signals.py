# SPDX-License-Identifier: Apache-2.0
"""The signals that end a run, handled by the part of it that is active."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals_wait(tell: Callable[[signal.Signals], None] = lambda _number: None) -> Iterator[list[signal.Signals]]:
    """None of these signals interrupts what is done here; ``tell`` is called for each, and they are in the list."""
    came: list[signal.Signals] = []

    def note(number: int, _frame: object) -> None:
        came.append(signal.Signals(number))
        tell(came[-1])

    before = {number: signal.signal(number, note) for number in _heeded()}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_signals_afterwards() -> Iterator[None]:
    """The first of these signals is heeded when this is done; inside a library it might come out as another error."""
    with stop_signals_wait() as came:
        yield
    if came:
        signal.raise_signal(came[0])


def already_ending(number: signal.Signals) -> str:
    """What the user reads about a signal that changes nothing."""
    return f"{number.name}: already ending, please wait"


def _heeded() -> list[signal.Signals]:
    # Under nohup SIGHUP is ignored, and stays so.
    return [number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def stop_signals_call(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have the running event loop call ``stop`` for each of these signals; afterwards they do what they did before."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _heeded()}
    for number in before:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
