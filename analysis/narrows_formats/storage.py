# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: a reader sees the old file or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from narrows_formats.decimals import as_decimals

PRIVATE = 0o600
"""Mode of files that only their owner may read."""


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file, open for writing, that is renamed to ``path`` when the block succeeds, and removed when it fails.

    Its temporary name cannot be predicted and no existing file is opened, so that others who may write into the
    directory cannot redirect the writer, which may be root, elsewhere. A link at ``path`` is replaced, not followed.
    ``mode`` is the file's, less the umask.

    Raises:
        OSError: the file cannot be made or written.
    """
    _remove_abandoned(path)
    temporary, handle = _temporary(path, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # Before it is unlocked, or another writer would remove it as abandoned.
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path, mode: int) -> tuple[Path, int]:
    """A new file to be renamed to ``path``, and its descriptor, which holds a lock as long as it is open."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.unfinished")
        handle = os.open(temporary, flags, mode)
        # A file system may have no locks: then what a killed writer leaves stays there.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return temporary, handle
        # Another writer took it for an abandoned one before it had its lock.
        os.close(handle)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of writers that were killed: no process holds a lock on them."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.unfinished"):
        # Others may have made it, and be anything: it is not waited for, and not followed.
        with contextlib.suppress(OSError):
            handle = os.open(old, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                old.unlink()
            finally:
                os.close(handle)


def reserve(path: Path, size: int, mode: int = 0o666) -> None:
    """Make a new file for which the disk has room, up to ``size`` bytes, whatever else is written meanwhile.

    Raises:
        OSError: the disk has no room for it, or the file is there already.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file in one step; see `replacing`."""
    with replacing(path, mode) as file:
        file.write(data)


def write_text(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file of UTF-8 text in one step; see `replacing`."""
    write_bytes(path, text.encode(), mode)


def write_json(path: Path, data: Any, indent: int | None = 2, mode: int = 0o666) -> None:
    """Write a JSON file in one step, numbers with 15 significant digits; see `replacing` and `decimals`.

    Raises:
        ValueError: the data has a number that JSON does not have (NaN, infinity).
    """
    write_text(path, json.dumps(as_decimals(data), indent=indent, allow_nan=False) + "\n", mode)
