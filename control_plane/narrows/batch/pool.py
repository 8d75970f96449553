# SPDX-License-Identifier: Apache-2.0
"""Worker processes for runs side by side."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Any, TypeVar

from narrows import python
from narrows.errors import Interrupted
from narrows.hosts.process import end_with
from narrows.run.stop_signals import stop_signals_wait

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

Result = TypeVar("Result")


def _begin(parent: int, ending: Any, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    # Its results would have no reader. A guest of its ends with it (see `narrows.virtual.guest_supervisor`); what a run
    # in namespaces leaves, the next one removes.
    end_with(parent)
    # Nothing that it starts is ours to isolate.
    os.environ.pop(python.SAFE_PATH, None)
    # A signal of the terminal goes to the parent only, which tells us: two of them would end a run without results.
    os.setsid()
    _ending.append(ending)
    signal.signal(signal.SIGTERM, _while_idle)
    if prepare is not None:
        prepare(*arguments)


# In a worker: true when nothing is to be begun any more.
_ending: list[Any] = []


def _while_idle(_signal: int, _frame: object) -> None:
    # It holds the lock of the queue of work: killed with it, it would keep a worker that ends a run waiting for ever.
    # At an interruption it ends with the pool, and at once if another worker was killed.
    if not _ending[0].value:
        raise SystemExit(1)


def _unless_ending(work: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    # Before and after its traffic a run ends as one without workers does: it removes what it has set up.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if _ending[0].value:
            raise Interrupted("interrupted before it began")
        return work(*arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


# New ones: a copy of a process with threads (gRPC has some) may stop for ever at a lock, or die.
_CONTEXT = get_context("spawn")


def queue() -> Queue[Any]:
    """What workers and this process tell each other by."""
    # The first one starts a process of the library's, which clears away what killed ones leave.
    with python.by_libraries():
        return _CONTEXT.Queue()


class WorkerPool:
    """Processes that take one piece of work after the other."""

    def __init__(self, at_once: int, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        """See `worker_pool`."""
        # Without a lock, which a worker that is killed might hold.
        self._ending = _CONTEXT.RawValue(ctypes.c_bool, False)
        first = (os.getpid(), self._ending, prepare, arguments)
        with python.by_libraries():
            self._pool = ProcessPoolExecutor(at_once, mp_context=_CONTEXT, initializer=_begin, initargs=first)

    def submit(self, work: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Have a process do this when one is free."""
        with python.by_libraries():
            return self._pool.submit(_unless_ending, work, arguments)

    def interrupt(self) -> None:
        """End what is under way as a signal ends it, and begin nothing more; returns when all have ended.

        A signal that comes meanwhile is passed on.
        """
        self._ending.value = True
        _signal_workers()
        with stop_signals_wait(lambda _: _signal_workers()):
            self.close()

    def close(self) -> None:
        """Wait for what is under way."""
        with python.by_libraries():
            self._pool.shutdown(cancel_futures=True)


def _signal_workers() -> None:
    for worker in active_children():
        worker.terminate()


@contextmanager
def worker_pool(at_once: int, prepare: Callable[..., None] | None = None, *arguments: Any) -> Iterator[WorkerPool]:
    """Processes, because a run takes the signals of its own.

    At an interruption all are asked to end, so that each run ends its traffic and keeps what it has measured.

    Args:
        at_once: how many there are.
        prepare: what each does first.
        *arguments: what it does it with; what `queue` makes may be among them.
    """
    pool = WorkerPool(at_once, prepare, arguments)
    try:
        yield pool
    except BaseException:
        pool.interrupt()
        raise
    pool.close()
