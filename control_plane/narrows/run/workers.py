# SPDX-License-Identifier: Apache-2.0
"""Worker processes for runs side by side."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context

PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """This process is killed when its parent is gone, however that went: nobody would take what it finds.

    A guest of its ends with it (see `narrows.virtual.keeper`); what a run in namespaces leaves, the next one removes.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def worker_pool(at_once: int) -> Iterator[ProcessPoolExecutor]:
    """Processes, because a run takes the signals of its own.

    They are forked: what was put ready before is there. At an interruption all are told to end, so that each run ends
    its traffic and keeps what it has measured.
    """
    pool = ProcessPoolExecutor(
        at_once, mp_context=get_context("fork"), initializer=_end_with, initargs=(os.getpid(),)
    )  # fmt: skip
    try:
        yield pool
    except BaseException:
        for worker in active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
