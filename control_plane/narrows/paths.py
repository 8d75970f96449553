# SPDX-License-Identifier: Apache-2.0
"""Where the parts that are not Python are: our binaries, the reports that they store, and the compiled P4 program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from narrows.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]
BINARIES_VARIABLE = "NARROWS_BIN"
SOFTSWITCH = "narrows-softswitch"
COLLECTOR = "narrows-collector"
# In a telemetry directory; sorted by name they are in order of time.
REPORT_FILES = "reports-*.parquet"


def find_binary(name: str) -> Path | None:
    """One of our binaries: in ``$NARROWS_BIN``, in this checkout's release build, or on PATH."""
    places = [Path(os.environ[BINARIES_VARIABLE])] if BINARIES_VARIABLE in os.environ else []
    places.append(REPOSITORY / "target" / "release")
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    found = shutil.which(name)
    return Path(found) if found else None


def binary(name: str) -> Path:
    """Like `find_binary`.

    Raises:
        InputError: it is nowhere.
    """
    found = find_binary(name)
    if found is None:
        raise InputError(missing_binary(name))
    return found


def missing_binary(name: str) -> str:
    """What to tell a user who lacks one of our binaries."""
    return f"{name} is not built; fix: 'make setup', or name the directory it is in by ${BINARIES_VARIABLE}"


def compiled_program(architecture: str) -> tuple[Path, Path]:
    """The compiled program for P4Runtime targets: device configuration (JSON) and P4Info."""
    directory = REPOSITORY / "p4src" / "compiled" / architecture
    return directory / "narrows.json", directory / "narrows.p4info.txtpb"
