# SPDX-License-Identifier: Apache-2.0
"""Where the parts that are not Python are: our native programs and the compiled P4 program."""

from __future__ import annotations

from pathlib import Path

from narrows_formats.programs import find_binary, missing_binary

from narrows.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]


def binary(name: str) -> Path:
    """Like `find_binary`.

    Raises:
        InputError: it is nowhere.
    """
    found = find_binary(name)
    if found is None:
        raise InputError(missing_binary(name))
    return found


def compiled_program(architecture: str) -> tuple[Path, Path]:
    """The compiled program for P4Runtime targets: device configuration (JSON) and P4Info."""
    directory = REPOSITORY / "p4src" / "compiled" / architecture
    return directory / "narrows.json", directory / "narrows.p4info.txtpb"
