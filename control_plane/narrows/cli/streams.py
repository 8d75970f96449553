# SPDX-License-Identifier: Apache-2.0
"""A command whose output is no longer read (``| head``) goes on, and ends as it would have."""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import TextIO


class _Pipe(io.FileIO):
    """Standard output or error into a pipe; discarded once that has no reader."""

    def write(self, data: io._ReadableBuffer) -> int | None:  # type: ignore[override,name-defined]
        try:
            return super().write(data)
        except BrokenPipeError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            return super().write(data)


def outlive_readers() -> None:
    """Have standard output and error, where they are pipes, discard what has no reader instead of raising."""
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and _is_pipe(stream):
            stream.flush()
            pipe = io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False))
            lines = name == "stderr"
            new = io.TextIOWrapper(pipe, encoding=stream.encoding, errors=stream.errors, line_buffering=lines)
            setattr(sys, name, new)


def _is_pipe(stream: TextIO | None) -> bool:
    if stream is None:
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
