# SPDX-License-Identifier: Apache-2.0
"""Worker processes for runs side by side."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """This process is killed when its parent is gone, however that went: nobody would take what it finds.

    A guest of its ends with it (see `narrows.virtual.keeper`); what a run in namespaces leaves, the next one removes.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _begin(parent: int, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    _end_with(parent)
    if prepare is not None:
        prepare(*arguments)


# New ones: a copy of a process with threads (gRPC has some) may stop for ever at a lock, or die.
CONTEXT = get_context("spawn")


@contextmanager
def worker_pool(
    at_once: int, prepare: Callable[..., None] | None = None, *arguments: Any
) -> Iterator[ProcessPoolExecutor]:
    """Processes, because a run takes the signals of its own.

    At an interruption all are told to end, so that each run ends its traffic and keeps what it has measured.

    Args:
        at_once: how many there are.
        prepare: what each does first.
        *arguments: what it does it with; queues of `CONTEXT` may be among them.
    """
    first = (os.getpid(), prepare, arguments)
    pool = ProcessPoolExecutor(at_once, mp_context=CONTEXT, initializer=_begin, initargs=first)
    try:
        yield pool
    except BaseException:
        for worker in active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
