# SPDX-License-Identifier: Apache-2.0
"""What scripts read: JSON on standard output, and tables whose names are whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from narrows_formats.decimals import as_decimals

if TYPE_CHECKING:
    from rich.console import Console


# Columns of output that is not a terminal: more than any table has.
UNLIMITED = 10_000


def print_json(found: Any) -> None:
    """One JSON document; a number that is not known is null."""
    print(json.dumps(as_decimals(found), indent=1, allow_nan=False))


def results_console() -> Console:
    """Standard output for results: as wide as the terminal, or unbroken where it is not one."""

    from narrows.terminal import Terminal

    console = Terminal()
    if not console.is_terminal:
        console.width = UNLIMITED
    return console
