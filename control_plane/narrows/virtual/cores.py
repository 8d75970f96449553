# SPDX-License-Identifier: Apache-2.0
"""A core for each guest. A guest on two cores is three times as slow as on one, and two on one are half as fast."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from narrows.paths import user_cache


@contextlib.contextmanager
def core() -> Iterator[int]:
    """A core that no other guest of this user is on, as long as there is one; else one that others share."""
    places = user_cache() / "cores"
    places.mkdir(parents=True, exist_ok=True)
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    for number in allowed:
        with (places / str(number)).open("w") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    yield allowed[os.getpid() % len(allowed)]
