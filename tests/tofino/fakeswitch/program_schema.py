# SPDX-License-Identifier: Apache-2.0
"""The program's part of the schema: what the compiler made of our P4."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

COMPILED = Path(__file__).resolve().parents[3] / "p4src" / "compiled"


def program_schema(architecture: str) -> bytes:
    """bf-rt.json of the program for ``tofino`` or ``tofino2``, or of the one that manages queues, ``-managed``."""
    return (COMPILED / architecture / "bf-rt.json").read_bytes()


def default_actions(architecture: str) -> dict[str, str]:
    """The action of each of the program's tables that packets take which match nothing, by the table's name."""
    context = json.loads(lzma.decompress((COMPILED / architecture / "pipe" / "context.json.xz").read_bytes()))
    return {
        f"pipe.{table['name']}": action["name"]
        for table in context["tables"]
        for action in table.get("actions", [])
        if action.get("constant_default_action")
    }
