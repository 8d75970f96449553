# SPDX-License-Identifier: Apache-2.0
"""Digests of files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from narrows_formats import named_file


def file_digest(path: Path) -> str:
    """SHA-256 of what an ordinary file holds now; it is read again only where it may have changed since last time.

    Raises:
        OSError: it cannot be read, or is no ordinary file.
    """
    found = path.stat()
    # The time of the last change of a file's inode cannot be set, and so tells of every change of its contents.
    return _digest(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@lru_cache(maxsize=1024)
def _digest(path: Path, _identity: tuple[int, ...]) -> str:
    with named_file.opened(path) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
