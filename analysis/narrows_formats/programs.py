# SPDX-License-Identifier: Apache-2.0
"""Our native programs: their names, and where they are found."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
BINARIES_VARIABLE = "NARROWS_BIN"
SOFTSWITCH = "narrows-softswitch"
COLLECTOR = "narrows-collector"


def find_binary(name: str) -> Path | None:
    """One of our programs: in ``$NARROWS_BIN``, in this checkout's release build, beside Python, or on PATH."""
    places = [Path(os.environ[BINARIES_VARIABLE])] if BINARIES_VARIABLE in os.environ else []
    places += [_CHECKOUT / "target" / "release", Path(sys.executable).parent]
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    found = shutil.which(name)
    return Path(found) if found else None


def missing_binary(name: str) -> str:
    """What to tell a user who lacks one of our binaries."""
    return f"{name} is not built; fix: 'make setup', or name the directory it is in by ${BINARIES_VARIABLE}"
