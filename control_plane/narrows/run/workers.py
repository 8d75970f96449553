# SPDX-License-Identifier: Apache-2.0
"""Worker processes for runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context


@contextmanager
def worker_pool(at_once: int) -> Iterator[ProcessPoolExecutor]:
    """Processes, because a run takes the signals of its own.

    They are forked: what was put ready before is there. At an interruption all are told to end, so that each run ends
    its traffic and keeps what it has measured.
    """
    pool = ProcessPoolExecutor(at_once, mp_context=get_context("fork"))
    try:
        yield pool
    except BaseException:
        for worker in active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
