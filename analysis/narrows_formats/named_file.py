# SPDX-License-Identifier: Apache-2.0
"""Files that an experiment or an inventory names, which others may have written.

A FIFO is not waited for, and a device is not read: what is not an ordinary file is refused, wherever links lead.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_BYTES = 16 << 20


@contextmanager
def opened(path: Path, *, may_be_a_pipe: bool = False) -> Iterator[io.BufferedReader]:
    """An ordinary file, open for reading.

    Args:
        path: of the file.
        may_be_a_pipe: so may a pipe: the user's own, as ``<(command)`` makes it. One that has no writer is empty.

    Raises:
        OSError: it cannot be read, or is no such file.
    """
    with os.fdopen(os.open(path, FLAGS), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not (may_be_a_pipe and stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        os.set_blocking(file.fileno(), True)
        yield file


def read(path: Path, most_bytes: int = MOST_BYTES, *, may_be_a_pipe: bool = False) -> bytes:
    """The content of an ordinary file; see `opened`.

    Raises:
        OSError: it cannot be read, is no such file, or is larger than ``most_bytes``.
    """
    with opened(path, may_be_a_pipe=may_be_a_pipe) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes >> 20} MiB", str(path))
    return content


def read_text(path: Path, most_bytes: int = MOST_BYTES, *, may_be_a_pipe: bool = False) -> str:
    """The text of a file in UTF-8; see `read`.

    Raises:
        ValueError: it cannot be read: the message says why, without the file's name.
    """
    try:
        return read(path, most_bytes, may_be_a_pipe=may_be_a_pipe).decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError("cannot be read: it is not UTF-8 text") from None
