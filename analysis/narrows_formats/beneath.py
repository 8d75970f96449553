# SPDX-License-Identifier: Apache-2.0
"""Files below a directory that others can change, or have sent: each is opened by descriptors.

No link is followed at any depth (a path's directories can be replaced by links while it is used), and only ordinary
files are read: a FIFO would block, and a device has no end.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path, PurePath
from typing import BinaryIO

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_DEPTH = 50
MOST_BYTES = 256 << 20


@contextmanager
def _entry(name: str | Path, place: int | None = None) -> Iterator[int]:
    """A descriptor of an entry of a directory, whatever it is; a link is refused."""
    number = os.open(name, FLAGS, dir_fd=place)
    try:
        yield number
    finally:
        os.close(number)


def path(directory: Path, name: str) -> Path:
    """What is called so below a directory, wherever links lead.

    Raises:
        ValueError: it is not below the directory, or the directory itself.
    """
    found = directory / name
    if "\0" in name or directory.resolve() not in found.resolve().parents:
        raise ValueError(f"{name!r} is not below {directory}")
    return found


@contextmanager
def opened(directory: Path, name: str) -> Iterator[BufferedReader]:
    """An ordinary file below a directory, open for reading.

    Args:
        directory: itself not a link.
        name: relative; no part of it may be a link.

    Raises:
        OSError: it is not there, or cannot be read.
        ValueError: it is not below the directory, or no ordinary file.
    """
    parts = PurePath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
        raise ValueError("is not a file below its directory")
    with ExitStack() as above:
        place = above.enter_context(_entry(directory.resolve()))
        for part in parts:
            place = above.enter_context(_entry(part, place))
        if not _is_file(place):
            raise ValueError("is not an ordinary file")
        with os.fdopen(place, "rb", closefd=False) as file:
            yield file


def read(directory: Path, name: str, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of an ordinary file below a directory; see `opened`.

    Raises:
        OSError: it is not there, or cannot be read.
        ValueError: it is not below the directory, no ordinary file, or larger than ``most_bytes``.
    """
    with opened(directory, name) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"is larger than {most_bytes >> 20} MiB")
    return content


def walk(directory: Path) -> Iterator[tuple[PurePath, BinaryIO | None]]:
    """All below a directory that is no directory, in order of names: ordinary files, open for reading, others as None.

    What is deeper than ``MOST_DEPTH`` is left out, and counts as one entry.

    Raises:
        OSError: the directory cannot be read.
    """
    with _entry(directory) as top:
        yield from _walk(top, PurePath())


def copy(source: Path, target: Path) -> None:
    """Copy the files below a directory into another one.

    Raises:
        OSError: one cannot be read or written, or is no ordinary file.
    """
    for path, file in walk(source):
        if file is None:
            raise OSError(errno.EINVAL, "is not an ordinary file", str(source / path))
        made = target / path
        made.parent.mkdir(parents=True, exist_ok=True)
        with made.open("wb") as whole:
            shutil.copyfileobj(file, whole)


def _walk(place: int, above: PurePath) -> Iterator[tuple[PurePath, BinaryIO | None]]:
    for name in sorted(os.listdir(place)):
        path = above / name
        try:
            with _entry(name, place) as number:
                if _is_file(number):
                    with os.fdopen(number, "rb", closefd=False) as file:
                        yield path, file
                    continue
                if stat.S_ISDIR(os.fstat(number).st_mode) and len(path.parts) < MOST_DEPTH:
                    yield from _walk(number, path)
                    continue
        except OSError:
            pass
        yield path, None


def _is_file(number: int) -> bool:
    return stat.S_ISREG(os.fstat(number).st_mode)
