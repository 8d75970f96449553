# SPDX-License-Identifier: Apache-2.0
"""Our native programs: their names, where they are found, and whether they are of today's sources."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from functools import cache
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
BINARIES_VARIABLE = "NARROWS_BIN"
# Set where whoever started this process has compared the programs with their sources.
COMPARED_VARIABLE = "NARROWS_BIN_COMPARED"
SOFTSWITCH = "narrows-softswitch"
COLLECTOR = "narrows-collector"
BUILD = Path("target") / "release"


def find_binary(name: str) -> Path | None:
    """One of our programs: in ``$NARROWS_BIN``, this checkout's release build, Python's own directory, or on PATH.

    None if there is none, or if it is a checkout's own and older than a source that it is made of.
    """
    found = _located(name)
    return None if found is None or _outdated(found) else found


def missing_binary(name: str) -> str:
    """What to tell a user for whom `find_binary` has nothing."""
    found = _located(name)
    if found is not None and (why := _outdated(found)):
        return f"{name}: {found} {why}; fix: make setup"
    return f"{name} is not built; fix: 'make setup', or name the directory it is in by ${BINARIES_VARIABLE}"


def _located(name: str) -> Path | None:
    places = [Path(os.environ[BINARIES_VARIABLE])] if BINARIES_VARIABLE in os.environ else []
    places += [_CHECKOUT / BUILD, Path(sys.executable).parent]
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    found = shutil.which(name)
    return Path(found) if found else None


@cache
def _outdated(program: Path) -> str:
    """Why a program is not what its checkout's sources make; empty if it is, or if cargo left no list of them.

    Looked at once a process, which goes on with what it began.
    """
    program = program.resolve()
    sources = program.with_name(f"{program.name}.d")
    checkout = program.parents[len(BUILD.parts)] if program.parent.match(str(BUILD)) else None
    if checkout is None or COMPARED_VARIABLE in os.environ or not sources.is_file():
        return ""
    made_ns = program.stat().st_mtime_ns
    # A rule of make's; a space in a name has a backslash.
    for word in re.findall(r"(?:\\.|\S)+", sources.read_text().partition(": ")[2]):
        source = os.path.join(checkout, word.replace("\\ ", " "))  # noqa: PTH118 - hundreds of them, quickly
        try:
            is_newer = _changed_ns(source) > made_ns
        except OSError:
            return f"is made of {_shown(source, checkout)}, which is gone"
        if is_newer:
            return f"is older than {_shown(source, checkout)}"
    return ""


def _changed_ns(source: str) -> int:
    """When a file was changed, or the last of a directory and all that is in it."""
    found = os.stat(source)  # noqa: PTH116
    if not stat.S_ISDIR(found.st_mode):
        return found.st_mtime_ns
    return max([found.st_mtime_ns, *(path.stat().st_mtime_ns for path in Path(source).rglob("*"))])


def _shown(source: str, checkout: Path) -> str:
    path = Path(os.path.normpath(source))
    return str(path.relative_to(checkout) if path.is_relative_to(checkout) else path)
