# SPDX-License-Identifier: Apache-2.0
"""Kernels that guests can boot: those in the user's cache, by name, and any other by its path."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import InputError

DEFAULT = "default"


@dataclass(frozen=True)
class Kernel:
    """A User-Mode Linux kernel that can be booted."""

    name: str
    image: Path


def cache() -> Path:
    """Where built kernels are: ``narrows/kernels`` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "narrows" / "kernels"


def find(name: str) -> Kernel:
    """A kernel by its name in the cache or by the path of its image.

    Raises:
        InputError: there is none.
    """
    if "/" in name:
        image = Path(name).absolute()
        if not os.access(image, os.X_OK):
            raise InputError(f"--kernel {name}: cannot be executed; allowed: a kernel's name or the path of its image")
        return Kernel(image.name, image)
    image = cache() / name / "linux"
    if not image.exists():
        raise InputError(f"--kernel {name}: is not built; fix: narrows kernel build")
    return Kernel(name, image)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
