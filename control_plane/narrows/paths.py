# SPDX-License-Identifier: Apache-2.0
"""Where the parts that are not Python are: our native programs, the compiled P4 program and other files."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path

from narrows_formats.programs import find_binary, missing_binary

from narrows.errors import InputError

# By no program but git itself.
CHANGES = ("--patch", "--binary", "--no-ext-diff", "--no-textconv")
REPOSITORY = Path(__file__).resolve().parents[2]


def user_cache() -> Path:
    """The user's cache of Narrows ($XDG_CACHE_HOME, XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "narrows"


def binary(name: str) -> Path:
    """Like `find_binary`.

    Raises:
        InputError: it is not found.
    """
    found = find_binary(name)
    if found is None:
        raise InputError(missing_binary(name))
    return found


def data(folder: str) -> Path:
    """A folder of files that come with the package: ``p4`` or ``deploy``."""
    return Path(str(files("narrows"))) / "data" / folder


def compiled_program(architecture: str) -> tuple[Path, Path]:
    """The compiled program for P4Runtime targets: device configuration (JSON) and P4Info."""
    directory = data("p4") / architecture
    return directory / "narrows.json", directory / "narrows.p4info.txtpb"


@cache
def commit() -> str | None:
    """The commit of this checkout, with ``-dirty-`` and a digest of the changes if files of it were changed.

    None if this is not a checkout.
    """
    # The user need not own the checkout, of which nothing is executed.
    words = [
        "git",
        "--no-optional-locks",
        "-c",
        f"safe.directory={REPOSITORY}",
        "-c",
        "core.fsmonitor=false",
        "-C",
        str(REPOSITORY),
    ]
    if not (REPOSITORY / ".git").exists():
        return None
    try:
        head, changes = (
            subprocess.run([*words, *command], capture_output=True, timeout=20, check=True).stdout
            for command in (["rev-parse", "HEAD"], ["diff-index", *CHANGES, "HEAD"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    digest = hashlib.sha256(changes).hexdigest()[:12]
    return head.decode().strip() + (f"-dirty-{digest}" if changes else "")
