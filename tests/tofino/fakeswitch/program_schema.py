# SPDX-License-Identifier: Apache-2.0
"""The program's part of the schema: what the compiler made of our P4."""

from __future__ import annotations

from pathlib import Path

COMPILED = Path(__file__).resolve().parents[3] / "p4src" / "compiled"


def program_schema(architecture: str) -> bytes:
    """bf-rt.json of the program for ``tofino`` or ``tofino2``, or of the one that manages queues, ``-managed``."""
    return (COMPILED / architecture / "bf-rt.json").read_bytes()
