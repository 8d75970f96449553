# SPDX-License-Identifier: Apache-2.0
"""A command whose output is no longer read (``| head``, a closed terminal) goes on, and ends as it would have."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import TextIO

# Of a pipe without a reader, and of a terminal that was closed.
GONE = (errno.EPIPE, errno.EIO)


class _Outlived(io.FileIO):
    """Standard output or error into a pipe or to a terminal; discarded once that is gone."""

    def write(self, data: io._ReadableBuffer) -> int | None:  # type: ignore[override,name-defined]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in GONE:
                raise
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            return super().write(data)


def outlive_readers() -> None:
    """Have standard output and error, where they are pipes or terminals, discard what has no reader."""
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and _may_go(stream):
            stream.flush()
            outlived = io.BufferedWriter(_Outlived(stream.fileno(), "w", closefd=False))
            lines = name == "stderr" or stream.isatty()
            new = io.TextIOWrapper(outlived, encoding=stream.encoding, errors=stream.errors, line_buffering=lines)
            setattr(sys, name, new)


def _may_go(stream: TextIO | None) -> bool:
    if stream is None:
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
